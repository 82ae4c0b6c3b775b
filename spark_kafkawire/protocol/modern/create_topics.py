"""CreateTopics: new topics, their partitions and replicas.

Versions of CreateTopics::

    0-1     not spoken: neither throttle time nor, in 0, the text of an error
    2       throttle time
    3       throttled replies come at once, and the client waits (KIP-219)
    4       the brokers choose how many partitions and replicas (KIP-464)
    5       flexible (KIP-482); the settings of the new topic (KIP-525)
    6       THROTTLING_QUOTA_EXCEEDED may come (KIP-599)
    7       the id of the new topic (KIP-516)

Source: Apache Kafka's CreateTopicsRequest.json and CreateTopicsResponse.json.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT8, INT16, INT32, UUID, Array, String
from ..replies import Faults, unlike
from ..schema import Struct, wire
from . import names
from .limits import NO_TOPIC_ID, reply_bytes_max

#: ``num_partitions`` and ``replication_factor`` that leave the number to the brokers, from
#: ``BROKER_DEFAULTS_SINCE`` on. Source: KIP-464.
BROKER_DEFAULT: Final = -1
BROKER_DEFAULTS_SINCE: Final = 4
#: ``num_partitions`` and ``replication_factor`` of a reply that does not tell them.
_NOT_TOLD: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableReplicaAssignment:
    """The brokers that hold a partition, its preferred leader first."""

    partition_index: int = wire(INT32)
    broker_ids: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfig:
    """A setting of the topic, like ``cleanup.policy``."""

    name: str = wire(String())
    value: str | None = wire(String(), nullable_since=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopic:
    """A topic to create; with ``assignments`` both numbers are ``BROKER_DEFAULT``."""

    name: str = wire(String())
    num_partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    assignments: tuple[CreatableReplicaAssignment, ...] = wire(
        Array(Struct(CreatableReplicaAssignment)), default=()
    )
    configs: tuple[CreatableTopicConfig, ...] = wire(Array(Struct(CreatableTopicConfig)), default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    """Create topics, and wait up to ``timeout_ms`` until they are; only look with ``validate_only``.

    Brokers before 2.8 answer only where they are the controller.
    """

    topics: tuple[CreatableTopic, ...] = wire(Array(Struct(CreatableTopic)))
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopicConfig:
    """A setting as the new topic has it, and where it comes from."""

    name: str = wire(String())
    value: str | None = wire(String(), nullable_since=0)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8)
    is_sensitive: bool = wire(BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """What became of one topic; the broker tells its settings where the user may see them."""

    name: str = wire(String())
    topic_id: uuid.UUID = wire(UUID, since=7, default=NO_TOPIC_ID)
    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0)
    topic_config_error_code: int = wire(INT16, since=5, tag=0, default=0)
    num_partitions: int = wire(INT32, since=5, default=-1)
    replication_factor: int = wire(INT16, since=5, default=-1)
    configs: tuple[CreatedTopicConfig, ...] | None = wire(
        Array(Struct(CreatedTopicConfig)), since=5, nullable_since=5, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsReply:
    """What became of each topic."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: tuple[CreatedTopic, ...] = wire(Array(Struct(CreatedTopic)))


def _faults(request: CreateTopicsRequest, reply: CreateTopicsReply, _version: int) -> Faults:
    asked = {topic.name: topic for topic in request.topics}
    yield from unlike(asked, (created.name for created in reply.topics))
    for created in reply.topics:
        topic = asked[created.name]
        if not created.error_code:
            yield from _unlike_counts("partitions", topic.num_partitions, created.num_partitions)
            yield from _unlike_counts("replicas", topic.replication_factor, created.replication_factor)


def _unlike_counts(what: str, asked: int, came: int) -> Faults:
    # Neither is told before version 5, nor to a user who may not see the topic's settings.
    if came != _NOT_TOLD and (came < 1 or asked not in (BROKER_DEFAULT, came)):
        yield f"it gives the new topic {came} {what}, where {asked} was asked for"


CREATE_TOPICS: Final = Api(
    *names.CREATE_TOPICS,
    CreateTopicsRequest,
    CreateTopicsReply,
    reply_bytes_max,
    faults=_faults,
    versions=VersionRange(2, 7),
    flexible_since=5,
    throttles_since=3,
)
