"""The throughput of many rows: a write of few tasks with values of 100 bytes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from pyspark.sql import SparkSession

from ..measure import Figure, say
from ..tables import print_table
from ..writing import rows_to_write
from .writes import EXACTLY_ONCE, IDEMPOTENT, in_turns

_VALUE_SIZE: Final = 100
#: How many times as fast as the idempotent write it was asked to be.
_SPEED_MIN: Final = 0.95


def throughput(spark: SparkSession, servers: str, rounds: int, records: int) -> Iterator[Figure]:
    """Both kinds in turns: all of a write counts, from ``save`` to its end."""
    say(f"throughput: {records:,} records of {_VALUE_SIZE} bytes")
    frame = rows_to_write(spark, _VALUE_SIZE, records)
    written = in_turns(spark, servers, frame, rounds)
    seconds = {kind: [each.seconds for each in runs] for kind, runs in written.items()}
    medians = {kind: median(each) for kind, each in seconds.items()}
    rows = [[kind, f"{each:.2f}", f"{records / each / 1e6:.2f}"] for kind, each in medians.items()]
    print_table(["write", "s", "million rows/s"], rows)
    ratios = [other / once for once, other in zip(seconds[EXACTLY_ONCE], seconds[IDEMPOTENT], strict=True)]
    yield Figure("throughput of 100 B, to idempotent", "times_as_fast", median(ratios), _SPEED_MIN)
