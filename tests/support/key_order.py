"""A check that the Spark partitions of a DataFrame have each key in the order of its records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True)
class Seen:
    """``keys`` counts a key once for each Spark partition that sees it."""

    rows: int
    keys: int
    inversions: int


def seen(frame: DataFrame) -> Seen:
    """Counts that the Spark partitions of a frame see, in their order; a record's value is its number
    in its key."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last: dict[bytes, int] = {}
        rows = inversions = 0
        for batch in batches:
            rows += batch.num_rows
            numbers = map(int, batch.column("value").to_pylist())
            for key, number in zip(batch.column("key").to_pylist(), numbers, strict=True):
                inversions += number < last.get(key, -1)
                last[key] = number
        yield pa.RecordBatch.from_pydict({"rows": [rows], "keys": [len(last)], "inversions": [inversions]})

    result = frame.select("key", "value").mapInArrow(look, "rows bigint, keys bigint, inversions bigint")
    sums = result.agg(*(F.sum(name).alias(name) for name in ("rows", "keys", "inversions"))).first()
    assert sums is not None
    return Seen(**sums.asDict())
