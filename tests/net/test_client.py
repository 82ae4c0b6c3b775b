"""A client against peers that answer well, late, wrongly, or not at all."""

from __future__ import annotations

import socket
import time
from typing import Final

import pytest

from spark_kafkawire.errors import (
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    ProtocolError,
    RequestTimedOut,
)
from spark_kafkawire.net.client import PIPELINE_DEPTH, Client
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.v07 import LATEST_TIME, OffsetsRequest, ProduceRequest
from tests.support.cases import for_each
from tests.support.polling import GRACE_S
from tests.support.settings import settings_07, settings_modern

from .modern_peers import answer, api_versions, asked
from .peers import ANSWER, OFFSETS, Peer, Script, answering, closed_port, read_frame, stalling

HTTP_ANSWER: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


def connect(peer: Peer, timeout_s: float = 10) -> Client:
    return Client.connect(peer.broker, settings_07(timeout_s))


def test_a_request_gives_its_responses_body() -> None:
    with Peer(stalling(ANSWER)) as peer, connect(peer) as client:
        assert client.request(OFFSETS).offsets == (202_000,)
        assert client.in_flight == 0


def test_a_produce_is_sent_and_nothing_awaited() -> None:
    received: list[bytes] = []

    def keep(connection: socket.socket) -> None:
        received.append(read_frame(connection))
        answering(ANSWER)(connection)

    with Peer(keep) as peer, connect(peer) as client:
        client.send(ProduceRequest("t", 1, b"set"))
        assert client.in_flight == 0
        client.request(OFFSETS)
    assert received == [b"\x00\x00\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x03set"]


def test_a_response_may_come_byte_by_byte() -> None:
    def trickle(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        read_frame(connection)
        for byte in ANSWER:
            connection.sendall(bytes([byte]))

    with Peer(trickle) as peer, connect(peer) as client:
        assert client.request(OFFSETS).offsets == (202_000,)


def test_a_response_that_trickles_past_the_deadline_is_a_timeout() -> None:
    def trickle(connection: socket.socket) -> None:
        read_frame(connection)
        connection.settimeout(0.05)
        for byte in ANSWER:
            connection.sendall(bytes([byte]))
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                pass

    with Peer(trickle) as peer, connect(peer, 0.3) as client:
        began_s = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"no answer within 0\.3 s \(requestTimeout\)"):
            client.request(OFFSETS)
        assert time.monotonic() - began_s < 0.3 + GRACE_S


def test_a_pipeline_keeps_a_bounded_number_of_requests_in_flight_and_their_order() -> None:
    seen: list[int] = []

    def broker(connection: socket.socket) -> None:
        connection.settimeout(0.2)
        while True:
            ahead: list[bytes] = []
            try:
                while len(ahead) <= 2 * PIPELINE_DEPTH:
                    frame = read_frame(connection)
                    if not frame:
                        return
                    ahead.append(frame)
            except TimeoutError:
                pass
            seen.append(len(ahead))
            for frame in ahead:
                partition = frame[5:9]
                connection.sendall(bytes.fromhex("0000000e 0000 00000001 00000000") + partition)

    requests = [OffsetsRequest("t", partition, LATEST_TIME, 1) for partition in range(200)]
    with Peer(broker) as peer, connect(peer) as client:
        responses = list(client.pipeline(requests))
    assert [response.body.offsets for response in responses] == [(partition,) for partition in range(200)]
    assert [response.request for response in responses] == requests
    assert max(seen) == PIPELINE_DEPTH


def test_a_pipeline_of_depth_one_waits_for_each_response() -> None:
    def broker(connection: socket.socket) -> None:
        for _ in range(3):
            read_frame(connection)
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
            connection.setblocking(True)
            connection.sendall(ANSWER)

    with Peer(broker) as peer, connect(peer) as client:
        assert len(list(client.pipeline([OFFSETS] * 3, depth=1))) == 3


def resetting(connection: socket.socket) -> None:
    """Close with a part of the request unread: the client gets RST where others get FIN."""
    connection.recv(1)


