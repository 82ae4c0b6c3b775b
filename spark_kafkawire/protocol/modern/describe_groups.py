"""DescribeGroups: the state of consumer groups and who is in them.

A group that brokers coordinate themselves (KIP-848) is answered as one without members: those are told by
``consumer_group_describe``.

Versions of DescribeGroups::

    0       groups and their members
    1       throttle time
    2       throttled replies come at once, and the client waits (KIP-219)
    3       what the user may do (KIP-430)
    4       static members (KIP-345)
    5       flexible (KIP-482)
    6       not spoken: GROUP_ID_NOT_FOUND in place of the state ``Dead`` (KIP-1043)

Source: Apache Kafka's DescribeGroupsRequest.json and DescribeGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, BYTES, INT16, INT32, Array, Buffer, String
from ..replies import Faults, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import reply_bytes_max
from .metadata import NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest:
    """Ask a coordinator for groups that it keeps."""

    groups: tuple[str, ...] = wire(Array(String()))
    include_authorized_operations: bool = wire(BOOL, since=3, default=False, ignorable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One consumer: who it is and where it runs. The two buffers are the consumers' own."""

    member_id: str = wire(String())
    group_instance_id: str | None = wire(String(), since=4, nullable_since=4, default=None)
    client_id: str = wire(String())
    client_host: str = wire(String())
    member_metadata: Buffer = wire(BYTES)
    member_assignment: Buffer = wire(BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """One group; a group that there is not has the state ``Dead``."""

    error_code: int = wire(INT16)
    group_id: str = wire(String())
    group_state: str = wire(String())
    protocol_type: str = wire(String())
    protocol_data: str = wire(String())
    members: tuple[GroupMember, ...] = wire(Array(Struct(GroupMember)))
    authorized_operations: int = wire(INT32, since=3, default=NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsReply:
    """The groups that were asked for."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    groups: tuple[DescribedGroup, ...] = wire(Array(Struct(DescribedGroup)))


def _faults(request: DescribeGroupsRequest, reply: DescribeGroupsReply, _version: int) -> Faults:
    yield from unlike(request.groups, (group.group_id for group in reply.groups))
    for group in reply.groups:
        yield from repeated((group.group_id, member.member_id) for member in group.members)


DESCRIBE_GROUPS: Final = Api(
    *names.DESCRIBE_GROUPS,
    DescribeGroupsRequest,
    DescribeGroupsReply,
    reply_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 5),
    flexible_since=5,
    throttles_since=2,
)
