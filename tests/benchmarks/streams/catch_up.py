"""A backlog read into nothing: as a stream, as a batch, by Spark's own connector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pyspark.sql import SparkSession

from ..backlog import VALUE, VALUE_SIZE, Options, Side, ready_made, write_topic
from ..measure import Figure, interleaved, one_after_the_other, say
from ..processes import CpuMeter
from ..tables import print_table
from ..writing import PARTITIONS
from .queries import Taken, batch_read, one_micro_batch

_OURS, _OUR_VALUES = "stream, kafkawire", "stream, kafkawire, `value` alone"
_BATCH, _BATCH_VALUES = "batch, kafkawire", "batch, kafkawire, `value` alone"
_THEIRS, _THEIR_VALUES = "stream, Spark's connector", "stream, Spark's connector, `value` alone"
_READY, _READY_VALUES = "stream, ready-made batches", "stream, ready-made batches, `value` alone"
#: Which read is compared with which other one, and how many times as fast it is to be.
_COMPARED: Final = (
    (_OURS, _BATCH, 0.9),
    (_OUR_VALUES, _BATCH_VALUES, None),
    (_OURS, _THEIRS, 2.3),
    (_OUR_VALUES, _THEIRS, 4.5),
    (_OUR_VALUES, _THEIR_VALUES, None),
    (_READY, _THEIRS, None),
    (_READY_VALUES, _THEIRS, None),
)
_ROLES: Final = ("jvm", "worker", "broker")
#: Rows of a read that wakes the workers.
_FEW: Final = 1_000

Runs = dict[str, Callable[[], None]]


def catch_up(spark: SparkSession, servers: str, rounds: int, records: int) -> Iterator[Figure]:
    """Figures of a topic that is read in one micro-batch. The time of a query is that of its trigger, without
    the start of its Python process, which a query does once.

    Spark ends Python workers that nobody asked for a minute, and new ones import all they need: before each
    run, whoever reads, they read a few rows. Each run is made twice, and the second one counts: after another
    kind of read the JVM compiles its part anew, which is up to a third of a read's CPU time.
    """
    say(f"catch-up: {records:,} records of {VALUE_SIZE} bytes")
    topic = write_topic(spark, servers, "backlog", records)
    (before, _), (runs, taken) = (_runs(spark, topic, records) for _ in range(2))
    few = Side("kafkawire", write_topic(spark, servers, "few", _FEW))
    wake, meter = batch_read(few, spark, Taken()), CpuMeter()
    paced = {
        name: one_after_the_other(wake, before[name], meter.metered(name, run)) for name, run in runs.items()
    }
    interleaved(paced, rounds)
    _print(taken, meter, records)
    for name, other, target in _COMPARED:
        speed = taken[other].medians[0] / taken[name].medians[0]
        yield Figure(f"catch-up: {name}, to {other}", "times_as_fast", speed, target)


def _runs(spark: SparkSession, topic: Options, records: int) -> tuple[Runs, dict[str, Taken]]:
    """All reads, and where they tell what they took."""
    ours, our_values = Side("kafkawire", topic), Side("kafkawire", topic, VALUE)
    theirs, rows = Side("kafka", topic).stream(spark), records // PARTITIONS
    streams = {
        _OURS: ours.stream(spark),
        _OUR_VALUES: our_values.stream(spark),
        _THEIRS: theirs,
        # It has no schema to choose: all columns are made, and the others dropped.
        _THEIR_VALUES: theirs.select("value"),
        _READY: ready_made(rows).stream(spark),
        _READY_VALUES: ready_made(rows, columns=VALUE).stream(spark),
    }
    batches = {_BATCH: ours, _BATCH_VALUES: our_values}
    taken = {name: Taken() for name in (*streams, *batches)}
    runs = {name: one_micro_batch(frame, records, taken[name]) for name, frame in streams.items()}
    runs |= {name: batch_read(side, spark, taken[name]) for name, side in batches.items()}
    return runs, taken


def _print(taken: Mapping[str, Taken], meter: CpuMeter, records: int) -> None:
    rows = []
    for name, each in taken.items():
        read_s, whole_s = each.medians
        spent = meter.ns_per_row(name, records)
        times = [f"{read_s:.2f}", f"{whole_s:.2f}", f"{records / read_s / 1e6:.2f}"]
        rows.append([name, *times, *(str(spent.get(role, 0)) for role in _ROLES)])
    cpu = [f"CPU ns/row: {role}" for role in _ROLES]
    print_table(["read", "s", "s with the query's start", "million rows/s", *cpu], rows)
