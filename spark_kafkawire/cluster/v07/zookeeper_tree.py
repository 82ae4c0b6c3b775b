"""The nodes of a ZooKeeper, many at once, with a deadline: what a session is used for."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from ...errors import DiscoveryError, RequestTimedOut, said, shown
from ...net.transport import Deadline

#: Requests under way at the same time. kazoo wakes its connection thread by one byte for each,
#: through a socket pair that takes some 270 before it blocks.
REQUESTS_IN_FLIGHT: Final = 64
#: Most data of a node that is taken, bytes. What Kafka 0.7 writes to one is below a thousand.
NODE_BYTES_MAX: Final = 64 << 10


class Tree:
    """The nodes below the chroot. Many paths are asked for at once; answers come in their order.

    ``changed`` is called, in a thread of kazoo's, when a node that was asked about has changed since; once,
    and also where nobody can know because the connection broke.
    """

    def __init__(self, client: Any, deadline: Deadline, changed: Callable[[Any], None] | None = None) -> None:
        self._client = client
        self._deadline = deadline
        self._changed = changed

    def children(self, paths: Iterable[str]) -> Iterator[list[str] | None]:
        """The names of each node's children; None for a node that is not there."""
        wanted = list(paths)
        answers = self._pipeline(
            lambda path: self._client.get_children_async(path, watch=self._changed), wanted
        )
        for path, names in zip(wanted, answers, strict=True):
            if names is None and self._changed is not None and self.exists(path):
                self._changed(path)  # it has come in between
            yield names

    def data(self, paths: Iterable[str]) -> Iterator[bytes | None]:
        """Each node's data; None for a node that is not there.

        Raises ``DiscoveryError`` (fatal) for more than a node of Kafka's has.
        """
        wanted = list(paths)
        answers = self._pipeline(lambda path: self._client.get_async(path, watch=self._changed), wanted)
        for path, answer in zip(wanted, answers, strict=True):
            data = b"" if answer is None else answer[0] or b""
            if len(data) > NODE_BYTES_MAX:
                raise DiscoveryError(
                    f"node {shown(path)} holds {len(data)} bytes, and no node of Kafka 0.7 has more than"
                    f" {NODE_BYTES_MAX}: is this another program's tree?"
                )
            yield None if answer is None else data

    def exists(self, path: str) -> bool:
        """Whether there is such a node."""
        return (
            next(self._pipeline(lambda path: self._client.exists_async(path, watch=self._changed), [path]))
            is not None
        )

    def put(self, nodes: Mapping[str, bytes]) -> None:
        """Write persistent nodes. Where they are missing they are made, and so are those above them,
        with null data, as 0.7's own clients make them."""
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
        """Make a node that goes with the session, and those above it; whether it was not there before."""
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
        """Remove nodes that may be gone already."""
        for _ in self._pipeline(self._client.delete_async, paths):
            pass

    def _set(self, path: str, nodes: Mapping[str, bytes]) -> Any:
        return self._client.set_async(path, nodes[path])

    def _make(self, path: str, data: bytes | None) -> None:
        # Somebody else may have made it meanwhile; then a parent is there, and data is put anew.
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
                f"ZooKeeper denies access to {shown(path)}; does option zookeeper.auth fit?"
            ) from error
        except (KazooException, KazooTimeoutError, RequestTimedOut):
            raise
        except Exception as error:  # whatever kazoo meets in bytes that mean nothing
            raise DiscoveryError(
                f"the answer for {shown(path)} is not ZooKeeper's: {said(repr(error))}"
            ) from error


def _parents(path: str) -> list[str]:
    """``/a`` and ``/a/b`` of ``/a/b/c``."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]
