"""Metadata: the brokers of a cluster, its topics, their partitions, and who leads them.

Versions of Metadata::

    0       brokers, and topics with their partitions; an empty list asks for all
    1       racks, the controller, internal topics; null asks for all
    2       cluster id (KIP-78)
    3       throttle time (KIP-124)
    4       whether topics may be created by being asked for
    5       offline replicas (KIP-112)
    6       throttled replies come at once, and the client waits (KIP-219)
    7       epochs of leaders (KIP-320)
    8       what the user may do (KIP-430)
    9       flexible (KIP-482)
    10      ids of topics (KIP-516)
    11      no more what the user may do to the cluster (KIP-700)
    12      topics asked for by id (KIP-516)
    13      not spoken: an error of the whole reply (KIP-1102)

Source: Apache Kafka's MetadataRequest.json and MetadataResponse.json.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT16, INT32, UUID, Array, String
from ..replies import Faults, below, not_an_address, not_topics, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import NO_TOPIC_ID, reply_bytes_max

#: ``topic_authorized_operations`` that were not asked for.
NOT_ASKED: Final = -(1 << 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequestTopic:
    """A topic by its name; by its id from version 12 on, the name being None."""

    topic_id: uuid.UUID = wire(UUID, since=10, default=NO_TOPIC_ID)
    name: str | None = wire(String(), nullable_since=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Ask for some topics, or for all where ``topics`` is None.

    Brokers before version 4 create a topic that they are asked for, if they are set up so;
    ``allow_auto_topic_creation`` says no to that from there on.
    """

    # Version 0 has no null: there the empty list asks for all topics.
    topics: tuple[MetadataRequestTopic, ...] | None = wire(
        Array(Struct(MetadataRequestTopic)), nullable_since=1, null_before=()
    )
    allow_auto_topic_creation: bool = wire(BOOL, since=4, default=True, ignorable=True)
    include_cluster_authorized_operations: bool = wire(BOOL, since=8, until=10, default=False)
    include_topic_authorized_operations: bool = wire(BOOL, since=8, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBroker:
    """A live broker and the address that it wants its clients to use."""

    node_id: int = wire(INT32)
    host: str = wire(String())
    port: int = wire(INT32)
    rack: str | None = wire(String(), since=1, nullable_since=1, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPartition:
    """A partition; ``leader_id`` is -1 while none leads, ``leader_epoch`` where it is not known."""

    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=7, default=-1)
    replica_nodes: tuple[int, ...] = wire(Array(INT32))
    isr_nodes: tuple[int, ...] = wire(Array(INT32))
    offline_replicas: tuple[int, ...] = wire(Array(INT32), since=5, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopic:
    """A topic; ``name`` is None for an id that the broker does not know."""

    error_code: int = wire(INT16)
    name: str | None = wire(String(), nullable_since=12)
    topic_id: uuid.UUID = wire(UUID, since=10, default=NO_TOPIC_ID)
    is_internal: bool = wire(BOOL, since=1, default=False)
    partitions: tuple[MetadataPartition, ...] = wire(Array(Struct(MetadataPartition)))
    topic_authorized_operations: int = wire(INT32, since=8, default=NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataReply:
    """The live brokers, and the topics that were asked for, unknown ones with their error."""

    throttle_time_ms: int = wire(INT32, since=3, default=0)
    brokers: tuple[MetadataBroker, ...] = wire(Array(Struct(MetadataBroker)))
    cluster_id: str | None = wire(String(), since=2, nullable_since=2, default=None)
    controller_id: int = wire(INT32, since=1, default=-1)
    topics: tuple[MetadataTopic, ...] = wire(Array(Struct(MetadataTopic)))
    cluster_authorized_operations: int = wire(INT32, since=8, until=10, default=NOT_ASKED)


def _faults(request: MetadataRequest, reply: MetadataReply, _version: int) -> Faults:
    yield from repeated(broker.node_id for broker in reply.brokers)
    for broker in reply.brokers:
        yield from not_an_address(broker.node_id, broker.host, broker.port)
    yield from _topic_faults(request, reply)
    for topic in reply.topics:
        yield from repeated((topic.name, partition.partition_index) for partition in topic.partitions)
        for partition in topic.partitions:
            yield from below(0, "partition", partition.partition_index, topic.name)
            yield from below(-1, "leader", partition.leader_id, topic.name)
            yield from below(-1, "leader epoch", partition.leader_epoch, topic.name)


def _topic_faults(request: MetadataRequest, reply: MetadataReply) -> Faults:
    came = [topic.name for topic in reply.topics if topic.name is not None]
    # All were asked for; by none at all version 0 says the same, and noida-db (0.2) hears it later, too.
    if not request.topics:
        yield from repeated(came)
        yield from not_topics(came)
        return
    ids = {topic.topic_id for topic in request.topics if topic.name is None}
    asked = [topic.name for topic in request.topics if topic.name is not None]
    asked += [topic.name for topic in reply.topics if topic.topic_id in ids and topic.name is not None]
    # Brokers leave out topics that their user may not see.
    yield from unlike(asked, came, may_lack=True)


METADATA: Final = Api(
    *names.METADATA,
    MetadataRequest,
    MetadataReply,
    reply_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 12),
    flexible_since=9,
    throttles_since=6,
)
