"""Tests of the judges: defects that are planted in the package or in its output are found and named."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from spark_kafkawire.errors import ConnectionLost, OptionError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern import FETCH, METADATA
from spark_kafkawire.protocol.modern.fetch import FetchRequest, FetchTopic
from spark_kafkawire.protocol.modern.metadata import MetadataBroker, MetadataResponse
from tests.net.peers import Peer
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import DEADLINE_S, poll

from . import clusters, reading, writing
from .frames import Framer, KafkaView, Spoken, ZooKeeperView
from .operation import SECRET, attempt
from .operations import Operations, Target, version_fault
from .proxy import HOST, Fault, FaultKind, Plan, Proxy, Upstream, Way
from .truth import Found, Ledger, Promise, Row, difference

ROWS: Final = [Row("t", None, 0, offset, 0, b"k", b"v", (), 1_000, 0) for offset in range(5)]
CONTENTS: Final = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        (ROWS[::-1], None),
        (ROWS[1:], "1 missing"),
        ([*ROWS, ROWS[2]], "1 doubled"),
        ([*ROWS, ROWS[2]._replace(offset=7)], "1 foreign"),
        ([ROWS[0]._replace(headers=(("h", b""),)), *ROWS[1:]], "1 changed"),
    ],
)
def test_report_rows_that_differ(found: list[Row], reported: str | None) -> None:
    said = difference(found, ROWS)
    assert said is None if reported is None else reported in str(said)


@pytest.mark.parametrize(
    ("promise", "numbers", "reported"),
    [
        (Promise.ONCE, (0, 1, 2), None),
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
def test_report_a_write_that_breaks_its_promise(
    promise: Promise, numbers: tuple[int, ...], reported: str | None
) -> None:
    said = ledger(promise).judge([Found("0", 7, number, CONTENTS[number]) for number in numbers], 7)
    assert said is None if reported is None else reported in str(said)


def ledger(promise: Promise) -> Ledger:
    """That of a write of ``CONTENTS`` that has ended, whose first row has to be in log 0."""
    written: Ledger = Ledger()
    written.begin(7, CONTENTS, ["0", None, None])
    written.end(7, promise)
    return written


def test_report_rows_in_another_log_with_another_content_unknown_or_late() -> None:
    assert "is in 1 instead of 0" in str(ledger(Promise.ANY).judge([Found("1", 7, 0, "a")], 7))
    assert "has changed" in str(ledger(Promise.ANY).judge([Found("0", 7, 1, "x")], 7))
    assert "foreign" in str(ledger(Promise.ANY).judge([Found("0", 8, 0, "a")]))
    written = ledger(Promise.ONCE)
    assert written.judge([Found("0", 7, number, item) for number, item in enumerate(CONTENTS)], 7) is None
    assert "operation 7, exactly once, in order: of 3 rows 0 are missing [], 1 are doubled" in str(
        written.judge([Found("0", 7, 0, "a")])
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
        (Raw("long " * 10_000), "50000 characters"),
        (Raw(f"password {SECRET}"), "shows a secret"),
        (OptionError("option x"), "blames what is right"),
    ],
)
def test_report_errors_that_no_user_should_see(error: Exception, reported: str) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(AssertionError, match=reported):
        attempt(fail)


def test_report_older_versions_than_without_faults() -> None:
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


def test_defects_of_a_reader_and_of_a_writer_are_caught(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = reading.read, writing.write
    operations.learn_versions(range(12))
    with monkeypatch.context() as planted:
        planted.setattr(reading, "read", lambda options: read(options)[1:])
        with pytest.raises(AssertionError, match="1 missing"):
            operations.learn_versions(range(12, 24))

    def twice(options: reading.Options, batches: Sequence[Any]) -> int:
        write(options, batches)
        return write(options, batches)

    monkeypatch.setattr(writing, "write", twice)
    with pytest.raises(AssertionError, match="are doubled"):
        operations.learn_versions(range(26, 50, 3))


# --- The proxy passes what it should, and each fault does what it says ---

#: Frames whose bytes are all different from their neighbours.
SENT: Final = b"".join((200).to_bytes(4, "big") + bytes([number]) * 200 for number in range(5))


@dataclass(frozen=True, slots=True)
class Scripted(Plan):
    """A fault for the first connection, and none for the others."""

    first: Fault | None = None

    def fault(self, upstream: str, number: int) -> Fault | None:  # noqa: ARG002
        return None if number else self.first


#: Of each connection that has ended, when its last bytes came, and all that came.
Heard = list[tuple[float, bytes]]


@contextlib.contextmanager
def proxied(fault: Fault | None) -> Iterator[tuple[Proxy, int, Heard]]:
    """A proxy with its port before an echo; the fault strikes its first connection."""
    heard: Heard = []

    def echo(connection: socket.socket) -> None:
        came, at_s = b"", 0.0
        try:
            while data := connection.recv(65536):
                came, at_s = came + data, time.monotonic()
                connection.sendall(data)
        finally:
            heard.append((at_s, came))

    with Peer(echo) as peer:
        upstreams = (Upstream("echo", peer.broker.port, "kafka 0.7"),)
        with Proxy(upstreams, Scripted("", 1.0, fault)) as proxy:
            yield proxy, proxy.port("echo"), heard
        assert proxy.broken == ({fault.kind: 1} if fault else {})


def heard_of(count: int, heard: Heard) -> list[bytes]:
    """Bytes of so many connections, in the order of their last ones."""
    poll(lambda: len(heard) >= count, f"{count} connections to end")
    return [came for _, came in sorted(heard)]


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


def test_without_faults_all_bytes_pass_unchanged() -> None:
    with proxied(None) as (proxy, port, _):
        for sent in (SENT, SENT * 200, SENT[:-7]):
            assert exchange(port, sent) == (sent, "FIN")
    assert proxy.made == 3


@pytest.mark.parametrize("at", [0, 1, 204, len(SENT) - 1])
def test_a_cut_ends_the_responses_after_so_many_bytes(at: int) -> None:
    with proxied(Fault(FaultKind.CUT, Way.TO_CLIENT, at)) as (_, port, _):
        received, end = exchange(port)
    assert SENT[:at].startswith(received)
    assert received == SENT[:at] or end == "RST"


CUT_HALF: Final = Fault(FaultKind.HALF_CLOSE, Way.TO_BROKER, 408)
SLOW: Final = [
    Fault(kind, way, 300, 500, 0.02) for kind in (FaultKind.STALL, FaultKind.BYTE_BY_BYTE) for way in Way
]
LATE: Final = [Fault(kind, seconds=0.01) for kind in (FaultKind.SLOW_START, FaultKind.REORDERED)]


@pytest.mark.parametrize("fault", [CUT_HALF, *SLOW, *LATE])
def test_slow_and_late_bytes_are_the_same_bytes(fault: Fault) -> None:
    with proxied(fault) as (_, port, _):
        assert exchange(port) == (SENT[:408] if fault is CUT_HALF else SENT, "FIN")


def test_a_late_request_arrives_after_that_of_the_next_connection() -> None:
    first, second = SENT, SENT[::-1]
    with proxied(Fault(FaultKind.LATE, Way.TO_BROKER, 10)) as (_, port, heard):
        assert exchange(port, first) == (b"", "RST")
        assert exchange(port, second[:204]) == (second[:204], "FIN")
        assert heard_of(2, heard) == [second[:204], first]


@pytest.mark.parametrize(
    ("kind", "ends"), [(FaultKind.CLOSED_AT_ONCE, ("FIN", "RST")), (FaultKind.RESET_AT_ONCE, ("RST",))]
)
def test_a_connection_that_ends_at_once_passes_nothing(kind: FaultKind, ends: tuple[str, ...]) -> None:
    with proxied(Fault(kind)) as (_, port, heard):
        received, ended = exchange(port)
        assert received == b""
        assert ended in ends
        assert exchange(port) == (SENT, "FIN")
        assert heard_of(1, heard) == [SENT]


def test_a_port_that_refuses_connections_opens_again() -> None:
    with proxied(Fault(FaultKind.REFUSED, seconds=0.2)) as (_, port, _):
        assert exchange(port)[1] == "RST"
        with pytest.raises(ConnectionRefusedError):
            exchange(port)
        poll(lambda: _opens(port), "an open port")


def _opens(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        return exchange(port) == (SENT, "FIN")
    return False


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
        result = [
            frame for pos in range(0, len(SENT), size) for frame in framer.frames(SENT[pos : pos + size])
        ]
        assert (result, framer.rest) == (whole, b"")


def test_addresses_in_metadata_become_the_proxys_and_nothing_else_changes() -> None:
    def frame(port: int) -> bytes:
        broker = MetadataBroker(node_id=1, host=HOST, port=port)
        response = MetadataResponse(brokers=(broker,), topics=())
        return b"".join(modern.DIALECT.write_response(modern.METADATA, response, 12, 7))

    spoken: Spoken = Spoken()
    view = KafkaView({40_000: 50_000}, spoken)
    asked = (modern.METADATA, 40_000, 50_000), (modern.METADATA, 40_001, 40_001)
    for api, port, shown in (*asked, (modern.LIST_GROUPS, 40_000, 40_000)):
        view.request(struct.pack(">ihhi", 8, api.key, 12, 7))
        assert view.response(frame(port)) == frame(shown)
    assert spoken == {(modern.METADATA.key, 12): 2, (modern.LIST_GROUPS.key, 12): 1}
    registered = ZooKeeperView({40_000: 50_000})
    for port, shown in ((40_000, 50_000), (40_001, 40_001)):
        assert (
            registered.response(b"127.0.0.1-17:127.0.0.1:%d" % port) == b"127.0.0.1-17:127.0.0.1:%d" % shown
        )


def test_a_fetch_of_nothing_is_not_counted_as_speaking_an_old_version() -> None:
    view = KafkaView({}, spoken := Spoken())
    for topics in ((), (FetchTopic(topic="t", partitions=()),)):
        assert not spoken
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
        view.request(b"".join(modern.DIALECT.write_request(request, 1, 7, "client")))
    assert spoken == {(modern.FETCH.key, 1): 1}
