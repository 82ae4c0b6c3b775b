"""Rows that choose no partition go by how the leaders keep up, over real connections."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.model import TopicPartition
from tests.support import librdkafka
from tests.support import mock_cluster as mock
from tests.support.foreign import values
from tests.support.mock_cluster import NO_LEADER, MockCluster
from tests.support.polling import poll
from tests.support.producing import numbered, options_of, producer, records

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
        found = values(librdkafka.consume(self.cluster.bootstrap_servers, self.topic, partition))
        return [value for value in found if value is not None]


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
    found = [setting.read(partition) for partition in counts]
    assert sorted(value for part in found for value in part) == sorted(rows)
    places = {row: place for place, row in enumerate(rows)}
    for part in found:
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


def test_a_partition_of_which_nobody_is_the_leader_has_no_room(setting: Setting) -> None:
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
        [batch] = next(each._requests for each in sending._batch_sender._connections if each.in_flight)[0]
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
