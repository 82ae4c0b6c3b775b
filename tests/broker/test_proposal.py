"""The broker's answers to the proposal, asked by sockets and ``struct`` alone, as by a foreign client."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Final

import pytest

from spark_kafkawire.broker import (
    BrokerConfig,
    BrokerServer,
    Fault,
    FaultKind,
    proposal,
)
from spark_kafkawire.errors import OptionError
from tests.support import replay
from tests.support.embedded import StartBroker
from tests.support.message_sets import gzipped, message
from tests.support.polling import poll

BOTH: Final = {"wire.format": "0.7,proposal"}
LOG: Final = ("t", 0)
ONE: Final = message(b"one")
TWO: Final = message(b"two and more")
#: What a poll waits that ends before: more than any test takes.
LONG_MS: Final = 60_000
NONE, OUT_OF_RANGE, INVALID_MESSAGE, WRONG_PARTITION = -1, 1, 2, 3
NO_REPLICA, TOO_LARGE, INVALID_TOPIC, INVALID_ACKS = 9, 10, 17, 21

Topics = dict[str, list[tuple[int, bytes]]]


def name(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def produce_request(topics: Topics, acks: int = 1, correlation_id: int = 7) -> bytes:
    body = struct.pack(">hhi", 700, 0, correlation_id) + name("test") + struct.pack(">bi", acks, 1000)
    return framed(body + data_of(topics))


def data_of(topics: Topics) -> bytes:
    parts = struct.pack(">h", len(topics))
    for topic, partitions in topics.items():
        parts += name(topic) + struct.pack(">h", len(partitions))
        for partition, messages in partitions:
            parts += struct.pack(">ii", partition, len(messages)) + messages
    return parts


def fetch_request(
    topics: dict[str, list[tuple[int, int]]], max_wait_ms: int = 0, min_bytes: int = 0, replica_id: int = -1
) -> bytes:
    body = struct.pack(">hih", 701, 8, 0) + name("test")
    body += struct.pack(">iiih", replica_id, max_wait_ms, min_bytes, len(topics))
    for topic, offsets in topics.items():
        body += name(topic) + struct.pack(">h", len(offsets))
        body += b"".join(struct.pack(">i", partition) for partition, _ in offsets)
        body += struct.pack(">h", len(offsets))
        body += b"".join(struct.pack(">q", offset) for _, offset in offsets)
    return framed(body)


def produced(body: bytes) -> tuple[int, list[int], list[int]]:
    """Error, errors and offsets of a ProduceResponse."""
    correlation_id, version, error, count = struct.unpack_from(">ihhh", body)
    assert (correlation_id, version) == (7, 0)
    errors = list(struct.unpack_from(f">{count}h", body, 10))
    assert struct.unpack_from(">h", body, 10 + 2 * count) == (count,)
    offsets = list(struct.unpack_from(f">{count}q", body, 12 + 2 * count))
    assert len(body) == 12 + 10 * count
    return error, errors, offsets


def fetched(body: bytes) -> tuple[int, Topics]:
    """Error and data of a FetchResponse."""
    correlation_id, version, error, count = struct.unpack_from(">ihhh", body)
    assert (correlation_id, version) == (8, 0)
    pos = 10
    topics: Topics = {}
    for _ in range(count):
        (size,) = struct.unpack_from(">h", body, pos)
        topic = body[pos + 2 : pos + 2 + size].decode()
        (part_count,) = struct.unpack_from(">h", body, pos + 2 + size)
        pos += 4 + size
        topics[topic] = []
        for _ in range(part_count):
            partition, size = struct.unpack_from(">ii", body, pos)
            topics[topic].append((partition, body[pos + 8 : pos + 8 + size]))
            pos += 8 + size
    assert pos == len(body)
    return error, topics


def produce(broker: BrokerServer, topics: Topics, acks: int = 1) -> tuple[int, list[int], list[int]]:
    return produced(replay.ask(broker.port, produce_request(topics, acks)))


def fetch(
    broker: BrokerServer, topics: dict[str, list[tuple[int, int]]], max_wait_ms: int = 0, min_bytes: int = 0
) -> tuple[int, Topics]:
    return fetched(replay.ask(broker.port, fetch_request(topics, max_wait_ms, min_bytes)))


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerServer:
    return start_broker(BOTH)


def test_an_acknowledgement_tells_where_each_set_is(broker: BrokerServer) -> None:
    sets = {"t": [(0, ONE), (2, TWO), (0, TWO)], "u": [(1, gzipped(b"a", b"b"))]}
    assert produce(broker, sets) == (0, [NONE] * 4, [0, 0, len(ONE), 0])
    assert produce(broker, {"t": [(0, ONE)]}) == (0, [NONE], [len(ONE + TWO)])
    assert replay.fetch(broker.port, LOG, 0, 1000) == ONE + TWO + ONE
    assert replay.fetch(broker.port, ("t", 2), 0, 1000) == TWO


def test_what_was_acknowledged_can_be_read_at_once_whatever_the_interval_of_flushes(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({**BOTH, "log.flush.interval": "1000", "log.default.flush.interval.ms": "3600000"})
    replay.produce(broker.port, LOG, ONE)
    assert replay.fetch(broker.port, LOG, 0, 1000) == b""
    assert produce(broker, {"t": [(0, TWO)]}) == (0, [NONE], [len(ONE)])
    assert fetch(broker, {"t": [(0, len(ONE))]}) == (0, {"t": [(0, TWO)]})


def test_a_set_at_fault_has_an_error_and_the_others_are_appended(start_broker: StartBroker) -> None:
    broker = start_broker({**BOTH, "max.message.size": "100"})
    answers = [
        (0, ONE, NONE, 0),
        (0, ONE[:-1] + bytes([ONE[-1] ^ 1]), INVALID_MESSAGE, -1),
        (1, message(b"x" * 101), TOO_LARGE, -1),
        (3, ONE, WRONG_PARTITION, -1),
        (-1, ONE, WRONG_PARTITION, -1),
        (2, ONE + TWO[:-1], INVALID_MESSAGE, -1),
        (0, TWO, NONE, len(ONE)),
    ]
    asked = {"t": [(partition, messages) for partition, messages, _, _ in answers], "a/b": [(0, ONE)]}
    errors, offsets = [[row[column] for row in answers] for column in (2, 3)]
    assert produce(broker, asked) == (0, [*errors, INVALID_TOPIC], [*offsets, -1])
    assert replay.fetch(broker.port, LOG, 0, 1000) == ONE + TWO
    assert replay.end_offset(broker.port, ("t", 2)) == 0


def test_without_acknowledgement_nothing_is_answered_and_what_is_refused_closes(broker: BrokerServer) -> None:
    with replay.connect(broker.port) as sock:
        sock.sendall(produce_request({"t": [(0, ONE)]}, acks=0) + fetch_request({"t": [(0, 0)]}))
        header, _ = replay.receive(sock, 4)
        assert fetched(replay.receive(sock, int.from_bytes(header, "big"))[0]) == (0, {"t": [(0, ONE)]})
        sock.sendall(produce_request({"t": [(7, ONE)]}, acks=0))
        assert replay.receive(sock, 1) == (b"", "closed")


@pytest.mark.parametrize("acks", [2, -1, 127])
def test_more_acknowledgements_than_there_are_brokers_are_refused_before_anything_is_appended(
    broker: BrokerServer, acks: int
) -> None:
    assert produce(broker, {"t": [(0, ONE), (1, ONE)]}, acks) == (INVALID_ACKS, [INVALID_ACKS] * 2, [-1, -1])
    assert replay.end_offset(broker.port, LOG) == 0


def test_a_fetch_has_the_partitions_in_the_order_in_which_they_were_asked_for(broker: BrokerServer) -> None:
    produce(broker, {"t": [(0, ONE), (1, TWO)], "u": [(2, TWO + ONE)]})
    asked = {"u": [(2, len(TWO)), (0, 0)], "t": [(1, 0), (0, len(ONE)), (1, 3)]}
    assert fetch(broker, asked) == (0, {"u": [(2, ONE), (0, b"")], "t": [(1, TWO), (0, b""), (1, TWO[3:])]})
    assert fetch(broker, {}) == (0, {})


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "error"),
    [
        ("t", 0, 1000, OUT_OF_RANGE),
        ("t", 0, -1, OUT_OF_RANGE),
        ("t", 1, 1, OUT_OF_RANGE),
        ("t", 3, 0, WRONG_PARTITION),
        ("..", 0, 0, INVALID_TOPIC),
    ],
)
def test_an_error_of_a_fetch_names_the_partition_and_does_not_wait(
    broker: BrokerServer, topic: str, partition: int, offset: int, error: int
) -> None:
    produce(broker, {"t": [(0, ONE)]})
    asked = {"u": [(0, 0)], topic: [(partition, offset)]}
    assert fetch(broker, asked, LONG_MS, 1) == (error, {topic: [(partition, b"")]})


def test_who_says_to_be_a_replica_is_refused(broker: BrokerServer) -> None:
    answer = replay.ask(broker.port, fetch_request({"t": [(0, 0)]}, LONG_MS, 1, replica_id=1))
    assert fetched(answer) == (NO_REPLICA, {})


@pytest.fixture
def only_woken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Polls look at the logs when they are told to alone, and none lasts until its end."""
    monkeypatch.setattr(proposal, "LOOK_S", 600.0)
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < LONG_MS / 2000


