"""Reads that are consumers of a group of Kafka 0.7: a batch read, and the end of a query between two
batches.

The consumer of a batch read lives on the driver, because Spark plans a read in a process that ends
before the rows are read, and never reports to it whether they were read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql.streaming.listener import StreamingQueryProgress

from ..errors import DiscoveryError, OptionError, quote
from ..model import TopicPartition
from ..options import EARLIEST, StreamOptions
from ..planner.v07 import ask_owned_bounds, await_settled, join
from .edge import edge
from .schema import plan_columns
from .spark_versions import offsets_of_progress
from .stream_reader import CONSUMER_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self

    from ..cluster.v07.member import Member, OwnedPartition


#: Options that the group replaces.
_REPLACED: Final = frozenset(
    ("subscribe", "groupmembership", "groupthreads", "kafka.group.id", "startingoffsets")
)


class GroupRead:
    """Partitions of one consumer of a group of Kafka 0.7, from the committed offsets to the current ends.

        with GroupRead({"zookeeper.connect": ..., "subscribe": "t", "kafka.group.id": "etl"}) as share:
            share.load(spark).write. ... .save()

    ``options`` are those of a stream with ``groupMembership=join``, which is implied. Partitions without a
    committed offset begin at ``startingOffsets``, by default ``earliest``. The read waits up to
    ``brokerDownTimeout`` until other members have given up their partitions.

    When the block ends, the ends at its start are committed, and the partitions are free again; after an
    error in the block nothing is committed. Raises ``OptionError``, ``UnknownTopicError`` for a topic that no
    broker has within ``brokerDownTimeout``, and ``DiscoveryError``, also for nodes of the group that keep
    partitions from every reader for that time (all fatal).
    """

    @edge
    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name.lower() for name in options}
        implied = {"groupMembership": "join", "startingOffsets": "earliest"}
        implied = {name: value for name, value in implied.items() if name.lower() not in given}
        self._raw = {**options, **implied}
        self._read = StreamOptions.parse(self._raw).read
        if self._read.membership is None:
            raise OptionError(
                "option groupMembership: GroupRead always joins a group; remove the option, or set it to join"
            )
        self._member: Member | None = None
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    @edge
    def __enter__(self) -> Self:
        self._member = join(self._read)
        try:
            self._owned = await_settled(self._member, self._read, needs_all=True)
            bounds = ask_owned_bounds(self._read, list(self._owned))
        except BaseException:
            self._member.close()
            raise
        is_earliest = self._read.starting.for_all == EARLIEST
        for partition, result in bounds.items():
            committed = self._owned[partition].offset
            never_read = result.earliest if is_earliest else result.latest
            self._starts[partition] = never_read if committed is None else committed
            self._ends[partition] = max(result.latest, self._starts[partition])
        return self

    @edge
    def load(self, spark: SparkSession) -> DataFrame:
        """Rows of the partitions; every DataFrame of the block has the same rows."""
        if not self._starts:
            return spark.createDataFrame([], plan_columns(self._read)[0])
        named = {"assign": _write_by_topic(self._starts, None)}
        named |= {"startingOffsets": _write_by_topic(self._starts, self._starts)}
        named |= {"endingOffsets": _write_by_topic(self._starts, self._ends)}
        others = {name: value for name, value in self._raw.items() if name.lower() not in _REPLACED}
        return spark.read.format("kafkawire").options(**others, **named).load()

    @edge
    def __exit__(self, kind: object, *_: object) -> None:
        assert self._member is not None
        try:
            if kind is None:
                self._commit(self._member)
        finally:
            self._member.close()

    def _commit(self, member: Member) -> None:
        lost = member.commit({tp: (offset, self._owned[tp]) for tp, offset in self._ends.items()})
        if lost:
            raise DiscoveryError(
                f"group {quote(self._read.group_id)}: the session was lost during the read, so "
                f"{len(lost)} of its partitions, {lost[0]} first, are not committed, and others may read the "
                "same rows; read again"
            )


def _write_by_topic(
    partitions: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int] | None
) -> str:
    """Partitions, or their offsets, as JSON of the options."""
    topics = sorted({tp.topic for tp in partitions})
    if offsets is None:
        return json.dumps({topic: [tp.name for tp in partitions if tp.topic == topic] for topic in topics})
    return json.dumps(
        {topic: {tp.name: offsets[tp] for tp in partitions if tp.topic == topic} for topic in topics}
    )


#: Seconds between two looks at a query's progress.
_LOOK_AGAIN_S: Final = 0.1


class RunningQuery(Protocol):
    """The part of a ``StreamingQuery`` that is used, that of Spark Connect or not."""

    @property
    def isActive(self) -> bool: ...

    @property
    def lastProgress(self) -> StreamingQueryProgress | None: ...

    def stop(self) -> None: ...


def stop_between_batches(query: RunningQuery, options: Mapping[str, str], timeout: float) -> bool:
    """Stop a query with ``groupMembership=join`` once its batch is done and committed to the group.

        stop_between_batches(query, options, 60)

    ``query.stop()`` cancels the batch that runs. The next start runs it again, and other consumers of the
    group, which take the partitions over meanwhile, read the same rows. This function lets the query end its
    batch, commit it and leave the group, and stops it then: other consumers continue behind the batch, and so
    does the next start.

    ``options`` are those of the stream. Returns False where that takes longer than ``timeout`` seconds, or
    the query ends before. A query that runs stays running then, in its group. The progress of a query names
    its consumer, so the function waits until a query has finished a batch. Raises ``OptionError``, and
    ``DiscoveryError`` where ZooKeeper does not answer (both fatal).
    """
    from ..cluster.v07.groups import ask_to_leave

    read = StreamOptions.parse(options).read
    if read.membership is None:
        raise OptionError(
            "stop_between_batches is for queries with groupMembership=join, and this one has none: use "
            "query.stop()"
        )
    deadline_s = time.monotonic() + timeout
    while query.isActive and time.monotonic() < deadline_s:
        if consumers := _consumers(query.lastProgress, f"{read.membership.group}_"):
            left_s = max(deadline_s - time.monotonic(), 0.0)
            has_left = ask_to_leave(read.discovery, left_s, read.membership.group, consumers)
            if has_left:
                query.stop()
            return has_left
        time.sleep(_LOOK_AGAIN_S)
    return False


def _consumers(progress: StreamingQueryProgress | None, prefix: str) -> list[str]:
    """The consumers of a query whose ids begin with ``prefix``, from its progress."""
    marks = [
        str(name).removeprefix(CONSUMER_MARK)
        for source in (progress.sources if progress else ())
        for name in _latest(source.latestOffset)
        if str(name).startswith(CONSUMER_MARK)
    ]
    return [consumer for consumer in marks if consumer.startswith(prefix)]


def _latest(text: str | None) -> Mapping[str, object]:
    try:
        result = offsets_of_progress(text)
    except (ValueError, OptionError):
        return {}
    return result if isinstance(result, dict) else {}
