"""Streams beside batch reads and beside Spark's own connector, on Apache Kafka.

Catching up reads a backlog into nothing, in one micro-batch; a micro-batch that reads almost nothing has two
partitions with a record each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.support.polling import poll

from .measure import Figure, Kind, Run, interleaved, print_table, print_took, say, side_by_side
from .processes import cpu_seconds, spent_seconds
from .session import PREFIX, Bench
from .sources import (
    PARTITIONS,
    VALUE,
    VALUE_SIZE,
    Options,
    Side,
    check,
    new_topic,
    read_into_nothing,
    ready_made,
    write_topic,
)

_STREAM, _STREAM_VALUES = "stream, kafkawire", "stream, kafkawire, `value` alone"
_BATCH, _BATCH_VALUES = "batch, kafkawire", "batch, kafkawire, `value` alone"
_THEIR_STREAM, _THEIR_STREAM_VALUES = "stream, Spark's connector", "stream, Spark's connector, `value` alone"
_READY, _READY_VALUES = "stream, ready-made batches", "stream, ready-made batches, `value` alone"
#: Which read is compared with which other one, and how many times as fast it is to be.
_SPEEDS: Final = (
    (_STREAM, _BATCH, 0.9),
    (_STREAM_VALUES, _BATCH_VALUES, None),
    (_STREAM, _THEIR_STREAM, 2.3),
    (_STREAM_VALUES, _THEIR_STREAM, 4.5),
    (_STREAM_VALUES, _THEIR_STREAM_VALUES, None),
    (_READY, _THEIR_STREAM, None),
    (_READY_VALUES, _THEIR_STREAM, None),
)
#: Rows of a read that wakes the workers.
_FEW: Final = 1_000
_OURS, _THEIRS, _FLOOR = "kafkawire", "Spark's connector", "a source that does nothing"
_SINK: Final = " to its sink"
#: Which is compared with which other one, and how many times its cost is allowed.
_COSTS: Final = (
    (_OURS, _THEIRS, 1.3),
    (_FLOOR, _THEIRS, None),
    (_OURS + _SINK, _THEIRS, 2.0),
    (_OURS + _SINK, _THEIRS + _SINK, 2.0),
    (_FLOOR + _SINK, _THEIRS + _SINK, None),
)
_PHASES: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
_ROLES: Final = ("jvm", "worker", "source", "planner", "broker")
#: Micro-batches of a query that do not count: its process starts, and connections are opened.
WARM_COUNT: Final = 10
#: What Spark itself writes into the checkpoint, however little a micro-batch reads: two files, each synced.
CHECKPOINT_PHASES: Final = ("walCommit", "commitOffsets")


def catch_up(bench: Bench) -> Iterator[Figure]:
    """Figures of a topic that is read in one micro-batch. The time of a query is that of its trigger, without
    the start of its Python process, which a query does once. Before each run, whoever reads, the Python
    workers read a few rows."""
    rows, spark = bench.size, bench.spark
    say(f"catch-up: {rows:,} records of {VALUE_SIZE} bytes")
    topic = write_topic(spark, bench.servers, rows)
    few = Side("kafkawire", write_topic(spark, bench.servers, _FEW))
    ours, our_values = Side("kafkawire", topic), Side("kafkawire", topic, VALUE)
    theirs = Side("kafka", topic).stream(spark)
    streams = {
        _STREAM: ours.stream(spark),
        _STREAM_VALUES: our_values.stream(spark),
        _THEIR_STREAM: theirs,
        # It has no schema to choose: all columns are made, and the others dropped.
        _THEIR_STREAM_VALUES: theirs.select("value"),
        _READY: ready_made(rows // PARTITIONS).stream(spark),
        _READY_VALUES: ready_made(rows // PARTITIONS, columns=VALUE).stream(spark),
    }
    runs: dict[str, Run] = {name: partial(_one_micro_batch, each, rows) for name, each in streams.items()}
    runs[_BATCH] = lambda: read_into_nothing(ours.batch(spark))
    runs[_BATCH_VALUES] = lambda: read_into_nothing(our_values.batch(spark))

    def wake() -> None:
        read_into_nothing(few.batch(spark))

    kinds = {name: Kind(run, rows, before=wake) for name, run in runs.items()}
    took = side_by_side(kinds, bench.rounds, twice=True)
    print_took("read", took)
    for name, other, target in _SPEEDS:
        speed = took[other].seconds / took[name].seconds
        yield Figure(f"catch-up: {name}, to {other}", "times_as_fast", speed, target)


def _one_micro_batch(frame: DataFrame, rows: int) -> float:
    """Read all there is in one micro-batch, into nothing; the seconds of its trigger."""
    with _started(frame.writeStream.format("noop").trigger(availableNow=True)) as query:
        query.awaitTermination()
        [progress] = [each for each in query.recentProgress if each.numInputRows]
    check("a micro-batch", progress.numInputRows, rows)
    return float(progress.durationMs["triggerExecution"] / 1000)


def micro_batch(bench: Bench) -> Iterator[Figure]:
    """Micro-batches one after the other, of each source into nothing, and into the sink that goes with it."""
    spark, servers, count = bench.spark, bench.servers, bench.size
    # All micro-batches of a query, not the last hundred.
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", count + 1)
    say(f"micro-batch: {count} micro-batches of a query")
    topic = {
        **write_topic(spark, servers, PARTITIONS * count),
        "maxOffsetsPerTrigger": str(PARTITIONS),
    }
    copy = {"kafka.bootstrap.servers": servers, "topic": new_topic(servers)}
    sides = {
        _OURS: (Side("kafkawire", topic), "kafkawire", copy),
        _THEIRS: (Side("kafka", topic), "kafka", copy),
        _FLOOR: (ready_made(1, micro_batches=count), "counting", {}),
    }
    runs_of: dict[str, list[MicroBatches]] = {name + sink: [] for name in sides for sink in ("", _SINK)}
    runs = {}
    for name, (side, sink, options) in sides.items():
        frame = side.stream(spark)
        runs[name] = _trickle(frame, "noop", {}, count, runs_of[name])
        values = frame.select("key", "value")
        runs[name + _SINK] = _trickle(values, sink, options, count, runs_of[name + _SINK])
    interleaved(runs, bench.rounds)
    # The first run is for warming up.
    seen = {name: MicroBatches.of_runs(each[1:]) for name, each in runs_of.items()}
    _print(seen)
    for name, other, target in _COSTS:
        cost = seen[name].ms / seen[other].ms
        yield Figure(f"micro-batch: {name}, to {other}", "times_the_cost", cost, target, at_most=True)
    cost = seen[_OURS].beside_checkpoint_ms / seen[_THEIRS].beside_checkpoint_ms
    yield Figure(f"micro-batch without its checkpoint: {_OURS}, to {_THEIRS}", "times_the_cost", cost)


def _print(seen: Mapping[str, MicroBatches]) -> None:
    rows = [["a micro-batch", *(f"{each.ms:.0f}" for each in seen.values())]]
    for phase in _PHASES:
        rows.append([f"`{phase}`", *(f"{each.phases_ms[phase]:.0f}" for each in seen.values())])
    for role in _ROLES:
        rows.append([f"CPU: {role}", *(f"{each.cpu_ms.get(role, 0):.0f}" for each in seen.values())])
    print_table(["ms", *seen], rows)


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """Medians of a micro-batch, in milliseconds: until the next one began, in each of Spark's phases, and of
    CPU by role."""

    ms: float
    phases_ms: Mapping[str, float]
    cpu_ms: Mapping[str, float]

    @classmethod
    def of_run(cls, progress: Sequence[Any], spent_s: Mapping[str, float]) -> MicroBatches:
        """Medians from Spark's progress of successive micro-batches, and from the CPU time of them all."""
        starts = [datetime.fromisoformat(each.timestamp.replace("Z", "+00:00")) for each in progress]
        return cls(
            1000 * median((after - before).total_seconds() for before, after in pairwise(starts)),
            _medians([each.durationMs for each in progress]),
            {role: 1000 * seconds / len(progress) for role, seconds in spent_s.items()},
        )

    @classmethod
    def of_runs(cls, runs: Sequence[MicroBatches]) -> MicroBatches:
        """The medians of several runs."""
        return cls(
            median(run.ms for run in runs),
            _medians([run.phases_ms for run in runs]),
            _medians([run.cpu_ms for run in runs]),
        )

    @property
    def beside_checkpoint_ms(self) -> float:
        """One micro-batch without the two files of its checkpoint."""
        return self.ms - sum(self.phases_ms[phase] for phase in CHECKPOINT_PHASES)


