"""What the source does not do is refused with what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

REFUSAL = "kafkawire does not stream yet: use spark.read and df.write, or foreachBatch"
WHERE = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def test_a_streaming_read_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("kafkawire").options(**WHERE, subscribe="t").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match=REFUSAL):
        query.awaitTermination(60)


def test_a_streaming_write_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) value")
    writer = rows.writeStream.format("kafkawire").options(**WHERE, topic="t")
    with pytest.raises(Exception, match=REFUSAL):
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
