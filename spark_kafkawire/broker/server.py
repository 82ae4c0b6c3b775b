"""A whole broker in this process: port, connections, logs, registration. A thread per connection.

A connection answers requests in order until one side ends it. As with 0.7 it lives as long as its peer
likes: there is no idle timeout. A request's first two bytes are its id, which identifies the wire
format: no two formats share an id. FETCH responses go from file to socket by ``sendfile``: the broker
does not read the messages.

Broker and topics are registered in ZooKeeper::

    /brokers/ids/0              ephemeral   host-startms:host:port
    /brokers/topics/T/0         ephemeral   number of partitions configured for T on broker 0

Their parents are persistent and have null data. When the session is lost, all nodes are registered again in
the next one.

Scripted misbehaviour, for tests of clients:

    BrokerServer(config, faults=[Fault("FETCH", nth=2, kind=FaultKind.CUT, size=100)])

lets the broker send 100 bytes of its second FETCH response and then close the connection.

Source: recordings (``zk_tree.json``), 0.7.2 server/KafkaZooKeeper.scala, utils/ZkUtils.scala.
"""

from __future__ import annotations

import contextlib
import enum
import ipaddress
import os
import queue
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadArgumentsError, KazooException, NodeExistsError, NoNodeError
from kazoo.retry import InterruptedError, KazooRetry

from ..errors import ConnectFailed, DiscoveryError, ProtocolError, log_of, printable, quote
from ..model import WireFormat
from ..protocol.primitives import INT16, Buffers, read_int32
from .config import BrokerConfig
from .handlers import CLOSE, Answer, Call, Handlers, Speaker
from .log import FileSlice, now_ms
from .log_directory import Housekeeping, LogDirectory
from .proposal import ProposalHandlers

LOG: Final = log_of(__name__)

#: Put into the queue of topics to register.
_NEW_SESSION: Final = object()
_STOP: Final = object()
# Attempts to connect continue until the broker ends. kazoo's own pauses grow to a minute, which is longer
# than most session timeouts.
_ENDLESS_RETRY: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}


class Registry:
    """Keeps one broker registered. After the start a thread of its own does this."""

    def __init__(self, config: BrokerConfig, port: int) -> None:
        self._config = config
        self._address = f"{config.hostname}:{port}"
        self._topics: list[str] = []
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._session_lost = False
        # The chroot is made here: kazoo's way of making it fails where two brokers do it at once.
        hosts, slash, chroot = (config.zookeeper or "").partition("/")
        self._root = slash + chroot.rstrip("/") if chroot else ""
        self._client = KazooClient(
            hosts, timeout=config.zk_session_timeout_ms / 1000, connection_retry=_ENDLESS_RETRY
        )
        self._retry = KazooRetry(**_ENDLESS_RETRY, interrupt=self._stopping.is_set, ignore_expire=True)
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)

    def start(self, topics: Iterable[str]) -> None:
        """Register the broker and the topics it has.

        Raises ``ConnectFailed`` when ZooKeeper does not answer in time, ``DiscoveryError`` when
        another broker has the id, or if ZooKeeper refuses a topic's name: a 0.7.2 broker does not start
        then, either.
        """
        self._topics = list(topics)
        with contextlib.ExitStack() as undo:
            undo.callback(self._disconnect)
            self._connect()
            try:
                self._register_all()
            except KazooException as error:
                raise DiscoveryError(
                    f"broker {self._config.broker_id} cannot register in {self._config.zookeeper}: "
                    f"{printable(repr(error))}; check zk.connect"
                ) from error
            undo.pop_all()
        self._thread.start()

    def add_topic(self, topic: str) -> None:
        """Register a new topic soon; the caller does not wait."""
        self._tasks.put(topic)

    def stop(self) -> None:
        """Close the session; the broker's nodes are gone when this returns."""
        self._stopping.set()
        self._tasks.put(_STOP)
        # First, because it also ends any wait of the thread.
        self._disconnect()
        self._thread.join()

    def _connect(self) -> None:
        timeout_ms = self._config.zk_connection_timeout_ms or self._config.zk_session_timeout_ms
        self._client.start_async().wait(timeout_ms / 1000)
        if not self._client.connected:
            raise ConnectFailed(
                f"ZooKeeper {self._config.zookeeper} did not answer in {timeout_ms} ms: check zk.connect"
            )
        self._client.add_listener(self._on_state)

    def _disconnect(self) -> None:
        self._client.stop()
        self._client.close()

    def _on_state(self, state: str) -> None:
        # Called by kazoo's connection thread, which must not wait for ZooKeeper.
        if state == KazooState.LOST:
            self._session_lost = True
        elif state == KazooState.CONNECTED and self._session_lost:
            self._session_lost = False
            self._tasks.put(_NEW_SESSION)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not _STOP:
            try:
                if task is _NEW_SESSION:
                    self._retry(self._register_all)
                else:
                    self._topics.append(task)
                    self._retry(self._register_topic, task)
            except InterruptedError:
                return
            except (KazooException, DiscoveryError) as error:
                LOG.error("registration failed: %s", error or repr(error))

    def _register_all(self) -> None:
        creator = f"{self._config.hostname}-{now_ms()}"
        self._claim(f"{self._root}/brokers/ids/{self._config.broker_id}", f"{creator}:{self._address}")
        for topic in self._topics:
            self._register_topic(topic)

    def _register_topic(self, topic: str) -> None:
        path = f"{self._root}/brokers/topics/{topic}/{self._config.broker_id}"
        try:
            self._claim(path, str(self._config.partition_count(topic)))
        except BadArgumentsError as error:
            raise DiscoveryError(
                f"ZooKeeper refuses the name of topic {quote(topic)}: remove its folders from log.dir"
            ) from error

    def _claim(self, path: str, data: str) -> None:
        """Create an ephemeral node of this session, in place of one of an earlier session."""
        self._make_parents(path)
        while True:
            try:
                self._client.create(path, data.encode(), ephemeral=True)
                return
            except NodeExistsError:
                if self._is_claimed(path):
                    return

    def _is_claimed(self, path: str) -> bool:
        """Return true if the node at ``path`` belongs to this session. A node of a dead broker is removed."""
        with contextlib.suppress(NoNodeError):
            result, stat = self._client.get(path)
            if stat.ephemeralOwner == self._client.client_id[0]:
                return True
            # This broker listens on its address, so the broker that registered it before is dead.
            if path.startswith(f"{self._root}/brokers/ids/") and not result.endswith(
                f":{self._address}".encode()
            ):
                raise DiscoveryError(
                    f"another broker is registered as {printable(path)}: choose another brokerid"
                )
            self._client.delete(path, version=stat.version)
        return False

    def _make_parents(self, path: str) -> None:
        parts = path.split("/")
        for depth in range(2, len(parts)):
            with contextlib.suppress(NodeExistsError):
                self._client.create("/".join(parts[:depth]), None)


