"""ZooKeeper client for Kafka 0.7: it reads and writes many nodes at once, with one deadline.

    names = read_tree(discovery, 30.0, lambda tree: next(tree.children(["/brokers/ids"])))

The client is kazoo's, with a maximum answer size and kazoo's log switched off. kazoo's last warning becomes
part of the error that explains why there is no session. Other exceptions of kazoo are translated here.

A member of a consumer group looks at its whole group after each change. With 300 members that come one after
the other, each of them would read 300 nodes 300 times. ZooKeeper reports changes of nodes that were read with
a watch, so a look reads again only what has changed (``WatchedNodes``).

``zookeeper.connect`` may lead to brokers of Kafka 0.8 and later: an error names the right option. They
register as JSON, ``version`` 1 to 5: all with ``host`` and ``port``, since 0.9 also with ``endpoints``, a
list of ``LISTENER://host:port``, and since 0.10.2 with ``listener_security_protocol_map``.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from kazoo.hosts import collect_hosts
from kazoo.retry import KazooRetry

from spark_kafkawire.errors import LOG, DiscoveryError, OptionError, RequestTimedOut, printable, quote
from spark_kafkawire.model import Broker
from spark_kafkawire.net.retry import Bootstrap
from spark_kafkawire.net.strangers import Kind, kind_at
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import Discovery
from spark_kafkawire.options.option import NotAnObject, json_object
from spark_kafkawire.secrecy import keep_secret, without_secrets

T = TypeVar("T")

#: Seconds to wait for a session before a warning. One of several addresses may be dead.
WARN_AFTER_S: Final = 1.0
#: Most seconds that closing a session blocks the caller. It continues in the background.
CLOSE_TIMEOUT_S: Final = 0.5

_LOST: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)


def read_tree(discovery: Discovery, timeout_s: float, read: Callable[[Tree], T]) -> T:
    """Call ``read`` with the tree, in one session that is closed afterwards.

    If the session is lost, ``read`` is called again in a new session, all within ``timeout_s``. So all writes
    of ``read`` must be repeatable.

    Raises ``DiscoveryError`` (fatal), ``OptionError`` (fatal) for an impossible address.
    """
    waiting = _Waiting(discovery, Deadline.after(timeout_s), LastWarning())
    with translate_errors(discovery, timeout_s, waiting.warnings):
        while True:
            with contextlib.suppress(*_LOST), _session(waiting) as client:
                return read(Tree(client, waiting.deadline))
            time.sleep(min(RECONNECT_PAUSE_S, waiting.deadline.remaining_s()))


@contextlib.contextmanager
def translate_errors(discovery: Discovery, timeout_s: float, warnings: LastWarning) -> Iterator[None]:
    """Translate exceptions of kazoo into ``DiscoveryError`` (fatal) with the place and the reason."""
    try:
        yield
    except (RequestTimedOut, KazooTimeoutError) as error:
        raise DiscoveryError(
            f"{place_of(discovery)}: no answer within {timeout_s:g} s ({_bounds(discovery)}); start "
            f"ZooKeeper, or correct the address{warnings.hint}"
        ) from error
    except KazooException as error:
        raise DiscoveryError(
            f"{place_of(discovery)}: ZooKeeper rejects the request ({type(error).__name__}); check its log"
        ) from error
    except DiscoveryError as error:
        raise error.locate(place_of(discovery)) from error


def _bounds(discovery: Discovery) -> str:
    bounds = "requestTimeout, brokerDownTimeout"
    return bounds if Bootstrap(discovery.place).is_answered else f"bootstrapTimeout, {bounds}"


@dataclass
class _Waiting:
    """The wait for a session. Logs once that it is missing, and once that it is established."""

    discovery: Discovery
    deadline: Deadline
    warnings: LastWarning
    began_s: float = field(default_factory=time.monotonic)
    has_warned: bool = False

    def warn(self) -> None:
        """Warn that there is no session yet. Raises ``DiscoveryError`` (fatal) if there cannot be one."""
        if not self.has_warned and self.deadline.left_s:
            self.has_warned = True
            if not Bootstrap(self.discovery.place).is_answered:
                _check_kinds(self.discovery)
            LOG.warning(
                "%s: no session yet%s; trying again for up to %g s (%s)",
                place_of(self.discovery),
                self.warnings.hint,
                self.deadline.timeout_s,
                _bounds(self.discovery),
            )

    def ended(self) -> None:
        """Note that the session is established."""
        Bootstrap(self.discovery.place).answered()
        if self.has_warned:
            self.has_warned = False
            waited_s = time.monotonic() - self.began_s
            LOG.info("%s: session established after %.1f s", place_of(self.discovery), waited_s)


def _check_kinds(discovery: Discovery) -> None:
    """Raise ``DiscoveryError`` (fatal) if another kind of server answers instead of ZooKeeper."""
    kinds = {server: kind_at(server, Kind.BROKER, Kind.HTTP) for server in servers_of(discovery)}
    address = {server: printable(f"{server.host}:{server.port}") for server in kinds}
    if brokers := [address[server] for server, kind in kinds.items() if kind is Kind.BROKER]:
        raise later_brokers(f"{brokers[0]} is {Kind.BROKER.value}, not a ZooKeeper", brokers)
    if others := [address[server] for server, kind in kinds.items() if kind is not None]:
        raise DiscoveryError(
            f"{others[0]} is {Kind.HTTP.value}, not a ZooKeeper; correct the host and the port"
        )


@contextlib.contextmanager
def _session(waiting: _Waiting) -> Iterator[Any]:
    deadline, handler = waiting.deadline, Handler(waiting.warnings)
    client = new_client(waiting.discovery, deadline.timeout_s, handler, waiting.warnings)
    client.add_listener(lambda _: handler.stirred.set())
    client.start_async()
    try:
        if not handler.stirred.wait(min(WARN_AFTER_S, deadline.remaining_s())):
            waiting.warn()
            handler.stirred.wait(deadline.remaining_s())
        if not client.connected:
            raise ConnectionLoss
        waiting.ended()
        yield client
    finally:
        # kazoo stops its thread between two attempts to connect, which may take some seconds.
        closing = threading.Thread(target=_close, args=(client,), daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.stop()
        client.close()


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
                f"the answer for {printable(path)} is not ZooKeeper's: {quote(reason(error))}; check "
                "zookeeper.connect"
            ) from error


def _parents(path: str) -> list[str]:
    """Paths of the parents: ``/a`` and ``/a/b`` for ``/a/b/c``."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]