@pytest.mark.usefixtures("only_woken")
def test_a_poll_waits_until_its_bytes_are_there_in_all_partitions_together(broker: BrokerServer) -> None:
    with replay.connect(broker.port) as sock:
        sock.sendall(fetch_request({"t": [(0, 0), (1, 0)]}, LONG_MS, len(ONE + TWO)))
        produce(broker, {"t": [(0, ONE)]})
        assert replay.receive(sock, 1, replay.SILENCE_S) == (b"", "silent")
        produce(broker, {"t": [(1, TWO)]})
        header, _ = replay.receive(sock, 4)
        body, _ = replay.receive(sock, int.from_bytes(header, "big"))
    assert fetched(body) == (0, {"t": [(0, ONE), (1, TWO)]})


@pytest.mark.usefixtures("only_woken")
def test_a_poll_wakes_for_messages_of_07_once_they_are_flushed(start_broker: StartBroker) -> None:
    broker = start_broker({**BOTH, "log.flush.interval": "2"})
    with replay.connect(broker.port) as sock:
        sock.sendall(fetch_request({"t": [(0, 0)]}, LONG_MS, 1))
        replay.produce(broker.port, LOG, ONE)
        assert replay.receive(sock, 1, replay.SILENCE_S) == (b"", "silent")
        replay.produce(broker.port, LOG, TWO)
        header, _ = replay.receive(sock, 4)
        body, _ = replay.receive(sock, int.from_bytes(header, "big"))
    assert fetched(body) == (0, {"t": [(0, ONE + TWO)]})