#: Bytes that ``GARBAGE`` sends: the beginning of an HTTP response.
NOT_KAFKA: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
#: The API name of a connection being made.
CONNECT: Final = "CONNECT"


class FaultKind(enum.Enum):
    """Kind of misbehaviour."""

    DROP = "the request is not carried out, the connection is closed"
    CUT = "it is carried out, `size` bytes of the response are sent, the connection is closed"
    STALL = "it is carried out, `size` bytes of the response are sent, then nothing for ever"
    SHORT = "the response ends after `size` bytes and says so in its length"
    FLIP = "one bit of the response is wrong, in its byte `size`"
    GARBAGE = "something else than Kafka's protocol is sent instead of the response"


@dataclass(frozen=True, slots=True)
class Fault:
    """Misbehaviour at the ``nth`` request (from 1, over all connections) of one API.

    ``api`` is a name of the dialect's (``FETCH``), or CONNECT for the connection itself.
    """

    api: str
    nth: int
    kind: FaultKind
    size: int = 0

    def spoil(self, frame: bytes) -> bytes:
        """The bytes to send instead of a response's frame."""
        match self.kind:
            case FaultKind.DROP:
                return b""
            case FaultKind.CUT | FaultKind.STALL:
                return frame[: self.size]
            case FaultKind.SHORT:
                return (self.size - 4).to_bytes(4, "big") + frame[4 : self.size]
            case FaultKind.FLIP:
                flipped = bytearray(frame)
                flipped[self.size] ^= 1
                return bytes(flipped)
            case FaultKind.GARBAGE:
                return NOT_KAFKA


