"""The behaviours of Spark's own Kafka sink, through Spark, against brokers of 0.8 and later.

Source: Apache Spark's KafkaSinkSuite, whose tests these are named after.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.clients.writing.strategy import STRATEGIES
from tests.support import librdkafka
from tests.support import mock_cluster as mock
from tests.support.foreign import Record, values
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.writing import binary

UNKNOWN_TOPIC = 3


def save(frame: DataFrame, broker: NoidaBroker | MockCluster, mode: str = "append", **raw: Any) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, **raw}
    frame.write.format("kafkawire").mode(mode).options(**options).save()


def rows(broker: NoidaBroker, topic: str, partitions: int = 1) -> list[list[Record]]:
    """The records of each partition."""
    return [librdkafka.consume(broker.bootstrap_servers, topic, number) for number in range(partitions)]


def one_line(error: Exception) -> str:
    """Line of our error: the last one that Spark shows of it."""
    return [line for line in str(error).splitlines() if "spark_kafkawire.errors." in line][-1]


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


@pytest.mark.parametrize(
    ("columns", "raw", "problem"),
    [
        (["'' AS value"], {}, "topic option required when no 'topic' attribute is present"),
        (["'k' AS key"], {"topic": "t"}, "Required attribute 'value' not found"),
        (
            ["1 AS topic", "'' AS value"],
            {},
            "topic attribute unsupported type int. topic must be a(n) string",
        ),
        (
            ["1 AS value"],
            {"topic": "t"},
            "value attribute unsupported type int. value must be a(n) string or binary",
        ),
        (
            ["'' AS value", "1 AS key"],
            {"topic": "t"},
            "key attribute unsupported type int. key must be a(n) string or binary",
        ),
        (
            ["'' AS value", "'1' AS partition"],
            {"topic": "t"},
            "partition attribute unsupported type string. partition must be a(n) int",
        ),
        (
            ["'' AS value", "array('a') AS headers"],
            {"topic": "t"},
            "headers attribute unsupported type array<string>. headers must be a(n) "
            "array<struct<key:string,value:binary>>",
        ),
        (
            ["'' AS value", "1L AS timestamp"],
            {"topic": "t"},
            "timestamp attribute unsupported type bigint. timestamp must be a(n) timestamp",
        ),
        (
            ["'' AS value"],
            {"topic": "t", "kafka.key.serializer": "foo"},
            "option kafka.key.serializer is not supported: ",
        ),
        (
            ["'' AS value"],
            {"topic": "t", "kafka.value.serializer": "foo"},
            "option kafka.value.serializer is not supported: ",
        ),
        (["'' AS value"], {"topic": "a b"}, "option topic: 'a b': the brokers refuse characters other than"),
    ],
)
def test_bad_schemas_types_and_options_fail_before_any_row(
    spark: SparkSession, columns: list[str], raw: dict[str, str], problem: str
) -> None:
    frame = spark.range(1).selectExpr(*columns)
    writer = frame.write.format("kafkawire").mode("append").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(AnalysisException) as raised:
        writer.options(**raw).save()
    assert problem in one_line(raised.value)


def test_unsupported_save_modes(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    frame = spark.createDataFrame([("v",)], "value string")
    for mode in ("ignore", "errorifexists", "error"):  # Spark lets none of them come to a Python source
        with pytest.raises(AnalysisException, match=r"UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(frame, noida, mode, topic=topic)
    with pytest.raises(AnalysisException) as raised:
        save(frame, noida, "overwrite", topic=topic)
    assert one_line(raised.value).endswith('a Kafka log can only be appended to; use .mode("append")')
    assert rows(noida, topic) == [[]]
    save(frame, noida, "append", topic=topic)
    assert [len(part) for part in rows(noida, topic)] == [1]


def test_a_null_topic_value_fails_with_its_row(spark: SparkSession, noida: NoidaBroker) -> None:
    frame = spark.range(2).coalesce(1).selectExpr("CAST(null AS STRING) AS topic", "'' AS value")
    with pytest.raises(PythonException) as raised:
        save(frame, noida)
    assert "row 0: topic is null; fill it, or set the option topic" in one_line(raised.value)


def test_writing_to_a_non_existing_topic_fails(spark: SparkSession, mock_cluster: MockCluster) -> None:
    mock_cluster.set_topic_error("missing", UNKNOWN_TOPIC)
    frame = spark.createDataFrame([("v",)], "value string")
    with pytest.raises(PythonException) as raised:
        save(frame, mock_cluster, topic="missing", retryBackoff="1ms", **{"kafka.max.block.ms": "100"})
    assert "topic 'missing' is not there after 0.1 s (kafka.max.block.ms)" in one_line(raised.value)


@pytest.mark.parametrize("columns", ["value string", "value string, topic string"])
def test_an_empty_dataframe_needs_no_topic(
    spark: SparkSession, mock_cluster: MockCluster, columns: str
) -> None:
    mock_cluster.set_topic_error("missing", UNKNOWN_TOPIC)
    given = {} if "topic" in columns else {"topic": "missing"}
    frame = spark.createDataFrame([], columns).repartition(2)
    save(frame, mock_cluster, retryBackoff="1ms", **given, **{"kafka.max.block.ms": "100"})


def test_generic_write_of_big_data_with_a_tiny_producer_buffer(
    spark: SparkSession, noida: NoidaBroker
) -> None:
    topic = noida.create_topic(partitions=3)
    frame = spark.range(0, 20_000, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    raw = {"kafka.buffer.memory": "1024", "kafka.batch.size": "1024"}
    save(frame, noida, topic=topic, partitioner="roundrobin", **raw)
    found = rows(noida, topic, 3)
    assert sorted(int(value or b"") for part in found for value in values(part)) == list(range(20_000))
    assert max(map(len, found)) - min(map(len, found)) <= 4


def test_partition_column_and_partitioner_priorities(spark: SparkSession, noida: NoidaBroker) -> None:
    frame = spark.createDataFrame(
        [("named", "k", 2), ("hashed", "k", None), ("hashed", "other", None)],
        "value string, key string, partition int",
    )
    for name in ("murmur2", "consistent"):
        topic = noida.create_topic(partitions=3)
        save(frame.coalesce(1), noida, topic=topic, partitioner=name)
        hashes = STRATEGIES[name].hashes
        assert hashes
        places = (hashes(binary([b"k", b"other"])) % 3).tolist()
        expected = [[Record(b"named", b"k")] if number == 2 else [] for number in range(3)]
        for place, key in zip(places, (b"k", b"other"), strict=True):
            expected[place].append(Record(b"hashed", key))
        found = rows(noida, topic, 3)
        assert [[(row.value, row.key) for row in part] for part in found] == [
            [(row.value, row.key) for row in part] for part in expected
        ]


def test_a_partition_that_the_topic_has_not_is_a_row_error(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    frame = spark.createDataFrame([("v", 2)], "value string, partition int")
    with pytest.raises(PythonException) as raised:
        save(frame, noida, topic=topic)
    assert f"row 0: topic '{topic}' has no partition 2; it has 0, 1; correct" in one_line(raised.value)


def test_an_empty_dataframe_writes_nothing(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    save(spark.createDataFrame([], "key binary, value binary"), noida, topic=topic)
    assert rows(noida, topic) == [[]]


def test_spark_20496_plans_are_analyzed_before_they_are_written(
    spark: SparkSession, noida: NoidaBroker
) -> None:
    topic = noida.create_topic()
    save(spark.range(1).selectExpr("to_json(struct(id AS n)) AS value"), noida, topic=topic)
    assert values(rows(noida, topic)[0]) == [b'{"n":0}']


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
    save(frame, noida, topic=copy, includeHeaders="true")
    assert rows(noida, copy, 2) == rows(noida, source, 2)


def test_columns_that_kafka_does_not_store_are_left_out(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    frame = spark.range(1).selectExpr("'v' AS value", "id", "7L AS offset", "0 AS timestampType")
    save(frame, noida, topic=topic)
    assert values(rows(noida, topic)[0]) == [b"v"]


def test_injected_failures_leave_every_row_once(spark: SparkSession, mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.push_request_errors(mock.PRODUCE, 6, 0, 19, 6)
    frame = spark.range(0, 2000, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    save(frame, mock_cluster, topic="t", retryBackoff="5ms")
    found = [librdkafka.consume(mock_cluster.bootstrap_servers, "t", number) for number in range(2)]
    assert sorted(int(value or b"") for part in found for value in values(part)) == list(range(2000))


def test_a_refused_write_is_one_line(spark: SparkSession, mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, 29)
    frame = spark.createDataFrame([("v",)], "value string").coalesce(1)
    with pytest.raises(PythonException) as raised:
        save(frame, mock_cluster, topic="t")
    assert one_line(raised.value).startswith(
        "spark_kafkawire.errors.DeliveryError: Produce to t 0 on broker "
    )
