"""Every wait has a deadline, and every failure is one of our errors."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from spark_kafkawire.errors import ConnectFailed, ConnectionLost, RequestTimedOut
from spark_kafkawire.model import Broker
from spark_kafkawire.net.transport import Deadline, Transport
from tests.support.polling import GRACE_S

from .peers import Peer, closed_port, read_frame, stalling, unreachable

SOON_S: Final = 0.2


@pytest.fixture
def pair() -> Iterator[tuple[Transport, socket.socket]]:
    ours, theirs = socket.socketpair()
    transport = Transport(ours)
    yield transport, theirs
    transport.close()
    theirs.close()


def test_a_refused_connection_says_so() -> None:
    with pytest.raises(ConnectFailed, match=r"^cannot connect: Connection refused$"):
        Transport.connect(closed_port(), Deadline.after(5))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 80, "with space", "nul\0"])
def test_a_host_that_cannot_be_found_says_so(host: str) -> None:
    with pytest.raises(ConnectFailed, match=r"^cannot find the host: ") as error:
        Transport.connect(Broker(0, host, 9092), Deadline.after(5))
    assert "\n" not in str(error.value)


def test_a_silent_host_fails_at_the_deadline() -> None:
    with unreachable() as broker:
        began_s = time.monotonic()
        with pytest.raises(ConnectFailed, match=r"^cannot connect within 0\.2 s \(requestTimeout\)$"):
            Transport.connect(broker, Deadline.after(SOON_S))
        assert SOON_S <= time.monotonic() - began_s < SOON_S + GRACE_S


def test_many_silent_addresses_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with unreachable() as broker:
        address = (socket.AF_INET, socket.SOCK_STREAM, 0, "", (broker.host, broker.port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [address] * 20)
        began_s = time.monotonic()
        with pytest.raises(ConnectFailed, match="requestTimeout"):
            Transport.connect(broker, Deadline.after(SOON_S))
        assert time.monotonic() - began_s < SOON_S + GRACE_S


def test_a_silent_address_leaves_time_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(stalling()) as peer, unreachable() as silent:
        addresses: list[Any] = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (broker.host, broker.port))
            for broker in (silent, peer.broker)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        Transport.connect(peer.broker, Deadline.after(0.5)).close()


def test_a_look_up_that_does_not_end_fails_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: end.wait(20) and [])
    began_s = time.monotonic()
    try:
        with pytest.raises(ConnectFailed, match=r"^cannot find the host within 0\.2 s \(requestTimeout\)$"):
            Transport.connect(Broker(0, "a.host", 9092), Deadline.after(SOON_S))
        assert time.monotonic() - began_s < SOON_S + GRACE_S
    finally:
        end.set()


def test_the_next_address_is_tried_where_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(stalling()) as peer:
        addresses: list[Any] = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (broker.host, broker.port))
            for broker in (closed_port(), peer.broker)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        Transport.connect(peer.broker, Deadline.after(5)).close()


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


def test_a_peer_that_reads_nothing_ends_a_send_at_its_deadline(
    pair: tuple[Transport, socket.socket],
) -> None:
    transport, _ = pair
    began_s = time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"within 0\.2 s \(requestTimeout\)"):
        transport.send([bytes(64 << 20)], Deadline.after(SOON_S))
    assert time.monotonic() - began_s < SOON_S + GRACE_S


def test_a_silent_peer_ends_a_receive_at_its_deadline(pair: tuple[Transport, socket.socket]) -> None:
    transport, _ = pair
    began_s = time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"no answer within 0\.2 s \(requestTimeout\)"):
        transport.receive_into(memoryview(bytearray(1)), Deadline.after(SOON_S))
    assert SOON_S <= time.monotonic() - began_s < SOON_S + GRACE_S


def test_a_deadline_that_has_passed_is_a_timeout_without_a_wait(
    pair: tuple[Transport, socket.socket],
) -> None:
    transport, theirs = pair
    theirs.sendall(b"x")
    with pytest.raises(RequestTimedOut):
        transport.receive_into(memoryview(bytearray(1)), Deadline.after(-1))
    with pytest.raises(RequestTimedOut):
        transport.send([b"x"], Deadline.after(-1))


def test_a_peer_that_closed_gives_no_bytes_and_then_a_broken_connection(
    pair: tuple[Transport, socket.socket],
) -> None:
    transport, theirs = pair
    theirs.close()
    assert transport.receive_into(memoryview(bytearray(1)), Deadline.after(5)) == 0
    with pytest.raises(ConnectionLost, match=r"^the connection broke: Broken pipe$"):
        transport.send([b"x"], Deadline.after(5))


def test_a_close_with_unread_bytes_counts_as_a_close(pair: tuple[Transport, socket.socket]) -> None:
    transport, theirs = pair
    transport.send([b"unread"], Deadline.after(5))
    theirs.close()
    assert transport.receive_into(memoryview(bytearray(1)), Deadline.after(5)) == 0


def test_closing_twice_is_allowed(pair: tuple[Transport, socket.socket]) -> None:
    transport, _ = pair
    transport.close()
    transport.close()
    with pytest.raises(ConnectionLost):
        transport.send([b"x"], Deadline.after(5))


def test_the_sooner_of_two_deadlines_counts_and_is_named() -> None:
    request, delivery = Deadline.after(30), Deadline.after(0.01, "kafka.delivery.timeout.ms")
    assert request.within(None) is request
    assert request.within(Deadline.after(60)) is request
    assert str(request.within(delivery)) == "0.01 s (kafka.delivery.timeout.ms)"


def test_what_has_come_is_taken_although_an_outer_deadline_has_passed(
    pair: tuple[Transport, socket.socket],
) -> None:
    transport, theirs = pair
    theirs.sendall(b"x")
    passed = Deadline.after(-1, "kafka.delivery.timeout.ms")
    assert transport.receive_into(memoryview(bytearray(1)), Deadline.after(60).within(passed)) == 1
    with pytest.raises(RequestTimedOut, match=r"\(kafka\.delivery\.timeout\.ms\)"):
        transport.receive_into(memoryview(bytearray(1)), Deadline.after(60).within(passed))