class FaultScript:
    """Counts requests and selects those with a fault. Safe for many threads."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = {(fault.api, fault.nth): fault for fault in faults}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, api: str) -> Fault | None:
        """The fault of this request, if it has one."""
        with self._lock:
            self._counts[api] += 1
            return self._faults.get((api, self._counts[api]))


LENGTH_BYTES: Final = 4
#: Bytes per read of requests that are no longer answered, and the number of reads before a connection closes.
READ_BYTES: Final = 1 << 16
DROPPED_READS_MAX: Final = 64
# Linux gathers the header of a response and the file bytes that follow it into one packet.
_MORE_FOLLOWS: Final[int] = getattr(socket, "MSG_MORE", 0)


class Serving:
    """State that all connections of a broker share. ``run`` is called by a thread per connection."""

    def __init__(self, speakers: Iterable[Speaker], faults: FaultScript, request_bytes_max: int) -> None:
        speakers = tuple(speakers)
        self._speakers = {api.key: speaker for speaker in speakers for api in speaker.dialect.apis}
        assert len(self._speakers) == sum(len([*speaker.dialect.apis]) for speaker in speakers)
        self._faults = faults
        self._request_bytes_max = request_bytes_max

    def run(self, connection: socket.socket) -> None:
        """Serve until the peer is done, a request is refused, or the socket is shut down."""
        try:
            connection.setblocking(True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self._faults.take(CONNECT):
                buffers = Buffers()
                while self._serve_one(connection, buffers):
                    pass
            _finish(connection)
        except OSError as error:
            LOG.debug("connection lost: %s", error)

    def _serve_one(self, connection: socket.socket, buffers: Buffers) -> bool:
        """Receive and answer one request; returns whether the connection stays open."""
        header = memoryview(bytearray(LENGTH_BYTES))
        if not _receive_all(connection, header):
            return False
        size = read_int32(header)
        if not 0 < size <= self._request_bytes_max:
            LOG.warning("request of %d bytes refused, 1 to %d are allowed", size, self._request_bytes_max)
            return False
        body = buffers.take(size)
        return _receive_all(connection, body) and self._answer(connection, body)

    def _answer(self, connection: socket.socket, body: memoryview) -> bool:
        """Carry out one request and answer it; returns whether the connection stays open."""
        try:
            call = self._read(body)
        except ProtocolError as error:
            LOG.warning("request refused: %s", error)
            return False
        if fault := self._faults.take(call.api.name):
            return self._misbehave(connection, fault, call)
        answer = call.answer(lambda: _is_open(connection))
        try:
            _send(connection, answer)
        except FileNotFoundError:
            # Retention deleted the segment since it was looked up: look again.
            answer = call.answer(lambda: _is_open(connection))
            _send(connection, answer)
        return not answer.close

    def _read(self, body: memoryview) -> Call:
        key, _ = INT16.read(body, 0)
        if key not in self._speakers:
            raise ProtocolError(f"unknown request type {key}; does the client speak another protocol?")
        return self._speakers[key].read(body)

    def _misbehave(self, connection: socket.socket, fault: Fault, call: Call) -> bool:
        answer = CLOSE if fault.kind is FaultKind.DROP else call.answer(lambda: _is_open(connection))
        parts = (part.content() if isinstance(part, FileSlice) else part for part in answer.parts)
        connection.sendall(fault.spoil(b"".join(parts)))
        if fault.kind is FaultKind.STALL:
            while connection.recv(READ_BYTES):
                pass
        return fault.kind in (FaultKind.SHORT, FaultKind.FLIP, FaultKind.GARBAGE)


def _is_open(connection: socket.socket) -> bool:
    """True until the peer or this side has ended the connection."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _receive_all(connection: socket.socket, view: memoryview) -> bool:
    """Fill ``view``; whether the peer sent that much."""
    filled = 0
    while filled < len(view):
        received = connection.recv_into(view[filled:])
        if not received:
            return False
        filled += received
    return True


def _send(connection: socket.socket, answer: Answer) -> None:
    """Send an answer. Raises ``FileNotFoundError`` before anything was sent, else ``OSError``."""
    with contextlib.ExitStack() as files:
        opened = [
            files.enter_context(open(part.path, "rb", buffering=0)) if isinstance(part, FileSlice) else None
            for part in answer.parts
        ]
        for index, (part, file) in enumerate(zip(answer.parts, opened, strict=True)):
            if isinstance(part, FileSlice):
                assert file is not None
                _send_slice(connection, file.fileno(), part.pos, part.size)
            else:
                connection.sendall(part, 0 if index == len(opened) - 1 else _MORE_FOLLOWS)


def _send_slice(connection: socket.socket, descriptor: int, pos: int, size: int) -> None:
    while size:
        sent = os.sendfile(connection.fileno(), descriptor, pos, size)
        if not sent:
            raise OSError("a segment file is shorter than its log says; start the broker again")
        pos += sent
        size -= sent


def _finish(connection: socket.socket) -> None:
    """End the stream; drop requests that came already, or the kernel would send RST for FIN."""
    connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(BlockingIOError):
        for _ in range(DROPPED_READS_MAX):
            if not connection.recv(READ_BYTES, socket.MSG_DONTWAIT):
                return


