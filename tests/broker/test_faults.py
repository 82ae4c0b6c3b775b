"""Scripted faults do to a client what they say, and nothing else goes wrong."""

from __future__ import annotations

from spark_kafkawire.broker import Fault, FaultKind
from spark_kafkawire.broker.faults import CONNECT, NOT_KAFKA
from tests.support import replay
from tests.support.embedded import StartBroker
from tests.support.message_sets import message

LOG = ("t", 0)
STORED = message(b"stored")
RESPONSE = (len(STORED) + 2).to_bytes(4, "big") + b"\0\0" + STORED
FETCH = replay.fetch_request(LOG, 0, 1000)


def exchange(start_broker: StartBroker, fault: Fault) -> tuple[bytes, str]:
    """Bytes that follow a FETCH of a stored message, up to one byte more than the response, and
    how they end."""
    broker = start_broker(faults=[fault])
    replay.produce(broker.port, LOG, STORED)
    with replay.connect(broker.port) as sock:
        sock.sendall(FETCH)
        return replay.receive(sock, len(RESPONSE) + 1, replay.SILENCE_S)


def test_without_faults_the_response_comes_and_the_connection_stays(start_broker: StartBroker) -> None:
    assert exchange(start_broker, Fault("FETCH", 2, FaultKind.DROP)) == (RESPONSE, "silent")


def test_drop_closes_instead_of_answering(start_broker: StartBroker) -> None:
    assert exchange(start_broker, Fault("FETCH", 1, FaultKind.DROP)) == (b"", "closed")


def test_cut_closes_in_the_middle_of_the_response(start_broker: StartBroker) -> None:
    assert exchange(start_broker, Fault("FETCH", 1, FaultKind.CUT, 9)) == (RESPONSE[:9], "closed")


def test_stall_is_silent_in_the_middle_of_the_response_and_does_not_keep_the_broker(
    start_broker: StartBroker,
) -> None:
    assert exchange(start_broker, Fault("FETCH", 1, FaultKind.STALL, 9)) == (RESPONSE[:9], "silent")


def test_short_is_a_whole_response_with_fewer_bytes(start_broker: StartBroker) -> None:
    expected = b"\0\0\0\x05\0\0" + STORED[:3]
    assert exchange(start_broker, Fault("FETCH", 1, FaultKind.SHORT, 9)) == (expected, "silent")


def test_flip_changes_one_bit(start_broker: StartBroker) -> None:
    response, _ = exchange(start_broker, Fault("FETCH", 1, FaultKind.FLIP, 7))
    assert [
        index for index, (got, sent) in enumerate(zip(response, RESPONSE, strict=True)) if got != sent
    ] == [7]


def test_garbage_is_not_the_protocol(start_broker: StartBroker) -> None:
    response, _ = exchange(start_broker, Fault("FETCH", 1, FaultKind.GARBAGE))
    assert response == NOT_KAFKA[: len(RESPONSE) + 1]


def test_a_dropped_produce_is_not_stored_and_a_cut_one_is(start_broker: StartBroker) -> None:
    broker = start_broker(faults=[Fault("PRODUCE", 1, FaultKind.DROP), Fault("PRODUCE", 2, FaultKind.CUT)])
    replay.produce(broker.port, ("dropped", 0), STORED)
    replay.produce(broker.port, ("cut", 0), STORED)
    assert replay.end_offset(broker.port, ("dropped", 0)) == 0
    assert replay.end_offset(broker.port, ("cut", 0)) == len(STORED)


def test_requests_are_counted_over_all_connections(start_broker: StartBroker) -> None:
    broker = start_broker(faults=[Fault("FETCH", 3, FaultKind.DROP)])
    answers = []
    for _ in range(4):
        with replay.connect(broker.port) as sock:
            sock.sendall(FETCH)
            answers.append(replay.receive(sock, 6)[1])
    assert answers == ["full", "full", "closed", "full"]


def test_a_connection_can_be_closed_before_its_first_request(start_broker: StartBroker) -> None:
    broker = start_broker(faults=[Fault(CONNECT, 1, FaultKind.DROP)])
    with replay.connect(broker.port) as sock:
        assert replay.receive(sock, 1) == (b"", "closed")
    assert replay.end_offset(broker.port, LOG) == 0
