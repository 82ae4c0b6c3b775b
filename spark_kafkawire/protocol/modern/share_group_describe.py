"""ShareGroupDescribe (Kafka 4.1 and later): the members of a share group (KIP-932).

Several members of such a group may read one partition.

Versions of ShareGroupDescribe::

    0       not spoken: an early access of Kafka 4.0; throttled responses come at once
    1       flexible (KIP-482); share groups and their members (KIP-932)

Source: Apache Kafka's ShareGroupDescribeRequest.json and ShareGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT16, INT32, Array, String
from ..responses import Faults, repeated, unlike
from ..schema import Struct, wire
from . import names
from .consumer_group_describe import MemberAssignment
from .limits import response_bytes_max
from .metadata import NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest:
    """Ask a coordinator for share groups that it keeps."""

    group_ids: tuple[str, ...] = wire(Array(String()))
    """Ids of the groups to describe."""
    include_authorized_operations: bool = wire(BOOL, default=False)
    """True to return the operations that the user may do to the group (KIP-430)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMember:
    """Member of a share group: its identity, its host and its assignment."""

    member_id: str = wire(String())
    """Id of the member, which it chose."""
    rack_id: str | None = wire(String(), nullable_since=1, default=None)
    """Rack of the member."""
    member_epoch: int = wire(INT32)
    """Epoch of the member: the assignment that it has taken over."""
    client_id: str = wire(String())
    """``client.id`` of the member."""
    client_host: str = wire(String())
    """Host of the member."""
    subscribed_topic_names: tuple[str, ...] = wire(Array(String()))
    """Names of the subscribed topics."""
    assignment: MemberAssignment = wire(Struct(MemberAssignment))
    """Current assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    """Description of one group, or the error: ``GROUP_ID_NOT_FOUND`` also for a group of another kind."""

    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    error_message: str | None = wire(String(), nullable_since=1, default=None)
    """Text of the error; None if the broker gives none."""
    group_id: str = wire(String())
    """Id of the group."""
    group_state: str = wire(String())
    """State of the group."""
    group_epoch: int = wire(INT32)
    """Epoch of the group, which rises when members or subscriptions change."""
    assignment_epoch: int = wire(INT32)
    """Epoch of the assignment."""
    assignor_name: str = wire(String())
    """Name of the assignor in use."""
    members: tuple[ShareGroupMember, ...] = wire(Array(Struct(ShareGroupMember)))
    """Members of the group."""
    authorized_operations: int = wire(INT32, default=NOT_ASKED)
    """Bits of the operations that the user may do to the group (KIP-430)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeResponse:
    """The requested groups."""

    throttle_time_ms: int = wire(INT32, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    groups: tuple[DescribedShareGroup, ...] = wire(Array(Struct(DescribedShareGroup)))
    """Description of each group."""


def _faults(
    request: ShareGroupDescribeRequest, response: ShareGroupDescribeResponse, _version: int
) -> Faults:
    yield from unlike(request.group_ids, (group.group_id for group in response.groups))
    for group in response.groups:
        yield from repeated((group.group_id, member.member_id) for member in group.members)


SHARE_GROUP_DESCRIBE: Final = Api(
    *names.SHARE_GROUP_DESCRIBE,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(1, 1),
    flexible_since=1,
    throttles_since=0,
)