def _medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each name; 0 counts where it is missing."""
    return {name: median(row.get(name, 0) for row in rows) for row in rows for name in row}


def _trickle(
    frame: DataFrame, sink: str, options: Options, count: int, seen: list[MicroBatches]
) -> Callable[[], None]:
    """Reads ``count`` micro-batches, each of which begins when the one before is done; what they took is
    added."""

    def run() -> None:
        with _started(frame.writeStream.format(sink).options(**options)) as query:
            first = poll(lambda: (done := _done(query)) >= WARM_COUNT and done, f"{WARM_COUNT} micro-batches")
            before = cpu_seconds()
            query.processAllAvailable()
            spent_s = spent_seconds(before, cpu_seconds())
            progress = [each for each in query.recentProgress if each.numInputRows]
        assert len(progress) == count, f"{len(progress)} micro-batches, not {count}"
        seen.append(MicroBatches.of_run(progress[first:], spent_s))

    return run


def _done(query: StreamingQuery) -> int:
    """Micro-batches that are done. Raises what ended the query."""
    if error := query.exception():
        raise error
    return 0 if query.lastProgress is None else query.lastProgress.batchId + 1


@contextmanager
def _started(writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    """A query with a checkpoint of its own, until the block ends."""
    with TemporaryDirectory(prefix=PREFIX) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()
