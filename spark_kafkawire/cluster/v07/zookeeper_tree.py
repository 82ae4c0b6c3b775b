"""Nodes of ZooKeeper, for Kafka 0.7: requests that read and write many nodes at once, with a deadline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from spark_kafkawire.errors import DiscoveryError, RequestTimedOut, printable, quoted
from spark_kafkawire.net.transport import Deadline

from .kazoo_client import reason
from .watched_nodes import WatchedNodes

#: Requests in flight. kazoo wakes its connection thread by one byte for each request, through a socket pair
#: that takes some 270 bytes before it blocks.
REQUESTS_IN_FLIGHT: Final = 64
#: Most accepted bytes in a node. Kafka 0.7 writes less than a thousand.
NODE_BYTES_MAX: Final = 64 << 10
#: Answer for a node to create that existed before; otherwise its path.
_EXISTS: Final = ""


@dataclass(frozen=True, slots=True)
class Node:
    """The data of a node. An ephemeral node belongs to a ZooKeeper session and disappears with it."""

    data: bytes
    is_ephemeral: bool


class Tree:
    """The nodes below the chroot. Requests for many paths are pipelined; results are in the order of the
    paths.

    With ``watched`` nodes that are read are watched, and only those that changed since are requested. A
    ``fresh`` read requests and does not watch: events arrive in another thread, so what is kept may be older
    than another answer.
    """

    def __init__(self, client: Any, deadline: Deadline, watched: WatchedNodes | None = None) -> None:
        self._client = client
        self._deadline = deadline
        self._watched = watched

    def children(self, paths: Iterable[str], *, fresh: bool = False) -> Iterator[list[str] | None]:
        """Names of the children of each node; None for a node that does not exist."""
        wanted, watched = list(paths), None if fresh else self._watched
        answers = self._read("children", self._client.get_children_async, wanted, watched)
        for path, names in zip(wanted, answers, strict=True):
            if names is None and watched is not None and self.exists(path):
                watched.stir(path)  # it was created in between
            yield names

    def data(self, paths: Iterable[str], *, fresh: bool = False) -> Iterator[bytes | None]:
        """The data of each node; None for a node that does not exist.

        Raises ``DiscoveryError`` (fatal) for more data than Kafka writes to a node.
        """
        return (None if node is None else node.data for node in self.nodes(paths, fresh=fresh))

    def nodes(self, paths: Iterable[str], *, fresh: bool = False) -> Iterator[Node | None]:
        """The nodes, with their data and kind; None for a node that does not exist. Raises as ``data``
        does."""
        wanted, watched = list(paths), None if fresh else self._watched
        answers = self._read("node", self._client.get_async, wanted, watched)
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
        watch = self._watched and self._watched.seen
        return self._answer(path, self._client.exists_async(path, watch=watch)) is not None

    def put(self, nodes: Mapping[str, bytes]) -> None:
        """Write persistent nodes. Missing nodes are created, and so are the nodes above them, with null data
        as by the clients of 0.7. Raises ``DiscoveryError`` (fatal) without the chroot."""
        answers = self._write(lambda path: self._client.set_async(path, nodes[path]), nodes)
        written = zip(nodes, answers, strict=True)
        missing = {path: nodes[path] for path, stat in written if stat is None}
        if missing:
            self._make_parents(missing)
            made = self._create(missing)
            # Another client may have created a node meanwhile: its data is written again.
            self.put({path: data for path, data in missing.items() if made[path] == _EXISTS})

    def claim(self, nodes: Mapping[str, bytes]) -> dict[str, bool]:
        """Create ephemeral nodes, and the nodes above them. False for a node that existed before. Raises as
        ``put`` does."""
        made = self._create(nodes, ephemeral=True, may_lack_parents=True)
        if missing := {path: nodes[path] for path, answer in made.items() if answer is None}:
            self._make_parents(missing)
            made |= self._create(missing, ephemeral=True)
        return {path: answer != _EXISTS for path, answer in made.items()}

    def remove(self, paths: Iterable[str]) -> None:
        """Remove nodes, which may no longer exist."""
        for _ in self._write(self._client.delete_async, paths):
            pass

    def _make_parents(self, paths: Iterable[str]) -> None:
        parents = {parent for path in paths for parent in _parents(path)}
        for depth in sorted({parent.count("/") for parent in parents}):
            self._create({parent: None for parent in parents if parent.count("/") == depth})

    def _create(
        self, nodes: Mapping[str, bytes | None], *, ephemeral: bool = False, may_lack_parents: bool = False
    ) -> dict[str, str | None]:
        """Create nodes. Answers are ``_EXISTS`` for a node that existed before, and None without its parent,
        which raises ``DiscoveryError`` (fatal) unless it ``may_lack_parents``: only the chroot can be
        missing."""
        answers = self._write(
            lambda path: self._client.create_async(path, nodes[path], ephemeral=ephemeral), nodes
        )
        made = dict(zip(nodes, answers, strict=True))
        if None in made.values() and not may_lack_parents:
            raise DiscoveryError(
                "the chroot (the path after the hosts) is not in ZooKeeper; correct zookeeper.connect"
            )
        return made

    def _write(self, start: Callable[[str], Any], paths: Iterable[str]) -> Iterator[Any]:
        def begin(path: str) -> Any:
            if self._watched is not None:
                self._watched.forget(path)
            return start(path)

        return self._pipeline(begin, paths)

    def _read(
        self, kind: str, get: Callable[..., Any], paths: Sequence[str], watched: WatchedNodes | None
    ) -> Iterator[Any]:
        if watched is None:
            yield from self._pipeline(get, paths)
            return

        def begin(path: str) -> Any:
            watched.request(kind, path)
            return get(path, watch=watched.seen)

        kept = [watched.answer(kind, path) for path in paths]
        missing = [path for path, answer in zip(paths, kept, strict=True) if answer is None]
        answers = self._pipeline(begin, missing)
        for path, answer in zip(paths, kept, strict=True):
            if answer is None:
                answer = next(answers)
                if answer is not None:  # ZooKeeper watches only nodes that exist
                    watched.keep(kind, path, answer)
            yield answer

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
        except NodeExistsError:
            return _EXISTS
        except (NoAuthError, AuthFailedError) as error:
            raise DiscoveryError(
                f"ZooKeeper denies access to {printable(path)}; check the option zookeeper.auth"
            ) from error
        except (KazooException, KazooTimeoutError, RequestTimedOut):
            raise
        except Exception as error:  # kazoo raises arbitrary exceptions for invalid bytes
            raise DiscoveryError(
                f"the answer for {printable(path)} is not ZooKeeper's: {quoted(reason(error))}; check "
                "zookeeper.connect"
            ) from error


def _parents(path: str) -> list[str]:
    """Paths of the parents: ``/a`` and ``/a/b`` for ``/a/b/c``."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]
