"""Rows arrive once and in order, whatever brokers and connections do, and go by how the leaders keep up."""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing.modern.batch_sender import BatchSender
from spark_kafkawire.clients.writing.modern.batches import BatchEncoder
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.transport import Transport
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.records.encoded_batch import EncodedBatch
from spark_kafkawire.records.rows import Records
from tests.support import librdkafka
from tests.support import mock_cluster as mock
from tests.support.foreign import values
from tests.support.mock_cluster import NO_LEADER, MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import GRACE_S, poll
from tests.support.producing import (
    FINE,
    ResponseFaults,
    in_parts,
    numbered,
    options_of,
    producer,
    records,
    write,
)

VALUES: Final = numbered(2000)
NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
TIMED_OUT: Final = ErrorCode.REQUEST_TIMED_OUT
IN_FLIGHT: Final = "kafka__max__in__flight__requests__per__connection"
IDEMPOTENCE: Final = "kafka__enable__idempotence"
NOT_DELIVERED: Final = r"not delivered within 0\.7 s \(kafka\.delivery\.timeout\.ms\)"


def write_in_parts(servers: str, topic: str, partitions: Any = 1, **raw: Any) -> None:
    """All values to each partition, in batches of about fifty."""
    with producer(options_of(servers, **{"batchBytes": 1000, **raw})) as sending:
        for part in in_parts(VALUES, 100):
            for partition in range(partitions):
                sending.add(TopicPartition(topic, partition), records(part))
        receipts = sending.finish()
    assert [receipt.message_count for receipt in receipts] == [len(VALUES)] * partitions


def add_and_finish(sending: Producer, values: list[bytes], topic: str = "t") -> None:
    sending.add(TopicPartition(topic, 0), records(values))
    sending.finish()


