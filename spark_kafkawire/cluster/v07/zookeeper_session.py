"""A ZooKeeper session for many nodes at once: kazoo with deadlines and without noise.

    names = read_tree(discovery, 30.0, lambda tree: next(tree.children(["/brokers/ids"])))

kazoo stays inside this module: its exceptions become ours, and its log lines go into the error
that tells why no session came about.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.retry import KazooRetry

from ...errors import DiscoveryError, OptionError, RequestTimedOut, said, shown
from ...net.transport import Deadline
from ...options import Discovery
from ...secrecy import HIDDEN, holds_secret, keep_secret

_log = logging.getLogger("spark_kafkawire")
T = TypeVar("T")

#: Requests under way at the same time. kazoo wakes its connection thread by one byte for each,
#: through a socket pair that takes some 270 before it blocks.
REQUESTS_IN_FLIGHT: Final = 64
#: Longest answer that is taken, bytes: the names of half a million topics.
ANSWER_BYTES_MAX: Final = 64 << 20
#: Most data of a node that is taken, bytes. What Kafka 0.7 writes to one is below a thousand.
NODE_BYTES_MAX: Final = 64 << 10
#: Bounds of the session timeout that is asked for, seconds. A server raises it to what it likes;
#: kazoo waits so long for each address.
SESSION_TIMEOUT_MAX_S: Final = 10.0
SESSION_TIMEOUT_MIN_S: Final = 0.1
#: Wait before a lost session is replaced, seconds.
RECONNECT_PAUSE_S: Final = 0.1
#: How long a session is waited for before anybody is told, seconds. One of several addresses may be dead.
TOLD_AFTER_S: Final = 1.0
#: How long closing a session may hold up the caller, seconds. It goes on in the background.
CLOSE_TIMEOUT_S: Final = 0.5

_LOST: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)


class Tree:
    """The nodes below the chroot. Many paths are asked for at once; answers come in their order."""

    def __init__(self, client: Any, deadline: Deadline) -> None:
        self._client = client
        self._deadline = deadline

    def children(self, paths: Iterable[str]) -> Iterator[list[str] | None]:
        """The names of each node's children; None for a node that is not there."""
        return self._pipeline(self._client.get_children_async, paths)

    def data(self, paths: Iterable[str]) -> Iterator[bytes | None]:
        """Each node's data; None for a node that is not there.

        Raises ``DiscoveryError`` (fatal) for more than a node of Kafka's has.
        """
        wanted = list(paths)
        for path, answer in zip(wanted, self._pipeline(self._client.get_async, wanted), strict=True):
            data = b"" if answer is None else answer[0] or b""
            if len(data) > NODE_BYTES_MAX:
                raise DiscoveryError(
                    f"node {shown(path)} holds {len(data)} bytes, and no node of Kafka 0.7 has more than"
                    f" {NODE_BYTES_MAX}: is this another program's tree?"
                )
            yield None if answer is None else data

    def exists(self, path: str) -> bool:
        """Whether there is such a node."""
        return next(self._pipeline(self._client.exists_async, [path])) is not None

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


def read_tree(discovery: Discovery, timeout_s: float, read: Callable[[Tree], T]) -> T:
    """What ``read`` makes of the tree, in one session that is closed afterwards.

    A session that is lost is replaced and ``read`` called again, all within ``timeout_s``; so it may
    write what may be written twice.

    Raises ``DiscoveryError`` (fatal), ``OptionError`` (fatal) for an impossible address.
    """
    warnings = _LastWarning()
    try:
        return _read_until(discovery, Deadline.after(timeout_s), warnings, read)
    except (RequestTimedOut, KazooTimeoutError) as error:
        raise DiscoveryError(
            f"{_place(discovery)}: no answer within {timeout_s:g} s (requestTimeout, patience){warnings.hint}"
        ) from error
    except KazooException as error:
        raise DiscoveryError(f"{_place(discovery)}: ZooKeeper answers {type(error).__name__}") from error
    except DiscoveryError as error:
        raise error.located(_place(discovery)) from error


def _place(discovery: Discovery) -> str:
    return f"option zookeeper.connect: {shown(discovery.zookeeper_connect)}"


def _read_until(
    discovery: Discovery, deadline: Deadline, warnings: _LastWarning, read: Callable[[Tree], T]
) -> T:
    waiting = _Waiting(discovery, deadline, warnings)
    while True:
        with contextlib.suppress(*_LOST), _session(discovery, deadline, warnings, waiting) as client:
            return read(Tree(client, deadline))
        time.sleep(min(RECONNECT_PAUSE_S, deadline.remaining_s()))


