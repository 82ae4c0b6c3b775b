"""Streams of Apache Kafka whose only broker is away for a minute: they go on, and lose and double nothing.

``KAFKAWIRE_AWAY_S`` is how long it is away, 60 seconds unless it says otherwise.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.polling import poll
from tests.support.spark_streams import started

from .apache_kafka import ApacheKafka
from .versions import newest

AWAY_S: Final = float(os.environ.get("KAFKAWIRE_AWAY_S", "60"))
#: How long a batch that the broker has answered already may take, on a machine with other work, seconds.
ANSWERED_S: Final = min(30.0, AWAY_S / 2)
PARTITIONS: Final = 2
#: Records of each partition before, and after the broker was away: a batch takes ten of all partitions.
BEFORE: Final = 150
AFTER: Final = 10
BATCH: Final = 10

pytestmark = [newest, pytest.mark.nightly, pytest.mark.timeout(900 + 2 * AWAY_S)]


@dataclass(frozen=True)
class Copied:
    """A topic, and the query that copies it to Parquet, batch after batch."""

    spark: SparkSession
    servers: str
    topic: str
    folder: Path
    limit: int

    def start(self) -> StreamingQuery:
        reader = self.spark.readStream.format("kafkawire").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", self.topic).option("startingOffsets", "earliest")
        frame = reader.option("maxOffsetsPerTrigger", str(self.limit)).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.folder / "c"))
        return started(lambda: self._begun(writer.start(str(self.folder / "out"))))

    def _begun(self, query: StreamingQuery) -> StreamingQuery:
        poll(lambda: self.batches >= 2 or query.exception(), "the second batch")
        if (error := query.exception()) is not None:
            raise error
        return query

    def put(self, first: int, count: int) -> None:
        records = [
            Record(b"%d" % number, partition=partition)
            for number in range(first, first + count)
            for partition in range(PARTITIONS)
        ]
        librdkafka.produce(self.servers, self.topic, records, linger_ms=50)

    @property
    def batches(self) -> int:
        """Count of the batches that are done."""
        return len(list((self.folder / "c" / "commits").glob("[0-9]*")))

    def rows(self) -> list[tuple[int, int, bytes]]:
        found = self.spark.read.parquet(str(self.folder / "out")).select("partition", "offset", "value")
        return sorted((row["partition"], row["offset"], bytes(row["value"])) for row in found.collect())


@contextlib.contextmanager
def running(copied: Copied) -> Iterator[StreamingQuery]:
    query = copied.start()
    try:
        yield query
    finally:
        query.stop()


@pytest.mark.parametrize("leave", [ApacheKafka.kill, ApacheKafka.stop], ids=["kill -9", "stopped"])
def test_streams_go_on_when_their_broker_is_back_after_a_minute(
    spark: SparkSession,
    kafka: ApacheKafka,
    certificates: Certificates,
    tmp_path: Path,
    leave: Callable[[ApacheKafka], None],
) -> None:
    with ApacheKafka(kafka.version, tmp_path, certificates) as broker:
        servers = broker.bootstrap_servers()
        topics = [librdkafka.create_topic(servers, PARTITIONS) for _ in range(2)]
        # One is in the middle of a backlog, the other has nothing to do.
        busy = Copied(spark, servers, topics[0], tmp_path / "busy", BATCH)
        idle = Copied(spark, servers, topics[1], tmp_path / "idle", BEFORE)
        for copied in (busy, idle):
            copied.put(0, BEFORE)
        with running(idle) as idle_query:
            idle_query.processAllAvailable()
            with running(busy) as busy_query:
                leave(broker)
                time.sleep(ANSWERED_S)  # by then it has no answers left
                stood = [copied.batches for copied in (idle, busy)]
                time.sleep(AWAY_S - ANSWERED_S)
                assert [copied.batches for copied in (idle, busy)] == stood
                assert stood[1] < PARTITIONS * BEFORE / BATCH
                assert (idle_query.isActive, busy_query.isActive) == (True, True)
                broker.start()
                for copied in (busy, idle):
                    copied.put(BEFORE, AFTER)
                for query in (idle_query, busy_query):
                    query.processAllAvailable()
        expected = [(part, at, b"%d" % at) for part in range(PARTITIONS) for at in range(BEFORE + AFTER)]
        assert idle.rows() == expected
        assert busy.rows() == expected
