"""FindCoordinator: which broker keeps a consumer group, or a transactional id.

Later versions ask for several keys at once, in another shape. ``FindCoordinatorRequest.for_group`` and
``for_transaction`` fill in both shapes, and ``FindCoordinatorReply.coordinator_of`` reads both.

Versions of FindCoordinator::

    0       the coordinator of a group
    1       that of a transactional id, too; throttle time, text of an error (KIP-98)
    2       throttled replies come at once, and the client waits (KIP-219)
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
from ..replies import Faults, not_an_address, unlike
from ..schema import Struct, wire
from . import names
from .limits import small_reply_bytes_max

#: First version that asks for several keys.
SEVERAL_SINCE: Final = 4
#: Keys of one request: the reply is a small one.
_TOGETHER_MAX: Final = 1_000
#: ``key_type``: the key is a group id.
GROUP: Final = 0
#: ``key_type``: the key is a transactional id.
TRANSACTION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Ask which broker keeps a group, or a transactional id."""

    key: str = wire(String(), until=3, default="", ignorable=True)
    key_type: int = wire(INT8, since=1, default=GROUP)
    coordinator_keys: tuple[str, ...] = wire(Array(String()), since=4, default=(), ignorable=True)

    @classmethod
    def for_group(cls, group_id: str) -> FindCoordinatorRequest:
        """The request that any version can carry."""
        return cls(key=group_id, coordinator_keys=(group_id,))

    @classmethod
    def together(cls, wanted: Sequence[FindCoordinatorRequest]) -> list[FindCoordinatorRequest]:
        """As few requests for the same, from version ``SEVERAL_SINCE`` on."""
        keys = {kind: [who.key for who in wanted if who.key_type == kind] for kind in (GROUP, TRANSACTION)}
        return [
            cls(key_type=kind, coordinator_keys=tuple(own[at : at + _TOGETHER_MAX]))
            for kind, own in keys.items()
            for at in range(0, len(own), _TOGETHER_MAX)
        ]

    @classmethod
    def for_transaction(cls, transactional_id: str) -> FindCoordinatorRequest:
        """The request for a transactional id, from version 1 on. It makes the brokers' own topic of them,
        without which no other request about transactions is answered."""
        return cls(key=transactional_id, key_type=TRANSACTION, coordinator_keys=(transactional_id,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The broker that keeps the group ``key``, or the error."""

    key: str = wire(String())
    node_id: int = wire(INT32)
    host: str = wire(String())
    port: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorReply:
    """One coordinator in the fields of its own, or ``coordinators`` from version 4 on."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    error_code: int = wire(INT16, until=3, default=0)
    error_message: str | None = wire(String(), since=1, until=3, nullable_since=1, default=None)
    node_id: int = wire(INT32, until=3, default=-1)
    host: str = wire(String(), until=3, default="")
    port: int = wire(INT32, until=3, default=-1)
    coordinators: tuple[Coordinator, ...] | None = wire(Array(Struct(Coordinator)), since=4, default=None)

    def coordinator_of(self, key: str) -> Coordinator:
        """The answer for a group, or a transactional id, that was asked for, in whichever version."""
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
        """The answers for all that was asked for, each by the request that asks for it alone."""
        found = (self.coordinator_of(request.key),) if self.coordinators is None else self.coordinators
        return {replace(request, key=each.key, coordinator_keys=(each.key,)): each for each in found}


def _faults(request: FindCoordinatorRequest, reply: FindCoordinatorReply, _version: int) -> Faults:
    if reply.coordinators is not None:
        yield from unlike(request.coordinator_keys, (found.key for found in reply.coordinators))
    for found in (reply,) if reply.coordinators is None else reply.coordinators:
        if not found.error_code:
            yield from not_an_address(found.node_id, found.host, found.port)


FIND_COORDINATOR: Final = Api(
    *names.FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorReply,
    small_reply_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 4),
    flexible_since=3,
    throttles_since=2,
)
