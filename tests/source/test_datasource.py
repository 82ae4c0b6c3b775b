"""What the source does not do is refused with what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

REFUSAL = "kafkawire has no writeStream yet: use foreachBatch and df.write"


def test_a_streaming_write_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) value")
    writer = rows.writeStream.format("kafkawire").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(Exception, match=REFUSAL):
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
