"""ConsumerGroupDescribe: who is in a consumer group that brokers coordinate themselves (KIP-848).

Its members are not those of DescribeGroups, where such a group seems to have none.

Versions of ConsumerGroupDescribe::

    0       flexible (KIP-482), throttled replies come at once; groups and their members (KIP-848)
    1       by which protocol a member joined (KIP-1099)

Source: Apache Kafka's ConsumerGroupDescribeRequest.json and ConsumerGroupDescribeResponse.json.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT8, INT16, INT32, UUID, Array, String
from ..replies import Faults, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import reply_bytes_max
from .metadata import NOT_ASKED

#: ``member_type`` of brokers that do not tell it.
_UNKNOWN_TYPE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    """Ask a coordinator for groups that it keeps."""

    group_ids: tuple[str, ...] = wire(Array(String()))
    include_authorized_operations: bool = wire(BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopic:
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID)
    topic_name: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """What a member reads."""

    topic_partitions: tuple[AssignedTopic, ...] = wire(Array(Struct(AssignedTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """One consumer: who it is, where it runs, what it reads and is to read.

    ``member_type`` is 0 for one that joined by the protocol of older clients, and 1 for others.
    """

    member_id: str = wire(String())
    instance_id: str | None = wire(String(), nullable_since=0, default=None)
    rack_id: str | None = wire(String(), nullable_since=0, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(String())
    client_host: str = wire(String())
    subscribed_topic_names: tuple[str, ...] = wire(Array(String()))
    subscribed_topic_regex: str | None = wire(String(), nullable_since=0, default=None)
    assignment: MemberAssignment = wire(Struct(MemberAssignment))
    target_assignment: MemberAssignment = wire(Struct(MemberAssignment))
    member_type: int = wire(INT8, since=1, default=_UNKNOWN_TYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """One group, or why it is not told: ``GROUP_ID_NOT_FOUND`` also for groups of the older kind."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    group_id: str = wire(String())
    group_state: str = wire(String())
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(String())
    members: tuple[ConsumerGroupMember, ...] = wire(Array(Struct(ConsumerGroupMember)))
    authorized_operations: int = wire(INT32, default=NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeReply:
    """The groups that were asked for."""

    throttle_time_ms: int = wire(INT32, default=0)
    groups: tuple[DescribedConsumerGroup, ...] = wire(Array(Struct(DescribedConsumerGroup)))


def _faults(
    request: ConsumerGroupDescribeRequest, reply: ConsumerGroupDescribeReply, _version: int
) -> Faults:
    yield from unlike(request.group_ids, (group.group_id for group in reply.groups))
    for group in reply.groups:
        yield from repeated((group.group_id, member.member_id) for member in group.members)


CONSUMER_GROUP_DESCRIBE: Final = Api(
    *names.CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeReply,
    reply_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 1),
    flexible_since=0,
    throttles_since=0,
)
