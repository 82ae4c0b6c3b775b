"""What the streams read: a topic, or batches that are there already."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_kafkawire.options import FetchOptions
from tests.support import librdkafka

from .streams.queries import Options, Side
from .writing import PARTITIONS, rows_to_write

VALUE_SIZE: Final = 100
#: The one column of a read that wants nothing else.
VALUE: Final = "value binary"
#: The columns of Kafka's records, which the ready-made batches have to be told.
_ALL: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
#: Rows of a full Arrow batch of ``kafkawire``: the ready-made ones are as large.
_BATCH_ROWS: Final = FetchOptions().fetch_bytes // (VALUE_SIZE + 10)


def write_topic(spark: SparkSession, servers: str, topic: str, rows: int) -> Options:
    """A new topic with equal partitions; the options that read it from its start."""
    librdkafka.create_topic(servers, PARTITIONS, topic)
    frame = rows_to_write(spark, VALUE_SIZE, rows).withColumn("partition", F.spark_partition_id())
    to = {"kafka.bootstrap.servers": servers, "topic": topic}
    frame.write.format("kafkawire").mode("append").options(**to).save()
    return {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}


def ready_made(partition_rows: int, micro_batches: int = 1, columns: str = _ALL) -> Side:
    """So many rows of each partition in each micro-batch, without any reading."""
    numbers = {
        "valueSize": VALUE_SIZE,
        "batchRows": min(_BATCH_ROWS, partition_rows),
        "partitionRows": partition_rows,
        "partitions": PARTITIONS,
        "microBatches": micro_batches,
    }
    return Side("prebuilt", {name: str(number) for name, number in numbers.items()}, columns)