class _Waiting:
    """Tells once that ZooKeeper is waited for, and once that it is there."""

    def __init__(self, discovery: Discovery, deadline: Deadline, warnings: _LastWarning) -> None:
        self._discovery, self._deadline, self._warnings = discovery, deadline, warnings
        self._began_s = time.monotonic()
        self._is_told = False

    def tell(self) -> None:
        """No session has come about so far."""
        if not self._is_told and self._deadline.left_s:
            self._is_told = True
            _log.warning(
                "%s: no session yet%s; trying again for up to %g s (requestTimeout, patience)",
                _place(self._discovery),
                self._warnings.hint,
                self._deadline.timeout_s,
            )

    def ended(self) -> None:
        """There is a session."""
        if self._is_told:
            self._is_told = False
            waited_s = time.monotonic() - self._began_s
            _log.info("%s: going on after %.1f s", _place(self._discovery), waited_s)


@contextlib.contextmanager
def _session(
    discovery: Discovery, deadline: Deadline, warnings: _LastWarning, waiting: _Waiting
) -> Iterator[Any]:
    handler = _Handler(warnings)
    client = _client(discovery, deadline.timeout_s, handler, warnings)
    client.add_listener(lambda _: handler.stirred.set())
    client.start_async()
    try:
        if not handler.stirred.wait(min(TOLD_AFTER_S, deadline.remaining_s())):
            waiting.tell()
            handler.stirred.wait(deadline.remaining_s())
        if not client.connected:
            raise ConnectionLoss
        waiting.ended()
        yield client
    finally:
        # kazoo ends its thread between two attempts to connect: some seconds may pass.
        closing = threading.Thread(target=_close, args=(client,), daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)


def _client(discovery: Discovery, timeout_s: float, handler: _Handler, warnings: _LastWarning) -> Any:
    hosts = discovery.zookeeper_connect or ""
    if discovery.zookeeper_auth:
        _, credential = discovery.zookeeper_auth
        keep_secret(credential, credential.partition(":")[2])
    session_timeout_s = timeout_s / (2 + hosts.count(","))
    try:
        return KazooClient(
            hosts,
            timeout=min(max(session_timeout_s, SESSION_TIMEOUT_MIN_S), SESSION_TIMEOUT_MAX_S),
            handler=handler,
            auth_data=[discovery.zookeeper_auth] if discovery.zookeeper_auth else None,
            connection_retry=KazooRetry(
                max_tries=-1, delay=RECONNECT_PAUSE_S, max_delay=1.0, sleep_func=handler.sleep_func
            ),
            logger=warnings.logger,
        )
    except ValueError as error:
        raise OptionError(f"{_place(discovery)}: {shown(error)}") from error


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.stop()
        client.close()


class _LastWarning(logging.Handler):
    """Keeps kazoo's last warning that gives a reason, instead of printing it.

    kazoo's messages below warnings may hold credentials.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.hint = ""
        # Made here and not by getLogger: it has no parent that prints, and no application
        # that turns on its loggers turns on this one.
        self.logger = logging.Logger("kazoo", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        if cause or record.args:
            words = " ".join((record.getMessage() + (f": {cause!r}" if cause else "")).split())
            self.hint = f": {HIDDEN if holds_secret(words) else shown(words)}"


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads and sockets. ``stirred`` is set when one of the threads ends."""

    def __init__(self, warnings: _LastWarning) -> None:
        super().__init__()
        self.stirred = threading.Event()
        self._warnings = warnings

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> Any:
        """Run ``func`` in a thread whose end, also by an exception, is noticed and not printed."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception:
                self._warnings.logger.exception("this is no ZooKeeper")
            self.stirred.set()

        return super().spawn(run)

    def select(self, readers: Any, writers: Any, _: Any, timeout_s: float | None = None) -> Any:
        """The sockets that are ready. kazoo's own takes ten system calls, five times a request."""
        poll = select.poll()
        for sockets, event in ((readers, select.POLLIN), (writers, select.POLLOUT)):
            for sock in sockets:
                poll.register(sock, event)
        ready = {fd for fd, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
        return *([sock for sock in sockets if sock.fileno() in ready] for sockets in (readers, writers)), []

    def create_connection(self, *args: Any, **kwargs: Any) -> socket.socket:
        """A connection that takes no answer above ``ANSWER_BYTES_MAX``."""
        try:
            plain = super().create_connection(*args, **kwargs)
        except TimeoutError as error:  # without the text that kazoo repeats
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
        return _Socket(plain.family, plain.type, plain.proto, fileno=plain.detach())


class _Socket(socket.socket):
    """A socket for kazoo, which asks it for as many bytes as the peer has announced."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if size > ANSWER_BYTES_MAX:
            raise OSError(
                errno.EMSGSIZE,
                f"the peer announces an answer of {size} bytes, at most {ANSWER_BYTES_MAX} are taken;"
                " is this the port of a ZooKeeper?",
            )
        return super().recv(size, flags)
