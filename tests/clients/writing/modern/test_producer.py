"""Rows that a task writes to noida-db, read by two clients of other authors."""

from __future__ import annotations

import pytest

from spark_kafkawire.clients.writing.modern.batches import ProducerPosition
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.clients.writing.modern.producer_ids import init_producer_id
from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import BrokerError, DeliveryError, OptionError, RowError, TransportError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.records.rows import Records
from tests.support import kafka_python, librdkafka
from tests.support import mock_cluster as mock
from tests.support.foreign import CODECS, Record, values
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.producing import (
    FINE,
    ResponseFaults,
    in_parts,
    int64,
    numbered,
    options_of,
    producer,
    records,
    write,
)
from tests.support.writing import binary

from ....support.producing import ROWS, columns, content


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
        found = consume(noida.bootstrap_servers, topic)
        assert [content(row) for row in found] == [content(row) for row in rows]


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
    topic, expected = noida.create_topic(), numbered(20_000)
    with producer(options_of(noida.bootstrap_servers, batchBytes=1000)) as sending:
        for part in in_parts(expected, 1000):
            sending.add(TopicPartition(topic, 0), records(part))
        (receipt,) = sending.finish()
    assert values(librdkafka.consume(noida.bootstrap_servers, topic)) == expected
    assert receipt.message_count == len(expected)
    assert len(faults.requests) > 100
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
        found = librdkafka.consume(noida.bootstrap_servers, topic, partition)
        assert values(found) == [b"for %d" % partition]
    assert len(faults.requests) == 1


def test_requests_are_no_larger_than_max_request_size(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = ResponseFaults(monkeypatch)
    topic = noida.create_topic(partitions=4)
    options = options_of(noida.bootstrap_servers, batchBytes=1500, kafka__max__request__size=4000)
    with producer(options) as sending:
        for partition in range(4):
            sending.add(TopicPartition(topic, partition), records(numbered(500)))
        sending.finish()
    sizes = [
        sum(len(part.records or b"") for topic in request.topic_data for part in topic.partition_data)
        for request in faults.requests
    ]
    assert max(sizes) <= 4000
    assert len(sizes) > 4
    for partition in range(4):
        found = librdkafka.consume(noida.bootstrap_servers, topic, partition)
        assert values(found) == numbered(500)


def test_tiny_buffers_send_early_and_lose_nothing(noida: NoidaBroker) -> None:
    topic, expected = noida.create_topic(), numbered(3000)
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


# Without acks: in tests/interop, for noida-db now and then refuses the first batch of a new topic, and
# answers though it was not asked to.
@pytest.mark.parametrize("acks", ["1", "all"])
def test_all_acks_deliver(noida: NoidaBroker, acks: str) -> None:
    topic, expected = noida.create_topic(), numbered(1000)
    (receipt,) = write(noida.bootstrap_servers, topic, expected, acks=acks, batchBytes=1000)
    assert set(values(librdkafka.consume(noida.bootstrap_servers, topic))) == set(expected)
    assert receipt.message_count == 1000
    assert receipt.start_offset == 0


def test_nothing_to_write_opens_no_connection() -> None:
    with producer(options_of("127.0.0.1:1")) as sending:
        sending.add(TopicPartition("t", 0), records([]))
        assert sending.finish() == ()


def test_brokers_that_are_not_there_are_an_error_within_the_deadline() -> None:
    with pytest.raises(TransportError, match=r"^not delivered within 0\.3 s .*: kafka\.bootstrap\.servers"):
        write("127.0.0.1:1", "t", [b"a"], kafka__delivery__timeout__ms=300, requestTimeout="300ms")


def test_a_timestamp_before_1970_is_a_row_error(noida: NoidaBroker) -> None:
    old = Records(binary([b"a", b"b"]), timestamps_ms=int64([5, -5]))
    with producer(options_of(noida.bootstrap_servers)) as sending:
        sending.add(TopicPartition(noida.create_topic(), 0), old)
        with pytest.raises(RowError, match="timestamp -5 ms is before 1970"):
            sending.finish()


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