def test_a_poll_ends_after_its_time_with_what_there_is(broker: BrokerServer) -> None:
    produce(broker, {"t": [(0, ONE)]})
    began_s = time.monotonic()
    assert fetch(broker, {"t": [(0, 0)]}, 300, 1 << 30) == (0, {"t": [(0, ONE)]})
    assert time.monotonic() - began_s >= 0.3
    # No time to wait, or nothing to wait for.
    for max_wait_ms, min_bytes in ((-1, 1 << 30), (0, 1), (LONG_MS, 0), (LONG_MS, -5)):
        assert fetch(broker, {"t": [(1, 0)]}, max_wait_ms, min_bytes) == (0, {"t": [(1, b"")]})


def test_polls_whose_peers_have_gone_end(broker: BrokerServer) -> None:
    before = threading.active_count()
    for _ in range(5):
        with replay.connect(broker.port) as sock:
            sock.sendall(fetch_request({"t": [(0, 0)]}, LONG_MS, 1))
    poll(lambda: threading.active_count() <= before, "their threads end")


@pytest.mark.usefixtures("only_woken")
def test_a_broker_that_stops_ends_its_polls(start_broker: StartBroker) -> None:
    before = replay.threads()
    broker = start_broker(BOTH)
    with replay.connect(broker.port) as sock:
        sock.sendall(fetch_request({"t": [(0, 0)]}, LONG_MS, 1))
        assert replay.receive(sock, 1, replay.SILENCE_S) == (b"", "silent")
        broker.stop()
        assert replay.receive(sock, 1) == (b"", "closed")
    assert replay.threads() <= before


