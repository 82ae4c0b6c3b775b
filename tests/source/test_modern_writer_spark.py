"""The behaviours of Spark's own Kafka sink, through Spark, against brokers of 0.8 and later.

Source: Apache Spark's KafkaSinkSuite, whose tests these are named after.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from tests.support import librdkafka
from tests.support.foreign import Record, values
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker

from .task_errors import message_of

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
