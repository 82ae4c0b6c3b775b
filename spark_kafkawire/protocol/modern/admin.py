"""Administration: new topics, the log directories of brokers, the producers of partitions, and delegation
tokens.

CreateTopics (modern Kafka): creates topics with their partitions, replicas and settings.

Versions of CreateTopics::

    0-1     not spoken: neither throttle time nor, in 0, the text of an error
    2       throttle time
    3       throttled responses come at once, and the client waits (KIP-219)
    4       the brokers choose how many partitions and replicas (KIP-464)
    5       flexible (KIP-482); the settings of the new topic (KIP-525)
    6       THROTTLING_QUOTA_EXCEEDED may come (KIP-599)
    7       the id of the new topic (KIP-516)

DescribeLogDirs (Kafka 1.0 and later): the log directories of a broker, and the size of each replica there.

Versions of DescribeLogDirs::

    0       not spoken: Kafka 1.0 and 1.1 alone have no later one
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)
    3       an error of the whole response (KIP-784)
    4       size and free space of the volume (KIP-827)
    5       directories that take no new partitions (KIP-1066)

A user without the right Describe on the cluster gets an empty list before version 3.

DescribeProducers (Kafka 2.8 and later): the producers whose state the leader of a partition keeps.

Versions of DescribeProducers::

    0       flexible (KIP-482); producers (KIP-664); throttled responses come at once (KIP-219)

CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken (Kafka 2.0 and later): credentials
that brokers make for a client that is logged in (KIP-48).

A token is an id and an HMAC. With the two a client logs in by SCRAM, as the owner of the token. Such a
client cannot create, renew or expire tokens.

Versions of CreateDelegationToken::

    0       not spoken: Kafka 1.1 alone has no later one
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)
    3       tokens for another owner (KIP-373)

Versions of RenewDelegationToken::

    0       not spoken: Kafka 1.1 alone has no later one
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)

Versions of ExpireDelegationToken::

    0       not spoken: Kafka 1.1 alone has no later one
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..primitives import BOOL, BYTES, INT8, INT16, INT32, INT64, UUID, Array, Buffer, String
from ..responses import Faults, below, find_repeated, not_topics, unlike
from ..schema import Struct, wire
from . import declare
from .limits import NO_TOPIC_ID, response_bytes_max, small_response_bytes_max

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
    broker_ids: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfig:
    """A setting of the topic, like ``cleanup.policy``."""

    name: str = wire(String())
    value: str | None = wire(String(), nullable_since=0)
    """Value of the setting; None for the default."""


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
    """Create topics, and wait for them up to ``timeout_ms``; only check the request with ``validate_only``.

    Before 2.8 only the controller answers.
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
    """Outcome for one topic. Counts are -1 and settings None where the user may not see them (KIP-525)."""

    name: str = wire(String())
    topic_id: uuid.UUID = wire(UUID, since=7, default=NO_TOPIC_ID)
    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0)
    num_partitions: int = wire(INT32, since=5, default=-1)
    replication_factor: int = wire(INT16, since=5, default=-1)
    configs: tuple[CreatedTopicConfig, ...] | None = wire(
        Array(Struct(CreatedTopicConfig)), since=5, nullable_since=5, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    """Outcome for each topic."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: tuple[CreatedTopic, ...] = wire(Array(Struct(CreatedTopic)))


def _topic_faults(request: CreateTopicsRequest, response: CreateTopicsResponse, _version: int) -> Faults:
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


CREATE_TOPICS: Final = declare(CreateTopicsRequest, CreateTopicsResponse, response_bytes_max, _topic_faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribableLogDirTopic:
    """Partitions of a topic to describe."""

    topic: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsRequest:
    """Ask a broker for its log directories, with some topics or with all."""

    topics: tuple[DescribableLogDirTopic, ...] | None = wire(
        Array(Struct(DescribableLogDirTopic)), nullable_since=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirPartition:
    """A replica in a log directory, and the bytes of its segments."""

    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)
    """True if the replica is being moved into this directory from another one of the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirTopic:
    """Replicas of one topic."""

    name: str = wire(String())
    partitions: tuple[LogDirPartition, ...] = wire(Array(Struct(LogDirPartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A log directory; its disk failed if it has an error."""

    error_code: int = wire(INT16)
    log_dir: str = wire(String())
    topics: tuple[LogDirTopic, ...] = wire(Array(Struct(LogDirTopic)))
    total_bytes: int = wire(INT64, since=4, default=-1)
    """Size of the volume, bytes; -1 if unknown, as its free space (KIP-827)."""
    usable_bytes: int = wire(INT64, since=4, default=-1)
    is_cordoned: bool = wire(BOOL, since=5, default=False)
    """True if the directory takes no new partitions (KIP-1066)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponse:
    """The log directories of one broker."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, since=3, default=0)
    results: tuple[LogDir, ...] = wire(Array(Struct(LogDir)))


def _log_dir_faults(
    _request: DescribeLogDirsRequest, response: DescribeLogDirsResponse, _version: int
) -> Faults:
    yield from find_repeated(item.log_dir for item in response.results)
    replicas = [
        (topic.name, replica)
        for item in response.results
        for topic in item.topics
        for replica in topic.partitions
    ]
    # A replica that moves is in two directories.
    yield from find_repeated(
        (name, replica.partition_index, replica.is_future_key) for name, replica in replicas
    )
    for name, replica in replicas:
        yield from below(0, "partition", replica.partition_index, name)
        yield from below(0, "size", replica.partition_size, (name, replica.partition_index))
    # noida-db (0.2) returns all replicas where some were requested, which does no harm.
    yield from not_topics(dict.fromkeys(name for name, _ in replicas))


DESCRIBE_LOG_DIRS: Final = declare(
    DescribeLogDirsRequest, DescribeLogDirsResponse, response_bytes_max, _log_dir_faults
)


#: ``current_txn_start_offset`` of a producer without an open transaction in the partition.
NO_TRANSACTION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducersTopic:
    """Partitions of a topic to describe."""

    name: str = wire(String())
    partition_indexes: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    """Ask a broker for the producers of partitions that it leads. The user needs the right READ for the
    topics."""

    topics: tuple[ProducersTopic, ...] = wire(Array(Struct(ProducersTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A producer of a partition; -1 for what is not known."""

    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT32)
    last_sequence: int = wire(INT32, default=-1)
    last_timestamp: int = wire(INT64, default=-1)
    """Timestamp of its last batch, ms since 1970; -1 if unknown."""
    coordinator_epoch: int = wire(INT32)
    """Epoch of the coordinator that wrote its last marker; -1 without a marker."""
    current_txn_start_offset: int = wire(INT64, default=NO_TRANSACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProducers:
    """Producers of one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    active_producers: tuple[ProducerState, ...] = wire(Array(Struct(ProducerState)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProducers:
    """Producers of the partitions of one topic."""

    name: str = wire(String())
    partitions: tuple[PartitionProducers, ...] = wire(Array(Struct(PartitionProducers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse:
    """The producers of the requested partitions."""

    throttle_time_ms: int = wire(INT32)
    topics: tuple[TopicProducers, ...] = wire(Array(Struct(TopicProducers)))


def _producer_faults(
    request: DescribeProducersRequest, response: DescribeProducersResponse, _version: int
) -> Faults:
    asked = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    came = [
        ((topic.name, item.partition_index), item) for topic in response.topics for item in topic.partitions
    ]
    yield from unlike(asked, (key for key, _ in came))
    for key, partition in came:
        yield from find_repeated((*key, state.producer_id) for state in partition.active_producers)
        for state in partition.active_producers:
            yield from below(0, "producer id", state.producer_id, key)
            yield from below(-1, "producer epoch", state.producer_epoch, key)
            yield from below(-1, "last sequence", state.last_sequence, key)
            yield from below(-1, "start of a transaction", state.current_txn_start_offset, key)


DESCRIBE_PRODUCERS: Final = declare(
    DescribeProducersRequest, DescribeProducersResponse, response_bytes_max, _producer_faults
)


#: ``max_lifetime_ms`` and ``renew_period_ms`` that leave the time to the brokers.
BROKER_TIME: Final = -1
#: ``expiry_time_period_ms`` that ends a token at once.
AT_ONCE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableRenewer:
    """A user who may renew a token besides its owner."""

    principal_type: str = wire(String())
    principal_name: str = wire(String())


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenRequest:
    """Create a token, by default for the user who asks."""

    owner_principal_type: str | None = wire(String(), since=3, nullable_since=3, default=None)
    owner_principal_name: str | None = wire(String(), since=3, nullable_since=3, default=None)
    renewers: tuple[CreatableRenewer, ...] = wire(Array(Struct(CreatableRenewer)), default=())
    max_lifetime_ms: int = wire(INT64, default=BROKER_TIME)
    """Time after which the token cannot be renewed, ms; -1 for that of the brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenResponse:
    """The token, and its times by the clock of the brokers, ms since 1970."""

    error_code: int = wire(INT16)
    principal_type: str = wire(String())
    principal_name: str = wire(String())
    token_requester_principal_type: str = wire(String(), since=3, default="")
    token_requester_principal_name: str = wire(String(), since=3, default="")
    issue_timestamp_ms: int = wire(INT64)
    expiry_timestamp_ms: int = wire(INT64)
    """Time at which the token expires unless it is renewed."""
    max_timestamp_ms: int = wire(INT64)
    """Time after which the token cannot be renewed."""
    token_id: str = wire(String())
    """Id of the token: the user name of its logins."""
    hmac: Buffer = wire(BYTES, shown=False)
    """HMAC of the token: in base 64, the password of its logins."""
    throttle_time_ms: int = wire(INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenRequest:
    """Let a token expire later."""

    hmac: Buffer = wire(BYTES, shown=False)
    renew_period_ms: int = wire(INT64, default=BROKER_TIME)
    """Time from now on, ms; -1 for that of the brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenResponse:
    """The time of a token that was renewed."""

    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenRequest:
    """Let a token expire sooner."""

    hmac: Buffer = wire(BYTES, shown=False)
    expiry_time_period_ms: int = wire(INT64, default=AT_ONCE)
    """Time from now on, ms; below 0 for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenResponse:
    """The time of a token that expires."""

    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)


def _faults_of_creation(
    _request: CreateDelegationTokenRequest, response: CreateDelegationTokenResponse, _version: int
) -> Faults:
    if response.error_code:
        return
    if not response.token_id or not response.hmac:
        yield "it contains a token without an id or an HMAC"
    yield from below(0, "issue timestamp", response.issue_timestamp_ms)
    yield from below(response.issue_timestamp_ms, "expiry timestamp", response.expiry_timestamp_ms)
    yield from below(response.expiry_timestamp_ms, "max timestamp", response.max_timestamp_ms)


def _faults_of_time(
    _request: object, response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse, _version: int
) -> Faults:
    if not response.error_code:
        yield from below(0, "expiry timestamp", response.expiry_timestamp_ms)


CREATE_DELEGATION_TOKEN: Final = declare(
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, small_response_bytes_max, _faults_of_creation
)

RENEW_DELEGATION_TOKEN: Final = declare(
    RenewDelegationTokenRequest, RenewDelegationTokenResponse, small_response_bytes_max, _faults_of_time
)

EXPIRE_DELEGATION_TOKEN: Final = declare(
    ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, small_response_bytes_max, _faults_of_time
)
