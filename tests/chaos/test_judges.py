"""Tests of the judges: defects that are planted in the package or in its output are found and named."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from spark_kafkawire.errors import ConnectionLost, OptionError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern import FETCH, METADATA
from spark_kafkawire.protocol.modern.fetch import FetchPartition, FetchRequest, FetchTopic
from spark_kafkawire.protocol.modern.metadata import MetadataBroker, MetadataResponse
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import DEADLINE_S

from . import clusters, reading, writing
from .frames import Framer, KafkaView, Spoken, ZooKeeperView
from .operation import SECRET, attempt
from .operations import Operations, Target, version_fault
from .proxy import HOST, Fault, FaultKind, Plan, Proxy, Upstream, Way
from .truth import Found, Ledger, Promise, Row, difference

ROWS: Final = [Row("t", None, 0, offset, 0, b"k", b"v", (), 1_000, 0) for offset in range(5)]
CONTENTS: Final = ["a", "b", "c"]


def test_rows_in_any_order_are_the_same_rows() -> None:
    assert difference(ROWS[::-1], ROWS) is None


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        (ROWS[1:], "1 missing"),
        ([*ROWS, ROWS[2]], "1 doubled"),
        ([*ROWS, ROWS[2]._replace(offset=7)], "1 foreign"),
        ([ROWS[0]._replace(key=None), *ROWS[1:]], "1 changed"),
        ([ROWS[0]._replace(headers=(("h", b""),)), *ROWS[1:]], "1 changed"),
        ([ROWS[0]._replace(timestamp_ms=None), *ROWS[1:]], "1 changed"),
        ([ROWS[0]._replace(timestamp_type=1), *ROWS[1:]], "1 changed"),
    ],
)
def test_rows_that_differ_are_told(found: list[Row], reported: str) -> None:
    assert reported in str(difference(found, ROWS))


def judged(promise: Promise, *numbers: int, log: str = "0", content: str | None = None) -> str | None:
    """Verdict on a write of ``CONTENTS`` of which these rows were found, in that order."""
    ledger: Ledger[str] = Ledger()
    ledger.begin(7, CONTENTS, ["0", None, None])
    ledger.end(7, promise)
    return ledger.judge([Found(log, 7, number, content or CONTENTS[number]) for number in numbers], 7)


@pytest.mark.parametrize(
    ("promise", "numbers", "reported"),
    [
        (Promise.ONCE, (0, 1, 2), None),
        (Promise.AT_MOST_ONCE, (), None),
        (Promise.AT_MOST_ONCE, (0, 2), None),
        (Promise.AT_LEAST_ONCE, (0, 1, 2, 1), None),
        (Promise.ANY, (2, 2, 0), None),
        (Promise.ONCE, (0, 2), "1 are missing"),
        (Promise.ONCE, (0, 1, 1, 2), "1 are doubled"),
        (Promise.ONCE, (0, 2, 1), "out of order"),
        (Promise.AT_LEAST_ONCE, (0, 0, 1), "1 are missing"),
        (Promise.AT_MOST_ONCE, (0, 0), "1 are doubled"),
        (Promise.AT_MOST_ONCE, (1, 0), "out of order"),
    ],
)
def test_a_write_that_breaks_its_promise_is_told(
    promise: Promise, numbers: tuple[int, ...], reported: str | None
) -> None:
    found = judged(promise, *numbers)
    assert found is None if reported is None else reported in str(found)


def test_rows_in_another_log_with_another_content_or_of_nobody_are_told() -> None:
    assert "is in 1 instead of 0" in str(judged(Promise.ANY, 0, log="1"))
    assert "has changed" in str(judged(Promise.ANY, 1, content="x"))
    ledger: Ledger[str] = Ledger()
    assert "foreign" in str(ledger.judge([Found("0", 8, 0, "a")]))


def test_a_row_that_comes_late_doubles_the_write_that_it_is_of() -> None:
    ledger: Ledger[str] = Ledger()
    for operation in (1, 2):
        ledger.begin(operation, CONTENTS[:1], [None])
        ledger.end(operation, Promise.ONCE)
        assert ledger.judge([Found("0", operation, 0, "a")], operation) is None
    assert "operation 1, exactly once, in order: of 1 rows 0 are missing [], 1 are doubled" in str(
        ledger.judge([Found("0", 1, 0, "a")])
    )


class Raw(ConnectionLost):
    """An error that does not look after its message, as all of ours do."""

    def __init__(self, message: str) -> None:
        super().__init__("")
        self._message = message

    def __str__(self) -> str:
        return self._message


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (Raw("two\nlines"), "not one printable line"),
        (Raw("\x1b[31m"), "not one printable line"),
        (Raw("long " * 10_000), "50000 characters"),
        (Raw(f"password {SECRET}"), "shows a secret"),
        (OptionError("option x"), "blames what is right"),
    ],
)
def test_errors_that_nobody_should_see_are_told(error: Exception, reported: str) -> None:
    with pytest.raises(AssertionError, match=reported):
        attempt(partial(_raise, error))


def _raise(error: Exception) -> None:
    raise error


def test_older_versions_than_without_faults_are_told() -> None:
    lowest = {FETCH.key: 12, METADATA.key: 9}
    assert version_fault(Spoken({(FETCH.key, 12): 3, (METADATA.key, 12): 1}), lowest) is None
    assert "Fetch in version 0 instead of 12" in str(version_fault(Spoken({(FETCH.key, 0): 1}), lowest))


@pytest.fixture
def operations(noida: NoidaBroker) -> Operations:
    """Reads and writes of a real broker, that has two small topics."""
    read, written = noida.create_topic(2), noida.create_topic(writing.PARTITION_COUNT)
    records = [Record(b"%d" % number, b"k", timestamp_ms=10**12 + number) for number in range(50)]
    librdkafka.produce(noida.bootstrap_servers, read, records)
    truth = clusters.learned(noida.bootstrap_servers, {read: records})
    upstreams = (Upstream("broker", noida.port, "kafka"),)
    return Operations(Target("noida-db", upstreams, truth, (written,), noida.bootstrap_servers), written, 1)


def test_an_honest_reader_and_an_honest_writer_pass(operations: Operations) -> None:
    operations.learn_versions(range(12))
    operations.close()


def test_a_reader_that_drops_a_row_is_caught(operations: Operations, monkeypatch: pytest.MonkeyPatch) -> None:
    read = reading.read
    monkeypatch.setattr(reading, "read", lambda options: read(options)[1:])
    with pytest.raises(AssertionError, match="1 missing"):
        operations.learn_versions(range(12))


def test_a_writer_that_doubles_rows_is_caught(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writing.write

    def twice(options: reading.Options, batches: Sequence[Any]) -> int:
        write(options, batches)
        return write(options, batches)

    monkeypatch.setattr(writing, "write", twice)
    with pytest.raises(AssertionError, match="are doubled"):
        operations.learn_versions(range(2, 30, 3))


# --- The proxy passes what it should, and each fault does what it says ---

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
