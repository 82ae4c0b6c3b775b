"""FindCoordinator (modern Kafka): the broker that coordinates a consumer group or a transactional id.

Later versions ask for several keys at once, in another shape. ``FindCoordinatorRequest.for_group`` and
``for_transaction`` fill in both shapes, and ``FindCoordinatorResponse.coordinator_of`` reads both.

Versions of FindCoordinator::

    0       the coordinator of a group
    1       the coordinator of a transactional id, too; throttle time, text of an error (KIP-98)
    2       throttled responses come at once, and the client waits (KIP-219)
    3       flexible (KIP-482)
    4       several keys (KIP-699)
    5       not spoken: TRANSACTION_ABORTABLE may come (KIP-890)
    6       not spoken: share groups (KIP-932)

Source: Apache Kafka's FindCoordinatorRequest.json and FindCoordinatorResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..api import Api, VersionRange
from ..primitives import INT8, INT16, INT32, Array, String
from ..responses import Faults, not_an_address, unlike
from ..schema import Struct, wire
from . import names
from .limits import small_response_bytes_max

#: First version that asks for several keys.
SEVERAL_SINCE: Final = 4
#: Keys of one request: the response is a small one.
_TOGETHER_MAX: Final = 1_000
#: ``key_type``: the key is a group id.
GROUP: Final = 0
#: ``key_type``: the key is a transactional id.
TRANSACTION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Ask for the broker that coordinates a group or a transactional id."""

    key: str = wire(String(), until=3, default="", ignorable=True)
    """Group id or transactional id."""
    key_type: int = wire(INT8, since=1, default=GROUP)
    """Type of the key: ``GROUP`` or ``TRANSACTION`` (KIP-98)."""
    coordinator_keys: tuple[str, ...] = wire(Array(String()), since=4, default=(), ignorable=True)
    """Group ids or transactional ids (KIP-699)."""

    @classmethod
    def for_group(cls, group_id: str) -> FindCoordinatorRequest:
        """The request that any version can carry."""
        return cls(key=group_id, coordinator_keys=(group_id,))

    @classmethod
    def together(cls, wanted: Sequence[FindCoordinatorRequest]) -> list[FindCoordinatorRequest]:
        """Combine requests into as few as possible, from version ``SEVERAL_SINCE`` on."""
        keys = {kind: [who.key for who in wanted if who.key_type == kind] for kind in (GROUP, TRANSACTION)}
        return [
            cls(key_type=kind, coordinator_keys=tuple(own[at : at + _TOGETHER_MAX]))
            for kind, own in keys.items()
            for at in range(0, len(own), _TOGETHER_MAX)
        ]

    @classmethod
    def for_transaction(cls, transactional_id: str) -> FindCoordinatorRequest:
        """The request for a transactional id, from version 1 on. It makes the brokers create their internal
        topic of transactions: they answer no other request about transactions without it."""
        return cls(key=transactional_id, key_type=TRANSACTION, coordinator_keys=(transactional_id,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The coordinator of ``key``, or the error."""

    key: str = wire(String())
    """Group id or transactional id."""
    node_id: int = wire(INT32)
    """Id of the coordinator."""
    host: str = wire(String())
    """Host name of the coordinator."""
    port: int = wire(INT32)
    """Port of the coordinator."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    """Text of the error; None if the broker gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """A coordinator in the fields of the response itself, or ``coordinators`` from version 4 on."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    error_code: int = wire(INT16, until=3, default=0)
    """Error code; 0 if there was no error."""
    error_message: str | None = wire(String(), since=1, until=3, nullable_since=1, default=None)
    """Text of the error; None if the broker gives none."""
    node_id: int = wire(INT32, until=3, default=-1)
    """Id of the coordinator."""
    host: str = wire(String(), until=3, default="")
    """Host name of the coordinator."""
    port: int = wire(INT32, until=3, default=-1)
    """Port of the coordinator."""
    coordinators: tuple[Coordinator, ...] | None = wire(Array(Struct(Coordinator)), since=4, default=None)
    """Coordinator of each key; None before version 4 (KIP-699)."""

    def coordinator_of(self, key: str) -> Coordinator:
        """The response for a requested group or transactional id, in any version."""
        if self.coordinators is None:
            return Coordinator(
                key=key,
                node_id=self.node_id,
                host=self.host,
                port=self.port,
                error_code=self.error_code,
                error_message=self.error_message,
            )
        return next(coordinator for coordinator in self.coordinators if coordinator.key == key)

    def coordinators_of(self, request: FindCoordinatorRequest) -> dict[FindCoordinatorRequest, Coordinator]:
        """The coordinators of all requested keys, by the request for each single key."""
        found = (self.coordinator_of(request.key),) if self.coordinators is None else self.coordinators
        return {replace(request, key=each.key, coordinator_keys=(each.key,)): each for each in found}


def _faults(request: FindCoordinatorRequest, response: FindCoordinatorResponse, _version: int) -> Faults:
    if response.coordinators is not None:
        yield from unlike(request.coordinator_keys, (found.key for found in response.coordinators))
    for found in (response,) if response.coordinators is None else response.coordinators:
        if not found.error_code:
            yield from not_an_address(found.node_id, found.host, found.port)


FIND_COORDINATOR: Final = Api(
    *names.FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    small_response_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 4),
    flexible_since=3,
    throttles_since=2,
)