def test_an_answer_is_bounded_and_no_partition_is_left_out_of_it(start_broker: StartBroker) -> None:
    broker = start_broker({**BOTH, "num.partitions": "9"})
    large = 5 * message(b"x" * 900_000)
    for partition in range(3):
        produce(broker, {"t": [(partition, large)]})
    produce(broker, {"t": [(4, ONE)]})
    began_s = time.monotonic()
    error, data = fetch(broker, {"t": [(partition, 0) for partition in range(9)]}, LONG_MS, 1 << 30)
    # A full answer is not waited for any longer, whatever was asked for.
    assert time.monotonic() - began_s < LONG_MS / 2000
    sizes = [len(messages) for _, messages in data["t"]]
    assert error == 0
    assert sum(sizes) <= 4 << 20
    assert sizes[3:] == [0, len(ONE), 0, 0, 0, 0]
    assert min(sizes[:3]) > 1_000_000
    assert all(large.startswith(messages) for _, messages in data["t"][:3])


def test_a_log_is_read_to_its_end_across_segments(start_broker: StartBroker) -> None:
    broker = start_broker({**BOTH, "log.file.size": "100"})
    sets = [message(bytes([number]) * 60) for number in range(10)]
    for item in sets:
        produce(broker, {"t": [(0, item)]})
    read = b""
    while len(read) < 10 * len(sets[0]):
        # All of the log counts for the poll, also what is behind the segment that is answered.
        error, data = fetch(broker, {"t": [(0, len(read))]}, LONG_MS, 10 * len(sets[0]) - len(read))
        assert error == 0
        read += data["t"][0][1]
    assert read == b"".join(sets)


def test_retention_and_reads_at_the_same_time_end_in_bytes_or_out_of_range(start_broker: StartBroker) -> None:
    broker = start_broker({**BOTH, "log.file.size": "100", "log.retention.size": "0"})
    stop = threading.Event()
    errors: set[int] = set()

    def read(request: bytes, error_pos: int) -> None:
        while not stop.is_set():
            (error,) = struct.unpack_from(">h", replay.ask(broker.port, request), error_pos)
            errors.add(error)

    requests = ((fetch_request({"t": [(0, 0)]}), 6), (replay.fetch_request(LOG, 0, 4), 0))
    readers = [threading.Thread(target=read, args=request) for request in 2 * requests]
    for reader in readers:
        reader.start()
    for _ in range(80):
        produce(broker, {"t": [(0, message(b"x" * 100))]})
        broker.logs.delete_old()
    stop.set()
    for reader in readers:
        reader.join()
    assert errors <= {0, OUT_OF_RANGE}


def test_requests_of_both_formats_are_answered_on_one_connection_in_order(broker: BrokerServer) -> None:
    requests = [
        produce_request({"t": [(0, ONE)]}),
        replay.fetch_request(LOG, 0, 1000),
        fetch_request({"t": [(0, 0)]}, LONG_MS, 1),
        replay.frame(4, "t", 0, struct.pack(">qi", -1, 1)),
    ]
    with replay.connect(broker.port) as sock:
        sock.sendall(b"".join(requests))
        bodies = []
        for _ in requests:
            header, _ = replay.receive(sock, 4)
            bodies.append(replay.receive(sock, int.from_bytes(header, "big"))[0])
    assert produced(bodies[0]) == (0, [NONE], [0])
    assert bodies[1] == b"\0\0" + ONE
    assert fetched(bodies[2]) == (0, {"t": [(0, ONE)]})
    assert bodies[3] == struct.pack(">hiq", 0, 1, len(ONE))


def test_a_broker_of_07_alone_closes_on_the_proposal(start_broker: StartBroker) -> None:
    broker = start_broker()
    for request in (produce_request({"t": [(0, ONE)]}), fetch_request({})):
        with replay.connect(broker.port) as sock:
            sock.sendall(request)
            assert replay.receive(sock, 1) == (b"", "closed")
    assert replay.end_offset(broker.port, LOG) == 0


def header_of_fetch() -> bytes:
    return struct.pack(">hih", 701, 8, 0) + name("test") + struct.pack(">iii", -1, 0, 0)


