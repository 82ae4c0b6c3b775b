"""Packs of small partitions, as Spark gets them from the readers of batches and streams."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.protocol import modern
from tests.records.batches import batch, record
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker
from tests.support.reading import QUICK, PlannedRead, Read
from tests.support.spark_streams import send
from tests.support.sparks import READ_LIMITS
from tests.support.streaming import Checkpoint, Query

PARTITIONS = 2001
HINT = "the plan has 2001 small ranges, each a Spark task: packSmallPartitions=true reads many in one task"


@pytest.fixture(scope="module")
def server() -> Iterator[LogServer]:
    """A topic of many partitions, each with two records."""
    log = MemoryLog(batch([record(0, b"a"), record(1, b"b")]))
    with LogServer({"t": [log] * PARTITIONS}) as server:
        yield server


def test_batch_is_a_few_requests(server: LogServer, caplog: pytest.LogCaptureFixture) -> None:
    alone = Read(server.bootstrap_servers, subscribe="t")
    assert len(alone.partitions) == PARTITIONS
    assert caplog.messages == [HINT]
    packed = Read(server.bootstrap_servers, subscribe="t", packSmallPartitions="true")
    assert caplog.messages == [HINT]
    assert [len(item.tasks) for item in packed.partitions] == [401, 401, 401, 401, 397]
    fetches = server.requests.count(modern.FETCH)
    assert packed.column("value") == [b"a", b"b"] * PARTITIONS
    assert server.requests.count(modern.FETCH) - fetches == len(packed.partitions)


@READ_LIMITS
def test_stream_packs_each_batch(server: LogServer, caplog: pytest.LogCaptureFixture) -> None:
    def partitions(**options: str) -> list[Any]:
        given = {"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": "t", **QUICK, **options}
        source = KafkaWireDataSource({**given, "startingOffsets": "earliest"})
        reader: Any = source.streamReader(source.schema())
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        result = [reader.partitions(start, end), reader.partitions(start, end)]
        rows = [
            batch.num_rows
            for item in result[0][:2]
            for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(item)))
        ]
        assert sum(rows) == 2 * sum(len(item.tasks) for item in result[0][:2])
        return [[len(item.tasks) for item in batch] for batch in result]

    assert partitions() == [[1] * PARTITIONS] * 2
    assert caplog.messages == [HINT]
    assert partitions(packSmallPartitions="true") == [[401, 401, 401, 401, 397]] * 2
    assert caplog.messages == [HINT]


def test_rows_are_those_without_packs(noida: NoidaBroker, corpus: EmbeddedCluster) -> None:
    """Of either generation; also of empty partitions, with nulls and headers."""
    topic = noida.create_topic(partitions=12)
    records = [
        Record(
            None if number % 5 == 4 else b"%d-%d" % (partition, number),
            b"key" if number % 2 else None,
            (("h", b"1"),) if number % 3 else (),
            partition=partition,
        )
        for partition in range(12)
        for number in range(partition)
    ]
    librdkafka.produce(noida.bootstrap_servers, topic, records, "zstd")
    modern = {
        "kafka.bootstrap.servers": noida.bootstrap_servers,
        "subscribe": topic,
        "includeHeaders": "true",
    }
    v07 = {"zookeeper.connect": corpus.zookeeper_connect, "subscribePattern": "debian-.*"}
    for where, columns in ((modern, ("offset",)), (v07, ("topic", "broker", "offset", "index"))):
        packed, alone = (PlannedRead({**where, "packSmallPartitions": text}) for text in ("true", "false"))
        brokers = [{task.range.topic_partition.broker for task in part.tasks} for part in packed.partitions]
        assert all(len(item) == 1 for item in brokers)
        assert len(packed.partitions) < len(alone.partitions)
        key = operator.itemgetter("partition", *columns)
        assert sorted(packed.rows(), key=key) == sorted(alone.rows(), key=key)


def test_a_stream_of_packs_reads_each_record_once(noida: NoidaBroker) -> None:
    topic, checkpoint = noida.create_topic(partitions=4), Checkpoint()
    given = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, **QUICK}
    given |= {"startingOffsets": "earliest", "packSmallPartitions": "true", "maxOffsetsPerTrigger": "24"}
    for count, expected in ((10, [24, 16]), (5, [20])):
        for partition in range(4):
            send(noida, topic, range(count), partition)
        batches = list(Query(checkpoint, **given).batches())
        assert [len(rows) for rows in batches] == expected
        places = [(row["partition"], row["offset"]) for rows in batches for row in rows]
        first = 0 if count == 10 else 10
        assert sorted(places) == [(p, offset) for p in range(4) for offset in range(first, first + count)]
