"""A client against peers that answer well, late, wrongly, or not at all."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

import pytest

from spark_kafkawire.errors import (
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    ProtocolError,
    RequestTimedOut,
)
from spark_kafkawire.model import Broker, Generation
from spark_kafkawire.net.client import PIPELINE_DEPTH, Client
from spark_kafkawire.net.pool import IDLE_MAX_S, IDLE_S, KEPT_COUNT_MAX, Pool
from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.v07 import LATEST_TIME, OffsetsRequest, ProduceRequest
from tests.support.cases import for_each
from tests.support.polling import GRACE_S, poll
from tests.support.settings import settings_07, settings_modern

from .modern_peers import answer, api_versions, asked
from .peers import ANSWER, OFFSETS, Peer, Script, answering, closed_port, read_frame, stalling

HTTP_ANSWER: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


def connect(peer: Peer, timeout_s: float = 10) -> Client:
    return Client.connect(peer.broker, settings_07(timeout_s))


def test_a_produce_is_sent_and_nothing_awaited() -> None:
    received: list[bytes] = []

    def keep(connection: socket.socket) -> None:
        received.append(read_frame(connection))
        answering(ANSWER)(connection)

    with Peer(keep) as peer, connect(peer) as client:
        client.send(ProduceRequest("t", 1, b"set"))
        assert client.in_flight == 0
        assert client.request(OFFSETS).offsets == (202_000,)
        assert client.in_flight == 0
    assert received == [b"\x00\x00\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x03set"]


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
        (stalling(HTTP_ANSWER), ProtocolError, "b'HTTP'; is this the port of a Kafka 0.7 broker? Correct"),
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
            time.sleep(0.2)  # longer than what is left
            answer(connection, question, api_versions())

    with (
        Peer(slow) as peer,
        Client.connect(peer.broker, settings_modern(60), within=Deadline.after(0.01)) as client,
    ):
        assert client.version_of(modern.PRODUCE) == modern.PRODUCE.versions.max


# --- Settings travel to the executors, and equal ones share connections ---


@pytest.mark.parametrize("generation", Generation)
def test_settings_travel_to_executors_and_stay_equal(generation: Generation) -> None:
    settings = ConnectionSettings(generation, 30.0, client_id="me")
    arrived = pickle.loads(pickle.dumps(settings))
    assert arrived == settings
    assert hash(arrived) == hash(settings)
    assert arrived != ConnectionSettings(generation, 30.0)


# --- Kept connections are used again, and only while they are good ---

TIMEOUT_S: Final = 60.0
#: Nothing becomes idle within a test that does not want it.
LONG_S: Final = 3600.0


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(LONG_S)
    yield pool
    pool.close_idle()


def take(pool: Pool, peer: Peer, timeout_s: float = TIMEOUT_S) -> Client:
    return pool.take(peer.broker, settings_07(timeout_s))


def used(pool: Pool, peer: Peer) -> Client:
    """A connection that has got an answer, and is given back."""
    client = take(pool, peer)
    client.request(OFFSETS)
    pool.give_back(client)
    return client


def test_a_connection_given_back_is_taken_again(pool: Pool) -> None:
    with Peer(stalling(ANSWER, ANSWER)) as peer:
        first = used(pool, peer)
        second = take(pool, peer)
        assert second is first
        assert second.request(OFFSETS).offsets == (202_000,)
        assert pool.kept_count == 0
        second.close()
        assert peer.connection_count == 1


def test_a_connection_in_use_is_not_shared(pool: Pool) -> None:
    with Peer(stalling(ANSWER)) as peer:
        first, second = take(pool, peer), take(pool, peer)
        assert first is not second
        for client in (first, second):
            client.request(OFFSETS)
            pool.give_back(client)
        assert pool.kept_count == 2


def test_a_connection_is_kept_for_its_own_broker_and_deadline(pool: Pool) -> None:
    with Peer(stalling(ANSWER)) as peer, Peer(stalling(ANSWER)) as other:
        pool.give_back(take(pool, peer))
        strangers = [take(pool, other), take(pool, peer, TIMEOUT_S / 2)]
        assert pool.kept_count == 1
        poll(lambda: peer.connection_count == 2 and other.connection_count == 1, "all have connected")
        for client in strangers:
            client.close()


@pytest.mark.parametrize("closes", [True, False], ids=["was closed", "has unasked bytes"])
def test_a_connection_that_is_not_quiet_is_replaced(closes: bool, pool: Pool) -> None:
    closing = threading.Event()

    def close_when_asked(connection: socket.socket) -> None:
        answering(ANSWER)(connection)
        closing.wait(TIMEOUT_S)

    with Peer(close_when_asked if closes else stalling(ANSWER + ANSWER), stalling(ANSWER)) as peer:
        first = used(pool, peer)
        closing.set()
        poll(lambda: not first.is_quiet(), "the end of the connection, or the second answer")
        second = take(pool, peer)
        assert second is not first
        assert second.request(OFFSETS).offsets == (202_000,)
        second.close()


def test_a_connection_that_awaits_a_response_or_was_closed_is_not_kept(pool: Pool) -> None:
    with Peer(stalling()) as peer:
        waiting = take(pool, peer)
        waiting.send(OFFSETS)
        pool.give_back(waiting)
        assert pool.kept_count == 0
        closed = take(pool, peer)
        closed.close()
        pool.give_back(closed)
        again = take(pool, peer)
        assert again is not closed
        again.close()


def test_a_lent_connection_is_given_back_or_closed(pool: Pool) -> None:
    with Peer(stalling(ANSWER, ANSWER)) as peer:
        for _ in range(2):
            with pool.lend(peer.broker, settings_07(TIMEOUT_S)) as client:
                client.request(OFFSETS)
            assert pool.kept_count == 1
        with pytest.raises(ZeroDivisionError), pool.lend(peer.broker, settings_07(TIMEOUT_S)):
            raise ZeroDivisionError
        assert pool.kept_count == 0
        assert not client.is_quiet()  # it is closed
        assert peer.connection_count == 1


def test_idle_connections_are_closed_without_anybody_asking() -> None:
    closed = threading.Event()

    def report(connection: socket.socket) -> None:
        stalling(ANSWER)(connection)
        closed.set()

    pool = Pool(idle_s=0.05)
    with Peer(report) as peer:
        used(pool, peer)
        assert closed.wait(TIMEOUT_S)
        assert pool.kept_count == 0


def test_a_bounded_number_is_kept_the_youngest_ones(pool: Pool) -> None:
    with Peer(stalling()) as peer:
        clients = [take(pool, peer) for _ in range(KEPT_COUNT_MAX + 2)]
        for client in clients:
            pool.give_back(client)
        assert pool.kept_count == KEPT_COUNT_MAX
        assert take(pool, peer) is clients[-1]
        clients[-1].close()


def test_a_forked_process_does_not_use_its_parents_connections(pool: Pool) -> None:
    with Peer(stalling(ANSWER, ANSWER)) as peer:
        client = used(pool, peer)
        child = os.fork()
        if child == 0:
            os._exit(pool.kept_count)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert take(pool, peer) is client
        assert client.request(OFFSETS).offsets == (202_000,)
        client.close()


def test_a_connection_is_kept_for_longer_than_the_interval_of_its_uses() -> None:
    """A stream that polls each minute connects twice, and never again."""
    now_s = 0.0
    pool = Pool(IDLE_S, clock=lambda: now_s)
    with Peer(stalling()) as peer:
        clients = []
        for _ in range(6):
            clients.append(take(pool, peer))
            pool.give_back(clients[-1])
            now_s += 60.0
            pool._tick()
        # The peer may not have accepted them yet, so that they are counted here.
        assert len({id(client) for client in clients}) == 2
        now_s += 60.0  # twice the interval
        pool._tick()
        assert pool.kept_count == 0
    pool.close_idle()


def test_a_connection_is_closed_before_its_broker_closes_it() -> None:
    now_s = 0.0
    pool = Pool(IDLE_S, clock=lambda: now_s)
    with Peer(stalling()) as peer:
        pool.give_back(take(pool, peer))
        now_s += IDLE_MAX_S - 1.0
        pool.give_back(take(pool, peer))
        now_s += IDLE_MAX_S - 1.0
        pool._tick()
        assert pool.kept_count == 1
        now_s += 1.0
        pool._tick()
        assert pool.kept_count == 0
    pool.close_idle()


def test_the_pool_grows_with_the_number_of_brokers(pool: Pool) -> None:
    with Peer(stalling()) as peer:
        brokers = [Broker(number, peer.broker.host, peer.broker.port) for number in range(40)]
        for _ in range(2):
            for broker in brokers:
                pool.give_back(pool.take(broker, settings_07(TIMEOUT_S)))
        assert pool.kept_count == 40
        poll(lambda: peer.connection_count == 40, "each broker has one connection")


#: A process that may open 64 files: it keeps 16 connections, and closes them when it needs their files.
LIMITED = """
import os, resource, sys
from spark_kafkawire.errors import ConnectFailed
from spark_kafkawire.model import Broker
from spark_kafkawire.net.pool import Pool
from tests.support.settings import settings_07

host, port = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
pool, settings = Pool(3600.0), settings_07(60.0)
for number in range(30):
    pool.give_back(pool.take(Broker(number, host, port), settings))
print(pool.kept_count)
files = []
try:
    while True:
        files.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
client = pool.take(Broker(99, host, port), settings)
print(pool.kept_count)
while True:
    try:
        files.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        break
for name in (host, "localhost"):
    try:
        pool.take(Broker(100, name, port), settings)
    except ConnectFailed as error:
        print(error)
"""


def test_a_process_that_may_open_few_files_keeps_few_connections_and_frees_them() -> None:
    with Peer(stalling()) as peer:
        address = [peer.broker.host, str(peer.broker.port)]
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, *address], capture_output=True, text=True, timeout=TIMEOUT_S
        )
    kept, left, *errors = done.stdout.splitlines()
    assert (kept, left) == ("16", "0"), done.stderr
    assert len(errors) == 2, done.stderr
    for error in errors:
        assert "this process may open 64 files: raise its limit (ulimit -n)" in error
        assert "check that it is running" not in error
    assert "Too many open files" in errors[0]
