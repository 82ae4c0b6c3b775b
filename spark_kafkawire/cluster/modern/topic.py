"""A topic of modern Kafka (0.8 to 4.x), as a Metadata response describes it: partitions and leaders."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from spark_kafkawire.errors import BrokerError, printable, quoted
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID
from spark_kafkawire.protocol.modern.metadata import MetadataTopic

#: The internal topic of brokers 0.8.2 and 0.9, whose Metadata has no field for internal topics.
_OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(frozen=True)
class Topic:
    """A topic of a cluster; ``id`` is None if topics have no ids (before 2.8).

    ``leaders`` maps partitions to the id of the leader, -1 without a leader, and the leader epoch.
    """

    name: str
    id: uuid.UUID | None = None
    is_internal: bool = False
    leaders: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of the topic, sorted."""
        return tuple(TopicPartition(self.name, partition) for partition in sorted(self.leaders))

    @classmethod
    def described(cls, name: str, topic: MetadataTopic | None, server: Broker | None) -> Topic:
        """A topic that was requested by name, from the response of ``server``.

        Raises ``BrokerError`` for a topic with an error, and (retriable) while some of its partitions are
        missing in the response.
        """
        place = f"topic {quoted(name)} on {server}"
        code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None or code:
            raise broker_error(code, place)
        leaders = {part.partition_index: (part.leader_id, part.leader_epoch) for part in topic.partitions}
        if not leaders:  # it is being created or deleted
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, place)
        if max(leaders) >= len(leaders):  # numbers begin at 0: the broker does not know all partitions yet
            place = (
                f"topic {printable(name)} on {server}, which describes only {len(leaders)} of its partitions"
            )
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, place)
        topic_id = topic.topic_id if topic.topic_id != NO_TOPIC_ID else None
        return cls(name, topic_id, _is_internal(topic, name), leaders)

    @classmethod
    def listed(cls, name: str, topic: MetadataTopic, server: Broker | None) -> Topic:
        """A topic of a listing: with an error it has no leaders, so that the other topics can be read."""
        try:
            return cls.described(name, topic, server)
        except BrokerError:
            return cls(name, is_internal=_is_internal(topic, name))


def _is_internal(topic: MetadataTopic, name: str) -> bool:
    return topic.is_internal or name == _OFFSETS_TOPIC
