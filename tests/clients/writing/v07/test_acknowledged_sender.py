"""Sending in the format of the proposal, over real sockets: acknowledged, refused, and without a response."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.broker import BrokerConfig, BrokerServer, Fault, FaultKind
from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.clients.writing.v07.sender import V07Sender
from spark_kafkawire.errors import ConnectFailed, DeliveryError, OptionError
from spark_kafkawire.model import Broker, TopicPartition, WireFormat
from spark_kafkawire.net.client import Client
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.proposal import ProduceRequest
from spark_kafkawire.records.rows import Records
from tests.support import replay
from tests.support.polling import poll
from tests.support.writing import binary, broker_of, stored, write_options

Serve = Callable[..., AbstractContextManager[BrokerServer]]
PARTITION = TopicPartition("t", 0, 0)
VALUES = [b"value %d" % number for number in range(500)]
BOTH = frozenset((WireFormat.V07, WireFormat.PROPOSAL))


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Starts a broker: faults first, then what differs from visible at once and three partitions."""

    @contextmanager
    def start(*faults: Fault, **config: Any) -> Iterator[BrokerServer]:
        broker_id = config.pop("broker_id", 0)
        settings = {"num_partitions": 3, "log_flush_interval": 1, "wire_formats": BOTH, **config}
        full = BrokerConfig(broker_id=broker_id, port=0, log_dir=tmp_path / f"logs-{broker_id}", **settings)
        with BrokerServer(full, faults=faults) as server:
            yield server

    return start


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All requests that clients send once their connections are there."""
    requests: list[Any] = []
    send = Client.send

    def note(client: Client, request: object) -> None:
        requests.append(request)
        send(client, request)

    monkeypatch.setattr(Client, "send", note)
    return requests


def options_of(*servers: BrokerServer, **raw: object) -> WriteOptions:
    return replace(
        write_options(*servers, **{"requestTimeout": "60s", **raw}), wire_format=WireFormat.PROPOSAL
    )


def write(
    server: BrokerServer, values: list[bytes], partition: TopicPartition = PARTITION, **raw: object
) -> tuple[PartitionReceipt, ...]:
    with V07Sender([broker_of(server)], options_of(server, **raw)) as sender:
        sender.add(partition, Records(binary(values)))
        return sender.finish()


@pytest.mark.parametrize("acks", ["0", "1"])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_values_are_stored_in_order(serve: Serve, acks: str, compression: str) -> None:
    with serve() as server:
        (receipt,) = write(server, VALUES, acks=acks, compression=compression, batchBytes=2000)
        poll(lambda: replay.end_offset(server.port, ("t", 0)) == receipt.size, "all is stored")
        assert stored(server.port, "t", 0) == VALUES
    assert (receipt.topic_partition, receipt.message_count) == (PARTITION, len(VALUES))


def test_a_receipt_holds_the_exact_span_whatever_others_write(serve: Serve) -> None:
    # Nothing of it is flushed but what is acknowledged.
    with serve(log_flush_interval=1000) as server:
        replay.produce(server.port, ("t", 0), bytes.fromhex("0000000b01009271ee576669727374"))
        (first,) = write(server, [b"12345"])
        (second,) = write(server, [b"12345", b"x"], batchBytes=1)
        (unproven,) = write(server, [b"12345"], acks=0)
    spans = [(each.start_offset, each.stop_offset) for each in (first, second, unproven)]
    assert spans == [(15, 30), (30, 56), (None, None)]


def test_one_request_and_nothing_else_writes_to_a_thousand_partitions(serve: Serve, sent: list[Any]) -> None:
    partitions = [TopicPartition("t", partition, 0) for partition in range(1000)]
    with serve(num_partitions=1000) as server:
        with V07Sender([broker_of(server)], options_of(server)) as sender:
            for tp in partitions:
                sender.add(tp, Records(binary([b"%d" % tp.partition])))
            receipts = sender.finish()
        assert [stored(server.port, "t", partition) for partition in (0, 7, 999)] == [
            [b"0"],
            [b"7"],
            [b"999"],
        ]
    [request] = sent
    assert isinstance(request, ProduceRequest)
    assert [topic.topic for topic in request.data] == ["t"]
    assert [receipt.topic_partition for receipt in receipts] == partitions


def test_sets_of_several_topics_are_told_apart_in_the_response(serve: Serve) -> None:
    with serve() as server:
        with V07Sender([broker_of(server)], options_of(server)) as sender:
            for topic, partition, value in (
                ("b", 1, b"1"),
                ("a", 0, b"22"),
                ("b", 0, b"333"),
                ("b", 1, b"4444"),
            ):
                sender.add(TopicPartition(topic, partition, 0), Records(binary([value])))
            receipts = {
                receipt.topic_partition.topic + receipt.topic_partition.name: receipt
                for receipt in sender.finish()
            }
        assert stored(server.port, "b", 1) == [b"1", b"4444"]
    spans = {name: (each.start_offset, each.stop_offset) for name, each in receipts.items()}
    assert spans == {"b0-1": (0, 25), "a0-0": (0, 12), "b0-0": (0, 13)}


def test_few_requests_wait_for_responses_at_the_same_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []
    send = Client.send

    def note(client: Client, request: object) -> None:
        send(client, request)
        waiting.append(client.in_flight)

    monkeypatch.setattr(Client, "send", note)
    with serve() as server:
        write(server, VALUES, batchBytes=200)
    assert len(waiting) > 20
    assert max(waiting) == 4


def test_a_broker_that_drops_in_silence_in_07_is_an_error_that_says_so(serve: Serve) -> None:
    values = [b"small", b"x" * 2000, b"last"]
    with serve(max_message_size=1000) as server:
        with pytest.raises(DeliveryError) as raised:
            write(server, values, batchBytes=30)
        poll(lambda: stored(server.port, "t", 0) == [b"small", b"last"], "the others are stored")
    assert re.fullmatch(
        r"t 0-0 on broker 0 \(127\.0\.0\.1:\d+\): a message is larger than the broker's max\.message\.size "
        r"\(error 10 MESSAGE_TOO_LARGE\); set the option max\.message\.size to the brokers' value, or "
        r"raise that setting of the brokers; refused: 1 message\(s\) "
        r"that this task sent there; not proven: 1 message\(s\) that "
        r"this task sent there \(to t 0-0\), each may be in its partition or missing, and is not sent again",
        str(raised.value),
    )


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (FaultKind.DROP, 0),
        (FaultKind.CUT, 9),
        (FaultKind.STALL, 0),
        (FaultKind.GARBAGE, 0),
        (FaultKind.SHORT, 12),
    ],
)
def test_a_response_that_does_not_come_proves_nothing_and_nothing_is_sent_again(
    serve: Serve, kind: FaultKind, size: int, nth: int
) -> None:
    timeout = "3s" if kind is FaultKind.STALL else "60s"
    with serve(Fault("Produce", nth, kind, size)) as server:
        with pytest.raises(DeliveryError) as raised:
            write(server, VALUES, batchBytes=2000, requestTimeout=timeout)
        kept = stored(server.port, "t", 0)
        # What was acknowledged before is not said to be in doubt.
        [doubtful] = re.findall(r"not proven: (\d+) message\(s\)", str(raised.value))
        assert int(doubtful) > 0
        assert len(set(kept)) == len(kept)
        if nth == 3:
            assert int(doubtful) < len(VALUES) - 100
    assert str(raised.value).startswith("broker 0 (127.0.0.1:")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("byte", [4, 9, 13, 15, 17, 25])
def test_a_flipped_bit_of_a_response_is_seen_or_changes_an_offset_alone(serve: Serve, byte: int) -> None:
    """Correlation id, version, count of errors, an error, count of offsets, the last byte of an offset."""
    with serve(Fault("Produce", 1, FaultKind.FLIP, byte)) as server:
        if byte == 25:
            (receipt,) = write(server, [b"a"])
            assert (receipt.start_offset, receipt.stop_offset) == (1, 12)
        else:
            with pytest.raises(DeliveryError):
                write(server, [b"a"])


def test_each_broker_gets_what_is_its_own(serve: Serve) -> None:
    with serve() as first, serve(broker_id=1) as second:
        with V07Sender([broker_of(first), broker_of(second)], options_of(first, second)) as sender:
            sender.add(TopicPartition("t", 0, 1), Records(binary([b"b"])))
            sender.add(TopicPartition("t", 0, 0), Records(binary([b"a"])))
            receipts = sender.finish()
        assert (stored(first.port, "t", 0), stored(second.port, "t", 0)) == ([b"a"], [b"b"])
    assert [receipt.topic_partition.broker for receipt in receipts] == [0, 1]


def test_without_acknowledgements_all_bytes_are_delivered_after_the_close(
    serve: Serve, sent: list[Any]
) -> None:
    with serve() as server:
        (receipt,) = write(server, [bytes(500_000)] * 10, acks=0)
        poll(lambda: replay.end_offset(server.port, ("t", 0)) == receipt.size, "all is stored")
    assert {request.required_acks for request in sent} == {0}


def test_a_broker_of_07_alone_gets_nothing_and_is_told_at_once(serve: Serve) -> None:
    with serve(wire_formats=frozenset((WireFormat.V07,))) as server:
        with pytest.raises(OptionError, match=r"the broker supports Kafka 0\.7 and closes"):
            write(server, VALUES, retries=1000, brokerDownTimeout="1h")
        assert replay.end_offset(server.port, ("t", 0)) == 0


def test_a_broker_that_is_not_there_is_an_error_after_the_retries() -> None:
    options = options_of(broker__list="0:127.0.0.1:1", retries=2)
    with V07Sender([Broker(0, "127.0.0.1", 1)], options) as sender:
        sender.add(PARTITION, Records(binary([b"a"])))
        with pytest.raises(
            ConnectFailed, match=r"^gave up after 3 attempts .* broker 0 \(127\.0\.0\.1:1\): "
        ):
            sender.finish()
