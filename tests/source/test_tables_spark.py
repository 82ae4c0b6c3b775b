"""Tables of a cluster in a Spark: DataFrames with columns of a user's own, and views of SQL."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.sparks import PLANS_ONCE


@PLANS_ONCE
def test_a_view_shows_the_lag_of_groups(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    group, servers = f"group-{topic}", noida.bootstrap_servers
    librdkafka.produce(servers, topic, [Record(b"v")] * 3)
    librdkafka.commit_offsets(servers, group, topic, {0: 1})
    create = (
        "CREATE OR REPLACE TEMPORARY VIEW lag_of_groups USING kafkawire "
        f"OPTIONS (TABLE 'group_offsets', kafka.bootstrap.servers '{servers}', SUBSCRIBE '{topic}')"
    )
    query = "SELECT groupId, sum(lag) AS lag FROM lag_of_groups GROUP BY groupId"
    try:
        spark.sql(create)
        assert [tuple(row) for row in spark.sql(query).collect()] == [(group, 2)]
        librdkafka.commit_offsets(servers, group, topic, {0: 3})
        # A view is a snapshot.
        assert [tuple(row) for row in spark.sql(query).collect()] == [(group, 2)]
        spark.sql(create)
        assert [tuple(row) for row in spark.sql(query).collect()] == [(group, 0)]
    finally:
        spark.catalog.dropTempView("lag_of_groups")


def test_a_schema_of_ones_own_is_a_projection(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    reader = spark.read.format("kafkawire").option("kafka.bootstrap.servers", noida.bootstrap_servers)
    reader = reader.option("table", "partitions").option("subscribe", topic)
    rows = reader.schema("isr array<int>, partition int").load().orderBy("partition").collect()
    assert [tuple(row) for row in rows] == [([1], 0), ([1], 1)]
