"""Rows that a task writes: what other clients read, sizes of requests, every version of Produce."""

from __future__ import annotations

import itertools
import logging
import random
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from spark_kafkawire.clients.writing.modern.batches import ProducerPosition, init_producer_id
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import (
    BrokerError,
    DeliveryError,
    OptionError,
    TransportError,
)
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.records.rows import Records
from tests.records.judges import judged
from tests.support import kafka_python, librdkafka
from tests.support import mock_cluster as mock
from tests.support.cases import for_each
from tests.support.codecs import BY_NAME, judged_by_kafka_python
from tests.support.foreign import CODECS, Record, values
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.log_server import Sent as Answer
from tests.support.memory_log import MemoryLog, split
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import GRACE_S
from tests.support.producing import (
    FINE,
    ROWS,
    ResponseFaults,
    columns,
    content,
    in_parts,
    int64,
    numbered,
    options_of,
    producer,
    records,
    write,
)
from tests.support.writing import binary


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_records_are_what_other_clients_read(noida: NoidaBroker, codec: str) -> None:
    # Retention goes by the records' own time, and some here are old.
    topic = noida.create_topic()
    rows = ROWS * 20
    with producer(options_of(noida.bootstrap_servers, compression=codec)) as sending:
        sending.add(TopicPartition(topic, 0), columns(rows))
        (receipt,) = sending.finish()
    assert (receipt.message_count, receipt.start_offset, receipt.stop_offset) == (len(rows), 0, len(rows))
    readers = [librdkafka.consume]
    if codec in kafka_python.CODECS:
        readers.append(kafka_python.consume)
    for consume in readers:
        result = consume(noida.bootstrap_servers, topic)
        assert [content(row) for row in result] == [content(row) for row in rows]


def test_a_record_without_a_timestamp_is_of_now(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"before")])
    write(noida.bootstrap_servers, topic, [b"now"])
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"after")])
    times = [row.timestamp_ms for row in librdkafka.consume(noida.bootstrap_servers, topic)]
    assert times == sorted(times, key=lambda time: time or 0)


