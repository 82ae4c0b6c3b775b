"""Waits have a deadline, and every failure is one of our errors."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from spark_kafkawire.errors import ConnectFailed, ConnectionLost, KafkaWireError, RequestTimedOut
from spark_kafkawire.model import Broker
from spark_kafkawire.net.http import Answer, Url, ask
from spark_kafkawire.net.transport import _MARKED_BUFFER_BYTES_MIN, Deadline, Transport
from tests.support.cases import for_each
from tests.support.polling import GRACE_S, poll

from .modern_peers import mutated
from .peers import Peer, Script, closed_port, drip, read_frame, stalling, unreachable

SOON_S: Final = 0.2


@pytest.fixture
def pair() -> Iterator[tuple[Transport, socket.socket]]:
    ours, theirs = socket.socketpair()
    transport = Transport(ours)
    yield transport, theirs
    transport.close()
    theirs.close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 80, "with space", "nul\0"])
def test_a_host_that_cannot_be_found_says_so(host: str) -> None:
    with pytest.raises(ConnectFailed, match=r"^cannot find the host: ") as error:
        Transport.connect(Broker(0, host, 9092), Deadline.after(5))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("count", [1, 20])
def test_silent_addresses_share_one_deadline(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with unreachable() as broker:
        address = (socket.AF_INET, socket.SOCK_STREAM, 0, "", (broker.host, broker.port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [address] * count)
        began_s = time.monotonic()
        with pytest.raises(
            ConnectFailed, match=r"^cannot connect within 0\.2 s \(requestTimeout\); check that it is running"
        ):
            Transport.connect(broker, Deadline.after(SOON_S))
        assert SOON_S <= time.monotonic() - began_s < SOON_S + GRACE_S


def test_the_next_address_is_tried_where_one_is_silent_or_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(stalling()) as peer, unreachable() as silent:
        for other in (silent, closed_port()):
            addresses: list[Any] = [
                (socket.AF_INET, socket.SOCK_STREAM, 0, "", (broker.host, broker.port))
                for broker in (other, peer.broker)
            ]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, result=addresses, **__: result)
            Transport.connect(peer.broker, Deadline.after(0.5)).close()


def test_a_look_up_that_does_not_end_fails_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: end.wait(20) and [])
    began_s = time.monotonic()
    try:
        with pytest.raises(
            ConnectFailed, match=r"^cannot find the host within 0\.2 s \(requestTimeout\); check"
        ):
            Transport.connect(Broker(0, "a.host", 9092), Deadline.after(SOON_S))
        assert time.monotonic() - began_s < SOON_S + GRACE_S
    finally:
        end.set()


def test_an_ipv6_address_is_connected_to() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with listener:
        Transport.connect(Broker(0, "::1", listener.getsockname()[1]), Deadline.after(5)).close()


def test_more_buffers_than_one_call_takes_arrive_in_order(pair: tuple[Transport, socket.socket]) -> None:
    transport, theirs = pair
    parts = [bytes([index % 251]) * (index % 3) for index in range(2000)]
    transport.send([memoryview(b"").cast("B"), *parts], Deadline.after(5))
    whole = b"".join(parts)
    with theirs.makefile("rb") as stream:
        assert stream.read(len(whole)) == whole


def test_a_large_buffer_is_sent_while_the_peer_reads_slowly() -> None:
    sizes: list[int] = []

    def count(connection: socket.socket) -> None:
        sizes.append(len(read_frame(connection)))

    with Peer(count) as peer:
        transport = Transport.connect(peer.broker, Deadline.after(5))
        body = bytes(8 << 20)
        transport.send([len(body).to_bytes(4, "big"), body], Deadline.after(10))
        assert transport.receive_into(memoryview(bytearray(1)), Deadline.after(10)) == 0
        transport.close()
    assert sizes == [8 << 20]


def test_a_send_and_a_receive_end_at_the_deadline(pair: tuple[Transport, socket.socket]) -> None:
    transport, theirs = pair
    began_s = time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"within 0\.2 s \(requestTimeout\)"):
        transport.send([bytes(64 << 20)], Deadline.after(SOON_S))
    assert time.monotonic() - began_s < SOON_S + GRACE_S
    began_s = time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"no answer within 0\.2 s \(requestTimeout\)"):
        transport.receive_into(memoryview(bytearray(1)), Deadline.after(SOON_S))
    assert SOON_S <= time.monotonic() - began_s < SOON_S + GRACE_S
    theirs.sendall(b"x")
    with pytest.raises(RequestTimedOut):
        transport.receive_into(memoryview(bytearray(1)), Deadline.after(-1))
    with pytest.raises(RequestTimedOut):
        transport.send([b"x"], Deadline.after(-1))


def test_a_peer_that_closed_gives_no_bytes_and_then_breaks(pair: tuple[Transport, socket.socket]) -> None:
    transport, theirs = pair
    theirs.close()
    assert transport.receive_into(memoryview(bytearray(1)), Deadline.after(5)) == 0
    with pytest.raises(ConnectionLost, match=r"^the connection broke: Broken pipe; see the log of the peer"):
        transport.send([b"x"], Deadline.after(5))
    transport.close()
    transport.close()
    with pytest.raises(ConnectionLost):
        transport.send([b"x"], Deadline.after(5))


def test_a_close_with_unread_bytes_counts_as_a_close(pair: tuple[Transport, socket.socket]) -> None:
    transport, theirs = pair
    transport.send([b"unread"], Deadline.after(5))
    theirs.close()
    assert transport.receive_into(memoryview(bytearray(1)), Deadline.after(5)) == 0


@pytest.fixture
def new_tcp() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection; a socket pair knows no low-water mark."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as ours,
        server.accept()[0] as theirs,
    ):
        yield ours, theirs


@pytest.fixture
def tcp(new_tcp: tuple[socket.socket, socket.socket]) -> tuple[socket.socket, socket.socket]:
    """The same, over which so much has come that the system has given it a large receive buffer."""
    ours, theirs = new_tcp
    data = bytes(4 << 20)

    def has_grown() -> bool:
        sender = sent_in_pieces(theirs, data, len(data), pause_s=0)
        received_all(Transport(ours), len(data), Deadline.after(60))
        sender.join()
        return receive_buffer(ours) >= _MARKED_BUFFER_BYTES_MIN

    poll(has_grown, "a receive buffer of 1 MiB")
    return new_tcp


def receive_buffer(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def low_water_mark(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def sent_in_pieces(peer: socket.socket, data: bytes, piece: int, pause_s: float) -> threading.Thread:
    """A thread that sends so, and is joined by who wants to know that it did."""

    def send() -> None:
        for pos in range(0, len(data), piece):
            peer.sendall(data[pos : pos + piece])
            time.sleep(pause_s)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def received_all(transport: Transport, size: int, deadline: Deadline) -> tuple[bytes, list[int]]:
    """So many bytes that are due, and how many came at a time."""
    data, came = bytearray(size), list[int]()
    while sum(came) < size:
        came.append(transport.receive_into(memoryview(data)[sum(came) :], deadline, is_due=True))
        assert came[-1], "the peer closed"
    return bytes(data), came


def test_many_bytes_that_are_due_come_many_at_a_time(
    tcp: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_kafkawire.net.transport._MARK_WAIT_S", 10)  # whatever else the machine does
    ours, theirs = tcp
    transport, data = Transport(ours), random.Random(1).randbytes((1 << 20) + 1)
    sender = sent_in_pieces(theirs, data, 16 << 10, pause_s=0.0005)
    received, came = received_all(transport, len(data), Deadline.after(60))
    sender.join()
    assert received == data
    # The system makes the window larger while more comes, later on a busy machine; 65 pieces are sent.
    assert len(came) <= 16
    assert transport._has_marks, "no more was waited for than was due"
    assert low_water_mark(ours) == 1, "one byte more must wake who looks for it"
    theirs.sendall(b"x")
    poll(lambda: not transport.is_quiet(), "a byte without a request")


def test_the_window_of_a_small_buffer_is_the_systems(new_tcp: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = new_tcp
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    theirs.sendall(b"x" * 1000)
    transport = Transport(ours)
    assert transport.receive_into(memoryview(bytearray(1 << 20)), Deadline.after(60), is_due=True) == 1000
    assert low_water_mark(ours) == 1
    assert transport._has_marks, "nothing was waited for"


def test_what_has_come_is_taken_without_a_wait_for_more(tcp: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = tcp
    transport, view = Transport(ours), memoryview(bytearray(1 << 20))
    for sent, is_due in ((1, False), (1000, True), (1, True)):
        theirs.sendall(b"x" * sent)
        assert transport.receive_into(view, Deadline.after(60), is_due=is_due) == sent
        assert low_water_mark(ours) == 1
        assert transport._has_marks is not is_due, "it is waited for once, not for each piece"
    transport = Transport(ours)
    theirs.sendall(b"x" * 1000)
    theirs.shutdown(socket.SHUT_WR)
    assert transport.receive_into(view, Deadline.after(60), is_due=True) == 1000
    assert transport.receive_into(view, Deadline.after(60), is_due=True) == 0


def test_nothing_of_what_is_due_ends_a_receive_in_time(tcp: tuple[socket.socket, socket.socket]) -> None:
    transport, began_s = Transport(tcp[0]), time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"no answer within 0\.2 s \(requestTimeout\)"):
        transport.receive_into(memoryview(bytearray(1 << 20)), Deadline.after(SOON_S), is_due=True)
    assert SOON_S <= time.monotonic() - began_s < SOON_S + GRACE_S


class WithoutMarks(socket.socket):
    """A socket of a system that knows no low-water mark."""

    def setsockopt(self, *_arguments: Any) -> None:
        raise OSError(errno.ENOPROTOOPT, "Protocol not available")


def test_a_system_without_low_water_marks_is_read_from(tcp: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = tcp
    with WithoutMarks(fileno=os.dup(ours.fileno())) as sock:
        sent_in_pieces(theirs, bytes(range(256)) * 1024, 10_000, pause_s=0)
        assert received_all(Transport(sock), 256 << 10, Deadline.after(60))[0] == bytes(range(256)) * 1024


def test_the_sooner_of_two_deadlines_counts_and_is_named() -> None:
    request, delivery = Deadline.after(30), Deadline.after(0.01, "kafka.delivery.timeout.ms")
    assert request.within(None) is request
    assert request.within(Deadline.after(60)) is request
    assert str(request.within(delivery)) == "0.01 s (kafka.delivery.timeout.ms)"


def test_what_has_come_is_taken_past_an_outer_deadline(pair: tuple[Transport, socket.socket]) -> None:
    transport, theirs = pair
    theirs.sendall(b"x")
    passed = Deadline.after(-1, "kafka.delivery.timeout.ms")
    assert transport.receive_into(memoryview(bytearray(1)), Deadline.after(60).within(passed)) == 1
    with pytest.raises(RequestTimedOut, match=r"\(kafka\.delivery\.timeout\.ms\)"):
        transport.receive_into(memoryview(bytearray(1)), Deadline.after(60).within(passed))


# --- HTTP over real sockets: whole answers, cut ones, long ones, slow ones ---

OK: Final = b"HTTP/1.1 200 OK\r\n"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BODY: Final = b'{"schema": "\\"long\\""}'
GOOD: Final = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
#: Memory that an announced length must not take, KiB.
_MEMORY_KIB: Final = 200_000


def saying(*parts: bytes, seen: list[bytes] | None = None, keeps_open: bool = False) -> Script:
    """Read a request and send the parts one by one; with ``keeps_open`` the client closes."""

    def script(connection: socket.socket) -> None:
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            if not (chunk := connection.recv(1 << 16)):
                return
            data += chunk
        if seen is not None:
            seen.append(data)
        for part in parts:
            connection.sendall(part)
        while keeps_open and connection.recv(1 << 16):
            pass

    return script


def got(peer: Peer, timeout_s: float = 10, answer_bytes_max: int = 1 << 20) -> Answer:
    url = Url.parse(f"http://127.0.0.1:{peer.broker.port}/schemas/ids/1?a=b")
    assert url is not None
    deadline = Deadline.after(timeout_s)
    return ask(url, "GET", {"Accept": "application/json"}, None, None, deadline, answer_bytes_max)


def test_a_request_has_its_headers_and_its_answer_a_status_and_a_body() -> None:
    seen: list[bytes] = []
    with Peer(saying(GOOD, seen=seen)) as peer:
        assert got(peer) == Answer(200, BODY)
    assert seen[0].decode().splitlines() == [
        "GET /schemas/ids/1?a=b HTTP/1.1",
        f"Host: 127.0.0.1:{peer.broker.port}",
        "Accept: application/json",
        "Connection: close",
        "",
    ]


def test_an_answer_ends_where_its_length_says_and_comes_in_any_pieces() -> None:
    chunked = CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    pieces = saying(*(GOOD[pos : pos + 1] for pos in range(len(GOOD))))
    with Peer(saying(GOOD, keeps_open=True), saying(chunked, keeps_open=True), pieces) as peer:
        for _ in range(3):
            assert got(peer) == Answer(200, BODY)


def test_a_cut_answer_is_an_error() -> None:
    cuts = range(0, len(GOOD), 3)
    with Peer(*(saying(GOOD[:stop]) for stop in cuts)) as peer:
        for _ in cuts:
            with pytest.raises(ConnectFailed, match=r"^the answer .*ends early"):
                got(peer)


@pytest.mark.parametrize("size", [1 << 33, 1 << 62, 10**40])
@pytest.mark.parametrize("form", ["Content-Length: %d\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n%x\r\n"])
def test_memory_is_taken_for_what_came_and_not_for_what_is_announced(form: str, size: int) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    head = f"HTTP/1.1 200 OK\r\n{form % size}"
    with Peer(saying(head.encode(), bytes(5000))) as peer, pytest.raises(ConnectFailed):
        got(peer)
    with (
        Peer(saying(head.encode(), bytes(20_000))) as peer,
        pytest.raises(ConnectFailed, match=r"longer than 10000 bytes|not HTTP"),
    ):
        got(peer, answer_bytes_max=10_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < _MEMORY_KIB


CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


def dripping(data: bytes, rest: bytes) -> Script:
    """Send the data, and then the rest again and again, until the client closes."""

    def script(connection: socket.socket) -> None:
        saying(data)(connection)
        drip(connection, rest)

    return script


@for_each(
    "script",
    [
        stalling(),
        dripping(b"", b"H"),
        dripping(OK, b"X"),
        dripping(OK, b"X: y\r\n"),
        dripping(OK + b"Content-Length: 10000000000\r\n\r\n{", b" "),
        dripping(OK + b"\r\n{", b" "),
        dripping(CHUNKED, b"1\r\n \r\n"),
        dripping(b"", CONTINUE),
    ],
)
def test_a_slow_server_is_left_at_the_deadline(script: Script) -> None:
    began_s = time.monotonic()
    with Peer(script) as peer, pytest.raises(RequestTimedOut, match=r"no answer within 0\.2 s"):
        got(peer, timeout_s=0.2)
    assert time.monotonic() - began_s < 0.2 + GRACE_S


@for_each(
    ("data", "rest"),
    [
        (OK + b"Content-Length: 10000000000\r\n\r\n", bytes(1 << 16)),
        (OK + b"\r\n", b" " * (1 << 16)),
        (CHUNKED, b"10000\r\n" + b" " * (1 << 16) + b"\r\n"),
        (OK, b"X: y\r\n" * 1000),
        (OK, b"X" * (1 << 16)),
        (CHUNKED, b"F" * (1 << 16)),
        (b"", CONTINUE * 1000),
    ],
)
def test_an_endless_answer_is_bounded(data: bytes, rest: bytes) -> None:
    def pouring(connection: socket.socket) -> None:
        saying(data)(connection)
        while True:
            connection.sendall(rest)

    with Peer(pouring) as peer, pytest.raises(ConnectFailed, match=r"^the answer is "):
        got(peer, timeout_s=60)


def test_mutated_answers_are_answers_or_errors_of_this_package() -> None:
    draw = random.Random(7)
    answers = [mutated(GOOD, draw) for _ in range(100)]
    good = 0
    with Peer(*map(saying, answers)) as peer:
        for _ in answers:
            with contextlib.suppress(KafkaWireError):
                got(peer)
                good += 1
    assert 3 < good < len(answers)


@for_each(
    ("text", "expected"),
    [
        ("http://h", Url("http", "h", 80, "/", "h")),
        ("https://h:8081/a?b=c", Url("https", "h", 8081, "/a?b=c", "h:8081")),
        ("http://[::1]:8081/", Url("http", "::1", 8081, "/", "[::1]:8081")),
        ("h:8081", None),
        ("ftp://h/", None),
        ("http://", None),
        ("http://h:0/", None),
        ("http://h:70000/", None),
        ("http://h:x/", None),
        ("http://me:secret@h/", None),
        ("http://h/a b", None),
        ("http://h/\r\nX: y", None),
        ("http://h/#part", None),
        ("http://[::1/", None),
    ],
)
def test_a_url_is_of_a_host_and_has_no_login(text: str, expected: Url | None) -> None:
    assert Url.parse(text) == expected
