"""DescribeGroups (Kafka 0.9 and later): the state and the members of consumer groups.

A group of the new consumer protocol (KIP-848) appears without members here:
``group_members`` returns those.

Versions of DescribeGroups::

    0       groups and their members
    1       throttle time
    2       throttled responses come at once, and the client waits (KIP-219)
    3       operations that the user may do (KIP-430)
    4       static members (KIP-345)
    5       flexible (KIP-482)
    6       GROUP_ID_NOT_FOUND in place of the state ``Dead`` (KIP-1043)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX
from ..primitives import BOOL, BYTES, INT16, INT32, Array, Buffer, String
from ..responses import Faults, find_repeated, unlike
from ..schema import Struct, wire
from . import declare
from .error_codes import ErrorCode
from .limits import response_bytes_max
from .metadata import NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest:
    """Ask a coordinator for groups that it keeps."""

    groups: tuple[str, ...] = wire(Array(String()))
    include_authorized_operations: bool = wire(BOOL, since=3, default=False, ignorable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """Member of a group: its identity and its host. The two buffers are the consumers' own."""

    member_id: str = wire(String())
    group_instance_id: str | None = wire(String(), since=4, nullable_since=4, default=None)
    client_id: str = wire(String())
    client_host: str = wire(String())
    member_metadata: Buffer = wire(BYTES)
    member_assignment: Buffer = wire(BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """Description of one group; a group that does not exist has the state ``Dead``."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), since=6, nullable_since=6, default=None)
    group_id: str = wire(String())
    group_state: str = wire(String())
    protocol_type: str = wire(String())
    """Type of the group protocol: ``consumer`` for consumers."""
    protocol_data: str = wire(String())
    """Name of the protocol in use, such as the assignor."""
    members: tuple[GroupMember, ...] = wire(Array(Struct(GroupMember)))
    authorized_operations: int = wire(INT32, since=3, default=NOT_ASKED)

    @property
    def refusal(self) -> int:
        """Error code; 0 also for a group that does not exist, in any version."""
        return 0 if self.error_code == ErrorCode.GROUP_ID_NOT_FOUND else self.error_code


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse:
    """The requested groups."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    groups: tuple[DescribedGroup, ...] = wire(Array(Struct(DescribedGroup)))


def _faults(request: DescribeGroupsRequest, response: DescribeGroupsResponse, _version: int) -> Faults:
    yield from unlike(request.groups, (group.group_id for group in response.groups))
    for group in response.groups:
        yield from find_repeated((group.group_id, member.member_id) for member in group.members)


def _version_max(request: DescribeGroupsRequest) -> int:
    # Later brokers tell nothing of the operations on a group that does not exist.
    return 5 if request.include_authorized_operations else VERSION_MAX


DESCRIBE_GROUPS: Final = declare(
    DescribeGroupsRequest, DescribeGroupsResponse, response_bytes_max, _faults, version_max=_version_max
)
