"""A batch read that is a consumer of a group of Kafka 0.7 while it lasts: on the driver, for Spark plans a
read in a process that ends before its rows are read, and never tells it what became of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..cluster.claim import Claim
from ..cluster.membership import Member, join
from ..errors import DiscoveryError, OptionError, quoted
from ..model import TopicPartition
from ..options import EARLIEST, StreamOptions
from ..planner.group_share import owned_bounds, settled
from .schema import read_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self

#: What the group says in place of the options.
_REPLACED: Final = frozenset(
    ("subscribe", "groupmembership", "groupthreads", "kafka.group.id", "startingoffsets")
)


class GroupRead:
    """The share of one consumer of a group of Kafka 0.7, from where the group stands to the ends of the logs.

        with GroupRead({"zookeeper.connect": ..., "subscribe": "t", "kafka.group.id": "etl"}) as share:
            share.load(spark).write. ... .save()

    ``options`` are those of a stream with ``groupMembership=join``, which is implied; logs that the group
    has never read begin at ``startingOffsets``, ``earliest`` unless it is set. Others are waited for, until
    they have given up the share, as ``patience`` says.

    When the block ends, the group stands where the logs ended when it began, and the share is free again; an
    error in the block leaves the group where it stood. Raises ``OptionError``, ``DiscoveryError``, and
    ``UnknownTopicError`` for a topic that no broker has within ``patience`` (all fatal).
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name.lower() for name in options}
        implied = {"groupMembership": "join", "startingOffsets": "earliest"}
        implied = {name: value for name, value in implied.items() if name.lower() not in given}
        self._raw = {**options, **implied}
        self._read = StreamOptions.parse(self._raw).read
        if self._read.membership is None:
            raise OptionError("option groupMembership: GroupRead joins a group; leave it out, or say join")
        self._member: Member | None = None
        self._claims: dict[TopicPartition, Claim] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        self._member = join(self._read)
        try:
            self._claims = settled(self._member, self._read, needs_topics=True)
            bounds = owned_bounds(self._read, list(self._claims))
        except BaseException:
            self._member.close()
            raise
        is_earliest = self._read.starting.for_all == EARLIEST
        for log, found in bounds.items():
            stands = self._claims[log].offset
            never_read = found.earliest if is_earliest else found.latest
            self._starts[log] = never_read if stands is None else stands
            self._ends[log] = max(found.latest, self._starts[log])
        return self

    def load(self, spark: SparkSession) -> DataFrame:
        """The rows of the share; more than one DataFrame has the same ones."""
        if not self._starts:
            return spark.createDataFrame([], read_schema(self._read))
        named = {"assign": _by_topic(self._starts, None)}
        named |= {"startingOffsets": _by_topic(self._starts, self._starts)}
        named |= {"endingOffsets": _by_topic(self._starts, self._ends)}
        others = {name: value for name, value in self._raw.items() if name.lower() not in _REPLACED}
        return spark.read.format("kafkawire").options(**others, **named).load()

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._member is not None
        try:
            if kind is None:
                self._commit(self._member)
        finally:
            self._member.close()

    def _commit(self, member: Member) -> None:
        lost = member.commit({log: (offset, self._claims[log]) for log, offset in self._ends.items()})
        if lost:
            raise DiscoveryError(
                f"group {quoted(self._read.group_id)}: the session was lost while the share was read, so "
                f"{len(lost)} of its partitions, {lost[0]} first, are not committed, and others may read the "
                "same rows"
            )


def _by_topic(logs: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int] | None) -> str:
    """The logs, or their offsets, as options name them."""
    topics = sorted({log.topic for log in logs})
    if offsets is None:
        return json.dumps({topic: [log.name for log in logs if log.topic == topic] for topic in topics})
    return json.dumps(
        {topic: {log.name: offsets[log] for log in logs if log.topic == topic} for topic in topics}
    )
