"""Rows of one batch to write, for both generations: records to store, and columns that choose partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.errors import RowError
from spark_kafkawire.records.batch.headers import encode_headers
from spark_kafkawire.records.columns import header_lists
from spark_kafkawire.records.rows import Column, Records, content_sum


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """Columns of equal length; the arrays belong to the batch they came in. The repr shows no payload.

    ``records`` is the content to store. ``topic`` is one name for all rows or a string column, ``keys`` are
    binary, ``brokers`` and ``partitions`` int32. In the last three a null, like a missing column, leaves the
    choice to the next rule (see ``Partitioner``).
    """

    records: Records
    topic: str | pa.Array
    keys: pa.Array | None = None
    brokers: pa.Array | None = None
    partitions: pa.Array | None = None

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.records.count

    def content_sum(self) -> int:
        """Sum of hashes of all rows, which identifies them in any order: topic, partition if the row names
        one, key, value and headers."""
        topic = self.topic
        topics = _topic_column(topic) if isinstance(topic, str) else Column.of(topic, "topic")
        records, partitions = self.records, None
        if self.partitions is not None:
            # 0 is for rows that name no partition.
            partitions = pc.add(self.partitions.cast(pa.int64()), 1).fill_null(0).to_numpy()
        columns = (
            Column.of(records.keys, "key"),
            Column.of(records.values, "value"),
            encode_headers(records.headers),
        )
        return content_sum(topics, columns, self.count, partitions)

    def refuse_null_topics(self) -> None:
        """Raise ``RowError`` (fatal) for the first row without a topic, counted from 0."""
        if not isinstance(self.topic, str):
            refuse_nulls("topic", self.topic, "fill it, or set the option topic")

    def refuse_broken_topics(self) -> None:
        """Raise ``RowError`` (fatal) for the first row whose topic is not UTF-8, counted from 0."""
        if not isinstance(self.topic, str) and (row := first_broken_text(self.topic)) is not None:
            raise RowError(f"row {row}: topic is not UTF-8; correct it, or set the option topic")


@cache
def _topic_column(topic: str) -> Column:
    return Column.of(pa.array([topic]), "topic")


def to_rows(batch: pa.RecordBatch, topic: str | None, stored: frozenset[str]) -> Rows:
    """The columns of one of Spark's Arrow batches, as rows; ``topic`` beats the column of that name."""
    columns = {name: _CASTS[name](batch.column(name)) for name in batch.schema.names if name in _CASTS}
    contents = {name: column for name, column in columns.items() if name in stored}
    return Rows(
        records=Records(
            values=contents["value"],
            keys=contents.get("key"),
            headers=contents.get("headers"),
            timestamps_ms=contents.get("timestamp"),
        ),
        topic=topic if topic is not None else columns["topic"],
        keys=columns.get("key"),
        brokers=columns.get("broker"),
        partitions=columns.get("partition"),
    )


def _milliseconds(column: pa.Array) -> pa.Array:
    """Milliseconds as int64, microseconds cut off. Arrow's own rounding would go by local time, where some
    times exist twice."""
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


def _cast_column(column: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    # A cast that changes nothing takes as long as one that does.
    return column if column.type == arrow_type else column.cast(arrow_type)


_CASTS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = MappingProxyType(
    {
        "key": lambda column: _cast_column(column, pa.binary()),
        "value": lambda column: _cast_column(column, pa.binary()),
        "headers": header_lists,
        "timestamp": _milliseconds,
        "topic": lambda column: _cast_column(column, pa.string()),
        "partition": lambda column: column,
        "broker": lambda column: column,
    }
)


def refuse_nulls(name: str, column: pa.Array, advice: str) -> None:
    """Raise ``RowError`` (fatal) for the first null of a column, counted from 0."""
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise RowError(f"row {row}: {name} is null; {advice}")


def first_broken_text(column: pa.Array) -> int | None:
    """Row of the first string that is not UTF-8; None if all are: Spark's strings may hold any bytes, and
    Arrow does not check them."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return 0
        return next(row for row in range(len(column)) if first_broken_text(column.slice(row, 1)) == 0)
    return None
