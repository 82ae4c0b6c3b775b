"""A run of ``stream_copy``: starts, follows and ends a query."""

from __future__ import annotations

import contextlib
import math
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafkawire.errors import LOG, OptionError
from spark_kafkawire.source.group_offsets import GroupOffsets, QueryEnds, offsets_behind_latest

from ..shell.progress import Progress
from ..spark.hadoop_files import Files
from ..spark.stages import watching_batches
from ..state.file_system import FileError, FileSystem, printable_path
from .ending import asked_to_end, wait_for
from .options import StreamCopyOptions

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

    def __init__(
        self,
        spark: SparkSession,
        options: StreamCopyOptions,
        progress: Progress,
        files: FileSystem | None = None,
    ) -> None:
        self._spark, self._options, self._progress = spark, options, progress
        self._files = Files(spark) if files is None else files

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
            asked_to_end(self._spark) as asked,
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
    matches = (re.fullmatch(r"([0-9]+)(?:\.compact)?", name) for name in files.names(folder))
    return max((int(match[1]) for match in matches if match), default=-1)
