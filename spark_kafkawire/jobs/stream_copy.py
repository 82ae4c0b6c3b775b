"""Copies topics to topics or to Parquet, batch after batch, for as long as the job runs.

The job is one streaming query of Spark: its position is in its checkpoint, and its guarantees are those
of ``docs/streaming.md``. Compared with a query in Python, the job checks options before Spark starts,
commits to a consumer group, ends after the running batch, and prints a summary.

``StreamingQuery.stop`` interrupts the running batch: the messages that it has written to a topic are
written again when the query continues. Spark has no other call to end a query, but its own trigger loop
asks after each batch if the query ends. So a signal sets that state, and the query stops when no batch
runs. SIGTERM and SIGINT may come to this process, to the JVM (spark-submit), or to both.
"""

from __future__ import annotations

import contextlib
import math
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import LOG, OptionError
from ..model import Generation, OffsetUnit
from ..options import StreamOptions, WriteOptions
from ..planner.batch import covers
from ..source.group_offsets import GroupOffsets, QueryEnds, offsets_behind_latest
from ..source.writer import WRITE_SCHEMAS
from .arguments import (
    SET_BY_ARGUMENTS,
    arg,
    check_needs,
    connection_args,
    flag,
    positive,
    size_limit,
    spark_path,
    starting_arg,
    topic_args,
)
from .ending import handling
from .files import FileError, FileSystem, list_numbered, printable_path
from .progress import Progress
from .spark import Files, hand_on_signals_of_java, watching_batches

