"""ConsumerGroupDescribe (Kafka 3.7 and later): the members of a group of the new consumer protocol (KIP-848).

Brokers compute the assignments of such a group. DescribeGroups shows it without members.

Versions of ConsumerGroupDescribe::

    0       flexible (KIP-482), throttled responses come at once; groups and their members (KIP-848)
    1       by which protocol a member joined (KIP-1099)

Source: Apache Kafka's ConsumerGroupDescribeRequest.json and ConsumerGroupDescribeResponse.json.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT8, INT16, INT32, UUID, Array, String
from ..responses import Faults, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max
from .metadata import NOT_ASKED

#: ``member_type`` from brokers that do not report it.
_UNKNOWN_TYPE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    """Ask a coordinator for groups that it keeps."""

    group_ids: tuple[str, ...] = wire(Array(String()))
    """Ids of the groups to describe."""
    include_authorized_operations: bool = wire(BOOL, default=False)
    """True to return the operations that the user may do to the group (KIP-430)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopic:
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID)
    """Id of the topic (KIP-516)."""
    topic_name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[int, ...] = wire(Array(INT32))
    """Indexes of the assigned partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """Partitions that a member reads."""

    topic_partitions: tuple[AssignedTopic, ...] = wire(Array(Struct(AssignedTopic)))
    """Assigned partitions by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """Member of a consumer group: its identity, its host, its current and its target assignment.

    ``member_type`` is 0 for a member that joined with the classic protocol, and 1 for others.
    """

    member_id: str = wire(String())
    """Id of the member, which the coordinator gave."""
    instance_id: str | None = wire(String(), nullable_since=0, default=None)
    """``group.instance.id`` of a static member; None for others."""
    rack_id: str | None = wire(String(), nullable_since=0, default=None)
    """Rack of the member."""
    member_epoch: int = wire(INT32)
    """Epoch of the member: the assignment that it has taken over."""
    client_id: str = wire(String())
    """``client.id`` of the member."""
    client_host: str = wire(String())
    """Host of the member."""
    subscribed_topic_names: tuple[str, ...] = wire(Array(String()))
    """Names of the subscribed topics."""
    subscribed_topic_regex: str | None = wire(String(), nullable_since=0, default=None)
    """Regular expression of the subscribed topics; None for a list."""
    assignment: MemberAssignment = wire(Struct(MemberAssignment))
    """Current assignment."""
    target_assignment: MemberAssignment = wire(Struct(MemberAssignment))
    """Assignment that the member moves to."""
    member_type: int = wire(INT8, since=1, default=_UNKNOWN_TYPE)
    """Protocol by which the member joined; -1 if unknown (KIP-1099)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """Description of one group, or the error: ``GROUP_ID_NOT_FOUND`` also for a group of the classic kind."""

    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    """Text of the error; None if the broker gives none."""
    group_id: str = wire(String())
    """Id of the group."""
    group_state: str = wire(String())
    """State of the group."""
    group_epoch: int = wire(INT32)
    """Epoch of the group, which rises when members or subscriptions change."""
    assignment_epoch: int = wire(INT32)
    """Epoch of the target assignment."""
    assignor_name: str = wire(String())
    """Name of the assignor in use."""
    members: tuple[ConsumerGroupMember, ...] = wire(Array(Struct(ConsumerGroupMember)))
    """Members of the group."""
    authorized_operations: int = wire(INT32, default=NOT_ASKED)
    """Bits of the operations that the user may do to the group (KIP-430)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    """The requested groups."""

    throttle_time_ms: int = wire(INT32, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    groups: tuple[DescribedConsumerGroup, ...] = wire(Array(Struct(DescribedConsumerGroup)))
    """Description of each group."""


def _faults(
    request: ConsumerGroupDescribeRequest, response: ConsumerGroupDescribeResponse, _version: int
) -> Faults:
    yield from unlike(request.group_ids, (group.group_id for group in response.groups))
    for group in response.groups:
        yield from repeated((group.group_id, member.member_id) for member in group.members)


CONSUMER_GROUP_DESCRIBE: Final = Api(
    *names.CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 1),
    flexible_since=0,
    throttles_since=0,
)
