"""The new leader of a partition in responses to Fetch and Produce (KIP-951)."""

from __future__ import annotations

from dataclasses import dataclass

from ..primitives import INT32, String
from ..schema import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """Current leader of the partition, as far as the broker knows."""

    leader_id: int = wire(INT32, default=-1)
    """Id of the leader; -1 if unknown."""
    leader_epoch: int = wire(INT32, default=-1)
    """Epoch of the leader; -1 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoint:
    """Address of a partition's ``current_leader``."""

    node_id: int = wire(INT32)
    """Id of the broker."""
    host: str = wire(String())
    """Host name of the broker."""
    port: int = wire(INT32)
    """Port of the broker."""
    rack: str | None = wire(String(), nullable_since=0, default=None)
    """Rack of the broker; None for none."""
