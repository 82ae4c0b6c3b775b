"""ListGroups (Kafka 0.9 and later): the groups that a broker coordinates.

Versions of ListGroups::

    0       the groups of a broker
    1       throttle time
    2       throttled responses come at once, and the client waits (KIP-219)
    3       flexible (KIP-482)
    4       states, and a filter for them (KIP-518)
    5       types, and a filter for them (KIP-848)

Source: Apache Kafka's ListGroupsRequest.json and ListGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import INT16, INT32, Array, String
from ..responses import Faults, repeated
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    """Ask a broker for its groups: all of them if the filters are empty."""

    states_filter: tuple[str, ...] = wire(Array(String()), since=4, default=())
    """States of the groups to list; empty for all (KIP-518)."""
    types_filter: tuple[str, ...] = wire(Array(String()), since=5, default=())
    """Types of the groups to list; empty for all (KIP-848)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """Entry for one group. ``protocol_type`` is ``consumer`` for groups of consumers, and empty for groups
    that have committed offsets and never had members."""

    group_id: str = wire(String())
    """Id of the group."""
    protocol_type: str = wire(String())
    """Type of the group protocol: ``consumer`` for consumers."""
    group_state: str = wire(String(), since=4, default="")
    """State of the group (KIP-518)."""
    group_type: str = wire(String(), since=5, default="")
    """Type of the group: ``classic`` or ``consumer`` (KIP-848)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    """The groups of one broker."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    groups: tuple[ListedGroup, ...] = wire(Array(Struct(ListedGroup)))
    """Groups that the broker coordinates."""


def _faults(_request: ListGroupsRequest, response: ListGroupsResponse, _version: int) -> Faults:
    return repeated(group.group_id for group in response.groups)


LIST_GROUPS: Final = Api(
    *names.LIST_GROUPS,
    ListGroupsRequest,
    ListGroupsResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 5),
    flexible_since=3,
    throttles_since=2,
)
