"""Starts and ends of partitions, from brokers that answer as the recorded ones, and from worse ones."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker import BrokerServer, Fault, FaultKind
from spark_kafkawire.cluster.v07 import cluster as under_test
from spark_kafkawire.cluster.v07.cluster import all_bounds, bounds, segments_before
from spark_kafkawire.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    DiscoveryError,
    KafkaWireError,
    LimitError,
    ProtocolError,
    RequestTimedOut,
)
from spark_kafkawire.model import Broker, ClusterView, PartitionBounds, TopicPartition
from spark_kafkawire.protocol.v07 import EARLIEST_TIME, ErrorCode
from tests.cluster.v07.producing import HELLO, produce
from tests.net.peers import Peer, closed_port, read_frame, stalling
from tests.support.cases import for_each
from tests.support.embedded import StartBroker
from tests.support.golden import copy_segments
from tests.support.polling import GRACE_S
from tests.support.settings import net_07
from tests.support.writing import broker_of

NET: Final = net_07(5.0, retries=2, backoff_s=0.001)
#: How the error of answers that contradict each other begins, without the offset.
STARTS: Final = "one answer starts the log at offset"
NO_RETRY: Final = net_07(0.3, retries=0, backoff_s=0.001)
SEGS: Final = TopicPartition("lab-segs", 0, 0)
PARTITION: Final = TopicPartition("t", 0, 7)
#: Modification times of the recorded files of lab-segs-0, ms.
MODIFIED_MS: Final = (1795240908000, 1795244508000, 1795248108000)

#: How an OFFSETS request begins.
OFFSETS_KEY: Final = b"\0\4"


@pytest.fixture
def recorded(start_broker: StartBroker, tmp_path: Path) -> BrokerServer:
    """A broker on recorded logs: lab-segs-0 in three segments of known age, lab-fetch-0 in one."""
    log_dir = tmp_path / "broker-0"
    log_dir.mkdir()
    copy_segments(log_dir, "runB-broker0/lab-segs-0", "runB-broker0/lab-fetch-0")
    copy_segments(log_dir, "runB-broker0/lab-p-zero-0", "runB-broker0/lab-aged-0")
    server = start_broker(0, {"log.retention.hours": "1000000"}, clock_ms=lambda: 1795251708000)
    for file, modified_ms in zip(sorted((log_dir / "lab-segs-0").iterdir()), MODIFIED_MS, strict=True):
        os.utime(file, ns=(modified_ms * 1_000_000,) * 2)
    return server


def view_of(*servers: BrokerServer) -> ClusterView:
    return ClusterView(tuple(sorted(broker_of(server) for server in servers)), ())


@pytest.mark.parametrize(
    ("topic", "earliest", "latest", "segment_starts"),
    [
        ("lab-segs", 0, 202_000, (0, 70_700, 141_400)),
        ("lab-fetch", 0, 97, (0,)),
        ("lab-p-zero", 0, 0, ()),
        ("lab-no-such-topic", 0, 0, ()),
        ("lab-aged", 900, 915, (900,)),
    ],
)
def test_bounds_are_those_of_the_recorded_logs(
    topic: str, earliest: int, latest: int, segment_starts: tuple[int, ...], recorded: BrokerServer
) -> None:
    partition = TopicPartition(topic, 0, 0)
    expected = PartitionBounds(partition, earliest, latest, segment_starts)
    assert bounds(broker_of(recorded), [partition], NET) == {partition: expected}


def test_a_partition_that_was_written_to_grows(start_broker: StartBroker) -> None:
    server = start_broker(0, {"log.file.size": "29"})
    partition = TopicPartition("t", 1, 0)
    for latest, starts in ((15, (0,)), (30, (0,)), (45, (0, 30))):
        produce(server, "t", 1)
        assert bounds(broker_of(server), [partition], NET)[partition] == PartitionBounds(
            partition, 0, latest, starts
        )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([0], (0, 0, ())),
        # Everything aged out: one empty segment is left, named after the end.
        ([4711], (4711, 4711, ())),
        # The last segment holds bytes and none is flushed yet: its start is the end.
        ([0, 0], (0, 0, ())),
        ([100, 100, 50, 20], (20, 100, (20, 50))),
        # The last segment holds no byte: it is listed as the end alone.
        ([100, 50, 20], (20, 100, (20, 50))),
        ([2**63 - 1, 0], (0, 2**63 - 1, (0,))),
    ],
)
def test_an_answer_is_read_as_end_and_segment_starts(
    answer: list[int], expected: tuple[int, int, tuple[int, ...]]
) -> None:
    with Peer(listing(response(*answer), answer[-1])) as peer:
        assert bounds(peer.broker, [PARTITION], NET) == {PARTITION: PartitionBounds(PARTITION, *expected)}


def listing(*answers: bytes | int) -> Callable[[socket.socket], None]:
    """A peer that gives answers to OFFSETS one after the other, again and again: frames, or a start alone."""
    frames = itertools.cycle(response(item) if isinstance(item, int) else item for item in answers)

    def script(connection: socket.socket) -> None:
        while request := read_frame(connection):
            if request[:2] == OFFSETS_KEY:
                connection.sendall(next(frames))

    return script


def response(*offsets: int, error_code: int = 0) -> bytes:
    """An OFFSETS response."""
    body = error_code.to_bytes(2, "big", signed=True) + len(offsets).to_bytes(4, "big")
    body += b"".join(offset.to_bytes(8, "big", signed=True) for offset in offsets)
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (MODIFIED_MS[0] - 1, ()),
        (MODIFIED_MS[0], (0,)),
        (MODIFIED_MS[1] - 1, (0,)),
        (MODIFIED_MS[1], (0, 70_700)),
        (MODIFIED_MS[2], (0, 70_700, 141_400)),
        (1795251708000, (0, 70_700, 141_400, 202_000)),
        (2**63 - 1, (0, 70_700, 141_400, 202_000)),
        (0, ()),
        # OFFSETS means "the end" and "the start" by these.
        (-1, ()),
        (-2, ()),
    ],
)
def test_segments_before_a_time_are_those_last_written_by_then(
    time_ms: int, expected: tuple[int, ...], recorded: BrokerServer
) -> None:
    assert segments_before(view_of(recorded), {SEGS: time_ms}, NET) == {SEGS: expected}


def test_segments_before_takes_a_time_for_each_partition_of_many_brokers(
    recorded: BrokerServer, start_broker: StartBroker
) -> None:
    other = start_broker(1)
    produce(other, "t", 0)
    times_ms = {TopicPartition("t", 0, 1): 2**62, SEGS: MODIFIED_MS[0]}
    assert segments_before(view_of(recorded, other), times_ms, NET) == {
        TopicPartition("t", 0, 1): (0, 15),
        SEGS: (0,),
    }
    assert segments_before(view_of(recorded, other), {}, NET) == {}


def test_all_bounds_come_in_the_order_of_the_partitions(start_broker: StartBroker) -> None:
    servers = [start_broker(broker_id) for broker_id in range(3)]
    produce(servers[1], "t", 2)
    partitions = [TopicPartition("t", partition, broker) for partition in (2, 0) for broker in (1, 2, 0)]
    result = all_bounds(view_of(*servers), partitions, NET)
    assert list(result) == partitions
    assert {
        tp: partition_bounds.latest for tp, partition_bounds in result.items() if partition_bounds.latest
    } == {TopicPartition("t", 2, 1): len(HELLO)}
    assert all_bounds(view_of(*servers), [], NET) == {}


def test_a_thousand_partitions_on_ten_brokers_are_asked_within_seconds(start_broker: StartBroker) -> None:
    servers = [start_broker(broker_id, {"num.partitions": "100"}) for broker_id in range(10)]
    partitions = [TopicPartition("t", partition, broker) for broker in range(10) for partition in range(100)]
    began_s = time.monotonic()
    result = all_bounds(view_of(*servers), partitions, NET)
    # 0.1 s on two cores, the ten brokers in this process included.
    assert time.monotonic() - began_s < GRACE_S
    assert len(result) == 1000


# --- brokers that fail ---


@pytest.mark.parametrize("kind", [FaultKind.DROP, FaultKind.CUT])
def test_lost_connections_are_replaced_and_no_partition_is_missed(
    kind: FaultKind, start_broker: StartBroker
) -> None:
    # Five in a row without the two retries used up, for there is progress between them.
    server = start_broker(0, faults=[Fault("OFFSETS", nth, kind, size=9) for nth in range(3, 60, 5)])
    partitions = [TopicPartition("t", partition % 3, 0) for partition in range(3)]
    partitions += [TopicPartition(f"topic-{index}", 0, 0) for index in range(100)]
    assert list(bounds(broker_of(server), partitions, NET)) == partitions


def test_a_broker_that_stalls_is_a_timeout_that_names_log_and_broker(start_broker: StartBroker) -> None:
    server = start_broker(0, faults=[Fault("OFFSETS", nth, FaultKind.STALL) for nth in (3, 4)])
    partitions = [TopicPartition("t", partition, 0) for partition in range(3)]
    began_s = time.monotonic()
    with pytest.raises(RequestTimedOut) as error:
        bounds(broker_of(server), partitions, net_07(0.2, 1, 0.001))
    assert time.monotonic() - began_s < 2 * 0.2 + GRACE_S
    assert "gave up after 2 attempts" in str(error.value)
    assert f"OFFSETS of t 0-1: {broker_of(server)}: no answer within 0.2 s (requestTimeout)" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (TopicPartition("t", 3, 0), ErrorCode.WRONG_PARTITION),
        (TopicPartition("t", 99, 0), ErrorCode.WRONG_PARTITION),
        (TopicPartition("a/b", 0, 0), ErrorCode.UNKNOWN),
    ],
)
def test_report_a_partition_that_the_broker_closes_on(
    partition: TopicPartition, code: ErrorCode, start_broker: StartBroker
) -> None:
    server = start_broker(0)
    partitions = [TopicPartition(f"topic-{index}", 0, 0) for index in range(100)]
    partitions.insert(70, partition)
    with pytest.raises(BrokerError) as error:
        bounds(broker_of(server), partitions, NET)
    assert error.value.code == code
    assert str(error.value).startswith(f"{partition} on {broker_of(server)}: the broker ")


def test_report_the_first_unanswered_log_where_the_broker_says_no_more() -> None:
    def closes_on_70(connection: socket.socket) -> None:
        while request := read_frame(connection):
            if request[:2] != OFFSETS_KEY or int.from_bytes(request[5:9], "big") == 70:
                return
            is_start = request[-12:-4] == EARLIEST_TIME.to_bytes(8, "big", signed=True)
            connection.sendall(response(0) if is_start else response(5, 0))

    partitions = [TopicPartition("t", partition, 7) for partition in range(100)]
    with Peer(closes_on_70) as peer, pytest.raises(ConnectionLost) as error:
        bounds(peer.broker, partitions, NET)
    assert f"OFFSETS of t 7-70: {peer.broker}: the peer closed the connection" in str(error.value)
    assert "gave up after 3 attempts" in str(error.value)


def test_report_a_dead_broker_after_the_retries() -> None:
    broker = closed_port()
    with pytest.raises(ConnectFailed) as error:
        bounds(broker, [PARTITION], NET)
    assert f"OFFSETS of t 7-0: {broker}: cannot connect: Connection refused" in str(error.value)
    assert "gave up after 3 attempts" in str(error.value)


def test_report_a_partition_of_a_broker_that_is_not_alive_before_anything_is_asked() -> None:
    cluster = ClusterView((Broker(1, "no-such-host.invalid", 1),), ())
    partitions = [TopicPartition("t", 0, 1), TopicPartition("t", 0, 3)]
    with pytest.raises(DiscoveryError, match=r"^t 3-0: broker 3 is not alive"):
        all_bounds(cluster, partitions, NET)


def test_report_the_first_of_several_brokers_that_fail(start_broker: StartBroker) -> None:
    faults = [Fault("OFFSETS", 1, FaultKind.GARBAGE)]
    servers = [start_broker(0), start_broker(1, faults=faults), start_broker(2, faults=faults)]
    partitions = [TopicPartition("t", 0, broker) for broker in (2, 1, 0)]
    with pytest.raises(ProtocolError, match=r"OFFSETS of t 1-0: broker 1 .*b'HTTP'"):
        all_bounds(view_of(*servers), partitions, NET)


@for_each(
    ("answer", "kind", "message"),
    [
        (response(), ProtocolError, "the answer is empty"),
        (response(5, 10), ProtocolError, "the answer is not newest first"),
        (response(-1), ProtocolError, "it gives the offset -1, but the minimum is 0"),
        (response(10, -5), ProtocolError, "it gives the offset -5, but the minimum is 0"),
        (response(1, error_code=3) + response(1), BrokerError, "the broker has no such partition"),
        (response(1)[:-1], RequestTimedOut, "no answer within"),
        (
            response(1)[:3] + b"\x20" + response(1)[4:] + bytes(18),
            ProtocolError,
            "OFFSETS response of 32 bytes",
        ),
        (b"\x7f\xff\xff\xff", ProtocolError, "announces 2147483647 bytes, at most 1048582"),
    ],
)
def test_report_a_wrong_answer_with_the_log(answer: bytes, kind: type[KafkaWireError], message: str) -> None:
    with Peer(stalling(answer)) as peer, pytest.raises(kind) as error:
        bounds(peer.broker, [PARTITION], NO_RETRY)
    assert message in str(error.value)
    assert "t 7-0" in str(error.value)
    assert str(peer.broker) in str(error.value)
    assert "\n" not in str(error.value)


@for_each(
    ("answers", "kind", "message"),
    [
        ([response(30, 20, 20, 0), 0], ProtocolError, "the answer gives the offset 20 twice"),
        ([response(30, 30, 30), 30], ProtocolError, "the answer gives the offset 30 twice"),
        ([response(30, 0, 0), 0], ProtocolError, "the answer gives the offset 0 twice"),
        # More of them do not fit the largest response that may come.
        ([response(30, 0)], ProtocolError, "OFFSETS response announces 22 bytes, at most 14 were expected"),
        ([response(14), 42], BrokerError, f"{STARTS} 42, another one says that it holds [14, 14)"),
        ([response(560), 574], BrokerError, f"{STARTS} 574, another one says that it holds [560, 560)"),
        ([response(560, 14), 0], BrokerError, f"{STARTS} 0, another one says that it holds [14, 560)"),
        ([response(560, 0), 14], BrokerError, f"{STARTS} 14, another one says that it holds [0, 560)"),
    ],
)
def test_answers_that_no_partition_has_are_an_error(
    answers: list[bytes | int], kind: type[KafkaWireError], message: str
) -> None:
    with Peer(listing(*answers)) as peer, pytest.raises(kind) as error:
        bounds(peer.broker, [PARTITION], NET)
    assert message in str(error.value)
    assert "OFFSETS of t 7-0" in str(error.value)
    assert kind is ProtocolError or "gave up after 3 attempts" in str(error.value)


def test_a_segment_that_retention_takes_between_two_answers_is_no_error() -> None:
    with Peer(listing(response(560, 300, 0), 300, response(560, 300), 300)) as peer:
        assert bounds(peer.broker, [PARTITION], NET) == {
            PARTITION: PartitionBounds(PARTITION, 300, 560, (300,))
        }


def test_report_more_segments_than_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "OFFSETS_COUNT_MAX", 4)
    with Peer(listing(response(30, 20, 10), 10)) as peer:
        assert bounds(peer.broker, [PARTITION], NET)[PARTITION].segment_starts == (10, 20)
    with Peer(listing(response(40, 30, 20, 10), 10)) as peer, pytest.raises(LimitError, match="at most 3"):
        bounds(peer.broker, [PARTITION], NET)


@pytest.mark.slow
def test_every_flipped_bit_and_cut_of_an_answer_gives_bounds_or_our_error() -> None:
    whole = response(202_000, 141_400, 70_700, 0)
    answers = [whole[:size] for size in range(len(whole))]
    for pos in range(len(whole)):
        for bit in (0, 3, 7):
            flipped = bytearray(whole)
            flipped[pos] ^= 1 << bit
            answers.append(bytes(flipped))

    waiting = iter(answers)

    def script(connection: socket.socket) -> None:
        # A lost answer is followed by the question whether there is such a partition.
        if read_frame(connection)[:2] == OFFSETS_KEY:
            connection.sendall(next(waiting))
            listing(0)(connection)

    result = refused = 0
    with Peer(script) as peer:
        for _ in answers:
            try:
                partition_bounds = bounds(peer.broker, [PARTITION], NO_RETRY)[PARTITION]
            except KafkaWireError:
                refused += 1
            else:
                result += 1
                assert 0 == partition_bounds.earliest <= partition_bounds.latest
    assert result + refused == len(answers)
    assert min(result, refused) > 20