def test_order_is_kept_over_many_small_batches_in_flight(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = ResponseFaults(monkeypatch)
    topic, expected = noida.create_topic(), numbered(8000)
    with producer(options_of(noida.bootstrap_servers, batchBytes=1000)) as sending:
        for part in in_parts(expected, 1000):
            sending.add(TopicPartition(topic, 0), records(part))
        (receipt,) = sending.finish()
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == expected
    assert receipt.message_count == len(expected)
    assert len(faults.requests) > 40
    assert faults.in_flight_max == 5


def test_batches_are_filled_with_the_rows_of_several_parts(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = ResponseFaults(monkeypatch)
    topic, expected = noida.create_topic(), [b"%0100d" % number for number in range(16_000)]
    # Four batches of 800 rows or more are waited for, and a part of 1,000 rows is too large to be copied.
    with producer(options_of(noida.bootstrap_servers, batchBytes=100_000)) as sending:
        for part in in_parts(expected, 1000):
            sending.add(TopicPartition(topic, 0), records(part))
        sending.finish()
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == expected
    assert len(faults.requests) == 20


def test_logs_that_are_sent_together_go_in_one_request(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = ResponseFaults(monkeypatch)
    topic = noida.create_topic(partitions=3)
    with producer(options_of(noida.bootstrap_servers)) as sending:
        for partition in (2, 0, 1):
            sending.add(TopicPartition(topic, partition), records([b"for %d" % partition]))
        receipts = sending.finish()
    assert [str(receipt.topic_partition) for receipt in receipts] == [
        f"{topic} {partition}" for partition in range(3)
    ]
    for partition in range(3):
        result = librdkafka.consume(noida.bootstrap_servers, topic, partition)
        assert values(result) == [b"for %d" % partition]
    assert len(faults.requests) == 1


def test_tiny_buffers_send_early_and_lose_nothing(noida: NoidaBroker) -> None:
    topic, expected = noida.create_topic(), numbered(600)
    options = options_of(noida.bootstrap_servers, kafka__buffer__memory=1, batchBytes=100)
    with producer(options) as sending:
        for part in in_parts(expected, 7):
            sending.add(TopicPartition(topic, 0), records(part))
        sending.finish()
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == expected


def test_a_row_larger_than_a_batch_goes_alone(noida: NoidaBroker) -> None:
    topic, expected = noida.create_topic(), [b"a", b"x" * 900_000, b"b"]
    write(noida.bootstrap_servers, topic, expected, batchBytes=100)
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == expected


def test_a_receipt_spans_what_was_written_behind_others(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"other")] * 3)
    (receipt,) = write(noida.bootstrap_servers, topic, [b"a", b"b"])
    partition = TopicPartition(topic, 0)
    assert receipt == PartitionReceipt(partition, 2, receipt.size, start_offset=3, stop_offset=5)


def test_nothing_to_write_opens_no_connection() -> None:
    with producer(options_of("127.0.0.1:1")) as sending:
        sending.add(TopicPartition("t", 0), records([]))
        assert sending.finish() == ()


def test_brokers_that_are_not_there_are_an_error_within_the_deadline() -> None:
    with pytest.raises(TransportError, match=r"^not delivered within 0\.3 s .*: kafka\.bootstrap\.servers"):
        write("127.0.0.1:1", "t", [b"a"], kafka__delivery__timeout__ms=300, requestTimeout="300ms")


def test_idempotence_that_is_asked_for_and_not_to_be_had_is_an_error(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_api_versions(22, -1, -1)
    with pytest.raises(OptionError, match=r"^option kafka\.enable\.idempotence: .*set it to false"):
        write(mock_cluster.bootstrap_servers, "t", [b"a"], kafka__enable__idempotence="true")


def test_idempotence_by_default_that_is_not_to_be_had_is_a_warning(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_api_versions(22, -1, -1)
    write(mock_cluster.bootstrap_servers, "t", [b"a"])
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == [b"a"]
    (message,) = [record.getMessage() for record in caplog.records]
    assert "writing without: a batch that is sent again may be in its partition twice" in message


def test_a_broker_too_old_for_zstd_is_an_error_before_anything_is_sent(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_api_versions(0, 3, 6)
    with pytest.raises(OptionError, match=r"^option compression: broker .* is older than zstd \(2\.1\)"):
        write(mock_cluster.bootstrap_servers, "t", [b"a"], compression="zstd")


def test_a_coordinator_that_is_starting_is_waited_for(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.INIT_PRODUCER_ID, *[14] * 6)
    write(mock_cluster.bootstrap_servers, "t", [b"a"], retries=1)
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == [b"a"]


def test_a_user_who_may_not_be_idempotent_writes_without(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.INIT_PRODUCER_ID, 31)
    write(mock_cluster.bootstrap_servers, "t", [b"a"])
    assert "brokers before 2.8 want the right IdempotentWrite; writing without" in caplog.text
    mock_cluster.push_request_errors(mock.INIT_PRODUCER_ID, 53)
    with pytest.raises(BrokerError, match=r"InitProducerId: .* not authorized to use the transactional id"):
        write(mock_cluster.bootstrap_servers, "t", [b"a"])


def resumed(options: WriteOptions, position: ProducerPosition, partition: TopicPartition) -> Producer:
    return Producer(
        Metadata(options.discovery.bootstrap_servers, options.net), options, {partition: position}
    )


def test_two_producers_in_one_position_append_each_record_once(noida: NoidaBroker) -> None:
    partition, options = TopicPartition(noida.create_topic(), 0), options_of(noida.bootstrap_servers)
    position = ProducerPosition(
        init_producer_id(Metadata(options.discovery.bootstrap_servers, options.net), options)
    )
    for start, stop in ((0, 70), (0, 70), (40, 60), (70, 100), (0, 70)):
        with resumed(options, ProducerPosition(position.producer, start), partition) as sending:
            sending.add(partition, records(numbered(100)[start:stop]))
            sending.finish()
    assert values(librdkafka.consume(noida.bootstrap_servers, partition.topic)) == numbered(100)


def test_a_resumed_identity_that_the_broker_forgot_is_not_replaced(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, options = TopicPartition(noida.create_topic(), 0), options_of(noida.bootstrap_servers)
    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    position = ProducerPosition(init_producer_id(metadata, options))
    faults = ResponseFaults(monkeypatch)
    faults.plan.extend([FINE, ErrorCode.UNKNOWN_PRODUCER_ID])
    with resumed(options, position, partition) as sending:
        sending.add(partition, records(numbered(1)))
        sending._flush()
        sending.add(partition, records(numbered(1)))
        with pytest.raises(DeliveryError, match="UNKNOWN_PRODUCER_ID"):
            sending.finish()


#: Above so many bytes Azure Event Hubs closes the connection.
EVENT_HUBS_MAX: Final = 1_046_528
#: Bytes that cannot be compressed.
NOISE: Final = random.Random(31).randbytes(6_100_000)
ROW: Final = 1000
LARGE: Final[dict[str, Any]] = {"kafka__max__request__size": "8MiB", "batchBytes": "4MiB"}
QUICK: Final[dict[str, Any]] = {"requestTimeout": "2s", "kafka__delivery__timeout__ms": "2s"}
PATIENT: Final[dict[str, Any]] = {"kafka__delivery__timeout__ms": "30s"}


class EventHubs(LogServer):
    """Closes the connection, without an answer, on a Produce request above its limit."""

    def __init__(self, topic: str = "t", partitions: int = 1, limit: int = EVENT_HUBS_MAX) -> None:
        self.logs = [Kept() for _ in range(partitions)]
        self.sizes: list[int] = []
        self._limit = limit
        super().__init__({topic: self.logs})

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        if modern.DIALECT.read_request_header(frame)[0] == modern.PRODUCE:
            self.sizes.append(len(frame))
            if len(frame) > self._limit:
                return False
        return super()._answer(connection, frame)


class Kept(MemoryLog):
    """A partition that appends each batch of a producer once, as brokers do, and in the order of the
    sequences.

    ``sequences`` are the first sequence of each batch, and its count of records.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sequences: list[tuple[int, int]] = []
        self._starts: list[int] = []

    def append(self, batches: Any) -> int:
        (batch,) = split(batches)
        first, count = struct.unpack(">ii", batch[53:61])
        if first >= 0 and (first, count) in self.sequences[-5:]:
            return self._starts[self.sequences.index((first, count))]
        assert first in (-1, sum(self.sequences[-1]) if self.sequences else 0)
        self.sequences.append((first, count))
        self._starts.append(super().append(batch))
        return self._starts[-1]


def rows(count: int, size: int = ROW) -> list[bytes]:
    """Rows that tell their place."""
    starts = (number * size % (len(NOISE) - size) for number in range(count))
    return [b"%08d" % number + NOISE[start : start + size - 8] for number, start in enumerate(starts)]


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings."""
    return [item.getMessage() for item in caplog.records if item.levelno == logging.WARNING]


def assert_once_and_in_order(server: EventHubs, sent: Sequence[bytes]) -> None:
    assert sum(count for _, count in server.logs[0].sequences) == len(sent)
    assert values(librdkafka.consume(server.bootstrap_servers, "t")) == sent


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_requests_of_default_size_are_what_event_hubs_takes(codec: str) -> None:
    sent = rows(2500)
    with EventHubs() as server:
        write(server.bootstrap_servers, "t", sent, compression=codec, **PATIENT)
        assert max(server.sizes) <= EVENT_HUBS_MAX
        # And not much smaller: each request has a cost of its own.
        assert max(server.sizes) > 950_000
        assert_once_and_in_order(server, sent)


def test_all_that_is_in_a_request_counts() -> None:
    """Batches of a thousand partitions, and the longest name of a topic beside each."""
    topic, count = "t" * 249, 1000
    with EventHubs(topic, count) as server:
        options = options_of(server.bootstrap_servers, kafka__client__id="c" * 1000, **PATIENT)
        with producer(options) as sending:
            for partition in range(count):
                sending.add(TopicPartition(topic, partition), records(rows(3)))
            sending.finish()
        assert sum(log.stop_offset for log in server.logs) == 3 * count
        assert 900_000 < max(server.sizes) <= 1_000_000


def test_requests_that_a_broker_closes_on_are_made_smaller_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent = rows(9000)
    with EventHubs() as server:
        (receipt,) = write(server.bootstrap_servers, "t", sent, **LARGE)
        assert receipt.message_count == len(sent)
        assert max(server.sizes) > 4_000_000
        assert_once_and_in_order(server, sent)
    (line,) = reported(caplog)
    assert "closed the connection 3 times on Produce requests of up to 41" in line
    assert "kafka.max.request.size (8388608) and batchBytes" in line


def test_batches_of_several_partitions_go_in_more_requests(caplog: pytest.LogCaptureFixture) -> None:
    """No batch is cut: fewer of them are sent together."""
    with EventHubs(partitions=8, limit=200_000) as server:
        options = options_of(server.bootstrap_servers)
        with producer(options) as sending:
            for partition in range(8):
                sending.add(TopicPartition("t", partition), records(rows(60)))
            sending.finish()
        assert [len(log.sequences) for log in server.logs] == [1] * 8
        assert max(server.sizes) > 400_000
    assert len(reported(caplog)) == 1


@pytest.mark.parametrize("option", [{"acks": "1"}, {"kafka__enable__idempotence": "false"}])
def test_batches_without_sequences_are_cut_too(option: dict[str, Any]) -> None:
    sent = rows(5000)
    with EventHubs() as server:
        write(server.bootstrap_servers, "t", sent, **LARGE, **option)
        assert values(librdkafka.consume(server.bootstrap_servers, "t")) == sent


@pytest.mark.slow
def test_a_record_that_no_smaller_request_can_carry_ends_with_its_size_and_the_options() -> None:
    with EventHubs() as server, pytest.raises(DeliveryError) as raised:
        write(server.bootstrap_servers, "t", rows(1, 1_500_000), **LARGE, **QUICK)
    line = str(raised.value)
    assert line.startswith("not delivered within 2 s (kafka.delivery.timeout.ms): broker 0 (")
    assert "closed the connection on a Produce request of 15001" in line
    assert "set kafka.max.request.size (8388608) and batchBytes below what it takes" in line
    assert "SASL" not in line


def test_a_record_of_the_largest_size_of_kafkas_own_default_is_written() -> None:
    """The broker here accepts records of this size."""
    sent = rows(1, (1 << 20) - 100)
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers, "t", sent)
        assert values(librdkafka.consume(server.bootstrap_servers, "t")) == sent


def test_connections_that_break_on_what_was_answered_before_change_no_size(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic, sent = noida.create_topic(), rows(2000)
    faults = ResponseFaults(monkeypatch)
    faults.plan.extend([FINE, *["lost"] * 5])
    with producer(options_of(noida.bootstrap_servers, batchBytes=400_000)) as sending:
        for start in range(0, len(sent), 399):
            sending.add(TopicPartition(topic, 0), records(sent[start : start + 399]))
        sending.finish()
    assert not faults.plan
    assert not reported(caplog)
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == sent


@pytest.mark.parametrize("lost", [3, 4, 6])
def test_a_batch_that_is_cut_although_the_broker_has_it_is_stored_once(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    """The broker has appended it, and refuses its parts: then it is asked for the whole."""
    topic, sent = noida.create_topic(), rows(1000)
    faults = ResponseFaults(monkeypatch)
    faults.plan.extend(["lost"] * lost)
    (receipt,) = write(noida.bootstrap_servers, topic, sent, batchBytes=300_000)
    assert not faults.plan
    assert len(reported(caplog)) == 1
    assert receipt.message_count == len(sent)
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == sent


def throttled(count: int) -> Iterator[int]:
    return itertools.repeat(ErrorCode.POLICY_VIOLATION, count)


def test_a_write_that_is_throttled_is_tried_again_and_it_is_said_once(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, FINE, *throttled(4))
    sent = rows(200)
    with producer(options_of(mock_cluster.bootstrap_servers, batchBytes=50_000)) as sending:
        sending.add(TopicPartition("t", 0), records(sent[:50]))
        sending.add(TopicPartition("t", 0), records(sent[50:]))
        sending.finish()
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == sent
    (line,) = reported(caplog)
    assert "(error 44 POLICY_VIOLATION)" in line
    assert line.endswith("; trying again for up to 120 s (kafka.delivery.timeout.ms)")


def test_a_write_that_stays_throttled_ends_with_its_deadline_and_the_reason(
    mock_cluster: MockCluster,
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, *throttled(1000))
    limits: dict[str, Any] = {"requestTimeout": "700ms", "kafka__delivery__timeout__ms": 700}
    started_s = time.monotonic()
    with pytest.raises(DeliveryError, match=r"^not delivered within 0\.7 s .*POLICY_VIOLATION.*Event Hubs"):
        write(mock_cluster.bootstrap_servers, "t", [b"a"], **limits)
    assert time.monotonic() - started_s < 0.7 + GRACE_S


PARTITION = TopicPartition("t", 0)
#: First version of Produce with each magic.
MAGICS = {version: 0 if version < 2 else 1 if version < 3 else 2 for version in range(10)}


class Sent:
    """A partition that keeps what Produce requests have, as they have it."""

    def __init__(self) -> None:
        self.stop_offset = 0
        self.data: list[bytes] = []

    def read(self, _offset: int, _size_max: int) -> Buffer:
        return b""

    def append(self, batches: Buffer) -> int:
        self.data.append(bytes(batches))
        first = self.stop_offset
        self.stop_offset += len(judged(batches))
        return first


def serving(log: Sent, version: int) -> LogServer:
    offered = {**OFFERED, modern.PRODUCE.key: VersionRange(version, version)}
    return LogServer({"t": [log]}, offered=offered)


def judgeable(version: int) -> list[str]:
    """Codecs of a version that the judge reads."""
    judged_here = judged_by_kafka_python(MAGICS[version])
    return [name for name in judged_here if name == "none" or BY_NAME[name].produce_version <= version]


@pytest.mark.slow
@for_each(
    ("version", "compression"), [(version, codec) for version in MAGICS for codec in judgeable(version)]
)
def test_every_version_carries_records_of_its_magic(version: int, compression: str) -> None:
    log, expected = Sent(), numbered(300)
    rows = Records(
        binary([*expected, None]), binary([None, *expected]), timestamps_ms=int64([*range(300), 1])
    )
    with serving(log, version) as server:
        options = options_of(server.bootstrap_servers, compression=compression, batchBytes=2000)
        with producer(options) as sending:
            (receipt,) = deliver(sending, rows)
    assert (receipt.message_count, receipt.start_offset, receipt.stop_offset) == (301, 0, 301)
    assert {data[16] for data in log.data} == {MAGICS[version]}
    result = [record for data in log.data for record in judged(data)]
    assert [record.value for record in result] == [*expected, None]
    assert [record.key for record in result] == [None, *expected]
    if MAGICS[version]:
        assert [record.timestamp_ms for record in result] == [*range(300), 1]


def deliver(sending: Any, rows: Records) -> Any:
    sending.add(PARTITION, rows)
    return sending.finish()


@pytest.mark.parametrize("version", [0, 2])
def test_brokers_before_0_11_are_written_to_without_idempotence_and_with_a_warning(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Sent(), version) as server:
        write(server.bootstrap_servers, "t", [b"a"])
        assert caplog.messages == [
            "brokers before 0.11 have no idempotent producers; writing without: a batch that is sent again "
            "may be in its partition twice"
        ]
        with pytest.raises(
            OptionError, match=r"^option kafka\.enable\.idempotence: brokers before 0\.11 have no"
        ):
            write(server.bootstrap_servers, "t", [b"a"], kafka__enable__idempotence="true")


@pytest.mark.slow
def test_a_response_that_leaves_a_partition_out_proves_nothing() -> None:
    def lie(api: Api, frame: bytes) -> Answer:
        # No topics, no throttling, no tags: the response of version 9 with the right correlation id.
        empty = b"\0\0\0\x0b" + frame[4:9] + b"\x01\0\0\0\0\0"
        return Answer(empty if api is modern.PRODUCE else frame)

    with LogServer({"t": [Sent()]}, lie=lie) as server, pytest.raises(DeliveryError) as raised:
        write(server.bootstrap_servers, "t", [b"a"])
    assert "it lacks t 0, which was requested, and contains nothing" in str(raised.value)