class WatchedNodes:
    """Answers for nodes that are watched. ``changed`` is called in threads of kazoo after each change.

    An answer is kept from its arrival to the event of its node. kazoo delivers events in another thread than
    answers, so an event may come between a request and ``keep``: that answer is not kept.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._requested: set[tuple[str, str]] = set()
        self._answers: dict[tuple[str, str], Any] = {}

    def seen(self, event: Any) -> None:
        """Handle an event of kazoo. One without a path is a broken connection, which ends all watches. kazoo
        keeps every distinct callback of a node until the node changes, so the callback is always this
        method."""
        if event.path is None:
            self.forget_all()
        else:
            self.forget(event.path)
        self._changed()

    def request(self, kind: str, path: str) -> None:
        """Note that a node is requested now; ``kind`` is that of the answer."""
        with self._lock:
            self._requested.add((kind, path))

    def keep(self, kind: str, path: str, answer: Any) -> None:
        """Keep the answer to the request, unless the node has changed since."""
        with self._lock:
            if (kind, path) in self._requested:
                self._answers[kind, path] = answer

    def answer(self, kind: str, path: str) -> Any:
        """The answer that is kept, or None."""
        return self._answers.get((kind, path))

    def forget(self, path: str) -> None:
        """Forget a node that has changed, or is going to."""
        with self._lock:
            for kind in ("children", "node"):
                self._requested.discard((kind, path))
                self._answers.pop((kind, path), None)

    def stir(self, path: str) -> None:
        """Report that a node has changed of which no event will come."""
        self.forget(path)
        self._changed()

    def forget_all(self) -> None:
        """Forget all answers, also those that are awaited."""
        with self._lock:
            self._requested.clear()
            self._answers.clear()


#: Longest accepted answer, bytes: the names of half a million topics.
ANSWER_BYTES_MAX: Final = 64 << 20
#: Bounds of the requested session timeout, seconds. A server may raise it; kazoo waits that long for each
#: address.
SESSION_TIMEOUT_MAX_S: Final = 10.0
SESSION_TIMEOUT_MIN_S: Final = 0.1
#: Wait before the next attempt to connect, seconds.
RECONNECT_PAUSE_S: Final = 0.1


def place_of(discovery: Discovery) -> str:
    """The option and its value, with which errors begin."""
    return f"option zookeeper.connect: {printable(discovery.zookeeper_connect)}"


def servers_of(discovery: Discovery) -> list[Broker]:
    """Addresses in ``zookeeper.connect``, with the ids -1, -2, …."""
    addresses, _ = collect_hosts(discovery.zookeeper_connect or "")
    return [Broker(-number, host, int(port)) for number, (host, port) in enumerate(addresses, 1)]


def new_client(discovery: Discovery, timeout_s: float, handler: Handler, warnings: LastWarning) -> Any:
    """A client that is not connected yet, and tries to connect until it is stopped. Its session outlives it
    for the share of ``timeout_s`` of one address."""
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
        raise OptionError(f"{place_of(discovery)}: {printable(error)}") from error


def reason(error: BaseException) -> str:
    """The text of an error of kazoo, without bytes of the peer, which may be a credential."""
    return type(error).__name__ if isinstance(error, UnicodeError) else without_secrets(repr(error))


class LastWarning(logging.Handler):
    """Keeps the last warning of kazoo that gives a reason (``hint``), instead of printing it.

    kazoo's messages below warnings may hold credentials.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.hint = ""
        # Created without getLogger: so it has no parent that prints, and an application that enables its
        # loggers does not enable this logger.
        self.logger = logging.Logger("kazoo", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        if cause or record.args:
            words = " ".join((record.getMessage() + (f": {reason(cause)}" if cause else "")).split())
            self.hint = f": {printable(words)}"


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Threads and sockets of kazoo. ``stirred`` is set when one of the threads ends."""

    def __init__(self, warnings: LastWarning) -> None:
        super().__init__()
        self.stirred = threading.Event()
        self._warnings = warnings

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> Any:
        """Run ``func`` in a thread. Its end, also by an exception, sets ``stirred`` and prints nothing."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception:
                self._warnings.logger.exception("this is not a ZooKeeper")
            self.stirred.set()

        return super().spawn(run)

    def select(self, readers: Any, writers: Any, _: Any, timeout_s: float | None = None) -> Any:
        """Sockets that are ready. kazoo's own method needs ten system calls, five times per request."""
        poll = select.poll()
        for sockets, event in ((readers, select.POLLIN), (writers, select.POLLOUT)):
            for sock in sockets:
                poll.register(sock, event)
        ready = {fd for fd, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
        return *([sock for sock in sockets if sock.fileno() in ready] for sockets in (readers, writers)), []

    def create_connection(self, *args: Any, **kwargs: Any) -> socket.socket:
        """A connection that rejects answers above ``ANSWER_BYTES_MAX``."""
        try:
            plain = super().create_connection(*args, **kwargs)
        except TimeoutError as error:  # without the text that kazoo repeats
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
        return _Socket(plain.family, plain.type, plain.proto, fileno=plain.detach())


class _Socket(socket.socket):
    """A socket for kazoo, which requests as many bytes as the peer announces."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if size > ANSWER_BYTES_MAX:
            raise OSError(
                errno.EMSGSIZE,
                f"the peer announces an answer of {size} bytes, at most {ANSWER_BYTES_MAX} are taken;"
                " is this the port of a ZooKeeper?",
            )
        return super().recv(size, flags)


#: Most addresses in the error. A client needs one address that answers.
_NAMED_MAX: Final = 3
_PLAINTEXT: Final = "PLAINTEXT"
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://((?:\[[0-9a-fA-F:]+\]|[^\s:,/\[\]]+):[0-9]{1,5})")

#: A security protocol, and ``host:port``.
Listener = tuple[str, str]


def check_none_is_later(registrations: Iterable[bytes | None]) -> None:
    """Raise ``DiscoveryError`` (fatal) if brokers of Kafka 0.8 or later have registered."""
    later = [result for data in registrations if data and (result := _registration(data)) is not None]
    if later:
        listeners = [listener for item in later if (listener := _listener(item)) is not None]
        protocol = listeners[0][0] if listeners else _PLAINTEXT
        addresses = [address for listened, address in listeners if listened == protocol]
        raise later_brokers("brokers of Kafka 0.8 or later have registered here", addresses, protocol)


def later_brokers(found: str, addresses: Sequence[str], protocol: str = _PLAINTEXT) -> DiscoveryError:
    """The error for later brokers that were ``found`` instead of those of 0.7."""
    servers = ",".join(addresses[:_NAMED_MAX]) or "HOST:PORT"
    with_protocol = "" if protocol == _PLAINTEXT else f" and kafka.security.protocol={printable(protocol)}"
    return DiscoveryError(
        f"{found}; zookeeper.connect is for Kafka 0.7: set kafka.bootstrap.servers={printable(servers)}"
        f"{with_protocol} instead"
    )


def _registration(data: bytes) -> Mapping[str, Any] | None:
    """The registration of a broker of 0.8 or later; None for any other data."""
    try:
        result = json_object(data.decode("utf-8", "replace"))
    except NotAnObject:
        return None
    return result if "host" in result or "endpoints" in result else None


def _listener(registration: Mapping[str, Any]) -> Listener | None:
    """The listener for the error: preferably one without encryption and authentication."""
    protocols = registration.get("listener_security_protocol_map")
    protocols = protocols if isinstance(protocols, dict) else {}
    endpoints = registration.get("endpoints")
    matches = [_ENDPOINT.fullmatch(str(item)) for item in endpoints] if isinstance(endpoints, list) else []
    listeners = [(str(protocols.get(match[1], match[1])), match[2]) for match in matches if match]
    if not listeners:
        host = str(registration.get("host"))
        address = f"[{host}]" if ":" in host else host
        match = _ENDPOINT.fullmatch(f"{_PLAINTEXT}://{address}:{registration.get('port')}")
        return (_PLAINTEXT, match[2]) if match else None
    return next((item for item in listeners if item[0] == _PLAINTEXT), listeners[0])
