"""One run of ``stream_copy``: a query that is started, followed, and ended."""

from __future__ import annotations

import contextlib
import logging
import re
import time
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

from ...errors import OptionError
from ...source.group_offsets import GroupOffsets, offsets_behind_latest
from ...source.query_ends import QueryEnds
from ..shell.progress import Progress, Work
from ..spark.hadoop_files import Files
from ..state.file_system import FileSystem, shown_path
from .ending import asked_to_end, wait_for
from .options import StreamCopyOptions

_log = logging.getLogger("spark_kafkawire")

#: How long Spark may take to tell of the last batch of a query that has ended, seconds.
_TOLD_TIMEOUT_S: Final = 60.0
#: Where Spark's sink of files notes its batches, and a checkpoint those that were planned.
_SINK_LOG: Final = "_spark_metadata"
_OFFSET_LOG: Final = "offsets"


class Copied(StreamingQueryListener):
    """What a query has copied, from its progress."""

    def __init__(self, work: Work) -> None:
        self.batches = self.messages = 0
        self.behind: dict[str, float] = {}
        self.ends = QueryEnds()
        self._work = work
        self._run_id: str | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Spark's next query, as ``start`` returns, is the one."""
        self._run_id = self._run_id or str(event.runId)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done."""
        progress = event.progress
        if str(progress.runId) == self._run_id:
            self.batches += 1
            self.messages += progress.numInputRows
            self._work.advance(messages=progress.numInputRows)
            self.behind = offsets_behind_latest(progress.sources[0]) or self.behind

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """All is told."""
        self.ends.add(event.runId)


class StreamCopy:
    """One run."""

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
        """Copy until all is copied that was there, or until somebody asks for the end; the summary.

        Raises what ends the query otherwise; the next run goes on where the checkpoint is.
        """
        began_s = time.monotonic()
        options = self._options
        if options.output is not None:
            self._check_output(options.output)
        if options.left_out:
            _log.warning(
                "the target has no %s of a message: they are not copied", " and no ".join(options.left_out)
            )
        follower = None if options.group is None else GroupOffsets(options.reading)
        what = f"copying to {options.output or options.target_topic or 'topics of the same names'}"
        with (
            asked_to_end(self._spark) as asked,
            self._progress.work(what) as work,
            self._listening(copied := Copied(work)),
            contextlib.nullcontext() if follower is None else self._listening(follower),
        ):
            query = self._start()
            try:
                wait_for(self._spark, query, asked, self._progress)
            finally:
                query.stop()
                is_told = copied.ends.wait(query.runId, _TOLD_TIMEOUT_S)
                is_committed = follower is None or follower.awaitCommits(query, _TOLD_TIMEOUT_S)
        if not is_told:
            _log.warning("Spark has not told of the last batches, which are not in the summary")
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

    def _check_output(self, output: str) -> None:
        """Raise ``OptionError`` where a folder was written with another checkpoint: Spark's sink passes over
        batches of numbers that it has, in silence."""
        written = _newest(self._files, f"{output}/{_SINK_LOG}")
        planned = _newest(self._files, f"{self._options.checkpoint}/{_OFFSET_LOG}")
        if written > planned:
            raise OptionError(
                f"argument --checkpoint: {shown_path(output)} has batches up to {written}, this checkpoint "
                f"up to {planned}, and Spark leaves out rows of a batch that is there: give the checkpoint "
                "that the folder was written with, or another --output"
            )

    @contextlib.contextmanager
    def _listening(self, listener: StreamingQueryListener) -> Iterator[None]:
        self._spark.streams.addListener(listener)
        try:
            yield
        finally:
            self._spark.streams.removeListener(listener)


def _newest(files: FileSystem, folder: str) -> int:
    """The number of the newest batch in a log of Spark's; -1 where it has none."""
    matches = (re.fullmatch(r"([0-9]+)(?:\.compact)?", name) for name in files.names(folder))
    return max((int(match[1]) for match in matches if match), default=-1)
