"""The content of ZooKeeper, in the form of the recorded trees."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient

from spark_kafkawire.broker.cluster import session_password


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


@contextlib.contextmanager
def expired(connect: str, broker_id: int, *, topics_only: bool = False) -> Iterator[None]:
    """ZooKeeper as it is while a broker's session is expired, which serves meanwhile: both of its
    registrations are gone. ``topics_only``: as it is when the broker has registered itself anew, and not
    its topics yet."""
    client = KazooClient(connect)
    client.start()
    try:
        topics = [f"/brokers/topics/{topic}" for topic in client.get_children("/brokers/topics")]
        parents = topics if topics_only else ["/brokers/ids", *topics]
        held = [
            f"{parent}/{broker_id}" for parent in parents if str(broker_id) in client.get_children(parent)
        ]
        contents = {path: client.get(path)[0] for path in held}
        for path in held:
            client.delete(path)
        yield
        for path in held:
            client.create(path, contents[path])
    finally:
        client.stop()
        client.close()


def expire_session(connect: str, session_id: int) -> None:
    """End one session as if it had timed out: its ephemeral nodes go, and its client is told."""
    known = session_id & (1 << 64) - 1
    client = KazooClient(connect, client_id=(session_id, session_password(known)))
    client.start()
    client.stop()
    client.close()


def remove_topic(connect: str, topic: str) -> None:
    """Remove a topic whose brokers are stopped, as who removes it by hand does."""
    client = KazooClient(connect)
    client.start()
    try:
        client.delete(f"/brokers/topics/{topic}", recursive=True)
    finally:
        client.stop()
        client.close()
