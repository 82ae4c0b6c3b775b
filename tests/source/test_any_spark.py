"""Queries of users with each Spark version that this package supports, through Spark itself: reads, writes
with the behaviours of Spark's own KafkaSinkSuite, log directories, and streams."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import pytest
from chispa import assert_df_equality
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.directories.side_files import META_PROPERTIES
from spark_kafkawire.functions import header
from spark_kafkawire.model import Broker
from spark_kafkawire.records.public import encode_message_set
from spark_kafkawire.source.schema import HEADERS_FIELD, MODERN_SCHEMA, V07_SCHEMA
from spark_kafkawire.source.spark_versions import HAS_READ_LIMITS, HAS_STREAM_SINKS
from tests.support import librdkafka
from tests.support.embedded import produce, wait_registered
from tests.support.foreign import Record, values
from tests.support.golden import CORPUS, MANIFEST
from tests.support.log_folders import KILLED, KILLED_END, MARKERS, START_OFFSET
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import begun, lines, put, run, send, stream, write
from tests.support.sparks import PLANS_ONCE, STREAM_SINKS

from .task_errors import message_of

T0 = 1_700_000_000_000


def load(
    spark: SparkSession, broker: EmbeddedCluster | NoidaBroker, schema: str | None = None, **options: str
) -> DataFrame:
    if isinstance(broker, EmbeddedCluster):
        given = {"zookeeper.connect": broker.zookeeper_connect}
    else:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafkaConsumer.pollTimeoutMs": "1s"}
    reader = spark.read.format("kafkawire").options(**given)
    return (reader if schema is None else reader.schema(schema)).options(**options).load()


@pytest.fixture(scope="module")
def mixed(corpus: EmbeddedCluster) -> str:
    """A topic with plain, compressed and plain messages in partition 1 of broker 0."""
    plain, gzip = encode_message_set([b"one", b"two"]), encode_message_set(["three", "four"], "gzip")
    produce(corpus, "mixed", plain + gzip + encode_message_set([b"five"]), partition=1)
    wait_registered(corpus, "mixed")
    return "mixed"


def test_columns_of_07(spark: SparkSession, corpus: EmbeddedCluster, mixed: str) -> None:
    after = 26 + len(encode_message_set(["three", "four"], "gzip"))
    places = [(0, 0, 13), (13, 0, 26), (26, 0, after), (26, 1, after), (after, 0, after + 14)]
    values = [b"one", b"two", b"three", b"four", b"five"]
    rows: list[tuple[Any, ...]] = [
        (None, value, mixed, 1, offset, None, -1, 0, index, next_offset)
        for value, (offset, index, next_offset) in zip(values, places, strict=True)
    ]
    expected = spark.createDataFrame(rows, V07_SCHEMA)
    assert_df_equality(load(spark, corpus, subscribe=mixed), expected)


def test_columns_are_those_of_sparks_own_connector(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    records = [
        Record(b"one", b"k1", (("h", b"1"), ("h", None)), T0),
        Record(None, None, (), T0 + 1),
        Record(b"three", None, (), T0 + 2, partition=1),
    ]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    places = [(b"k1", b"one", 0, 0), (None, None, 0, 1), (None, b"three", 1, 0)]
    headers = [[("h", b"1"), ("h", None)], None, None]
    times = [datetime.fromtimestamp((T0 + number) / 1000, timezone.utc) for number in range(3)]
    rows = [
        (key, value, topic, partition, offset, time, 0, item)
        for (key, value, partition, offset), time, item in zip(places, times, headers, strict=True)
    ]
    expected = spark.createDataFrame(rows, StructType([*MODERN_SCHEMA.fields, HEADERS_FIELD]))
    assert_df_equality(load(spark, noida, subscribe=topic, includeHeaders="true"), expected)


def test_schema_is_a_projection(spark: SparkSession, corpus: EmbeddedCluster, mixed: str) -> None:
    projected = load(spark, corpus, "topic string, nextOffset bigint, index int", subscribe=mixed)
    assert projected.columns == ["topic", "nextOffset", "index"]
    assert_df_equality(projected, load(spark, corpus, subscribe=mixed).select(*projected.columns))


@PLANS_ONCE
def test_loaded_frame_is_a_snapshot(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    produce(corpus, "growing", encode_message_set([b"1", b"2"]))
    wait_registered(corpus, "growing")
    frame = load(spark, corpus, subscribe="growing")
    assert frame.count() == 2
    produce(corpus, "growing", encode_message_set([b"3"]))
    assert frame.count() == 2
    assert frame.union(frame).count() == 4
    assert load(spark, corpus, subscribe="growing").count() == 3


@PLANS_ONCE
def test_loss_is_one_line(spark: SparkSession, noida: NoidaBroker, caplog: pytest.LogCaptureFixture) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"%d" % number) for number in range(100)])
    options = {"subscribe": topic, "minPartitions": "2"}
    strict = load(spark, noida, **options)
    lenient = load(spark, noida, failOnDataLoss="false", **options)
    assert strict.count() == lenient.count() == 100  # now both are planned
    noida.delete_records(topic, 0, 70)
    with pytest.raises(PythonException) as caught:
        strict.collect()
    # Each of the two tasks has lost some, and either may be the first to say so.
    assert f"{topic} 0 at offset " in message_of(caught.value)
    assert "are gone; the log now holds [70, 100)" in message_of(caught.value)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert sorted(row.offset for row in lenient.collect()) == list(range(70, 100))


def test_broker_killed_during_a_read_is_one_line(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    frame = load(spark, cluster, subscribe="debian-gzip", retries="2")
    rows = iter(frame.select("broker", "partition").toLocalIterator())
    next(rows)  # the first Spark partition has been read
    port = cluster.brokers[1].port
    cluster.brokers[1].kill()
    with pytest.raises(Py4JJavaError) as caught:
        list(rows)
    # Spark 4.0 has the text twice, after words of its own that differ.
    lines = [line for line in str(caught.value).splitlines() if "spark_kafkawire.errors." in line]
    [line] = {line.partition("spark_kafkawire.errors.")[2] for line in lines}
    assert "gave up after 3 attempts" in line
    assert f"debian-gzip 1-0 at offset 0: broker 1 (127.0.0.1:{port}): cannot connect" in line


# Writes, of tests that have the names of those in KafkaSinkSuite

UNKNOWN_TOPIC = 3


def save(frame: DataFrame, broker: NoidaBroker | MockCluster, mode: str = "append", **raw: Any) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, **raw}
    frame.write.format("kafkawire").mode(mode).options(**options).save()


def rows(broker: NoidaBroker, topic: str, partitions: int = 1) -> list[list[Record]]:
    """The records of each partition."""
    return [librdkafka.consume(broker.bootstrap_servers, topic, number) for number in range(partitions)]


def test_batch_write_to_kafka_with_all_columns(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    frame = spark.sql(
        """SELECT 'k' AS key, 'v' AS value, 1 AS partition,
                  TIMESTAMP '2023-11-14 22:13:20.123456' AS timestamp,
                  array(struct('a' AS key, X'01' AS value), struct('a' AS key, X'' AS value)) AS headers
           UNION ALL SELECT null, null, 0, TIMESTAMP '2023-11-14 22:13:21', null
           UNION ALL SELECT null, '', 1, TIMESTAMP '1970-01-01 00:00:00.001999', array()"""
    )
    save(frame.coalesce(1), noida, topic=topic, compression="zstd")
    first, second = rows(noida, topic, 2)
    assert [(row.key, row.value, row.headers, row.timestamp_ms) for row in second] == [
        (b"k", b"v", (("a", b"\x01"), ("a", b"")), 1_700_000_000_123),
        (None, b"", (), 1),
    ]
    assert [(row.key, row.value, row.headers, row.timestamp_ms) for row in first] == [
        (None, None, (), 1_700_000_001_000)
    ]


def test_headers_are_maps_and_the_last_of_a_key_wins(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    for value in ("'t'", "X'0074'", "CAST(NULL AS STRING)"):
        frame = spark.sql(
            f"""SELECT {value} AS value, map('a', {value}, 'b', {value}) AS headers
                UNION ALL SELECT {value}, map() UNION ALL SELECT {value}, NULL"""
        )
        save(frame.coalesce(1), noida, topic=topic)
    repeated = "array(struct('a' AS key, X'01' AS value), struct('a' AS key, X'02' AS value)) AS headers"
    save(spark.sql(f"SELECT 'r' AS value, {repeated}"), noida, topic=topic)
    [result] = rows(noida, topic)
    values = (b"t", b"\0t", None)
    written = [item for value in values for item in ((("a", value), ("b", value)), (), ())]
    assert [row.headers for row in result] == [*written, (("a", b"\1"), ("a", b"\2"))]
    given = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, "includeHeaders": "true"}
    read = spark.read.format("kafkawire").options(**given).load().orderBy("offset")
    last = [row[0] and bytes(row[0]) for row in read.select(header("headers", "a")).collect()]
    assert last == [value for item in values for value in (item, None, None)] + [b"\2"]


def test_brokers_behind_a_tunnel_are_read_and_written(spark: SparkSession) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        server.broker.broker = Broker(0, "kafka-0.svc", 9092)
        given = {"kafka.bootstrap.servers": "kafka-0.svc:9092"}
        given["brokerAddressMap"] = json.dumps({"kafka-0.svc:9092": server.bootstrap_servers})
        rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
        rows.write.format("kafkawire").mode("append").options(**given, topic="t").save()
        read = spark.read.format("kafkawire").options(**given, subscribe="t").load()
        assert [bytes(row.value) for row in read.collect()] == [b"0", b"1", b"2"]


def test_batch_topic_field_and_topic_option_which_beats_it(spark: SparkSession, noida: NoidaBroker) -> None:
    fields = [noida.create_topic() for _ in range(3)]
    frame = spark.createDataFrame([(topic, topic) for topic in fields[:2]], "topic string, value string")
    save(frame, noida)
    assert [values(rows(noida, topic)[0]) for topic in fields] == [
        [fields[0].encode()],
        [fields[1].encode()],
        [],
    ]
    save(frame, noida, topic=fields[2])
    assert sorted(values(rows(noida, fields[2])[0]), key=str) == [topic.encode() for topic in fields[:2]]


def test_unsupported_save_modes(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    frame = spark.createDataFrame([("v",)], "value string")
    for mode in ("ignore", "errorifexists", "error"):  # Spark lets none of them come to a Python source
        with pytest.raises(AnalysisException, match=r"UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(frame, noida, mode, topic=topic)
    with pytest.raises(AnalysisException) as raised:
        save(frame, noida, "overwrite", topic=topic)
    assert message_of(raised.value).endswith('a Kafka log can only be appended to; use .mode("append")')
    assert rows(noida, topic) == [[]]
    save(frame, noida, "append", topic=topic)
    assert [len(part) for part in rows(noida, topic)] == [1]


def test_an_empty_dataframe_needs_no_topic(spark: SparkSession, mock_cluster: MockCluster) -> None:
    mock_cluster.set_topic_error("missing", UNKNOWN_TOPIC)
    frame = spark.createDataFrame([], "value string").repartition(2)
    save(frame, mock_cluster, topic="missing", retryBackoff="1ms", **{"kafka.max.block.ms": "100"})


def test_what_was_read_can_be_written_as_it_is(spark: SparkSession, noida: NoidaBroker) -> None:
    source, copy = (noida.create_topic(partitions=2) for _ in range(2))
    sent = [
        Record(
            b"%d" % number,
            b"k" if number % 3 else None,
            (("n", None), ("n", b"1"))[: number % 3],
            10**12 + number,
            number % 2,
        )
        for number in range(100)
    ]
    librdkafka.produce(noida.bootstrap_servers, source, sent)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "includeHeaders": "true"}
    frame = spark.read.format("kafkawire").options(subscribe=source, **options).load()
    # What no record stores is left out: where they were, and other columns.
    save(frame.selectExpr("*", "1 AS id"), noida, topic=copy, includeHeaders="true")
    assert rows(noida, copy, 2) == rows(noida, source, 2)


# Log directories

OFFSETS: Final = [offset for offset in range(START_OFFSET, KILLED_END) if offset not in MARKERS]


def test_spark_reads_a_path_a_list_of_paths_and_a_view(spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.read.format("kafkawire")
    expected = OFFSETS
    result = reader.option("subscribe", "events").load(str(KILLED))
    assert [row.offset for row in result.select("offset").collect()] == expected
    other = shutil.copytree(KILLED, tmp_path / "other")
    meta = other / META_PROPERTIES
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    both = spark.read.format("kafkawire").option("minPartitions", "3").load([str(KILLED), str(other)])
    assert both.rdd.getNumPartitions() >= 3
    assert sorted(row.offset for row in both.select("offset").collect()) == expected
    spark.sql(f"CREATE TEMPORARY VIEW directory USING kafkawire OPTIONS (path '{KILLED}')")
    [counted] = spark.sql("SELECT count(*) AS n, max(offset) AS last FROM directory").collect()
    assert (counted.n, counted.last) == (len(expected), expected[-1])
    old = spark.read.format("kafkawire").load([str(CORPUS / "broker0"), str(CORPUS / "broker1")])
    assert old.count() == sum(item["messages"] for item in MANIFEST)


# Streams


@pytest.fixture
def topics(noida: NoidaBroker) -> tuple[str, str]:
    return noida.create_topic(partitions=2), noida.create_topic()


def texts(noida: NoidaBroker, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in librdkafka.consume(noida.bootstrap_servers, topic))


def numbers(noida: NoidaBroker, topic: str) -> list[int]:
    return sorted(map(int, texts(noida, topic)))


def stored(rows: DataFrame, checkpoint: Path) -> DataStreamWriter:
    return rows.writeStream.option("checkpointLocation", str(checkpoint))


def to_topic(rows: DataFrame, noida: NoidaBroker, topic: str, checkpoint: Path) -> DataStreamWriter:
    sink = stored(rows.select("key", "value"), checkpoint).format("kafkawire")
    return sink.option("kafka.bootstrap.servers", noida.bootstrap_servers).option("topic", topic)


def test_batches_of_a_stream_are_written_and_a_restart_goes_on_where_it_was(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    def write(rows: DataFrame, _: int) -> None:
        sink = rows.select("key", "value").write.format("kafkawire").mode("append")
        sink.option("kafka.bootstrap.servers", noida.bootstrap_servers).option("topic", topics[1]).save()

    for number in range(2):
        send(noida, topics[0], range(10 * number, 10 * number + 10), number % 2)
        rows = stream(spark, noida, topics[0], startingOffsets="earliest")
        run(stored(rows, tmp_path).foreachBatch(write).trigger(availableNow=True))
        assert numbers(noida, topics[1]) == list(range(10 * number + 10))


@STREAM_SINKS
def test_a_sink_writes_what_comes_while_it_runs_and_after_a_restart(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    for number in range(2):
        rows = stream(spark, noida, topics[0], startingOffsets="earliest")
        query = begun(to_topic(rows, noida, topics[1], tmp_path).trigger(processingTime="0 seconds"))
        try:
            send(noida, topics[0], range(10 * number, 10 * number + 10), number % 2)
            query.processAllAvailable()
        finally:
            query.stop()
        assert numbers(noida, topics[1]) == list(range(10 * number + 10))


@pytest.mark.skipif(HAS_STREAM_SINKS, reason="this Spark has sinks for Arrow batches")
def test_a_sink_is_refused_with_what_to_do(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    rows = stream(spark, noida, topics[0], startingOffsets="earliest")
    with pytest.raises(StreamingQueryException, match=r"writeStream needs Spark 4\.1 .* use foreachBatch"):
        run(to_topic(rows, noida, topics[1], tmp_path).trigger(availableNow=True))


@pytest.mark.skipif(HAS_READ_LIMITS, reason="this Spark has limits for streams of Python sources")
def test_limits_are_refused_with_what_to_do(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    rows = stream(spark, noida, topics[0], maxOffsetsPerTrigger="3")
    with pytest.raises(StreamingQueryException, match=r"does not tell the trigger.* set queryTrigger="):
        run(stored(rows, tmp_path).format("noop").trigger(availableNow=True))


def test_limits_with_a_processing_time_hold_in_every_run(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    limits = {"maxOffsetsPerTrigger": "3", "maxBytesPerTrigger": "1m", "queryTrigger": "processingTime"}
    batches: dict[int, list[int]] = {}
    failing = [0, 2]  # the first batch, and a later one: each is not committed, and runs again

    def store(rows: DataFrame, number: int) -> None:
        result = sorted(int(row.value) for row in rows.collect())
        assert batches.setdefault(number, result) == result
        if number in failing:
            failing.remove(number)
            raise RuntimeError

    for numbers in (range(12), (), (), range(12, 18)):
        send(noida, topics[0], numbers)
        rows = stream(spark, noida, topics[0], startingOffsets="earliest", **limits)
        query = stored(rows, tmp_path).foreachBatch(store).start()
        with contextlib.suppress(StreamingQueryException):
            query.processAllAvailable()
        query.stop()
    assert batches == {number: [3 * number + item for item in range(3)] for number in range(6)}


@STREAM_SINKS
def test_with_asynchronous_progress_a_restart_writes_rows_again_and_loses_none(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    progress = {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": "3600000",
        "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
    }
    rows = stream(spark, noida, topics[0], startingOffsets="earliest")
    for run_number in range(2):
        send(noida, topics[0], range(10 * run_number, 10 * run_number + 5))
        query = begun(to_topic(rows, noida, topics[1], tmp_path).options(**progress))
        query.processAllAvailable()
        send(noida, topics[0], range(10 * run_number + 5, 10 * run_number + 10))
        query.processAllAvailable()
        query.stop()
        # The first batch of a run is in the checkpoint at once, and no later one for an hour.
        assert (
            sorted(item.name for item in (tmp_path / "offsets").glob("[0-9]*"))
            == ["0", "1"][: run_number + 1]
        )
    assert numbers(noida, topics[1]) == sorted([*range(20), *range(5, 10)])


@STREAM_SINKS
def test_a_failed_batch_is_named_and_written_when_the_query_starts_again(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    _, topic = topics
    (tmp_path / "in").mkdir()
    put(tmp_path, "1", "a", "x" * 200)
    rows = lines(spark, tmp_path)
    limit = {"kafka.max.request.size": "150"}
    with pytest.raises(StreamingQueryException, match="batch 0: batch 0 of the task: "):
        write(rows, noida, tmp_path, topic=topic, **limit)
    write(rows, noida, tmp_path, topic=topic)
    assert texts(noida, topic) == [b"a", b"x" * 200]