#: Options that a run sets itself, and the arguments that set them.
_OWN_OF_SOURCE: Final = {
    **SET_BY_ARGUMENTS,
    "commitoffsets": "--group",
    "maxoffsetspertrigger": "--max-offsets",
    "maxbytespertrigger": "--max-bytes",
}
_LIMIT_OPTIONS: Final = {OffsetUnit.BYTES: "maxBytesPerTrigger", OffsetUnit.RECORDS: "maxOffsetsPerTrigger"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCopyOptions:
    """Source and target of a copy. Raises ``OptionError`` (fatal).

    ``source`` and ``target`` are options of the data source as the user gave them; exactly one of ``target``
    and ``output``, a folder, is given. ``read`` and ``write`` are the parsed options; ``reading`` and
    ``writing`` are the options for Spark.
    """

    selection: Mapping[str, str] = topic_args("copy", group="input")
    starting: Mapping[str, str] | None = starting_arg(
        "where a new checkpoint starts: earliest (default), latest, a time such as 2026-01-31T00:00:00Z or "
        'milliseconds since 1970, or offsets such as {"t":{"0":123}}, for 0.7 {"t":{"0-1":123}}'
    )
    offsets_max: int | None = arg(
        "--max-offsets", "read at most N messages in one batch (0.8 or later)", positive
    )
    bytes_max: int | None = arg(
        "--max-bytes",
        "read at most N bytes in one batch, but at least one segment of each partition (0.7)",
        positive,
    )
    group: str | None = arg(
        "--group",
        "commit progress to this consumer group, which makes lag visible: in ZooKeeper for 0.7, "
        "otherwise on the brokers",
    )
    target_topic: str | None = arg(
        "--target-topic",
        "the topic to copy to (default: the topics with the same names as in the source)",
        metavar="TOPIC",
        needs=("target",),
        group="output",
    )
    keep_partitions: bool = flag(
        "--keep-partitions",
        "copy each message to the partition with the same number as in the source, instead of choosing "
        "by its key",
        needs=("target",),
    )
    output: str | None = arg("--output", "write Parquet to this folder instead of a cluster", spark_path)
    checkpoint: str = arg(
        "--checkpoint",
        "the folder for the checkpoint of the query",
        spark_path,
        required=True,
        group="copying",
    )
    available_now: bool = flag(
        "--available-now", "copy up to the current end of the partitions, then stop", one_of="end"
    )
    interval_s: int = arg(
        "--interval",
        "start a batch every SECONDS (default: as soon as there are new messages)",
        positive,
        metavar="SECONDS",
        default=0,
        one_of="end",
    )
    source: Mapping[str, str] = connection_args(
        "source",
        sets_itself=_OWN_OF_SOURCE,
        refuses={"includeheaders": "is set by the job itself; headers are copied"},
    )
    target: Mapping[str, str] = connection_args("target", sets_itself={"topic": "--target-topic"})
    read: StreamOptions = field(init=False, repr=False)
    write: WriteOptions | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # The first parse, without options that depend on the generation, finds the generation.
        self._set("read", StreamOptions.parse({**self.source, **self.selection}))
        self._set("read", StreamOptions.parse(self.reading))
        if self.group is not None:
            self.read.check_group("argument --group")
        if bool(self.target) == (self.output is not None):
            raise OptionError("set either --target-option, the cluster to copy to, or --output, a folder")
        check_needs(self)
        self._set("write", WriteOptions.parse(self.writing) if self.target else None)
        self._check_target()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def generation(self) -> Generation:
        """The generation of the source."""
        return self.read.read.discovery.generation

    @property
    def reading(self) -> dict[str, str]:
        """Options of the stream."""
        # A partition without a message that is young enough is no error of a run.
        options = {"startingOffsets": "earliest", "startingOffsetsByTimestampStrategy": "latest"}
        options |= {"startingOffsets": "latest"} if self.starting is None else self.starting
        options |= {**self.source, **self.selection}
        if "headers" in WRITE_SCHEMAS[self.generation].stored:
            options["includeHeaders"] = "true"
        unit = self.generation.offset_unit
        limits = {
            OffsetUnit.BYTES: ("--max-bytes", self.bytes_max),
            OffsetUnit.RECORDS: ("--max-offsets", self.offsets_max),
        }
        if (size := size_limit(unit, limits)) is not None:
            options[_LIMIT_OPTIONS[unit]] = str(size)
            if not self.available_now:
                options["queryTrigger"] = "processingTime"  # for Spark before 4.2
        return options if self.group is None else {**options, "kafka.group.id": self.group}

    @property
    def writing(self) -> dict[str, str]:
        """Options of the sink that is a cluster."""
        return {**self.target, **({} if self.target_topic is None else {"topic": self.target_topic})}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are written to a cluster: those that messages of both generations have, and the
        target."""
        assert self.write is not None
        target = WRITE_SCHEMAS[self.write.discovery.generation]
        stored = WRITE_SCHEMAS[self.generation].stored
        topic = () if self.target_topic is not None else ("topic",)
        broker = ("broker",) if self.generation.has_partitions_of_brokers else ()
        location = (*broker, "partition") if self.keep_partitions else ()
        return (*(name for name in target.columns if name in stored), *topic, *location)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Parts of the source's messages that the target cannot store."""
        if self.write is None:
            return ()
        kept = WRITE_SCHEMAS[self.write.discovery.generation].stored
        return tuple(sorted(WRITE_SCHEMAS[self.generation].stored - kept))

    def _check_target(self) -> None:
        if self.write is None:
            return
        has_brokers = {
            item.has_partitions_of_brokers for item in (self.generation, self.write.discovery.generation)
        }
        if self.keep_partitions and len(has_brokers) > 1:
            raise OptionError(
                "argument --keep-partitions: the partitions of 0.7 are numbered on each broker, those of "
                "later Kafka are not; leave it out"
            )
        is_same_cluster = self.write.discovery.place == self.read.read.discovery.place
        topic = self.target_topic
        if is_same_cluster and (topic is None or covers(self.read.read.selection, topic)):
            raise OptionError(
                "argument --target-topic: source and target are the same topic of the same cluster, and a "
                "copy into itself never ends; choose another topic"
            )


#: How long Spark may take to report the last batch of a query that has ended, seconds.
_LAST_BATCH_TIMEOUT_S: Final = 60.0
#: How long a running batch may take after a signal where the next run repeats it without duplicates, seconds.
_PATIENCE_S: Final = 2.0
#: Where Spark's sink of files notes its batches, and a checkpoint those that were planned and that are done.
_SINK_LOG: Final = "_spark_metadata"
_OFFSET_LOG: Final = "offsets"
_COMMIT_LOG: Final = "commits"


class CopyCounts(StreamingQueryListener):
    """Counts of a query, from its progress."""

    def __init__(self) -> None:
        self.batches = 0
        #: The number of the last batch with messages, and the messages up to it.
        self.done = (-1, 0)
        self.behind: dict[str, float] = {}
        self.ends = QueryEnds()
        self._run_id: str | None = None

    @property
    def messages(self) -> int:
        """The messages of all batches that are done."""
        return self.done[1]

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Spark's next query, as ``start`` returns, is the one."""
        self._run_id = self._run_id or str(event.runId)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done."""
        progress = event.progress
        if str(progress.runId) == self._run_id:
            self.batches += 1
            if progress.numInputRows:  # An idle query reports the batch that comes next.
                self.done = (progress.batchId, self.messages + progress.numInputRows)
            self.behind = offsets_behind_latest(progress.sources[0]) or self.behind

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """All batches are reported."""
        self.ends.add(event.runId)


class StreamCopy:
    """A run."""

    def __init__(self, spark: SparkSession, options: StreamCopyOptions, progress: Progress) -> None:
        self._spark, self._options, self._progress = spark, options, progress
        self._files = Files(spark)

    def run(self) -> dict[str, Any]:
        """Copy all messages up to the current end, or until a signal. Returns the summary.

        Raises the error that ends the query; the next run continues from the checkpoint.
        """
        began_s = time.monotonic()
        options = self._options
        self._check_checkpoint()
        if options.left_out:
            LOG.warning(
                "the target has no %s of a message: they are not copied", " and no ".join(options.left_out)
            )
        follower = None if options.group is None else GroupOffsets(options.reading)
        what = f"copying to {options.output or options.target_topic or 'topics of the same names'}"
        with (
            handle_requests_to_end(self._spark) as asked,
            self._progress.work(what) as work,
            self._listening(copied := CopyCounts()),
            contextlib.nullcontext() if follower is None else self._listening(follower),
        ):
            query = self._start()
            with watching_batches(self._spark, work, str(query.runId), lambda: copied.done):
                try:
                    wait_for(self._spark, query, asked, self._progress, self._patience_s)
                finally:
                    query.stop()
                    has_ended = copied.ends.wait(query.runId, _LAST_BATCH_TIMEOUT_S)
                    is_committed = follower is None or follower.awaitCommits(query, _LAST_BATCH_TIMEOUT_S)
        if not has_ended:
            LOG.warning("Spark has not reported the last batches, and the summary does not include them")
        group = {} if follower is None else {"group": options.group, "group_committed": is_committed}
        return {
            "messages": copied.messages,
            "batches": copied.batches,
            **copied.behind,
            "ended_by": asked.by or "available now",
            "checkpoint": options.checkpoint,
            **group,
            "seconds": round(time.monotonic() - began_s, 1),
        }

    @property
    def _patience_s(self) -> float:
        """Time that a running batch gets after a signal. A topic gets the rows of an interrupted batch twice,
        unless they are in transactions."""
        write = self._options.write
        return math.inf if write is not None and write.transactions is None else _PATIENCE_S

    def _start(self) -> StreamingQuery:
        options = self._options
        rows = self._spark.readStream.format("kafkawire").options(**options.reading).load()
        if options.output is not None:
            writer = rows.writeStream.format("parquet").option("path", options.output)
        else:
            writer = rows.select(*options.columns).writeStream.format("kafkawire").options(**options.writing)
        writer = writer.option("checkpointLocation", options.checkpoint)
        if options.available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{options.interval_s} seconds").start()

    def _check_checkpoint(self) -> None:
        """Raise ``FileError`` if a checkpoint cannot be written or has lost batches, because Spark would
        silently start again, and ``OptionError`` if the output folder and the checkpoint do not belong
        together."""
        checkpoint, output = self._options.checkpoint, self._options.output
        planned = _newest(self._files, f"{checkpoint}/{_OFFSET_LOG}")
        done = _newest(self._files, f"{checkpoint}/{_COMMIT_LOG}")
        if done > planned:
            raise FileError(
                f"{printable_path(checkpoint)}: batches up to {done} are done, and its folder "
                f"{_OFFSET_LOG} has {_up_to(planned)}: files are missing, and batches would be copied "
                "again; put them back, or give another --checkpoint and another target"
            )
        if output is not None:
            self._check_output(output, planned, done)
        for folder in filter(None, (checkpoint, output)):
            self._check_is_writable(folder)

    def _check_is_writable(self, folder: str) -> None:
        """Raise ``FileError``, which says what to do, where Spark's own error would not."""
        self._files.make_folder(folder)
        # Spark reads no file whose name begins so, should a kill leave it there.
        self._files.create(file := f"{folder}/_write_test.{uuid.uuid4().hex}", "")
        self._files.remove(file)

    def _check_output(self, output: str, planned: int, done: int) -> None:
        """Raise ``OptionError`` if a folder has other batches than the checkpoint: Spark's sink silently
        skips batches whose numbers it has, and silently continues after missing ones."""
        written = _newest(self._files, f"{output}/{_SINK_LOG}")
        if written < done:
            raise OptionError(
                f"argument --output: {printable_path(output)} has {_up_to(written)}, and this checkpoint "
                f"says that {done} is done: give the folder that was written with it, or another --checkpoint"
            )
        if written > planned:
            raise OptionError(
                f"argument --checkpoint: {printable_path(output)} has {_up_to(written)}, this checkpoint "
                f"{_up_to(planned)}, and Spark leaves out rows of a batch that is there: give the checkpoint "
                "that the folder was written with, or another --output"
            )

    @contextlib.contextmanager
    def _listening(self, listener: StreamingQueryListener) -> Iterator[None]:
        self._spark.streams.addListener(listener)
        try:
            yield
        finally:
            self._spark.streams.removeListener(listener)


def _up_to(number: int) -> str:
    return "no batch" if number < 0 else f"batches up to {number}"


def _newest(files: FileSystem, folder: str) -> int:
    """The number of the newest batch in a partition of Spark's; -1 where it has none."""
    return max(list_numbered(files, folder, r"([0-9]+)(?:\.compact)?"), default=(-1, ""))[0]


#: Seconds between two checks for a signal.
_LOOK_INTERVAL_S: Final = 1
#: Of one key that is pressed both processes hear, a little apart, seconds.
_SAME_S: Final = 2.0


class StopRequest:
    """A request to end; ``by`` is the name of the first signal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.by: str | None = None
        self.is_urgent = False
        self._clock = clock
        self._first_s = 0.0

    def add(self, name: str) -> None:
        """Record a signal; a second one after a while makes the request urgent."""
        now_s = self._clock()
        if self.by is None:
            self.by, self._first_s = name, now_s
        elif now_s - self._first_s >= _SAME_S:
            self.is_urgent = True


@contextlib.contextmanager
def handle_requests_to_end(spark: SparkSession) -> Iterator[StopRequest]:
    """A handler of signals while the block lasts; they end neither this process nor its JVM."""
    asked = StopRequest()

    def handle(number: int, _frame: FrameType | None) -> None:
        asked.add(signal.Signals(number).name)

    with handling(lambda _: handle), hand_on_signals_of_java(spark):
        yield asked


def wait_for(
    spark: SparkSession, query: StreamingQuery, asked: StopRequest, progress: Progress, patience_s: float
) -> None:
    """Wait until a query ends by itself or on request, then at most ``patience_s`` for its running batch.
    Raises the error that ends it."""
    while asked.by is None:
        if query.awaitTermination(_LOOK_INTERVAL_S):
            return
    progress.step(f"{asked.by}: ending after the running batch, and at once when asked again")
    _run_no_more(spark, query)
    until_s = time.monotonic() + patience_s
    while query.status["isTriggerActive"] and not asked.is_urgent and time.monotonic() < until_s:
        # The query was asked to end: this waits for it, and raises the error of its batch.
        query.awaitTermination(_LOOK_INTERVAL_S)
    query.stop()
    query.awaitTermination(_LOOK_INTERVAL_S)


def _run_no_more(spark: SparkSession, query: StreamingQuery) -> None:
    """Let a query begin no other batch."""
    # Private to Spark's Scala packages: the state that a query checks between two batches.
    jvm, java_query = spark.sparkContext._jvm, query._jsq
    assert jvm is not None
    terminated = getattr(jvm.org.apache.spark.sql.execution.streaming.runtime, "TERMINATED$")
    java_query.streamingQuery().state().set(getattr(terminated, "MODULE$"))