@for_each(
    ("script", "kind", "message"),
    [
        (answering(b""), ConnectionLost, "the peer closed the connection instead of answering OFFSETS"),
        (resetting, ConnectionLost, "the peer closed the connection instead of answering OFFSETS"),
        (answering(ANSWER[:3]), ConnectionLost, "closed the connection instead of answering OFFSETS"),
        (answering(ANSWER[:9]), ConnectionLost, "instead of answering OFFSETS after 5 of 14 bytes"),
        (stalling(), RequestTimedOut, "no answer within 0.3 s (requestTimeout)"),
        (stalling(ANSWER[:3]), RequestTimedOut, "no answer within 0.3 s (requestTimeout)"),
        (stalling(ANSWER[:-1]), RequestTimedOut, "no answer within 0.3 s (requestTimeout)"),
        (stalling(bytes.fromhex("00000006 0000 00000001")), ProtocolError, "array of 1 elements"),
        (stalling(bytes.fromhex("0000000f 0000 00000001 0000000000031510 00")), ProtocolError, "at most 14"),
        (stalling(bytes.fromhex("00000007 0000 00000000 00")), ProtocolError, "of 7 bytes ends after 6"),
        (stalling(HTTP_ANSWER), ProtocolError, "b'HTTP'; is this the port of a Kafka 0.7 broker?"),
        (stalling(b"\xff" * 64), ProtocolError, "announces -1 bytes"),
    ],
)
def test_a_wrong_answer_is_an_error_that_names_the_broker_and_ends_the_connection(
    script: Script, kind: type[KafkaWireError], message: str
) -> None:
    with Peer(script) as peer, connect(peer, 0.3) as client:
        began_s = time.monotonic()
        with pytest.raises(kind) as error:
            client.request(OFFSETS)
        assert time.monotonic() - began_s < 0.3 + GRACE_S
        assert str(error.value).startswith(f"broker 7 (127.0.0.1:{peer.broker.port}): ")
        assert message in str(error.value)
        assert "\n" not in str(error.value)
        with pytest.raises(KafkaWireError):
            client.request(OFFSETS)
        assert peer.connection_count == 1


def test_bytes_after_a_response_are_an_error_of_the_next_request() -> None:
    with Peer(stalling(ANSWER + HTTP_ANSWER)) as peer, connect(peer) as client:
        client.request(OFFSETS)
        with pytest.raises(ProtocolError, match="HTTP"):
            client.request(OFFSETS)


def test_responses_that_came_before_a_close_are_not_lost() -> None:
    def two_answers(connection: socket.socket) -> None:
        # All requests are read before the close: unread ones would make it a reset.
        for _ in range(5):
            read_frame(connection)
        connection.sendall(ANSWER * 2)

    with Peer(two_answers) as peer, connect(peer) as client:
        for _ in range(5):
            client.send(OFFSETS)
        responses = [client.receive() for _ in range(2)]
        assert [response.body.offsets for response in responses] == [(202_000,), (202_000,)]
        with pytest.raises(ConnectionLost):
            client.receive()


def test_a_connection_that_cannot_be_made_names_the_broker() -> None:
    broker = closed_port()
    with pytest.raises(ConnectFailed) as error:
        Client.connect(broker, settings_07(5))
    assert str(error.value) == (
        f"broker 7 (127.0.0.1:{broker.port}): cannot connect: Connection refused; "
        "check that it is running and that this machine can reach the address"
    )


def test_a_slow_broker_may_tell_its_versions_however_soon_an_answer_is_wanted() -> None:
    def slow(connection: socket.socket) -> None:
        while (question := asked(connection)) is not None:
            time.sleep(1.0)  # longer than what is left
            answer(connection, question, api_versions())

    with (
        Peer(slow) as peer,
        Client.connect(peer.broker, settings_modern(60), within=Deadline.after(0.01)) as client,
    ):
        assert client.version_of(modern.PRODUCE) == modern.PRODUCE.versions.max
