"""The proxy passes what it should, and each fault does what it says."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern.fetch import FetchPartition, FetchRequest, FetchTopic
from spark_kafkawire.protocol.modern.metadata import MetadataBroker, MetadataResponse
from tests.support.polling import DEADLINE_S

from .faults import Fault, FaultKind, Plan, Way
from .frames import Framer, KafkaView, Spoken, ZooKeeperView
from .proxy import HOST, Proxy, Upstream

#: Frames whose bytes are all different from their neighbours.
SENT: Final = b"".join((200).to_bytes(4, "big") + bytes([number]) * 200 for number in range(5))


@dataclass(frozen=True, slots=True)
class Scripted(Plan):
    """The same faults for the first connections, one each."""

    faults: tuple[Fault | None, ...] = ()

    def fault(self, upstream: str, number: int) -> Fault | None:  # noqa: ARG002
        return self.faults[number] if number < len(self.faults) else None


def scripted(*faults: Fault | None) -> Scripted:
    return Scripted("scripted", 1.0, faults)


class Echo:
    """Sends back what it gets, and remembers it by connection, in the order of their last bytes."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._heard: list[tuple[int, bytes]] = []
        self._arrivals = itertools.count()
        self._ended = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        heard, arrived = b"", -1
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(65536):
                heard, arrived = heard + data, next(self._arrivals)
                connection.sendall(data)
        with self._ended:
            self._heard.append((arrived, heard))
            self._ended.notify_all()

    def await_ends(self, count: int) -> list[bytes]:
        """Bytes that it got on the first connections to end."""
        with self._ended:
            assert self._ended.wait_for(lambda: len(self._heard) >= count, DEADLINE_S)
            return [heard for _, heard in sorted(self._heard)]

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@contextlib.contextmanager
def proxied(echo: Echo, plan: Plan) -> Iterator[tuple[Proxy, int]]:
    with Proxy((Upstream("echo", echo.port, "kafka 0.7"),), plan) as proxy:
        yield proxy, proxy.port("echo")


def exchange(port: int, sent: bytes = SENT) -> tuple[bytes, str]:
    """Send all and half-close; what comes back, and how that ended: by FIN or by RST."""
    received = b""
    try:
        connected = socket.create_connection((HOST, port), DEADLINE_S)
    except ConnectionResetError:  # the kernel takes a connection before the proxy does
        return received, "RST"
    with connected as sock:
        try:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            while data := sock.recv(65536):
                received += data
        except TimeoutError:
            raise
        except OSError:  # reset, or not connected any more
            return received, "RST"
        return received, "FIN"


def test_without_faults_all_bytes_pass_unchanged(echo: Echo) -> None:
    with proxied(echo, scripted()) as (proxy, port):
        assert exchange(port) == (SENT, "FIN")
        assert exchange(port, SENT * 200) == (SENT * 200, "FIN")
        assert exchange(port, SENT[:-7]) == (SENT[:-7], "FIN")
    assert (proxy.made, proxy.broken.total()) == (3, 0)


@pytest.mark.parametrize("at", [0, 1, 203, 204, 700, len(SENT) - 1])
def test_a_cut_ends_the_responses_after_so_many_bytes(echo: Echo, at: int) -> None:
    with proxied(echo, scripted(Fault(FaultKind.CUT, Way.TO_CLIENT, at))) as (proxy, port):
        received, end = exchange(port)
    assert SENT[:at].startswith(received)
    assert received == SENT[:at] or end == "RST"
    assert proxy.broken == {FaultKind.CUT: 1}


@pytest.mark.parametrize("at", [0, 1, 500])
def test_a_cut_ends_the_requests_after_so_many_bytes(echo: Echo, at: int) -> None:
    with proxied(echo, scripted(Fault(FaultKind.CUT, Way.TO_BROKER, at))) as (_, port):
        exchange(port)
        assert echo.await_ends(1) == [SENT[:at]]


CUT_HALF: Final = Fault(FaultKind.HALF_CLOSE, Way.TO_BROKER, 408)
SLOW: Final = [
    Fault(kind, way, 300, 500, 0.02) for kind in (FaultKind.STALL, FaultKind.BYTE_BY_BYTE) for way in Way
]
LATE: Final = [Fault(kind, seconds=0.01) for kind in (FaultKind.SLOW_START, FaultKind.REORDERED)]


@pytest.mark.parametrize(
    ("fault", "received"), [(CUT_HALF, SENT[:408]), *((fault, SENT) for fault in (*SLOW, *LATE))]
)
def test_slow_and_late_bytes_are_the_same_bytes(echo: Echo, fault: Fault, received: bytes) -> None:
    with proxied(echo, scripted(fault)) as (proxy, port):
        assert exchange(port) == (received, "FIN")
    assert proxy.broken == {fault.kind: 1}


