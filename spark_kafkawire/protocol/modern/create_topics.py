"""CreateTopics (modern Kafka): creates topics with their partitions, replicas and settings.

Versions of CreateTopics::

    0-1     not spoken: neither throttle time nor, in 0, the text of an error
    2       throttle time
    3       throttled responses come at once, and the client waits (KIP-219)
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
from ..responses import Faults, unlike
from ..schema import Struct, wire
from . import names
from .limits import NO_TOPIC_ID, response_bytes_max

#: ``num_partitions`` and ``replication_factor`` that leave the number to the brokers, from
#: ``BROKER_DEFAULTS_SINCE`` on. Source: KIP-464.
BROKER_DEFAULT: Final = -1
BROKER_DEFAULTS_SINCE: Final = 4
#: ``num_partitions`` and ``replication_factor`` of a response that does not report them.
_NOT_TOLD: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableReplicaAssignment:
    """The brokers that hold a partition, its preferred leader first."""

    partition_index: int = wire(INT32)
    """Index of the partition."""
    broker_ids: tuple[int, ...] = wire(Array(INT32))
    """Brokers of the replicas, the preferred leader first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfig:
    """A setting of the topic, like ``cleanup.policy``."""

    name: str = wire(String())
    """Name of the setting."""
    value: str | None = wire(String(), nullable_since=0)
    """Value of the setting; None for the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopic:
    """A topic to create; with ``assignments`` both numbers are ``BROKER_DEFAULT``."""

    name: str = wire(String())
    """Name of the topic."""
    num_partitions: int = wire(INT32)
    """Number of partitions; -1 for the brokers' default (KIP-464) or with ``assignments``."""
    replication_factor: int = wire(INT16)
    """Number of replicas; -1 for the brokers' default (KIP-464) or with ``assignments``."""
    assignments: tuple[CreatableReplicaAssignment, ...] = wire(
        Array(Struct(CreatableReplicaAssignment)), default=()
    )
    """Manual placement of the replicas; empty for an automatic one."""
    configs: tuple[CreatableTopicConfig, ...] = wire(Array(Struct(CreatableTopicConfig)), default=())
    """Settings of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    """Create topics, and wait for them up to ``timeout_ms``; only check the request with ``validate_only``.

    Before 2.8 only the controller answers.
    """

    topics: tuple[CreatableTopic, ...] = wire(Array(Struct(CreatableTopic)))
    """Topics to create."""
    timeout_ms: int = wire(INT32)
    """Longest wait for the creation, ms."""
    validate_only: bool = wire(BOOL, default=False)
    """True to check the request only, and create nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopicConfig:
    """A setting as the new topic has it, and where it comes from."""

    name: str = wire(String())
    """Name of the setting."""
    value: str | None = wire(String(), nullable_since=0)
    """Value of the setting."""
    read_only: bool = wire(BOOL)
    """True if the setting cannot be changed."""
    config_source: int = wire(INT8)
    """Source of the value: the topic, a broker, or the default."""
    is_sensitive: bool = wire(BOOL)
    """True if the value is a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """Outcome for one topic; the broker includes its settings where the user may see them."""

    name: str = wire(String())
    """Name of the topic."""
    topic_id: uuid.UUID = wire(UUID, since=7, default=NO_TOPIC_ID)
    """Id of the topic (KIP-516)."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    error_message: str | None = wire(String(), nullable_since=0)
    """Text of the error; None if the broker gives none."""
    topic_config_error_code: int = wire(INT16, since=5, tag=0, default=0)
    """Error code of the settings, if they are withheld from the user (KIP-525)."""
    num_partitions: int = wire(INT32, since=5, default=-1)
    """Number of partitions; -1 if it is withheld (KIP-525)."""
    replication_factor: int = wire(INT16, since=5, default=-1)
    """Number of replicas; -1 if it is withheld (KIP-525)."""
    configs: tuple[CreatedTopicConfig, ...] | None = wire(
        Array(Struct(CreatedTopicConfig)), since=5, nullable_since=5, default=None
    )
    """Settings of the topic; None if they are withheld (KIP-525)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    """Outcome for each topic."""

    throttle_time_ms: int = wire(INT32, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    topics: tuple[CreatedTopic, ...] = wire(Array(Struct(CreatedTopic)))
    """Outcome for each topic."""


def _faults(request: CreateTopicsRequest, response: CreateTopicsResponse, _version: int) -> Faults:
    asked = {topic.name: topic for topic in request.topics}
    yield from unlike(asked, (created.name for created in response.topics))
    for created in response.topics:
        topic = asked[created.name]
        if not created.error_code:
            yield from _unlike_counts("partitions", topic.num_partitions, created.num_partitions)
            yield from _unlike_counts("replicas", topic.replication_factor, created.replication_factor)


def _unlike_counts(what: str, asked: int, came: int) -> Faults:
    # Brokers report no counts before version 5, nor to a user who may not see the topic's settings.
    if came != _NOT_TOLD and (came < 1 or asked not in (BROKER_DEFAULT, came)):
        yield f"it gives the new topic {came} {what}, but {asked} was requested"


CREATE_TOPICS: Final = Api(
    *names.CREATE_TOPICS,
    CreateTopicsRequest,
    CreateTopicsResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(2, 7),
    flexible_since=5,
    throttles_since=3,
)
