"""Metadata (Kafka 0.8 and later): the brokers of a cluster, its topics, their partitions and leaders.

Versions of Metadata::

    0       brokers, and topics with their partitions; an empty list asks for all
    1       racks, the controller, internal topics; null asks for all
    2       cluster id (KIP-78)
    3       throttle time (KIP-124)
    4       whether the request may create topics
    5       offline replicas (KIP-112)
    6       throttled responses come at once, and the client waits (KIP-219)
    7       epochs of leaders (KIP-320)
    8       operations that the user may do (KIP-430)
    9       flexible (KIP-482)
    10      ids of topics (KIP-516)
    11      without the operations that the user may do to the cluster (KIP-700)
    12      topics asked for by id (KIP-516)
    13      an error of the whole response (KIP-1102)
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX
from ..primitives import BOOL, INT16, INT32, UUID, Array, String
from ..responses import Faults, below, find_repeated, not_an_address, not_topics, unlike
from ..schema import Struct, wire
from . import declare
from .limits import NO_TOPIC_ID, response_bytes_max

#: ``topic_authorized_operations`` that were not requested.
NOT_ASKED: Final = -(1 << 31)
#: Last version that returns the operations that the user may do to the cluster.
_CLUSTER_OPERATIONS_UNTIL: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequestTopic:
    """A topic by its name; from version 12 on also by its id, with the name None."""

    topic_id: uuid.UUID = wire(UUID, since=10, default=NO_TOPIC_ID)
    name: str | None = wire(String(), nullable_since=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Ask for some topics, or for all if ``topics`` is None.

    Before version 4 a broker creates the requested topics that are missing, if its settings allow
    it; from version 4 on ``allow_auto_topic_creation`` can forbid that.
    """

    # Version 0 has no null: there the empty list asks for all topics.
    topics: tuple[MetadataRequestTopic, ...] | None = wire(
        Array(Struct(MetadataRequestTopic)), nullable_since=1, null_before=()
    )
    allow_auto_topic_creation: bool = wire(BOOL, since=4, default=True, ignorable=True)
    include_cluster_authorized_operations: bool = wire(
        BOOL, since=8, until=_CLUSTER_OPERATIONS_UNTIL, default=False
    )
    include_topic_authorized_operations: bool = wire(BOOL, since=8, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBroker:
    """A live broker and the address that it advertises to clients."""

    node_id: int = wire(INT32)
    host: str = wire(String())
    port: int = wire(INT32)
    rack: str | None = wire(String(), since=1, nullable_since=1, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPartition:
    """A partition; ``leader_id`` is -1 while it has no leader, ``leader_epoch`` is -1 if it is not known."""

    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=7, default=-1)
    replica_nodes: tuple[int, ...] = wire(Array(INT32))
    isr_nodes: tuple[int, ...] = wire(Array(INT32))
    """Brokers whose replicas are in sync."""
    offline_replicas: tuple[int, ...] = wire(Array(INT32), since=5, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopic:
    """A topic; ``name`` is None if the broker does not know the requested id."""

    error_code: int = wire(INT16)
    name: str | None = wire(String(), nullable_since=12)
    topic_id: uuid.UUID = wire(UUID, since=10, default=NO_TOPIC_ID)
    is_internal: bool = wire(BOOL, since=1, default=False)
    partitions: tuple[MetadataPartition, ...] = wire(Array(Struct(MetadataPartition)))
    topic_authorized_operations: int = wire(INT32, since=8, default=NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """The live brokers, and the requested topics, unknown ones with their error."""

    throttle_time_ms: int = wire(INT32, since=3, default=0)
    brokers: tuple[MetadataBroker, ...] = wire(Array(Struct(MetadataBroker)))
    cluster_id: str | None = wire(String(), since=2, nullable_since=2, default=None)
    controller_id: int = wire(INT32, since=1, default=-1)
    topics: tuple[MetadataTopic, ...] = wire(Array(Struct(MetadataTopic)))
    cluster_authorized_operations: int = wire(
        INT32, since=8, until=_CLUSTER_OPERATIONS_UNTIL, default=NOT_ASKED
    )
    error_code: int = wire(INT16, since=13, default=0)


def _version_max(request: MetadataRequest) -> int:
    return _CLUSTER_OPERATIONS_UNTIL if request.include_cluster_authorized_operations else VERSION_MAX


def _faults(request: MetadataRequest, response: MetadataResponse, _version: int) -> Faults:
    yield from find_repeated(broker.node_id for broker in response.brokers)
    for broker in response.brokers:
        yield from not_an_address(broker.node_id, broker.host, broker.port)
    yield from _topic_faults(request, response)
    for topic in response.topics:
        yield from find_repeated((topic.name, partition.partition_index) for partition in topic.partitions)
        for partition in topic.partitions:
            yield from below(0, "partition", partition.partition_index, topic.name)
            yield from below(-1, "leader", partition.leader_id, topic.name)
            yield from below(-1, "leader epoch", partition.leader_epoch, topic.name)


def _topic_faults(request: MetadataRequest, response: MetadataResponse) -> Faults:
    came = [topic.name for topic in response.topics if topic.name is not None]
    # All topics were requested. An empty list means that in version 0, and to noida-db (0.2) later, too.
    if not request.topics:
        yield from find_repeated(came)
        yield from not_topics(came)
        return
    ids = {topic.topic_id for topic in request.topics if topic.name is None}
    asked = [topic.name for topic in request.topics if topic.name is not None]
    asked += [topic.name for topic in response.topics if topic.topic_id in ids and topic.name is not None]
    # Brokers leave out topics that their user may not see.
    yield from unlike(asked, came, may_lack=True)


METADATA: Final = declare(
    MetadataRequest, MetadataResponse, response_bytes_max, _faults, version_max=_version_max, is_polled=True
)