class Clock:
    """The monotonic clock and what a test lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s = 0.0
        monotonic = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + self.passed_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def assert_written_once(servers: str, topic: str, partitions: int = 1) -> None:
    for partition in range(partitions):
        assert values(librdkafka.consume(servers, topic, partition)) == VALUES


# --- responses that are lost or say nothing of use, after the broker appended: only sequences tell.


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        [FINE, FINE, "lost", FINE, "lost"],
        ["lost"] * 6,
        [FINE, TIMED_OUT, FINE, TIMED_OUT, TIMED_OUT, "lost"],
        [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 3,
        [NOT_LEADER, FINE, "lost"],
        [ErrorCode.NETWORK_EXCEPTION, ErrorCode.KAFKA_STORAGE_ERROR, "lost"],
    ],
    ids=lambda plan: "-".join(map(str, plan)),
)
def test_what_is_sent_again_after_an_append_is_stored_once_and_in_order(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch, plan: list[int | str]
) -> None:
    topic = noida.create_topic(partitions=2)
    faults = ResponseFaults(monkeypatch)
    faults.plan.extend(plan)
    write_in_parts(noida.bootstrap_servers, topic, 2, compression="lz4")
    assert not faults.plan
    assert_written_once(noida.bootstrap_servers, topic, 2)


def test_without_idempotence_a_lost_response_may_double_but_loses_nothing(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = noida.create_topic()
    ResponseFaults(monkeypatch).plan.extend([FINE, "lost"])
    write_in_parts(noida.bootstrap_servers, topic, **{IDEMPOTENCE: "false"})
    result = values(librdkafka.consume(noida.bootstrap_servers, topic))
    assert len(result) > len(VALUES)
    assert list(dict.fromkeys(result)) == VALUES


def test_without_retries_a_lost_response_is_an_error_that_says_what_may_be_missing(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = noida.create_topic()
    ResponseFaults(monkeypatch).plan.extend([FINE, "lost"])
    with pytest.raises(DeliveryError) as raised:
        write_in_parts(noida.bootstrap_servers, topic, retries=0, acks=1)
    message = str(raised.value)
    assert message.startswith("gave up after 1 attempt in ")
    assert (
        "message(s) of this task are proven to be in their partitions, each of the others may be there"
        in message
    )
    assert "\n" not in message


def test_sequences_count_the_records_of_a_partition(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = noida.create_topic(partitions=2)
    faults = ResponseFaults(monkeypatch)
    write_in_parts(noida.bootstrap_servers, topic, 2)
    for partition in range(2):
        headers = [data[53:61] for data in batches(faults, partition)]
        sequences, counts = zip(*(struct.unpack(">ii", header) for header in headers), strict=True)
        assert list(sequences) == [sum(counts[:location]) for location in range(len(counts))]


def batches(faults: ResponseFaults, partition: int) -> list[bytes]:
    """Batches that were sent to a partition."""
    return [
        bytes(part.records or b"")
        for request in faults.requests
        for topic in request.topic_data
        for part in topic.partition_data
        if part.index == partition
    ]


# --- answers without an append


@pytest.mark.parametrize("code", [ErrorCode.CORRUPT_MESSAGE, NOT_LEADER, mock.DISCONNECT])
def test_a_refusal_that_may_pass_is_tried_again(mock_cluster: MockCluster, code: int) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, FINE, code, FINE, code, code)
    # The mock cluster checks no sequences: it would append what follows a refused batch.
    write_in_parts(mock_cluster.bootstrap_servers, "t", **{IN_FLIGHT: 1})
    assert_written_once(mock_cluster.bootstrap_servers, "t")


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the user is not authorized for this operation on the topic"),
        (ErrorCode.INVALID_PRODUCER_EPOCH, "the producer's epoch is older"),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "records that this producer sent earlier"),
        (ErrorCode.INVALID_RECORD, "the broker refuses a record"),
    ],
)
def test_a_refusal_that_will_not_pass_is_an_error_at_once(
    mock_cluster: MockCluster, code: int, meaning: str
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, code)
    with pytest.raises(DeliveryError, match=rf"^Produce to t 0 on broker \d .*: {meaning}") as raised:
        write(mock_cluster.bootstrap_servers, "t", [b"a"])
    assert "; 0 message(s) of this task are proven" in str(raised.value)
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == []


def test_a_batch_that_the_broker_had_before_is_a_success(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    (receipt,) = write(mock_cluster.bootstrap_servers, "t", [b"a"])
    assert (receipt.message_count, receipt.start_offset) == (1, None)


def test_a_batch_that_is_too_large_is_split_until_it_fits(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, *[ErrorCode.MESSAGE_TOO_LARGE] * 3)
    write(mock_cluster.bootstrap_servers, "t", VALUES)
    assert_written_once(mock_cluster.bootstrap_servers, "t")


def test_batches_that_are_too_large_together_halve_those_that_follow_once(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock_cluster.create_topic("t")
    faults = ResponseFaults(monkeypatch)
    # The five that are in flight once the first is answered.
    mock_cluster.push_request_errors(mock.PRODUCE, FINE, *[ErrorCode.MESSAGE_TOO_LARGE] * 5)
    write_in_parts(mock_cluster.bootstrap_servers, "t")
    assert_written_once(mock_cluster.bootstrap_servers, "t")
    assert 250 < max(map(len, batches(faults, 0)[-5:])) <= 500


def test_one_record_that_is_too_large_names_the_topics_limit(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
    with pytest.raises(DeliveryError, match=r"larger than the topic's max\.message\.bytes"):
        write(mock_cluster.bootstrap_servers, "t", [b"a"])


def test_a_forgotten_producer_goes_on_under_a_new_identity(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock_cluster.create_topic("t")
    faults = ResponseFaults(monkeypatch)
    unknown = ErrorCode.UNKNOWN_PRODUCER_ID
    # The five that are in flight once the first is answered.
    mock_cluster.push_request_errors(mock.PRODUCE, FINE, *[unknown] * 5)
    write_in_parts(mock_cluster.bootstrap_servers, "t")
    assert_written_once(mock_cluster.bootstrap_servers, "t")
    assert len({data[43:51] for data in batches(faults, 0)}) == 2


# --- leaders and brokers


@pytest.mark.parametrize(("in_flight", "moves"), [(5, (8,)), (1, range(1, 20))])
def test_a_leader_that_moves_in_the_middle_is_followed(
    mock_cluster: MockCluster, in_flight: int, moves: Sequence[int]
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 1)
    options = options_of(mock_cluster.bootstrap_servers, **{"batchBytes": 1000, IN_FLIGHT: in_flight})
    with producer(options) as sending:
        for number, part in enumerate(in_parts(VALUES, 100)):
            if number in moves:
                mock_cluster.set_leader("t", 0, number % 3 + 1)
            sending.add(TopicPartition("t", 0), records(part))
        sending.finish()
    assert_written_once(mock_cluster.bootstrap_servers, "t")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_a_connection_that_was_closed_while_nothing_was_in_flight_is_replaced(
    mock_cluster: MockCluster, acks: str
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 2)
    with producer(options_of(mock_cluster.bootstrap_servers, batchBytes=1, acks=acks)) as sending:
        sending.add(TopicPartition("t", 0), records([b"before"]))
        sending.finish()
        poll(lambda: librdkafka.offsets(mock_cluster.bootstrap_servers, "t")[1] == 1, "it is written")
        mock_cluster.set_broker_down(2)
        mock_cluster.set_broker_up(2)
        sending.add(TopicPartition("t", 0), records([b"after"]))
        sending.finish()
    poll(lambda: librdkafka.offsets(mock_cluster.bootstrap_servers, "t")[1] == 2, "both are written")
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == [b"before", b"after"]


def test_a_connection_on_which_a_request_was_interrupted_is_not_left_to_others(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    mock_cluster.create_topic("t")
    sending = producer(options_of(mock_cluster.bootstrap_servers, acks=0))
    sending.add(TopicPartition("t", 0), records([b"a"]))
    sending._batch_sender.magic(TopicPartition("t", 0))
    kept: list[Client] = []
    monkeypatch.setattr(POOL, "give_back", kept.append)
    monkeypatch.setattr(Transport, "send", interrupted)
    with pytest.raises(KeyboardInterrupt), sending:
        sending.finish()
    assert not kept


def test_a_leader_that_stays_down_is_an_error_after_the_delivery_timeout(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 2)
    limits = {"kafka__delivery__timeout__ms": 700, "requestTimeout": "500ms"}
    with producer(options_of(mock_cluster.bootstrap_servers, batchBytes=1, **limits)) as sending:
        sending.add(TopicPartition("t", 0), records([b"there"]))
        mock_cluster.set_broker_down(2)
        started_s = time.monotonic()
        with pytest.raises(DeliveryError, match=NOT_DELIVERED):
            add_and_finish(sending, [b"missing"])
        assert time.monotonic() - started_s < 0.7 + GRACE_S


@pytest.mark.slow
def test_wait_for_a_leader_no_longer_than_the_delivery_timeout(
    mock_cluster: MockCluster,
) -> None:
    mock_cluster.create_topic("t", partitions=4)
    for partition in (1, 2, 3):
        mock_cluster.set_leader("t", partition, mock.NO_LEADER)
    limits = {"requestTimeout": "700ms", "kafka__delivery__timeout__ms": 700}
    started_s = time.monotonic()
    with producer(options_of(mock_cluster.bootstrap_servers, **limits)) as sending:
        for partition in range(4):
            sending.add(TopicPartition("t", partition), records(VALUES))
        with pytest.raises(DeliveryError, match=NOT_DELIVERED):
            sending.finish()
    assert time.monotonic() - started_s < 60
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t", 0)) == VALUES


def test_time_that_the_task_waits_for_its_rows_is_not_that_of_the_delivery(
    mock_cluster: MockCluster, clock: Clock
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, FINE, NOT_LEADER)
    with producer(options_of(mock_cluster.bootstrap_servers, batchBytes=1)) as sending:
        sending.add(TopicPartition("t", 0), records([b"before"]))
        clock.passed_s += 1000
        sending.add(TopicPartition("t", 0), records([b"behind"]))
        clock.passed_s += 1000
        sending.finish()
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == [b"before", b"behind"]


def test_the_time_of_a_batch_begins_when_it_is_encoded(
    mock_cluster: MockCluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = BatchEncoder.encode

    def slowly(
        encoder: BatchEncoder, parts: Sequence[Records], batch_bytes_max: int
    ) -> Iterator[EncodedBatch]:
        for encoded in encode(encoder, parts, batch_bytes_max):
            clock.passed_s += 1000
            yield encoded

    monkeypatch.setattr(BatchEncoder, "encode", slowly)
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, FINE, NOT_LEADER)
    write(mock_cluster.bootstrap_servers, "t", [b"a", b"b"], batchBytes=1)
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == [b"a", b"b"]


def test_a_topic_that_brokers_do_not_know_for_a_moment_is_waited_for(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    with producer(options_of(mock_cluster.bootstrap_servers, batchBytes=1000, retries=1000)) as sending:
        sending.add(TopicPartition("t", 0), records(VALUES[:100]))
        mock_cluster.set_topic_error("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        mock_cluster.set_leader("t", 0, 1)
        mock_cluster.set_leader("t", 0, 2)
        threading.Timer(0.3, mock_cluster.set_topic_error, ("t", 0)).start()
        for part in in_parts(VALUES[100:], 100):
            sending.add(TopicPartition("t", 0), records(part))
        sending.finish()
    assert_written_once(mock_cluster.bootstrap_servers, "t")


@pytest.mark.parametrize("code", [NOT_LEADER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_nothing_overtakes_the_first_batch_of_an_identity(mock_cluster: MockCluster, code: int) -> None:
    # Brokers take any sequence of a producer that they have not heard of.
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, code)
    write_in_parts(mock_cluster.bootstrap_servers, "t")
    assert_written_once(mock_cluster.bootstrap_servers, "t")


def test_without_idempotence_only_what_is_in_flight_passes_by_a_batch_that_is_refused_twice(
    mock_cluster: MockCluster,
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, NOT_LEADER, *[FINE] * 4, NOT_LEADER)
    write_in_parts(mock_cluster.bootstrap_servers, "t", **{IDEMPOTENCE: "false"})
    result = values(librdkafka.consume(mock_cluster.bootstrap_servers, "t"))
    assert result[0] is not None
    count, at = VALUES.index(result[0]), result.index(VALUES[0])  # of the batch that was refused
    assert 0 < at < 5 * count  # four others, of about its length
    assert result == VALUES[count : at + count] + VALUES[:count] + VALUES[at + count :]


def test_a_batch_that_may_be_there_is_not_sent_under_another_identity(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, FINE, TIMED_OUT, ErrorCode.UNKNOWN_PRODUCER_ID)
    with producer(options_of(mock_cluster.bootstrap_servers)) as sending:
        add_and_finish(sending, [b"a"])
        with pytest.raises(DeliveryError, match=r"error 59 UNKNOWN_PRODUCER_ID.* may be there or missing"):
            add_and_finish(sending, [b"b"])


def test_a_small_batch_does_not_pass_by_one_of_its_log_that_the_request_has_no_room_for(
    noida: NoidaBroker,
) -> None:
    topic = noida.create_topic(partitions=2)
    # Both logs begin with 900 bytes: those of log 1 have no room beside those of log 0, and its 200 have.
    raw = {"batchBytes": 1000, "kafka__max__request__size": 1500, IDEMPOTENCE: "false"}
    sent = [b"0" * 900], [b"1" * 900, b"2" * 200]
    with producer(options_of(noida.bootstrap_servers, **raw)) as sending:
        for partition, item in enumerate(sent):
            sending.add(TopicPartition(topic, partition), records(item))
        sending.finish()
    for partition, item in enumerate(sent):
        assert values(librdkafka.consume(noida.bootstrap_servers, topic, partition)) == item


def test_an_answer_that_comes_too_late_is_a_lost_one(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 1)
    mock_cluster.push_broker_errors(1, mock.PRODUCE, (TIMED_OUT, 600))
    write(mock_cluster.bootstrap_servers, "t", [b"a"], requestTimeout="200ms")
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == [b"a"]


def test_a_stalled_broker_stops_the_task_before_its_memory_fills() -> None:
    values_ = [b"x" * 1000] * 100
    limits = {"requestTimeout": "500ms", "kafka__delivery__timeout__ms": 500, "kafka__buffer__memory": 99_999}
    with NoidaBroker() as broker:
        topic = broker.create_topic()
        with producer(options_of(broker.bootstrap_servers, batchBytes=100_000, **limits)) as sending:
            sending.add(TopicPartition(topic, 0), records(values_))
            broker.pause()
            taken: list[bytes] = []

            def fill() -> None:
                while True:
                    sending.add(TopicPartition(topic, 0), records(values_))
                    taken.extend(values_)

            with pytest.raises(DeliveryError, match="no answer within"):
                fill()
            broker.resume()
    # What is in flight and, beyond that, in the buffers of both ends of the connection.
    assert sum(map(len, taken)) < 20_000_000


@pytest.mark.slow
def test_a_broker_killed_and_started_again_loses_nothing_that_was_proven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with NoidaBroker() as broker:
        topic = broker.create_topic()
        stopped = restart(broker, monkeypatch, at_pump=5)
        write_in_parts(broker.bootstrap_servers, topic, kafka__delivery__timeout__ms=30_000)
        assert stopped.is_set()
        assert_written_once(broker.bootstrap_servers, topic)


def restart(broker: NoidaBroker, monkeypatch: pytest.MonkeyPatch, at_pump: int) -> threading.Event:
    """Stop the broker before a certain flush, which is told, and start it while the producer tries."""
    pump: Callable[[BatchSender], None] = BatchSender.pump
    count, stopped = [0], threading.Event()

    def pumped(delivery: BatchSender) -> None:
        count[0] += 1
        if count[0] == at_pump:
            broker.stop()
            stopped.set()
            threading.Timer(0.2, broker.start).start()
        pump(delivery)

    monkeypatch.setattr(BatchSender, "pump", pumped)
    return stopped


#: How much later the slow broker answers; five of these are waited for at the same time. On a busy machine
#: the fast one takes some tenths of a second, too.
SLOW_MS = 150
VERY_SLOW_MS = 300
#: Records of a batch each that are sent as soon as they are added: a producer gathers so many batches.
SENT = [bytes(1000)] * 4
ADAPTIVE = "kafka__partitioner__adaptive__partitioning__enable"
AVAILABILITY = "kafka__partitioner__availability__timeout__ms"


@dataclass
class Setting:
    """Two brokers, each the leader of one partition of a topic; the second one is slow."""

    cluster: MockCluster
    topic: str

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, partition) for partition in range(2)]

    def producer(self, **raw: object) -> Producer:
        """One whose batches are of a record each."""
        return producer(options_of(self.cluster.bootstrap_servers, batchBytes=1000, **raw))

    def write(self, rows: list[bytes], **raw: object) -> dict[int, int]:
        """Rows of each partition after one task has written them."""
        from pyspark.sql.types import BinaryType, StructField, StructType

        from spark_kafkawire.source.writer import create_writer

        options = options_of(self.cluster.bootstrap_servers, topic=self.topic, batchBytes="16KiB", **raw)
        writer = create_writer(options, StructType([StructField("value", BinaryType())]), overwrite=False)
        batch = pa.RecordBatch.from_pydict({"value": pa.array(rows)})
        message = writer.write(batch.slice(start, 1000) for start in range(0, len(rows), 1000))
        return {receipt.topic_partition.partition: receipt.message_count for receipt in message.receipts}

    def read(self, partition: int) -> list[bytes]:
        self.cluster.set_broker_rtt(2, 0)
        result = values(librdkafka.consume(self.cluster.bootstrap_servers, self.topic, partition))
        return [value for value in result if value is not None]


@pytest.fixture(scope="module")
def brokers() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as running:
        yield running


_NUMBERS = itertools.count()


@pytest.fixture
def setting(brokers: MockCluster) -> Setting:
    topic = f"t{next(_NUMBERS)}"
    brokers.create_topic(topic, partitions=2)
    for partition in range(2):
        brokers.set_leader(topic, partition, partition + 1)
    brokers.set_broker_rtt(2, SLOW_MS)
    return Setting(brokers, topic)


@pytest.mark.jvm
def test_a_slow_broker_gets_fewer_rows_and_each_row_is_there_once_in_order(setting: Setting) -> None:
    setting.cluster.set_broker_rtt(2, VERY_SLOW_MS)
    rows = [value.ljust(100, b".") for value in numbered(30_000)]
    counts = setting.write(rows)
    # On a quiet machine a tenth; as many where nothing adapts.
    assert counts[1] < 0.75 * counts[0]
    result = [setting.read(partition) for partition in counts]
    assert sorted(value for part in result for value in part) == sorted(rows)
    places = {row: location for location, row in enumerate(rows)}
    for part in result:
        order = [places[value] for value in part]
        assert order == sorted(order)


@pytest.mark.jvm
@pytest.mark.parametrize(
    "raw", [{ADAPTIVE: "false"}, {"partitionerSeed": "1"}, {"partitioner": "roundrobin"}]
)
def test_it_gets_as_many_where_that_is_asked_for(setting: Setting, raw: dict[str, str]) -> None:
    setting.cluster.set_broker_rtt(2, 30)
    counts = setting.write([bytes(100)] * 8000, **raw)
    assert counts[1] == pytest.approx(counts[0], rel=0.1)


def test_the_room_of_a_partition_is_what_its_leader_takes_without_a_wait(setting: Setting) -> None:
    partitions = setting.partitions
    with setting.producer() as sending:
        assert sending.queue_capacity(partitions) is None, "nothing was sent yet"
        for partition in partitions:
            sending.add(partition, records(SENT))
        poll(lambda: sending.queue_capacity(partitions) is None, "both have answered")
        setting.cluster.set_broker_rtt(2, 1000)
        for partition in partitions:
            sending.add(partition, records(SENT))
        poll(lambda: sending.queue_capacity(partitions) == [5000, 1000], "four wait for the slow one")
        sending.add(partitions[1], records([bytes(300)]))  # gathered, not sent
        room = sending.queue_capacity(partitions)
        assert room is not None
        assert 0 < room[1] < 700
        setting.cluster.set_broker_rtt(2, 0)
        assert [receipt.message_count for receipt in sending.finish()] == [8, 9]


def test_a_leader_that_has_answered_nothing_for_a_time_has_no_room(setting: Setting) -> None:
    partitions = setting.partitions
    with setting.producer(**{AVAILABILITY: 50}) as sending:
        for partition in partitions:
            sending.add(partition, records(SENT))
        poll(lambda: sending.queue_capacity(partitions) is None, "both have answered")
        setting.cluster.set_broker_rtt(2, 1000)
        sending.add(partitions[1], records(SENT))
        poll(lambda: sending.queue_capacity(partitions) == [5000, 0], "it is away")
        poll(lambda: sending.queue_capacity(partitions) is None, "it is back")


def test_a_partition_without_a_leader_has_no_room(setting: Setting) -> None:
    partitions = setting.partitions
    with setting.producer() as sending:
        setting.cluster.set_leader(setting.topic, 1, NO_LEADER)
        sending.add(partitions[0], records(SENT))
        poll(lambda: sending.queue_capacity(partitions) == [5000, 0], "partition 0 has a leader")


def test_time_without_rows_extends_deadlines_once_however_often_rooms_are_asked_for(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = setting.partitions
    with setting.producer() as sending:
        for partition in partitions:
            sending.add(partition, records(SENT))
        poll(lambda: sending.queue_capacity(partitions) is None, "both have answered")
        setting.cluster.set_broker_rtt(2, 1000)
        sending.add(partitions[1], records(SENT))
        [batch] = next(item._requests for item in sending._batch_sender._connections if item.in_flight)[0]
        left_s, monotonic = batch.deadline.remaining_s(), time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 60)
        for _ in range(3):
            assert sending.queue_capacity(partitions) is not None
        assert batch.deadline.remaining_s() == pytest.approx(left_s, abs=30)


def test_what_failed_meanwhile_is_sent_again_before_the_next_rows(setting: Setting) -> None:
    partitions = setting.partitions
    with setting.producer() as sending:
        setting.cluster.push_request_errors(mock.PRODUCE, 0, 6)  # the second one: not the leader
        sending.add(partitions[0], records([b"b" * 1000] * 4))
        poll(
            lambda: (sending.queue_capacity(partitions), sending._batch_sender._failures)[1], "it is refused"
        )
        sending.add(partitions[0], records([b"c" * 1000]))
        sending.finish()
    assert [value[:1] for value in setting.read(0)] == [b"b", b"b", b"b", b"b", b"c"]
