"""A backlog read into nothing: as a stream, as a batch, by Spark's own connector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Final

from pyspark.sql import SparkSession

from ..measure import Figure, interleaved, say
from ..processes import CpuMeter
from ..writing import PARTITIONS
from .backlog import VALUE, VALUE_SIZE, ready_made, write_topic
from .queries import Options, Side, one_micro_batch
from .tables import print_table

_OURS, _THEIRS, _READY = "kafkawire", "Spark's connector", "ready-made batches"
_OUR_VALUES, _READY_VALUES = f"{_OURS}, `value` alone", f"{_READY}, `value` alone"
#: Which read is compared with which other one, and how many times as fast it is to be.
_COMPARED: Final = (
    (f"stream, {_OURS}", f"batch, {_OURS}", 0.9),
    (f"stream, {_OUR_VALUES}", f"batch, {_OUR_VALUES}", None),
    (f"stream, {_OURS}", f"stream, {_THEIRS}", 2.3),
    (f"stream, {_OUR_VALUES}", f"stream, {_THEIRS}", 4.5),
    (f"stream, {_READY}", f"stream, {_THEIRS}", None),
    (f"stream, {_READY_VALUES}", f"stream, {_THEIRS}", None),
)
_ROLES: Final = ("jvm", "worker", "broker")


def catch_up(spark: SparkSession, servers: str, rounds: int, records: int) -> Iterator[Figure]:
    """All of a topic in one micro-batch. What counts of a query is its trigger, without the start of its
    Python process, which a query does once."""
    say(f"catch-up: {records:,} records of {VALUE_SIZE} bytes")
    sides = _sides(write_topic(spark, servers, "backlog", records), records)
    triggers_s: dict[str, list[float]] = {f"stream, {name}": [] for name in sides}
    runs: dict[str, Callable[[], None]] = {}
    for name, side in sides.items():
        stream = f"stream, {name}"
        runs[stream] = one_micro_batch(side.stream(spark), records, triggers_s[stream])
        runs[f"batch, {name}"] = _batch(spark, side)
    meter = CpuMeter()
    whole_s = interleaved({name: meter.metered(name, run) for name, run in runs.items()}, rounds)
    # The first trigger is of the run that warms up.
    read_s = {name: median(triggers_s[name][1:] if name in triggers_s else whole_s[name]) for name in runs}
    _print(read_s, {name: median(each) for name, each in whole_s.items()}, meter, records)
    for name, other, target in _COMPARED:
        speed = read_s[other] / read_s[name]
        yield Figure(f"catch-up: {name}, to {other}", "times_as_fast", speed, target)


def _sides(topic: Options, records: int) -> dict[str, Side]:
    rows = records // PARTITIONS
    return {
        _OURS: Side("kafkawire", topic),
        _THEIRS: Side("kafka", topic),
        _READY: ready_made(rows),
        _OUR_VALUES: Side("kafkawire", topic, VALUE),
        _READY_VALUES: ready_made(rows, columns=VALUE),
    }


def _batch(spark: SparkSession, side: Side) -> Callable[[], None]:
    return lambda: side.batch(spark).write.format("noop").mode("overwrite").save()


def _print(read_s: Mapping[str, float], whole_s: Mapping[str, float], meter: CpuMeter, records: int) -> None:
    rows = []
    for name, seconds in read_s.items():
        spent = meter.ns_per_row(name, records)
        speed = records / seconds / 1e6
        times = [f"{seconds:.2f}", f"{whole_s[name]:.2f}", f"{speed:.2f}"]
        rows.append([name, *times, *(str(spent.get(role, 0)) for role in _ROLES)])
    cpu = [f"CPU ns/row: {role}" for role in _ROLES]
    print_table(["read", "s", "s with the query's start", "million rows/s", *cpu], rows)
