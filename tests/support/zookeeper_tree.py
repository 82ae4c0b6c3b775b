"""What is in ZooKeeper, in the form of the recorded trees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """One node. ``data`` is None where the node has null data, as 0.7's parents have."""

    path: str
    data: str | None
    ephemeral: bool


def read_tree(client: KazooClient, path: str = "/brokers") -> list[Node]:
    """The node at ``path`` and all below it, sorted; what differs from run to run is masked."""
    data, stat = client.get(path)
    nodes = [Node(path, _masked(data), bool(stat.ephemeralOwner))]
    for child in client.get_children(path):
        nodes += read_tree(client, f"{path}/{child}")
    return sorted(nodes)


def recorded_tree(nodes: list[dict[str, Any]]) -> list[Node]:
    """A recorded tree's part that brokers write."""
    return sorted(
        Node(node["path"], _masked(node["data"]), node["ephemeral"])
        for node in nodes
        if node["path"].startswith("/brokers")
    )


def _masked(data: bytes | str | None) -> str | None:
    """Data without start time and port."""
    text = data.decode() if isinstance(data, bytes) else data
    return None if text is None else re.sub(r"-[0-9]{13}:127.0.0.1:[0-9]+$", "-START:127.0.0.1:PORT", text)
