"""Nodes of ZooKeeper, for Kafka 0.7: requests that read and write many nodes at once, with a deadline."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from spark_kafkawire.errors import DiscoveryError, RequestTimedOut, printable, quoted
from spark_kafkawire.net.transport import Deadline

from .kazoo_client import reason

#: Requests in flight. kazoo wakes its connection thread by one byte for each request, through a socket pair
#: that takes some 270 bytes before it blocks.
REQUESTS_IN_FLIGHT: Final = 64
#: Most accepted bytes in a node. Kafka 0.7 writes less than a thousand.
NODE_BYTES_MAX: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Node:
    """The data of a node. An ephemeral node belongs to a ZooKeeper session and disappears with it."""

    data: bytes
    is_ephemeral: bool


class Tree:
    """The nodes below the chroot. Requests for many paths are pipelined; results are in the order of the
    paths.

    ``changed`` is called once, in a thread of kazoo, after a node that was read has changed, or may have
    changed because the connection broke.
    """

    def __init__(self, client: Any, deadline: Deadline, changed: Callable[[Any], None] | None = None) -> None:
        self._client = client
        self._deadline = deadline
        self._changed = changed

    def children(self, paths: Iterable[str]) -> Iterator[list[str] | None]:
        """Names of the children of each node; None for a node that does not exist."""
        wanted = list(paths)
        answers = self._pipeline(
            lambda path: self._client.get_children_async(path, watch=self._changed), wanted
        )
        for path, names in zip(wanted, answers, strict=True):
            if names is None and self._changed is not None and self.exists(path):
                self._changed(path)  # it was created in between
            yield names

    def data(self, paths: Iterable[str]) -> Iterator[bytes | None]:
        """The data of each node; None for a node that does not exist.

        Raises ``DiscoveryError`` (fatal) for more data than Kafka writes to a node.
        """
        return (None if node is None else node.data for node in self.nodes(paths))

    def nodes(self, paths: Iterable[str]) -> Iterator[Node | None]:
        """The nodes, with their data and kind; None for a node that does not exist. Raises as ``data``
        does."""
        wanted = list(paths)
        answers = self._pipeline(lambda path: self._client.get_async(path, watch=self._changed), wanted)
        for path, answer in zip(wanted, answers, strict=True):
            data = b"" if answer is None else answer[0] or b""
            if len(data) > NODE_BYTES_MAX:
                raise DiscoveryError(
                    f"node {printable(path)} holds {len(data)} bytes, and no node of Kafka 0.7 has more than"
                    f" {NODE_BYTES_MAX}: is this another program's tree?"
                )
            yield None if answer is None else Node(data, is_ephemeral=bool(answer[1].ephemeralOwner))

    def exists(self, path: str) -> bool:
        """True if the node exists."""
        return (
            next(self._pipeline(lambda path: self._client.exists_async(path, watch=self._changed), [path]))
            is not None
        )

    def put(self, nodes: Mapping[str, bytes]) -> None:
        """Write persistent nodes. Missing nodes are created, and so are the nodes above them, with null data
        as by the clients of 0.7."""
        missing = [
            path
            for path, stat in zip(
                nodes, self._pipeline(lambda path: self._set(path, nodes), nodes), strict=True
            )
            if stat is None
        ]
        for parent in sorted({parent for path in missing for parent in _parents(path)}):
            self._make(parent, None)
        for path in missing:
            self._make(path, nodes[path])

    def claim(self, path: str, data: bytes) -> bool:
        """Create an ephemeral node, and the nodes above it. False if it existed before."""
        with contextlib.suppress(NodeExistsError):
            if self._answer(path, self._client.create_async(path, data, ephemeral=True)) is not None:
                return True
            for parent in _parents(path):
                self._make(parent, None)
            if self._answer(path, self._client.create_async(path, data, ephemeral=True)) is not None:
                return True
            raise DiscoveryError("the chroot (the path after the hosts) is not in ZooKeeper")
        return False

    def remove(self, paths: Iterable[str]) -> None:
        """Remove nodes, which may no longer exist."""
        for _ in self._pipeline(self._client.delete_async, paths):
            pass

    def _set(self, path: str, nodes: Mapping[str, bytes]) -> Any:
        return self._client.set_async(path, nodes[path])

    def _make(self, path: str, data: bytes | None) -> None:
        # Another client may have created the node meanwhile: a parent then exists, and data is written again.
        with contextlib.suppress(NodeExistsError):
            self._answer(path, self._client.create_async(path, data))
            return
        if data is not None:
            self.put({path: data})

    def _pipeline(self, start: Callable[[str], Any], paths: Iterable[str]) -> Iterator[Any]:
        waiting = iter(paths)
        pending = deque((path, start(path)) for path in islice(waiting, REQUESTS_IN_FLIGHT))
        while pending:
            yield self._answer(*pending.popleft())
            pending.extend((path, start(path)) for path in islice(waiting, 1))

    def _answer(self, path: str, pending: Any) -> Any:
        try:
            return pending.get(timeout=self._deadline.remaining_s())
        except NoNodeError:
            return None
        except (NoAuthError, AuthFailedError) as error:
            raise DiscoveryError(
                f"ZooKeeper denies access to {printable(path)}; check the option zookeeper.auth"
            ) from error
        except (KazooException, KazooTimeoutError, RequestTimedOut):
            raise
        except Exception as error:  # kazoo raises arbitrary exceptions for invalid bytes
            raise DiscoveryError(
                f"the answer for {printable(path)} is not ZooKeeper's: {quoted(reason(error))}"
            ) from error


def _parents(path: str) -> list[str]:
    """Paths of the parents: ``/a`` and ``/a/b`` for ``/a/b/c``."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]
