"""A batch read that is a consumer of a group of Kafka 0.7 while it runs.

The consumer lives on the driver, because Spark plans a read in a process that ends before the rows are read,
and never reports to it whether they were read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from spark_kafkawire.cluster.v07.membership import GroupMembership, join
from spark_kafkawire.cluster.v07.owned_partition import OwnedPartition
from spark_kafkawire.errors import DiscoveryError, OptionError, quoted
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import EARLIEST, StreamOptions
from spark_kafkawire.planner.v07.group_share import owned_bounds, settled

from ..edge import edge
from ..typed import planned_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self

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
        self._member: GroupMembership | None = None
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    @edge
    def __enter__(self) -> Self:
        self._member = join(self._read)
        try:
            self._owned = settled(self._member, self._read, needs_all=True)
            bounds = owned_bounds(self._read, list(self._owned))
        except BaseException:
            self._member.close()
            raise
        is_earliest = self._read.starting.for_all == EARLIEST
        for partition, found in bounds.items():
            committed = self._owned[partition].offset
            never_read = found.earliest if is_earliest else found.latest
            self._starts[partition] = never_read if committed is None else committed
            self._ends[partition] = max(found.latest, self._starts[partition])
        return self

    @edge
    def load(self, spark: SparkSession) -> DataFrame:
        """Rows of the partitions; every DataFrame of the block has the same rows."""
        if not self._starts:
            return spark.createDataFrame([], planned_columns(self._read)[0])
        named = {"assign": _by_topic(self._starts, None)}
        named |= {"startingOffsets": _by_topic(self._starts, self._starts)}
        named |= {"endingOffsets": _by_topic(self._starts, self._ends)}
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

    def _commit(self, member: GroupMembership) -> None:
        lost = member.commit({tp: (offset, self._owned[tp]) for tp, offset in self._ends.items()})
        if lost:
            raise DiscoveryError(
                f"group {quoted(self._read.group_id)}: the session was lost during the read, so "
                f"{len(lost)} of its partitions, {lost[0]} first, are not committed, and others may read the "
                "same rows; read again"
            )


def _by_topic(partitions: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int] | None) -> str:
    """Partitions, or their offsets, as JSON of the options."""
    topics = sorted({tp.topic for tp in partitions})
    if offsets is None:
        return json.dumps({topic: [tp.name for tp in partitions if tp.topic == topic] for topic in topics})
    return json.dumps(
        {topic: {tp.name: offsets[tp] for tp in partitions if tp.topic == topic} for topic in topics}
    )