def test_a_reset_is_seen_as_one(echo: Echo) -> None:
    with proxied(echo, scripted(Fault(FaultKind.RESET, Way.TO_CLIENT, 100))) as (proxy, port):
        assert exchange(port)[1] == "RST"
    assert proxy.broken == {FaultKind.RESET: 1}


def test_a_late_request_arrives_after_that_of_the_next_connection(echo: Echo) -> None:
    first, second = SENT, SENT[::-1]
    with proxied(echo, scripted(Fault(FaultKind.LATE, Way.TO_BROKER, 10))) as (_, port):
        assert exchange(port, first) == (b"", "RST")
        assert exchange(port, second[:204]) == (second[:204], "FIN")
    assert echo.await_ends(2) == [second[:204], first]


@pytest.mark.parametrize(
    ("kind", "end"), [(FaultKind.CLOSED_AT_ONCE, None), (FaultKind.RESET_AT_ONCE, "RST")]
)
def test_a_connection_that_ends_at_once_passes_nothing(echo: Echo, kind: FaultKind, end: str | None) -> None:
    with proxied(echo, scripted(Fault(kind))) as (_, port):
        received, ended = exchange(port)
        assert received == b""
        assert ended == end or end is None
        assert exchange(port) == (SENT, "FIN")
    assert echo.await_ends(1) == [SENT]


def test_a_port_that_refuses_connections_opens_again(echo: Echo) -> None:
    with proxied(echo, scripted(Fault(FaultKind.REFUSED, seconds=0.05))) as (proxy, port):
        assert exchange(port)[1] == "RST"
        refused = 0
        while True:
            try:
                assert exchange(port) == (SENT, "FIN")
                break
            except ConnectionRefusedError:
                refused += 1
    assert refused
    assert proxy.broken == {FaultKind.REFUSED: 1}


def test_a_seed_gives_the_same_faults_again_and_another_one_others() -> None:
    def faults(text: str) -> list[Fault | None]:
        plan = Plan(text, 0.7)
        return [plan.fault(name, number) for name in ("broker", "zookeeper") for number in range(200)]

    assert faults("1 kafka 7") == faults("1 kafka 7")
    assert faults("1 kafka 7") != faults("1 kafka 8")
    assert Plan.drawn("1 kafka 7") == Plan.drawn("1 kafka 7")
    kinds = {fault.kind for fault in faults("1 kafka 7") if fault}
    assert kinds == set(FaultKind)


def test_frames_are_whole_however_they_are_cut() -> None:
    whole = [SENT[pos : pos + 204] for pos in range(0, len(SENT), 204)]
    for size in (1, 3, 203, 205, 5000):
        framer = Framer()
        found = [
            frame for pos in range(0, len(SENT), size) for frame in framer.frames(SENT[pos : pos + size])
        ]
        assert (found, framer.rest) == (whole, b"")


@pytest.mark.parametrize("version", [0, 8, 12])
def test_addresses_in_metadata_become_the_proxys_and_nothing_else_changes(version: int) -> None:
    def frame(port: int) -> bytes:
        broker = MetadataBroker(node_id=1, host=HOST, port=port)
        response = MetadataResponse(brokers=(broker,), topics=())
        return b"".join(modern.DIALECT.write_response(modern.METADATA, response, version, 7))

    def request(key: int) -> bytes:
        body = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big")
        return len(body).to_bytes(4, "big") + body

    spoken: Spoken = Spoken()
    view = KafkaView({40_000: 50_000}, spoken)
    view.request(request(modern.METADATA.key))
    assert view.response(frame(40_000)) == frame(50_000)
    view.request(request(modern.METADATA.key))
    assert view.response(frame(40_001)) == frame(40_001)
    view.request(request(modern.LIST_GROUPS.key))
    assert view.response(frame(40_000)) == frame(40_000)
    assert spoken == {(modern.METADATA.key, version): 2, (modern.LIST_GROUPS.key, version): 1}


def test_a_fetch_of_nothing_is_not_counted_as_speaking_an_old_version() -> None:
    def request(*topics: str) -> bytes:
        asked = tuple(
            FetchTopic(
                topic=topic, partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1),)
            )
            for topic in topics
        )
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=asked)
        return b"".join(modern.DIALECT.write_request(request, 1, 7, "client"))

    spoken: Spoken = Spoken()
    view = KafkaView({}, spoken)
    view.request(request())
    assert not spoken
    view.request(request("t"))
    assert spoken == {(modern.FETCH.key, 1): 1}


def test_registrations_in_zookeeper_become_the_proxys() -> None:
    view = ZooKeeperView({40_000: 50_000})
    assert view.response(b"127.0.0.1-17:127.0.0.1:40000") == b"127.0.0.1-17:127.0.0.1:50000"
    assert view.response(b"127.0.0.1-17:127.0.0.1:40001") == b"127.0.0.1-17:127.0.0.1:40001"
