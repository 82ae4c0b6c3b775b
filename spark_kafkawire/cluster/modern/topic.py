"""A topic as Metadata describes it: its partitions and who leads them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...errors import BrokerError, quoted, shown
from ...model import Broker, TopicPartition
from ...protocol.modern.error_codes import ErrorCode, broker_error
from ...protocol.modern.limits import NO_TOPIC_ID
from ...protocol.modern.metadata import MetadataTopic

#: The internal topic of brokers 0.8.2 and 0.9, whose Metadata does not tell that it is one.
_OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster described it; ``id`` is None where topics have none (before 2.8).

    ``leaders`` maps partitions to the leading broker's id, -1 while none leads, and the epoch.
    """

    name: str
    id: uuid.UUID | None = None
    is_internal: bool = False
    leaders: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def logs(self) -> tuple[TopicPartition, ...]:
        """The topic's logs, sorted."""
        return tuple(TopicPartition(self.name, partition) for partition in sorted(self.leaders))

    @classmethod
    def described(cls, name: str, topic: MetadataTopic | None, server: Broker | None) -> Topic:
        """The topic that was asked for by its name, by the answer of ``server``.

        Raises ``BrokerError`` for a topic with an error, and (retriable) while its partitions are not
        all described.
        """
        place = f"topic {quoted(name)} on {server}"
        code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None or code:
            raise broker_error(code, place)
        leaders = {part.partition_index: (part.leader_id, part.leader_epoch) for part in topic.partitions}
        if not leaders:  # it is being made, or deleted
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, place)
        if max(leaders) >= len(leaders):  # partitions are counted from 0: the broker has not heard of all
            place = f"topic {shown(name)} on {server}, which tells of {len(leaders)} of its partitions"
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, place)
        topic_id = topic.topic_id if topic.topic_id != NO_TOPIC_ID else None
        return cls(name, topic_id, _is_internal(topic, name), leaders)

    @classmethod
    def listed(cls, name: str, topic: MetadataTopic, server: Broker | None) -> Topic:
        """One of all topics: where it has an error, it has no leaders, so that the others can be read."""
        try:
            return cls.described(name, topic, server)
        except BrokerError:
            return cls(name, is_internal=_is_internal(topic, name))


def _is_internal(topic: MetadataTopic, name: str) -> bool:
    return topic.is_internal or name == _OFFSETS_TOPIC
