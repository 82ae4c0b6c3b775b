"""A topic that a real broker compacted has the rows that ``latest_per_key`` keeps of it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.changes import latest_per_key

from .apache_kafka import ApacheKafka
from .compaction import COMPACTED, WRITTEN, compacted_topic
from .versions import newest

pytestmark = pytest.mark.jvm


@newest
def test_the_broker_and_the_fold_keep_the_same_rows(spark: SparkSession, kafka: ApacheKafka) -> None:
    def folded(rows: DataFrame) -> list[tuple[int, bytes]]:
        last = latest_per_key(rows, "key", order_by="offset").where("key <> 'young'").orderBy("offset")
        return [(row.offset, bytes(row.value)) for row in last.collect()]

    records = [(item.key, item.value, offset) for offset, item in enumerate(WRITTEN)]
    assert folded(spark.createDataFrame(records, "key binary, value binary, offset bigint")) == COMPACTED
    servers = kafka.bootstrap_servers("PLAINTEXT")
    options = {"kafka.bootstrap.servers": servers, "subscribe": compacted_topic(servers)}
    assert folded(spark.read.format("kafkawire").options(**options).load()) == COMPACTED
