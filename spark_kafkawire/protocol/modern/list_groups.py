"""ListGroups: the groups that a broker coordinates.

Versions of ListGroups::

    0       the groups of a broker
    1       throttle time
    2       throttled replies come at once, and the client waits (KIP-219)
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
from ..replies import Faults, repeated
from ..schema import Struct, wire
from . import names
from .limits import reply_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    """Ask a broker for its groups: all of them where the filters are empty."""

    states_filter: tuple[str, ...] = wire(Array(String()), since=4, default=())
    types_filter: tuple[str, ...] = wire(Array(String()), since=5, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group. ``protocol_type`` is ``consumer`` for groups of consumers, and empty for those whose
    offsets were committed from outside only."""

    group_id: str = wire(String())
    protocol_type: str = wire(String())
    group_state: str = wire(String(), since=4, default="")
    group_type: str = wire(String(), since=5, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsReply:
    """The groups of one broker."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    error_code: int = wire(INT16)
    groups: tuple[ListedGroup, ...] = wire(Array(Struct(ListedGroup)))


def _faults(_request: ListGroupsRequest, reply: ListGroupsReply, _version: int) -> Faults:
    return repeated(group.group_id for group in reply.groups)


LIST_GROUPS: Final = Api(
    *names.LIST_GROUPS,
    ListGroupsRequest,
    ListGroupsReply,
    reply_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 5),
    flexible_since=3,
    throttles_since=2,
)
