"""A listener on the driver: a group that stands exactly where finished batches end, and a query's lag."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from ..cluster.group_commits import commits_of
from ..errors import OptionError, quoted
from ..model import TopicPartition
from ..options import StreamOptions
from ..options.offsets import LOG_SYNTAX, LogSyntax
from ..planner.batch import covers
from ..planner.stream import offsets_behind
from ..planner.stream_offsets import Offsets, from_json
from .query_ends import QueryEnds
from .spark_versions import offsets_of_progress

_log = logging.getLogger("spark_kafkawire")

#: What Spark calls the streams of all Python sources.
_PYTHON_STREAM: Final = ".PythonMicroBatchStream"


class StreamingQueryRun(Protocol):
    """What is asked of a ``StreamingQuery``, that of Spark Connect or not."""

    @property
    def runId(self) -> UUID | str: ...

    @property
    def lastProgress(self) -> StreamingQueryProgress | None: ...


class GroupOffsets(StreamingQueryListener):
    """Commits where each finished batch of a query ends to a consumer group, and logs how far it is behind.

        offsets = GroupOffsets({**options, "kafka.group.id": "etl"})
        spark.streams.addListener(offsets)
        query = spark.readStream.format("kafkawire").options(**options).load().writeStream. ... .start()
        query.awaitTermination()
        offsets.awaitCommits(query, 60)

    ``options`` are those of the stream, with ``kafka.group.id``; in 0.7 the group is in ZooKeeper. Of the
    session's queries it follows the one that reads what the options select; where there are several, the one
    whose name or id is ``query``, else the first one for as long as it runs.

    The query never waits for it, and what fails here does not end it: a warning tells it, and it is tried
    again with the next batch, or while the query is idle. Raises ``OptionError`` (fatal).
    """

    def __init__(self, options: Mapping[str, str], *, query: str | None = None) -> None:
        parsed = StreamOptions.parse(options)
        parsed.check_group("GroupOffsets")
        self._read = parsed.read
        self._query = query
        self._commits = commits_of(parsed.read)
        self._followed: str | None = None
        self._passed_over: str | None = None
        self._ends = QueryEnds()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit where the batch ends, and log the lag; returns at once."""
        ends, latest = self._standing(event.progress)
        if self._take(event.progress, ends):
            _log_lag(event.progress, offsets_behind(ends, latest))

    def _standing(self, progress: StreamingQueryProgress) -> tuple[Offsets, Offsets]:
        """Where a query stands in what the options select, and the latest offsets there."""
        syntax = LOG_SYNTAX[self._read.discovery.generation]
        ends: dict[TopicPartition, int] = {}
        latest: dict[TopicPartition, int] = {}
        for source in progress.sources:
            end = _offsets(source.endOffset, syntax)
            if self._is_ours(source, end):
                ends |= end
                latest |= _offsets(source.latestOffset, syntax)
        return ends, latest

    def _take(self, progress: StreamingQueryProgress, ends: Offsets) -> bool:
        """Commit, soon, where a query stands; whether it is the one to follow."""
        is_followed = bool(ends) and self._follows(progress)
        if is_followed:
            self._commits.commit(ends)
        return is_followed

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Try again what failed: there may be no other batch for long."""
        if str(event.id) == self._followed:
            self._commits.retry()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """All batches of the query are known by now; another one may be followed."""
        if str(event.id) == self._followed:
            self._followed = None
        self._ends.add(event.runId)

    def awaitCommits(self, query: StreamingQueryRun, timeout: float) -> bool:
        """Wait, for ``timeout`` seconds at most, until the group stands where a query has ended; whether it
        does. Spark tells of the last batches of a query after its end, and not of a run without a batch."""
        deadline_s = time.monotonic() + timeout
        if not self._ends.wait(query.runId, timeout) or (last := query.lastProgress) is None:
            return False
        followed = self._followed
        is_taken = self._take(last, self._standing(last)[0])
        self._followed = followed  # this one has ended
        return is_taken and self._commits.settled(max(deadline_s - time.monotonic(), 0.0))

    def _is_ours(self, source: SourceProgress, end: Mapping[TopicPartition, int]) -> bool:
        topics = {log.topic for log in end}
        return _PYTHON_STREAM in source.description and all(
            covers(self._read.selection, topic) for topic in topics
        )

    def _follows(self, progress: StreamingQueryProgress) -> bool:
        """Whether the query is the one. Two would drag the group to and fro."""
        id_ = str(progress.id)
        if self._query is not None:
            return self._query in (id_, progress.name) and self._follow(id_)
        if self._followed in (None, id_):
            return self._follow(id_)
        if self._passed_over != id_:
            self._passed_over = id_
            _log.warning(
                "group %s follows the query %s, and not %s, which reads the same topics: tell GroupOffsets "
                "which one is meant, by query=",
                quoted(self._read.group_id),
                self._followed,
                _name_of(progress),
            )
        return False

    def _follow(self, id_: str) -> bool:
        self._followed = id_
        return True


def offsets_behind_latest(source: SourceProgress) -> dict[str, float]:
    """How far a source of a ``StreamingQueryProgress`` is behind, over its partitions.

    The names are those of the metrics of Spark's own Kafka source: ``minOffsetsBehindLatest``,
    ``maxOffsetsBehindLatest``, ``avgOffsetsBehindLatest``.
    They count records, and bytes of 0.7. Empty where the progress has no latest offsets, as that of a batch
    which was begun in an earlier run, and for what is no source of Kafka.
    """
    for syntax in LOG_SYNTAX.values():
        end, latest = _offsets(source.endOffset, syntax), _offsets(source.latestOffset, syntax)
        if end and latest:
            return offsets_behind(end, latest)
    return {}


def _offsets(text: str | None, syntax: LogSyntax) -> dict[TopicPartition, int]:
    """Offsets of a progress; none where it has none, or those of something else."""
    try:
        return from_json(offsets_of_progress(text), syntax)
    except (ValueError, OptionError):
        return {}


def _log_lag(progress: StreamingQueryProgress, metrics: Mapping[str, float]) -> None:
    told = " ".join(f"{name}={value}" for name, value in metrics.items())
    _log.info(
        "query %s, batch %d: %s", _name_of(progress), progress.batchId, told or "latest offsets are not told"
    )


def _name_of(progress: StreamingQueryProgress) -> str:
    return quoted(progress.name) if progress.name else str(progress.id)