#: How long ``stop`` waits for each thread; closed sockets end them within milliseconds.
STOP_TIMEOUT_S: Final = 10.0
#: The handlers of each wire format of a 0.7 broker.
_SPEAKERS: Final[Mapping[WireFormat, Callable[[BrokerConfig, LogDirectory], Speaker]]] = {
    WireFormat.V07: Handlers,
    WireFormat.PROPOSAL: ProposalHandlers,
}


class BrokerServer:
    """A broker in this process: listens, registers in ZooKeeper, keeps its logs. Starts once.

    ``faults`` are its scripted faults, for tests of clients. ``clock_ms`` is the clock of its logs, ms since
    the epoch.
    """

    def __init__(
        self, config: BrokerConfig, *, faults: Iterable[Fault] = (), clock_ms: Callable[[], int] = now_ms
    ) -> None:
        self.config = config
        self._clock_ms = clock_ms
        self._faults = FaultScript(faults)
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._stopping = threading.Event()

    @property
    def port(self) -> int:
        """The port it listens on, also where its property says 0."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """``host:port``"""
        return f"{self.config.hostname}:{self.port}"

    def start(self) -> None:
        """Open the logs, listen, register, serve.

        Raises ``OptionError``, ``CorruptDataError`` (logs), ``ConnectFailed`` (port, ZooKeeper)
        and ``DiscoveryError`` (registration). After an error no thread is left running.
        """
        with contextlib.ExitStack() as undo:
            self._listener = undo.enter_context(_listen(self.config))
            self.logs = LogDirectory(self.config, clock_ms=self._clock_ms)
            speakers = [_SPEAKERS[item](self.config, self.logs) for item in self.config.wire_formats]
            self._serving = Serving(speakers, self._faults, self.config.max_socket_request_bytes)
            self._registry = Registry(self.config, self.port) if self.config.zookeeper else None
            if self._registry:
                self.logs.on_new_topic = self._registry.add_topic
                self._registry.start(self.logs.topics)
                undo.callback(self._registry.stop)
            self._housekeeping = Housekeeping(self.config, self.logs)
            undo.pop_all()
        self._wake, self._woken = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, name=f"accept {self.address}", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Close all connections, flush the logs, leave ZooKeeper. Waits for every thread."""
        self._end_connections()
        self._housekeeping.stop()
        self.logs.close()
        if self._registry:
            self._registry.stop()

    def __enter__(self) -> BrokerServer:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _end_connections(self) -> None:
        self._stopping.set()
        self._wake.close()
        self._acceptor.join(STOP_TIMEOUT_S)
        self._listener.close()
        self._woken.close()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            # Ends a running receive or send of another thread; a close does not.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.logs.arrivals.notify()  # waiting fetches check whether their client is still there
        for thread in connections.values():
            thread.join(STOP_TIMEOUT_S)

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        self._accept_one()

    def _accept_one(self) -> None:
        try:
            connection, (host, port, *_) = self._listener.accept()
        except OSError as error:
            LOG.warning("no connection accepted: %s", error)
            return
        thread = threading.Thread(
            target=self._run, args=(connection,), name=f"serve {host}:{port}", daemon=True
        )
        with self._lock:
            self._connections[connection] = thread
        try:
            thread.start()
        except RuntimeError as error:
            LOG.warning("connection closed: %s", error)
            with self._lock:
                del self._connections[connection]
            connection.close()

    def _run(self, connection: socket.socket) -> None:
        try:
            self._serving.run(connection)
        finally:
            with self._lock:
                del self._connections[connection]
            connection.close()


def _listen(config: BrokerConfig) -> socket.socket:
    listener = listen(config.hostname, config.port)
    # Connections inherit these; 0.7's own defaults (100 KiB) would switch the kernel's tuning off.
    if config.socket_send_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer)
    if config.socket_receive_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer)
    listener.setblocking(False)
    return listener


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 is any free one. Raises ``ConnectFailed``.

    Connections to a loopback address use Reno, which every Linux has. The host's congestion control is meant
    for a network: BBR, which many hosts use, paces packets by timers, which costs more CPU than the copy
    itself.
    """
    try:
        listener = socket.create_server((host, port), backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConnectFailed(
            f"cannot listen on {printable(host)}:{port}: {reason}; choose another port"
        ) from error
    if ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        # Other systems than Linux have no such option.
        with contextlib.suppress(AttributeError, OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    return listener
