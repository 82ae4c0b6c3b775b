"""A listener on the driver: commits the ends of finished batches to a consumer group, and logs a query's
lag."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Protocol
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryProgress,
)

from ..cluster.group_commits import commits_of
from ..errors import LOG, OptionError, quote
from ..model import TopicPartition
from ..options import StreamOptions
from ..options.selection import PARTITION_SYNTAX, PartitionSyntax
from ..planner.batch import covers
from ..planner.stream_offsets import Offsets, from_json, offsets_behind, to_json
from .edge import edge
from .progress_events import ProgressListener
from .spark_versions import offsets_of_progress

#: Spark's name for the streams of all Python sources.
_PYTHON_STREAM: Final = ".PythonMicroBatchStream"
#: Ends of query runs that are remembered, for threads that wait for one.
_ENDS_COUNT_MAX: Final = 1000


class QueryEnds:
    """Query runs whose end a listener has seen: Spark reports their last batches after that."""

    def __init__(self) -> None:
        self._run_ids: deque[str] = deque(maxlen=_ENDS_COUNT_MAX)
        self._changed = threading.Condition()

    def add(self, run_id: Any) -> None:
        """Note that the listener has seen all events of a run."""
        with self._changed:
            self._run_ids.append(str(run_id))
            self._changed.notify_all()

    def wait(self, run_id: Any, timeout_s: float) -> bool:
        """Wait until the listener has seen all events of a run; False if it has not within ``timeout_s``."""
        with self._changed:
            return self._changed.wait_for(lambda: str(run_id) in self._run_ids, timeout_s)


class StreamingQueryRun(Protocol):
    """The attributes used of a ``StreamingQuery``, with or without Spark Connect."""

    @property
    def runId(self) -> UUID | str: ...

    @property
    def lastProgress(self) -> StreamingQueryProgress | None: ...


class GroupOffsets(ProgressListener):
    """Commits the end of each finished batch of a query to a consumer group, and logs its lag.

        offsets = GroupOffsets({**options, "kafka.group.id": "etl"})
        spark.streams.addListener(offsets)
        query = spark.readStream.format("kafkawire").options(**options).load().writeStream. ... .start()
        query.awaitTermination()
        offsets.awaitCommits(query, 60)

    ``options`` are those of the stream, with ``kafka.group.id``; in 0.7 the group is in ZooKeeper. Of the
    session's queries it follows the one that reads what the options select; where there are several, the one
    whose name or id is ``query``, else the first one for as long as it runs.

    The query never waits for it, and a failed commit does not end the query: it logs a warning, and tries
    again with the next batch, or while the query is idle. Raises ``OptionError`` (fatal).
    """

    @edge
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
        """Does nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit where the batch ends, and log the lag; returns at once."""
        ends, latest = self._read_position(event.progress)
        if self._take(event.progress, ends):
            lag = " ".join(f"{name}={value}" for name, value in offsets_behind(ends, latest).items())
            LOG.info(
                "query %s, batch %d: %s",
                *(_name_of(event.progress), event.progress.batchId),
                lag or "no latest offsets were reported",
            )

    def _read_position(self, progress: StreamingQueryProgress) -> tuple[Offsets, Offsets]:
        """The position of a query in the selected topics, and the latest offsets there."""
        syntax = PARTITION_SYNTAX[self._read.discovery.generation]
        ends: dict[TopicPartition, int] = {}
        latest: dict[TopicPartition, int] = {}
        for source in progress.sources:
            end = _offsets(source.endOffset, syntax)
            if self._is_ours(source, end):
                ends |= end
                latest |= _offsets(source.latestOffset, syntax)
        return ends, latest

    def _take(self, progress: StreamingQueryProgress, ends: Offsets) -> bool:
        """Commit the position of a query in the background; True if it is the query to follow."""
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

    @edge
    def awaitCommits(self, query: StreamingQueryRun, timeout: float) -> bool:
        """Wait, for at most ``timeout`` seconds, until the group has the offsets where a query ended; True if
        it has. Spark reports the last batches of a query after its end, and reports no run without a
        batch."""
        deadline_s = time.monotonic() + timeout
        if not self._ends.wait(query.runId, timeout) or (last := query.lastProgress) is None:
            return False
        followed = self._followed
        is_taken = self._take(last, self._read_position(last)[0])
        self._followed = followed  # this one has ended
        return is_taken and self._commits.settle(max(deadline_s - time.monotonic(), 0.0))

    def _is_ours(self, source: SourceProgress, end: Mapping[TopicPartition, int]) -> bool:
        topics = {tp.topic for tp in end}
        return _PYTHON_STREAM in source.description and all(
            covers(self._read.selection, topic) for topic in topics
        )

    def _follows(self, progress: StreamingQueryProgress) -> bool:
        """True if this is the query to follow. Two queries would move the group back and forth."""
        id_ = str(progress.id)
        if self._query is not None:
            return self._query in (id_, progress.name) and self._follow(id_)
        if self._followed in (None, id_):
            return self._follow(id_)
        if self._passed_over != id_:
            self._passed_over = id_
            LOG.warning(
                "group %s follows the query %s and not %s, which reads the same topics: name the query to "
                "follow with query= of GroupOffsets",
                quote(self._read.group_id),
                self._followed,
                _name_of(progress),
            )
        return False

    def _follow(self, id_: str) -> bool:
        self._followed = id_
        return True


def offsets_behind_latest(source: SourceProgress) -> dict[str, float]:
    """Lag of a source of a ``StreamingQueryProgress``, over its partitions.

    The names are those of the metrics of Spark's own Kafka source: ``minOffsetsBehindLatest``,
    ``maxOffsetsBehindLatest``, ``avgOffsetsBehindLatest``.
    They count records, and bytes of 0.7. Empty for a source other than Kafka, and where the progress has no
    latest offsets, as that of a batch which an earlier run began.
    """
    end, latest = kafka_offsets(source.endOffset), kafka_offsets(source.latestOffset)
    return offsets_behind(end, latest) if end and latest else {}


def progress_offsets(text: str | None) -> dict[str, dict[str, int]]:
    """Offsets in a ``StreamingQueryProgress``, ``{topic: {partition: offset}}``.

    ``text`` is ``startOffset``, ``endOffset`` or ``latestOffset`` of one of its sources. The ids of topics,
    which a checkpoint keeps beside the offsets, are left out. Empty for a source other than Kafka.
    """
    return to_json(kafka_offsets(text))


def kafka_offsets(text: str | None) -> dict[TopicPartition, int]:
    """Offsets of a progress, of either generation; empty if it has none of Kafka."""
    return next(filter(None, (_offsets(text, syntax) for syntax in PARTITION_SYNTAX.values())), {})


def _offsets(text: str | None, syntax: PartitionSyntax) -> dict[TopicPartition, int]:
    """Offsets of a progress; empty if it has none of Kafka."""
    try:
        return from_json(offsets_of_progress(text), syntax)
    except (ValueError, OptionError):
        return {}


def _name_of(progress: StreamingQueryProgress) -> str:
    return quote(progress.name) if progress.name else str(progress.id)