HOSTILE: Final = {
    "more offsets than partitions": header_of_fetch() + b"\0\1" + name("t") + b"\0\0\0\1" + bytes(8),
    "a negative count of topics": header_of_fetch() + b"\xff\xff",
    "a negative count of partitions": header_of_fetch() + struct.pack(">h", 1) + name("t") + b"\x80\0\0\0",
    "a count that lies": header_of_fetch() + b"\x7f\xff" + name("t"),
    "another version": struct.pack(">hih", 701, 8, 1) + name("test") + struct.pack(">iiih", -1, 0, 0, 0),
    "a null client id": struct.pack(">hihh", 701, 8, 0, -1) + struct.pack(">iiih", -1, 0, 0, 0),
    "a set longer than the request": struct.pack(">hhi", 700, 0, 7) + name("c") + struct.pack(">bi", 1, 0)
    + struct.pack(">h", 1) + name("t") + struct.pack(">hii", 1, 0, 1 << 30),
    "another request": struct.pack(">hhi", 702, 0, 7) + name("c"),
    "no more than an id": struct.pack(">h", 701),
    "half an id": b"\2",
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_request_closes_the_connection_and_nothing_else(broker: BrokerServer, case: str) -> None:
    with replay.connect(broker.port) as sock:
        sock.sendall(framed(HOSTILE[case]))
        assert replay.receive(sock, 1) == (b"", "closed")
    assert produce(broker, {"t": [(0, ONE)]}) == (0, [NONE], [0])


def test_more_partitions_than_a_response_can_list_are_refused_before_they_are_objects(
    broker: BrokerServer,
) -> None:
    topics = 60 * (
        name("t")
        + struct.pack(">h", 32_767)
        + bytes(4 * 32_767)
        + struct.pack(">h", 32_767)
        + bytes(8 * 32_767)
    )
    request = framed(header_of_fetch() + struct.pack(">h", 60) + topics)
    tracemalloc.start()
    try:
        with replay.connect(broker.port) as sock:
            sock.sendall(request)
            assert replay.receive(sock, 1) == (b"", "closed")
        # The request's bytes, here and there, and the objects of two of its topics.
        assert tracemalloc.get_traced_memory()[1] < len(request) + 3 * len(topics) // 60 + (32 << 20)
    finally:
        tracemalloc.stop()


def test_mutated_requests_leave_a_broker_that_serves(broker: BrokerServer) -> None:
    draw = random.Random(3)
    requests = [produce_request({"t": [(0, ONE), (1, TWO)]}), fetch_request({"t": [(0, 0), (1, 0)]}, 1, 1)]
    closed = 0
    for turn in range(200):
        body = bytearray(requests[turn % 2][4:])
        for _ in range(draw.randint(1, 3)):
            body[draw.randrange(len(body))] = draw.randrange(256)
        # A poll may have become one of a minute: nobody waits for answers here.
        with replay.connect(broker.port) as sock:
            sock.sendall(framed(bytes(body[: draw.randint(1, len(body))])))
            sock.shutdown(socket.SHUT_WR)
            closed += replay.receive(sock, 1)[1] == "closed"
    assert closed > 20
    assert produce(broker, {"u": [(0, ONE)]}) == (0, [NONE], [0])


def test_faults_can_be_set_for_the_proposal_too(start_broker: StartBroker) -> None:
    broker = start_broker(BOTH, faults=[Fault("Produce", 1, FaultKind.CUT, 9)])
    with replay.connect(broker.port) as sock:
        sock.sendall(produce_request({"t": [(0, ONE)]}))
        assert replay.receive(sock, 100) == (struct.pack(">iib", 22, 7, 0), "closed")
    assert replay.end_offset(broker.port, LOG) == len(ONE)


@pytest.mark.parametrize("text", ["proposal", "0.8", "0.7,0.7", "0.7,", "", "proposal,0.7"])
def test_other_wire_formats_are_refused_in_one_line(text: str) -> None:
    properties = {"brokerid": "0", "log.dir": "x", "wire.format": text}
    with pytest.raises(OptionError, match=r"wire\.format=.* must be 0\.7 or 0\.7,proposal"):
        BrokerConfig.from_properties(properties)
