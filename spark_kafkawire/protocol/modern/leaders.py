"""Who leads a partition that a broker does not lead any more, as replies to Fetch and Produce tell it."""

from __future__ import annotations

from dataclasses import dataclass

from ..primitives import INT32, String
from ..schema import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """Who leads the partition now, as far as the broker knows."""

    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoint:
    """Where a partition's ``current_leader`` listens."""

    node_id: int = wire(INT32)
    host: str = wire(String())
    port: int = wire(INT32)
    rack: str | None = wire(String(), nullable_since=0, default=None)
