"""Writing DataFrames through Spark to brokers that ZooKeeper knows, read back from the partitions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kazoo.client import KazooClient
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.v07.write_partitions import V07WritePartitions
from spark_kafkawire.cluster.v07.view import view
from spark_kafkawire.errors import DiscoveryError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.records.murmur2 import positive_hashes
from spark_kafkawire.source.writer import create_writer
from tests.support import replay
from tests.support.polling import poll
from tests.support.writing import binary, stored

BROKERS = 2
PARTITIONS = 2
#: Every partition of a topic, as keys count them.
NAMES = [(broker, partition) for broker in range(BROKERS) for partition in range(PARTITIONS)]
VALUE = StructType([StructField("value", BinaryType())])


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=BROKERS, partitions=PARTITIONS) as running:
        yield running


def save(frame: DataFrame, cluster: EmbeddedCluster, mode: str = "append", **raw: Any) -> None:
    options = {"zookeeper.connect": cluster.zookeeper_connect, **raw}
    frame.write.format("kafkawire").mode(mode).options(**options).save()


def logs(cluster: EmbeddedCluster, topic: str) -> dict[tuple[int, int], list[bytes]]:
    """All messages of a topic by broker and partition."""
    return {
        (broker, partition): stored(cluster.brokers[broker].port, topic, partition)
        for broker, partition in NAMES
    }


def messages(cluster: EmbeddedCluster, topic: str) -> list[bytes]:
    return sorted(value for values in logs(cluster, topic).values() for value in values)


def register(cluster: EmbeddedCluster, topic: str) -> None:
    """Write one message to a topic on every broker, and wait until ZooKeeper shows all its partitions."""
    options = WriteOptions.parse(
        {"zookeeper.connect": cluster.zookeeper_connect, "topic": topic, "partitioner": "roundrobin"}
    )
    batch = pa.RecordBatch.from_pydict({"value": binary([b"first"] * BROKERS)})
    create_writer(options, VALUE, overwrite=False).write(iter([batch]))
    poll(
        lambda: len(view(options.discovery, options.net).partitions_of(topic)) == len(NAMES),
        "all partitions are there",
    )


def one_line(error: Exception) -> str:
    """Line of our error, from its class on: Spark names the step before it."""
    [line] = [line for line in str(error).splitlines() if "spark_kafkawire.errors." in line]
    return line[line.index("spark_kafkawire.errors.") :]


@pytest.mark.parametrize(("compression", "acks"), [("none", "0"), ("gzip", "1"), ("snappy", "verify")])
def test_a_dataframe_is_written_whole(
    spark: SparkSession, cluster: EmbeddedCluster, compression: str, acks: str
) -> None:
    topic = f"whole-{compression}-{acks}"
    frame = spark.range(0, 3000, 1, 3).selectExpr("CAST(id AS STRING) AS value")
    save(frame, cluster, topic=topic, compression=compression, acks=acks, batchBytes="2000")
    expected = sorted(b"%d" % number for number in range(3000))
    poll(lambda: messages(cluster, topic) == expected, "all messages are there")


def test_strings_are_utf_8_and_bytes_are_themselves(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    save(spark.createDataFrame([("größe",), ("",)], "value string"), cluster, topic="text")
    save(spark.createDataFrame([(b"\xff\x00",)], "value binary"), cluster, topic="text")
    assert messages(cluster, "text") == sorted(["größe".encode(), b"", b"\xff\x00"])


def test_an_unregistered_topic_goes_to_partition_0_of_every_live_broker_and_later_to_all(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    frame = spark.range(0, 40, 1, 4).selectExpr("CAST(id AS STRING) AS value")
    save(frame, cluster, topic="new", partitioner="roundrobin")
    first = logs(cluster, "new")
    assert {name for name, values in first.items() if values} == {(0, 0), (1, 0)}
    register(cluster, "new")
    save(frame, cluster, topic="new", partitioner="roundrobin")
    assert all(len(values) > len(first[name]) for name, values in logs(cluster, "new").items())


def test_keys_pick_the_log_by_murmur2_whatever_partition_of_the_dataframe_they_are_in(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    register(cluster, "keyed")
    frame = spark.range(0, 400, 1, 4).selectExpr(
        "CONCAT('key ', id % 20) AS key", "CONCAT('key ', id % 20) AS value"
    )
    save(frame, cluster, topic="keyed")
    save(frame.repartition(3), cluster, topic="keyed")
    for place, (name, values) in enumerate(logs(cluster, "keyed").items()):
        keys = [value for value in values if value != b"first"]
        assert name == NAMES[place]
        assert set((positive_hashes(binary(keys)) % len(NAMES)).tolist()) <= {place}
    assert len(messages(cluster, "keyed")) == 800 + BROKERS


def test_small_tasks_without_keys_are_spread_and_by_a_seed_alike_each_time(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    register(cluster, "spread")
    counts = [[len(values) for values in logs(cluster, "spread").values()]]
    rows = spark.range(0, 24, 1, 12).selectExpr("CAST(id AS STRING) AS value")
    for _ in range(2):
        save(rows, cluster, topic="spread", partitionerSeed="0")
        counts.append([len(values) for values in logs(cluster, "spread").values()])
    first, second = (np.diff(counts[at : at + 2], axis=0)[0].tolist() for at in range(2))
    assert first == second
    assert sum(first) == 24
    assert all(count and count % 2 == 0 for count in first), "a task's rows stay together"


def test_a_topic_column_writes_to_several_topics(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    frame = spark.range(0, 300, 1, 2).selectExpr(
        "CONCAT('many-', id % 3) AS topic", "CAST(CAST(id AS STRING) AS BINARY) AS value"
    )
    save(frame, cluster, compression="gzip")
    for number in range(3):
        expected = sorted(b"%d" % value for value in range(number, 300, 3))
        assert messages(cluster, f"many-{number}") == expected


def test_partition_and_broker_columns_name_the_log_also_of_an_unregistered_topic(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    rows = [(b"%d-%d" % name, *name) for name in NAMES] * 3
    frame = spark.createDataFrame(rows, "value binary, broker int, partition int")
    save(frame, cluster, topic="named")
    assert logs(cluster, "named") == {name: [b"%d-%d" % name] * 3 for name in NAMES}


def test_what_was_read_is_written_as_it_is(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    rows = [(b"%d-%d" % name, *name) for name in NAMES]
    save(spark.createDataFrame(rows, "value binary, broker int, partition int"), cluster, topic="origin")
    register(cluster, "origin")
    read = (
        spark.read.format("kafkawire")
        .option("zookeeper.connect", cluster.zookeeper_connect)
        .option("subscribe", "origin")
        .load()
    )
    save(read, cluster, topic="mirror", compression="snappy")
    assert logs(cluster, "mirror") == logs(cluster, "origin")


def test_broker_list_needs_no_zookeeper(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    frame = spark.range(0, 40, 1, 4).selectExpr("CAST(id AS STRING) AS value", "'listed' AS topic")
    options = {"broker.list": cluster.broker_list, "partitioner": "roundrobin"}
    frame.write.format("kafkawire").mode("append").options(**options).save()
    frame.drop("topic").write.format("kafkawire").mode("append").options(topic="listed", **options).save()
    written = logs(cluster, "listed")
    assert all(written.values())
    assert messages(cluster, "listed") == sorted([b"%d" % number for number in range(40)] * 2)


def test_an_empty_dataframe_writes_nothing(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    save(spark.createDataFrame([], "value binary"), cluster, topic="empty")
    save(
        spark.range(0, 10, 1, 2).filter("id < 0").selectExpr("CAST(id AS STRING) AS value"),
        cluster,
        topic="empty",
    )
    assert messages(cluster, "empty") == []


@pytest.mark.parametrize(
    ("columns", "raw", "problem"),
    [
        (["id AS value"], {"topic": "t"}, "OptionError: schema: value attribute unsupported type bigint."),
        (["CAST(id AS STRING) AS key"], {"topic": "t"}, "OptionError: schema: Required attribute 'value'"),
        (["'' AS value", "id AS topic"], {}, "OptionError: schema: topic attribute unsupported type bigint."),
        (["'' AS value"], {}, "OptionError: topic option required when no 'topic' attribute is present"),
        (["'' AS value"], {"topic": "a/b"}, "OptionError: option topic: 'a/b': the brokers refuse"),
        (
            ["'' AS value"],
            {"topic": "t", "acks": "2"},
            "OptionError: option acks: '2' is not 0 or 1 or verify",
        ),
    ],
)
def test_what_the_driver_refuses_is_one_line_before_any_task(
    spark: SparkSession, cluster: EmbeddedCluster, columns: list[str], raw: dict[str, str], problem: str
) -> None:
    with pytest.raises(AnalysisException) as raised:
        save(spark.range(1).selectExpr(*columns), cluster, **raw)
    assert one_line(raised.value).startswith(f"spark_kafkawire.errors.{problem}")


def test_overwrite_is_refused(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    with pytest.raises(AnalysisException) as raised:
        save(spark.range(1).selectExpr("'' AS value"), cluster, mode="overwrite", topic="t")
    assert one_line(raised.value).endswith('a Kafka log can only be appended to; use .mode("append")')


@pytest.mark.parametrize(
    ("columns", "raw", "problem"),
    [
        (["CASE WHEN id < 5 THEN 'x' END AS value"], {"topic": "bad"}, "row 5: value is null; "),
        (
            ["'x' AS value", "CASE WHEN id < 5 THEN 'bad' END AS topic"],
            {},
            "row 5: topic is null; fill it, or set the option topic",
        ),
        (
            ["REPEAT('x', CAST(id AS INT) * 10) AS value"],
            {"topic": "bad", "max.message.size": "79"},
            "row 8: its value of 80 bytes is larger than max.message.size=79",
        ),
        (
            ["'x' AS value", "CAST(id AS INT) AS partition"],
            {"topic": "bad"},
            "row 2: topic 'bad' has no partition 2;",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_one_line_and_nothing_of_its_batch_is_sent(
    spark: SparkSession, cluster: EmbeddedCluster, columns: list[str], raw: dict[str, str], problem: str
) -> None:
    with pytest.raises(PythonException) as raised:
        save(spark.range(0, 10, 1, 1).selectExpr(*columns), cluster, **raw)
    expected = f"spark_kafkawire.errors.RowError: batch 0 of the task: {problem}"
    assert one_line(raised.value).startswith(expected)
    assert messages(cluster, "bad") == []


def test_a_dead_broker_that_is_still_registered_is_left_out_and_none_alive_is_an_error(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper = KazooClient(cluster.zookeeper_connect)
    zookeeper.start()
    try:
        zookeeper.create("/brokers/topics/half-dead/0", b"2", makepath=True)
        zookeeper.create("/brokers/topics/half-dead/9", b"1", makepath=True)
        zookeeper.create("/brokers/topics/dead/9", b"1", makepath=True)
        targets = V07WritePartitions.discover(
            WriteOptions.parse({"zookeeper.connect": cluster.zookeeper_connect})
        )
        assert [tp.name for tp in targets.selectable("half-dead")] == ["0-0", "0-1"]
        assert caplog.messages == ["topic 'half-dead': broker 9 is not alive; writing to the others"]
        options = WriteOptions.parse({"zookeeper.connect": cluster.zookeeper_connect, "topic": "dead"})
        with pytest.raises(DiscoveryError, match=r"^topic 'dead': none of its brokers \(9\) is alive"):
            create_writer(options, VALUE, overwrite=False)
    finally:
        for topic in ("half-dead", "dead"):
            zookeeper.delete(f"/brokers/topics/{topic}", recursive=True)
        zookeeper.stop()
        zookeeper.close()


def test_a_broker_killed_in_the_middle_of_a_write_is_a_delivery_error(spark: SparkSession) -> None:
    # What is written can be seen at once, long before there is no more to write.
    at_once = {"log.flush.interval": "1"}
    with EmbeddedCluster(brokers=1, partitions=1, zookeeper=False, properties=at_once) as cluster:
        (broker,) = cluster.brokers

        def kill_once_written() -> None:
            poll(lambda: replay.end_offset(broker.port, ("t", 0)), "something is written")
            broker.kill()

        killer = threading.Thread(target=kill_once_written)
        killer.start()
        frame = spark.range(0, 6_000_000, 1, 1).selectExpr("CAST(id AS STRING) AS value")
        with pytest.raises(PythonException) as raised:
            frame.write.format("kafkawire").mode("append").option("broker.list", cluster.broker_list).option(
                "topic", "t"
            ).option("batchBytes", "10k").save()
        killer.join()
    assert one_line(raised.value).startswith("spark_kafkawire.errors.DeliveryError: broker 0 (127.0.0.1:")
    assert (
        "message(s) that this task sent there (to t 0-0), each may be in its partition or missing"
        in one_line(raised.value)
    )
    assert one_line(raised.value).endswith(
        "; if Spark runs the task again, it writes all its rows again, and rows that arrived are duplicated"
    )
