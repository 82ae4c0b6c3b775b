"""Queries of Spark as consumers of a group of 0.7: they share a topic, and leave when they end."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import OptionError
from spark_kafkawire.streaming import stop_between_batches
from tests.support.debian_plain import COUNT, ENDS, TOPIC
from tests.support.polling import poll
from tests.support.spark_streams import WAIT_MAX_S, started
from tests.support.sparks import READ_LIMITS

#: Of this test alone: what the group has read stays in the brokers' ZooKeeper, which other tests share.
GROUP: Final = "two-queries"
IDS: Final = f"/consumers/{GROUP}/ids"


def data(client: KazooClient, kind: str) -> dict[str, str]:
    root = f"/consumers/{GROUP}/{kind}/{TOPIC}"
    try:
        return {name: client.get(f"{root}/{name}")[0].decode() for name in client.get_children(root)}
    except NoNodeError:
        return {}


def ids(client: KazooClient) -> list[str]:
    found: list[str] = client.get_children(IDS) if client.exists(IDS) else []
    return found


def sessions(client: KazooClient) -> set[int]:
    """The sessions of the members that are there."""
    return {client.get(f"{IDS}/{name}")[1].ephemeralOwner for name in ids(client)}


@READ_LIMITS
@pytest.mark.timeout(900)
def test_a_query_that_is_stopped_between_batches_repeats_none(
    spark: SparkSession, corpus: EmbeddedCluster, corpus_zookeeper: KazooClient, tmp_path: Path
) -> None:
    """``query.stop()`` within a batch had the next start and the other consumers read that batch."""
    group = "stopped-between-batches"
    options = {
        "zookeeper.connect": corpus.zookeeper_connect,
        "subscribe": TOPIC,
        "groupMembership": "join",
        "kafka.group.id": group,
        "startingOffsets": "earliest",
        "maxBytesPerTrigger": "1",
    }
    begun, go_on = threading.Event(), threading.Event()
    written: Counter[tuple[int, int, int, int]] = Counter()

    def write(rows: DataFrame, _: int) -> None:
        written.update(tuple(row) for row in rows.collect())
        if written:
            begun.set()
            assert go_on.wait(WAIT_MAX_S)

    def start(checkpoint: str, *, is_bounded: bool = False) -> StreamingQuery:
        rows = spark.readStream.format("kafkawire").options(**options).load()
        writer = rows.select("broker", "partition", "offset", "index").writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        return (writer.trigger(availableNow=True) if is_bounded else writer).start()

    query = start("first")
    assert begun.wait(WAIT_MAX_S)
    with pytest.raises(OptionError, match="for queries with groupMembership=join"):
        stop_between_batches(query, {"zookeeper.connect": "h:1", "subscribe": TOPIC}, 1)
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(stop_between_batches, query, options, WAIT_MAX_S)
        poll(lambda: corpus_zookeeper.exists(f"/consumers/{group}/leaving"), "the request")
        assert not stopped.done()
        go_on.set()
        assert stopped.result()
    assert not query.isActive
    assert 0 < written.total() < COUNT
    assert corpus_zookeeper.get_children(f"/consumers/{group}/ids") == []
    for checkpoint in ("other", "first"):
        start(checkpoint, is_bounded=True).awaitTermination()
    assert len(written) == written.total() == COUNT


@READ_LIMITS
@pytest.mark.timeout(900)
def test_two_queries_share_a_topic_and_leave_when_they_end(
    spark: SparkSession, corpus: EmbeddedCluster, corpus_zookeeper: KazooClient, tmp_path: Path
) -> None:
    def start(name: str) -> StreamingQuery:
        rows = (
            spark.readStream.format("kafkawire")
            .option("zookeeper.connect", corpus.zookeeper_connect)
            .option("subscribe", TOPIC)
            .option("groupMembership", "join")
            .option("kafka.group.id", GROUP)
            .option("startingOffsets", "earliest")
            .option("maxBytesPerTrigger", "1")
            .load()
            .selectExpr("broker", "partition", "offset", "index")
        )
        writer = rows.writeStream.format("parquet").option("path", str(tmp_path / name))
        query = writer.option("checkpointLocation", str(tmp_path / f"{name}-checkpoint")).start()
        # Others wait for their first batches: several that start at once break each other in Spark.
        poll(lambda: query.lastProgress is not None or query.exception() is not None, "a batch", WAIT_MAX_S)
        if (error := query.exception()) is not None:
            raise error
        return query

    client = corpus_zookeeper
    queries = [started(lambda: start("first"))]
    known = sessions(client)
    try:
        queries.append(started(lambda: start("second")))
        known |= sessions(client)
        poll(
            lambda: data(client, "offsets") == {name: str(end) for name, end in ENDS.items()},
            "all",
            WAIT_MAX_S,
        )
        poll(lambda: sorted(Counter(data(client, "owners").values()).values()) == [3, 3], "two shares")
        assert len(ids(client)) == 2
        known |= sessions(client)
    finally:
        for query in queries:
            query.stop()
    poll(lambda: not ids(client), "both gone")
    assert data(client, "owners") == {}
    read = spark.read.parquet(str(tmp_path / "first"), str(tmp_path / "second"))
    assert read.distinct().count() == COUNT
    # A machine that starves a query for longer than its session lasts has others read its batch, too.
    assert read.count() == COUNT or len(known) > 2
