"""Sending over real sockets to the embedded broker: in 0.7, and acknowledged as in the proposal."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.broker import (
    BrokerConfig,
    BrokerServer,
    EmbeddedCluster,
    Fault,
    FaultKind,
)
from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.clients.writing.v07 import sender
from spark_kafkawire.clients.writing.v07.sender import SentSet, SetMatcher, V07Sender, read_back
from spark_kafkawire.errors import (
    ConnectFailed,
    CorruptDataError,
    DeliveryError,
    OptionError,
    RowError,
)
from spark_kafkawire.model import Broker, TopicPartition, WireFormat
from spark_kafkawire.net import transport
from spark_kafkawire.net.client import PIPELINE_DEPTH, Client
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import proposal
from spark_kafkawire.protocol.v07 import (
    FetchRequest,
    FetchResponse,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
)
from spark_kafkawire.records.message_set.encoding import EncodedSet, encode
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
    """All requests that clients send."""
    requests: list[Any] = []
    send = Client.send

    def note(client: Client, request: object) -> None:
        requests.append(request)
        send(client, request)

    monkeypatch.setattr(Client, "send", note)
    return requests


def records(values: list[bytes]) -> Records:
    return Records(binary(values))


def write(
    server: BrokerServer, values: list[bytes], partition: TopicPartition = PARTITION, **raw: object
) -> tuple[PartitionReceipt, ...]:
    with V07Sender([broker_of(server)], write_options(server, **raw)) as sender:
        sender.add(partition, records(values))
        return sender.finish()


def options_of(*servers: BrokerServer, **raw: object) -> WriteOptions:
    return replace(
        write_options(*servers, **{"requestTimeout": "60s", **raw}), wire_format=WireFormat.PROPOSAL
    )


def write_acknowledged(
    server: BrokerServer, values: list[bytes], partition: TopicPartition = PARTITION, **raw: object
) -> tuple[PartitionReceipt, ...]:
    with V07Sender([broker_of(server)], options_of(server, **raw)) as sender:
        sender.add(partition, Records(binary(values)))
        return sender.finish()


@pytest.mark.parametrize(
    ("writing", "acks"),
    [(write, "0"), (write, "1"), (write, "verify"), (write_acknowledged, "0"), (write_acknowledged, "1")],
)
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_values_are_stored_in_order(
    serve: Serve, writing: Callable[..., Any], acks: str, compression: str
) -> None:
    with serve() as server:
        (receipt,) = writing(server, VALUES, acks=acks, compression=compression, batchBytes=2000)
        poll(lambda: replay.end_offset(server.port, ("t", 0)) == receipt.size, "all is stored")
        assert stored(server.port, "t", 0) == VALUES
    assert (receipt.topic_partition, receipt.message_count) == (PARTITION, len(VALUES))


def test_a_receipt_holds_the_span_of_the_log_that_was_seen(serve: Serve) -> None:
    with serve() as server:
        (first,) = write(server, [b"12345"], acks=1)
        (second,) = write(server, [b"12345"], acks=1)
        (verified,) = write(server, [b"12345"], acks="verify")
        (unproven,) = write(server, [b"12345"], acks=0)
    spans = [(item.start_offset, item.stop_offset) for item in (first, second, verified, unproven)]
    assert spans == [(0, 15), (15, 30), (30, 45), (None, None)]


def test_nothing_to_write_opens_no_connection() -> None:
    nobody = Broker(0, "127.0.0.1", 1)
    with V07Sender([nobody], write_options(broker__list="0:127.0.0.1:1")) as sender:
        sender.add(PARTITION, records([]))
        assert sender.finish() == ()


def test_values_are_gathered_up_to_batch_bytes(serve: Serve, sent: list[Any]) -> None:
    with serve() as server, V07Sender([broker_of(server)], write_options(server, batchBytes=1000)) as sender:
        for _ in range(10):
            sender.add(PARTITION, records([b"x" * 90]))
            assert sent == [] or len(sent[-1].message_set) == 1000
        sender.finish()
    assert [type(request) for request in sent] == [OffsetsRequest, ProduceRequest, OffsetsRequest]


def test_logs_that_are_sent_together_go_in_one_multiproduce(serve: Serve, sent: list[Any]) -> None:
    partitions = [TopicPartition("t", partition, 0) for partition in range(3)]
    with serve() as server, V07Sender([broker_of(server)], write_options(server)) as sender:
        for tp in partitions:
            sender.add(tp, records([b"for %d" % tp.partition]))
        receipts = sender.finish()
        assert [stored(server.port, "t", tp.partition) for tp in partitions] == [
            [b"for 0"],
            [b"for 1"],
            [b"for 2"],
        ]
    assert [type(request) for request in sent] == [OffsetsRequest] * 3 + [MultiProduceRequest] + [
        OffsetsRequest
    ] * 3
    assert [receipt.topic_partition for receipt in receipts] == partitions


def test_requests_hold_at_most_batch_bytes(serve: Serve, sent: list[Any]) -> None:
    with serve() as server:
        with V07Sender([broker_of(server)], write_options(server, batchBytes=1000)) as sender:
            sender.add(TopicPartition("t", 1, 0), records([b"small"]))
            sender.add(PARTITION, records([*VALUES, b"y" * 5000]))
            sender.finish()
        assert stored(server.port, "t", 0) == [*VALUES, b"y" * 5000]
    sizes = []
    for request in sent:
        if isinstance(request, ProduceRequest):
            sizes.append(len(request.message_set))
        elif isinstance(request, MultiProduceRequest):
            sizes.append(sum(len(produce.message_set) for produce in request.produces))
    assert sizes.count(5010) == 1
    assert all(size <= 1000 for size in sizes if size != 5010)
    assert len(sizes) < 20


def test_of_many_partitions_only_a_pipeline_of_responses_waits(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []
    send = Client.send

    def note(client: Client, request: object) -> None:
        send(client, request)
        waiting.append(client.in_flight)

    monkeypatch.setattr(Client, "send", note)
    partitions = [TopicPartition("t", partition, 0) for partition in range(200)]
    with serve(num_partitions=200) as server, V07Sender([broker_of(server)], write_options(server)) as sender:
        for tp in partitions:
            sender.add(tp, records([b"one"]))
        receipts = sender.finish()
    assert [(receipt.topic_partition, receipt.stop_offset) for receipt in receipts] == [
        (tp, 13) for tp in partitions
    ]
    assert max(waiting) == PIPELINE_DEPTH


def test_each_broker_gets_what_is_its_own(serve: Serve) -> None:
    with serve() as first, serve(broker_id=1) as second:
        with V07Sender([broker_of(first), broker_of(second)], write_options(first, second)) as sender:
            sender.add(TopicPartition("t", 0, 1), records([b"b"]))
            sender.add(TopicPartition("t", 0, 0), records([b"a"]))
            receipts = sender.finish()
        assert (stored(first.port, "t", 0), stored(second.port, "t", 0)) == ([b"a"], [b"b"])
    assert [receipt.topic_partition.broker for receipt in receipts] == [0, 1]


@pytest.mark.parametrize("acks", ["1", "verify"])
def test_a_broker_that_closes_leaves_an_error_that_says_what_may_be_missing(serve: Serve, acks: str) -> None:
    with serve(Fault("PRODUCE", nth=3, kind=FaultKind.DROP)) as server:
        with pytest.raises(DeliveryError) as raised:
            write(server, VALUES, acks=acks, batchBytes=2000)
        # The two requests before it were carried out, the others are lost, nothing was sent again.
        kept = stored(server.port, "t", 0)
        assert kept == VALUES[: len(kept)]
        assert 0 < len(kept) < len(VALUES)
    message = str(raised.value)
    assert message.startswith("broker 0 (127.0.0.1:")
    assert f"; not proven: {len(VALUES)} message(s) that this task sent there (to t 0-0), each may" in message
    assert message.endswith(
        " be in its partition or missing, and is not sent again: compare the topic with the rows"
    )
    assert "\n" not in message


def test_messages_of_a_request_after_which_the_broker_closed_may_be_there(serve: Serve) -> None:
    with serve(Fault("PRODUCE", nth=1, kind=FaultKind.CUT)) as server:
        with pytest.raises(
            DeliveryError, match=r"not proven: 1 message.* may be in its partition or missing"
        ):
            write(server, [b"there"])
        assert stored(server.port, "t", 0) == [b"there"]


@pytest.mark.slow
def test_a_broker_that_is_killed_in_the_middle_is_a_delivery_error() -> None:
    with EmbeddedCluster(brokers=1, partitions=2, zookeeper=False) as cluster:
        (killed,) = cluster.brokers
        options = write_options(broker__list=cluster.broker_list, batchBytes=1000)
        with V07Sender(options.discovery.broker_list, options) as sender:
            sender.add(PARTITION, records(VALUES))
            poll(lambda: replay.end_offset(killed.port, ("t", 0)), "something is stored")
            killed.kill()
            sender.add(TopicPartition("t", 1, 0), records([b"gathered"]))
            with pytest.raises(DeliveryError, match=r"not proven: 50[01] .*\(to t 0-0, t 0-1\)"):
                sender.finish()


@pytest.mark.parametrize(
    "fault",
    [
        Fault("OFFSETS", nth=2, kind=FaultKind.DROP),
        Fault("OFFSETS", nth=2, kind=FaultKind.CUT, size=9),
        Fault("OFFSETS", nth=2, kind=FaultKind.STALL),
        Fault("OFFSETS", nth=2, kind=FaultKind.GARBAGE),
        Fault("OFFSETS", nth=2, kind=FaultKind.SHORT, size=8),
        Fault("OFFSETS", nth=1, kind=FaultKind.DROP),
    ],
    ids=lambda fault: f"{fault.kind.name}-{fault.nth}",
)
def test_a_barrier_that_is_not_answered_proves_nothing(serve: Serve, fault: Fault) -> None:
    with serve(fault) as server:
        with pytest.raises(DeliveryError, match="not proven: 2 message") as raised:
            write(server, [b"a", b"b"], requestTimeout="300ms")
        assert "\n" not in str(raised.value)


def test_a_broker_that_drops_silently_is_seen_by_verify_only(serve: Serve) -> None:
    values = [b"small", b"x" * 2000, b"last"]
    with serve(max_message_size=1000) as server:
        (receipt,) = write(server, values, acks=1)
        assert (receipt.message_count, receipt.start_offset, receipt.stop_offset) == (3, 0, 0)
        with pytest.raises(DeliveryError) as raised:
            write(server, values, acks="verify", requestTimeout="200ms")
        assert stored(server.port, "t", 0) == []
    assert str(raised.value).startswith(
        "t 0-0: 3 of 3 written messages (1 of 1 sets) are not in the log from offset 0 to 0"
    )


def test_verify_tells_the_dropped_sets_from_those_that_are_stored(serve: Serve) -> None:
    values = [b"a" * 90, b"b" * 2000, b"c" * 90]
    with serve(max_message_size=1000) as server:
        with pytest.raises(DeliveryError, match=r"^t 0-0: 1 of 3 written messages \(1 of 3 sets\) "):
            write(server, values, acks="verify", batchBytes=100)
        assert stored(server.port, "t", 0) == [values[0], values[2]]


def test_verify_waits_until_the_broker_flushes(serve: Serve) -> None:
    slow = {"log_flush_interval": 1000, "flush_check_interval_ms": 150, "log_flush_interval_ms": 150}
    with serve(**slow) as server:
        (receipt,) = write(server, [b"a", b"b"], acks=1)
        assert (receipt.start_offset, receipt.stop_offset) == (0, 0)
        (verified,) = write(server, [b"c", b"d"], acks="verify")
        assert (verified.start_offset, verified.stop_offset) == (22, 44)
        assert stored(server.port, "t", 0) == [b"a", b"b", b"c", b"d"]


def test_verify_does_not_wait_for_a_flush_beyond_its_deadline(serve: Serve) -> None:
    with (
        serve(log_flush_interval=1000, flush_check_interval_ms=3_600_000) as server,
        pytest.raises(DeliveryError, match=r"has not flushed them \(log\.flush\.interval: raise"),
    ):
        write(server, [b"a"], acks="verify", requestTimeout="200ms")


def test_verify_reads_sets_larger_than_a_fetch(serve: Serve) -> None:
    values = [random.Random(number).randbytes(900_000) for number in range(5)]
    with serve() as server:
        (receipt,) = write(server, values, acks="verify", batchBytes="4MiB")
    assert (receipt.start_offset, receipt.stop_offset) == (0, receipt.size)


def test_a_broken_read_back_proves_nothing(serve: Serve) -> None:
    with (
        serve(Fault("FETCH", nth=1, kind=FaultKind.DROP)) as server,
        pytest.raises(DeliveryError, match="not proven: 1 message"),
    ):
        write(server, [b"a"], acks="verify")


def test_a_flipped_bit_in_the_log_is_a_missing_set(serve: Serve) -> None:
    with (
        serve(Fault("FETCH", nth=1, kind=FaultKind.FLIP, size=4 + 2 + 12)) as server,
        pytest.raises(DeliveryError, match="1 of 1 written messages"),
    ):
        write(server, [b"abcdef"], acks="verify", requestTimeout="200ms")


def test_without_acks_all_bytes_are_delivered_after_the_close(serve: Serve) -> None:
    values = [random.Random(number).randbytes(500_000) for number in range(20)]
    with serve() as server:
        (receipt,) = write(server, values, acks=0)
        poll(lambda: replay.end_offset(server.port, ("t", 0)) == receipt.size, "all is stored")


@pytest.mark.parametrize("options_for", [write_options, options_of])
def test_a_broker_that_is_not_there_is_an_error_after_the_retries(
    options_for: Callable[..., WriteOptions],
) -> None:
    options = options_for(broker__list="0:127.0.0.1:1", retries=2)
    with V07Sender([Broker(0, "127.0.0.1", 1)], options) as sender:
        sender.add(PARTITION, records([b"a"]))
        with pytest.raises(
            ConnectFailed, match=r"^gave up after 3 attempts .* broker 0 \(127\.0\.0\.1:1\): "
        ):
            sender.finish()


def test_what_cannot_be_encoded_is_refused_before_anything_of_its_flush_is_sent(serve: Serve) -> None:
    with serve() as server:
        with V07Sender([broker_of(server)], write_options(server, max__message__size=10)) as sender:
            sender.add(TopicPartition("t", 1, 0), records([b"small"]))
            sender.add(PARTITION, records([b"x" * 11]))
            with pytest.raises(RowError):
                sender.finish()
        assert (stored(server.port, "t", 0), stored(server.port, "t", 1)) == ([], [])


def test_a_receipt_holds_the_exact_span_whatever_others_write(serve: Serve) -> None:
    # Nothing of it is flushed but what is acknowledged.
    with serve(log_flush_interval=1000) as server:
        replay.produce(server.port, ("t", 0), bytes.fromhex("0000000b01009271ee576669727374"))
        (first,) = write_acknowledged(server, [b"12345"])
        (second,) = write_acknowledged(server, [b"12345", b"x"], batchBytes=1)
        (unproven,) = write_acknowledged(server, [b"12345"], acks=0)
    spans = [(item.start_offset, item.stop_offset) for item in (first, second, unproven)]
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
    assert isinstance(request, proposal.ProduceRequest)
    assert [topic.topic for topic in request.data] == ["t"]
    assert [receipt.topic_partition for receipt in receipts] == partitions


def test_sets_of_several_topics_are_distinguished_in_the_response(serve: Serve) -> None:
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
    spans = {name: (item.start_offset, item.stop_offset) for name, item in receipts.items()}
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
        write_acknowledged(server, VALUES, batchBytes=200)
    assert len(waiting) > 20
    assert max(waiting) == 4


def test_a_broker_that_drops_silently_in_07_is_an_error_that_says_so(serve: Serve) -> None:
    values = [b"small", b"x" * 2000, b"last"]
    with serve(max_message_size=1000) as server:
        with pytest.raises(DeliveryError) as raised:
            write_acknowledged(server, values, batchBytes=30)
        poll(lambda: stored(server.port, "t", 0) == [b"small", b"last"], "the others are stored")
    assert re.fullmatch(
        r"t 0-0 on broker 0 \(127\.0\.0\.1:\d+\): a message is larger than the broker's max\.message\.size "
        r"\(error 10 MESSAGE_TOO_LARGE\); set the option max\.message\.size to the brokers' value, or "
        r"raise that setting of the brokers; refused: 1 message\(s\) "
        r"that this task sent there, write them again; not proven: 1 message\(s\) that "
        r"this task sent there \(to t 0-0\), each may be in its partition or missing, and is not sent again: "
        r"compare the topic with the rows",
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
    timeout = "500ms" if kind is FaultKind.STALL else "60s"
    with serve(Fault("Produce", nth, kind, size)) as server:
        with pytest.raises(DeliveryError) as raised:
            write_acknowledged(server, VALUES, batchBytes=2000, requestTimeout=timeout)
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
            (receipt,) = write_acknowledged(server, [b"a"])
            assert (receipt.start_offset, receipt.stop_offset) == (1, 12)
        else:
            with pytest.raises(DeliveryError):
                write_acknowledged(server, [b"a"])


def test_refuse_a_broker_of_07_alone_at_once_without_a_request(serve: Serve) -> None:
    with serve(wire_formats=frozenset((WireFormat.V07,))) as server:
        with pytest.raises(OptionError, match=r"the broker supports Kafka 0\.7 and closes"):
            write_acknowledged(server, VALUES, retries=1000, brokerDownTimeout="1h")
        assert replay.end_offset(server.port, ("t", 0)) == 0


# What was sent is found in a partition that others write to as well

#: Where the log was when the first set was sent.
START_OFFSET = 1000


def message_set(*values: bytes, compression: str = "none") -> EncodedSet:
    return EncodedSet(encode(binary(values), compression), len(values))


def matched(sent: list[EncodedSet], log: bytes, chunk_size: int = 1 << 20) -> SetMatcher:
    """The matcher after it was fed with all of the log, as far as it asked for it."""
    matcher = SetMatcher([SentSet.of(item) for item in sent], START_OFFSET)
    while not matcher.done and (pos := matcher.next_offset - START_OFFSET) < len(log):
        matcher.feed(log[pos : pos + chunk_size])
    return matcher


def joined(*sets: EncodedSet) -> bytes:
    return b"".join(bytes(item.data) for item in sets)


def test_messages_of_others_before_between_and_after_are_passed_over() -> None:
    first, second, other = message_set(b"a"), message_set(b"b"), message_set(b"x", b"y", compression="snappy")
    matcher = matched([first, second], joined(other, first, other, other, second, other))
    assert matcher.done
    assert matcher.missing == []
    assert matcher.found == (
        START_OFFSET + len(joined(other)),
        START_OFFSET + len(joined(other, first, other, other, second)),
    )


def test_a_set_whose_middle_was_changed_is_not_the_set_that_was_sent() -> None:
    sent = message_set(b"first", b"second", b"third")
    stored = bytes(sent.data).replace(b"second", b"SECOND")
    matcher = matched([sent], stored)
    assert not matcher.done
    matcher.finish()
    assert len(matcher.missing) == 1


def test_half_of_a_set_is_waited_for_and_then_missing() -> None:
    sent = message_set(b"first", b"second")
    matcher = matched([sent], bytes(sent.data)[:15])
    assert not matcher.done
    assert matcher.next_offset == START_OFFSET + 15
    matcher.finish()
    assert matcher.done
    assert len(matcher.missing) == 1
    assert matcher.found is None


def test_equal_sets_are_counted() -> None:
    sent = [message_set(b"same")] * 3
    matcher = matched(sent, joined(*sent[:2]))
    assert not matcher.done
    matcher.finish()
    assert len(matcher.missing) == 1


def test_a_foreign_message_takes_no_memory_however_long_it_says_it_is() -> None:
    sent = message_set(b"a")
    matcher = matched([sent], b"\x7f\xff\xff\xff\x01\x00" + b"x" * 100)
    assert matcher.next_offset == START_OFFSET + 4 + 0x7FFFFFFF
    assert not matcher.done


def test_bytes_that_are_no_message_are_an_error() -> None:
    with pytest.raises(CorruptDataError, match=r"no message of Kafka 0\.7 begins here"):
        matched([message_set(b"a")], b"\0" * 20)


class SlowLog:
    """A partition on a clock of its own: it shows ``sets`` one by one, each ``interval_s`` after the last."""

    def __init__(self, sets: list[EncodedSet], interval_s: float) -> None:
        self.now_s = 0.0
        self._sets = sets
        self._interval_s = interval_s
        self._request_count = 0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def request(self, request: FetchRequest) -> FetchResponse:
        self._request_count += 1
        assert self._request_count < 10_000, "looking has no end"
        shown = joined(*self._sets[: int(self.now_s / self._interval_s)])
        return FetchResponse(0, shown[request.offset - START_OFFSET :])


def found_in(
    log: SlowLog, sent: list[EncodedSet], monkeypatch: pytest.MonkeyPatch, stop_offset: int = START_OFFSET
) -> tuple[int, int]:
    for module in (sender, transport):
        monkeypatch.setattr(module, "time", log)
    visible = START_OFFSET, stop_offset
    fingerprints = [SentSet.of(item) for item in sent]
    return read_back(cast(Client, log), TopicPartition("t", 0, 0), fingerprints, visible, timeout_s=1.0)


def test_each_set_that_becomes_visible_renews_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [message_set(b"%d" % number) for number in range(5)]
    log = SlowLog(sent, interval_s=0.7)
    assert found_in(log, sent, monkeypatch) == (START_OFFSET, START_OFFSET + len(joined(*sent)))
    assert log.now_s == pytest.approx(5 * 0.7, abs=0.1)


def test_a_set_that_stays_away_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [message_set(b"%d" % number) for number in range(3)]
    log = SlowLog(sent[:2], interval_s=0.7)
    with pytest.raises(DeliveryError, match=r"^t 0-0: 1 of 3 written messages \(1 of 3 sets\)"):
        found_in(log, sent, monkeypatch)
    assert log.now_s == pytest.approx(2 * 0.7 + 1.0, abs=0.1)


def test_a_partition_that_shows_less_than_it_says_to_hold_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = message_set(b"own")
    log = SlowLog([], interval_s=0.1)
    with pytest.raises(DeliveryError, match=r"1 of 1 written messages .* from offset 1000 to 1000"):
        found_in(log, [own], monkeypatch, stop_offset=START_OFFSET + len(own.data))
    assert log.now_s == pytest.approx(1.0, abs=0.2)


def test_messages_of_others_do_not_renew_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SlowLog([message_set(b"other")] * 100, interval_s=0.1)
    with pytest.raises(DeliveryError, match="1 of 1 written messages"):
        found_in(log, [message_set(b"own")], monkeypatch)
    assert log.now_s == pytest.approx(1.0, abs=0.2)


@given(
    st.lists(st.tuples(st.sampled_from(["own", "lost", "other"]), st.binary(max_size=30)), max_size=30),
    st.integers(1, 200),
)
def test_exactly_the_lost_sets_are_missing_however_the_log_is_cut(
    events: list[tuple[str, bytes]], chunk_size: int
) -> None:
    # A number in each value tells the sets apart: of equal sets the last ones count as missing.
    sets = [(kind, message_set(value, b"%d" % number)) for number, (kind, value) in enumerate(events)]
    log = joined(*(item for kind, item in sets if kind != "lost"))
    sent = [item for kind, item in sets if kind != "other"]
    matcher = matched(sent, log, chunk_size)
    matcher.finish()
    assert matcher.missing == [SentSet.of(item) for kind, item in sets if kind == "lost"]
