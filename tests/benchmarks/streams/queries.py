"""Streaming queries, and what Spark's progress and the processes tell of their micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.support.polling import poll

from ..backlog import Options, Side, read_into_nothing
from ..processes import cpu_seconds, spent_seconds

#: Micro-batches of a query that do not count: its process starts, and connections are opened.
WARM_COUNT: Final = 10
#: What Spark itself writes into the checkpoint, however little a micro-batch reads: two files, each synced.
CHECKPOINT_PHASES: Final = ("walCommit", "commitOffsets")


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


@dataclass(slots=True)
class Taken:
    """Seconds of each run of a read: of what counts, and with the start of the query."""

    read_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)

    @property
    def medians(self) -> tuple[float, float]:
        """Of both; the first run is for warming up."""
        return median(self.read_s[1:]), median(self.whole_s[1:])


def batch_read(side: Side, spark: SparkSession, taken: Taken) -> Callable[[], None]:
    """Reads what there is, into nothing."""

    def run() -> None:
        began_s = perf_counter()
        read_into_nothing(side.batch(spark))
        taken.whole_s.append(perf_counter() - began_s)
        taken.read_s.append(taken.whole_s[-1])

    return run


def one_micro_batch(frame: DataFrame, rows: int, taken: Taken) -> Callable[[], None]:
    """Reads all there is in one micro-batch, into nothing; what counts is the time of its trigger."""

    def run() -> None:
        began_s = perf_counter()
        with _started(frame.writeStream.format("noop").trigger(availableNow=True)) as query:
            query.awaitTermination()
            taken.whole_s.append(perf_counter() - began_s)
            [progress] = [each for each in query.recentProgress if each.numInputRows]
        assert progress.numInputRows == rows, f"{progress.numInputRows} rows, not {rows}"
        taken.read_s.append(progress.durationMs["triggerExecution"] / 1000)

    return run


def trickle(
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
    with TemporaryDirectory(prefix="kafkawire-bench-") as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()
