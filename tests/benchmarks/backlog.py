"""The input of benchmarks on Apache Kafka: a topic, or batches that are made before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_kafkawire.options import ReadOptions
from tests.support import librdkafka

from .writing import PARTITIONS, rows_to_write

VALUE_SIZE: Final = 100
#: The one column of a read that wants nothing else.
VALUE: Final = "value binary"
#: The columns of Kafka's records, which the ready-made batches have to be told.
_ALL: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
#: Bytes of a record beside its value.
_RECORD_HEADER_SIZE: Final = 10

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Side:
    """A source to measure: a format of Spark, its options, and a column list where not all
    columns are wanted."""

    format: str
    options: Options
    columns: str | None = None

    def batch(self, spark: SparkSession) -> DataFrame:
        """A DataFrame of the rows that the source holds now."""
        reader = spark.read.format(self.format).options(**self.options)
        return (reader.schema(self.columns) if self.columns else reader).load()

    def stream(self, spark: SparkSession) -> DataFrame:
        """A stream of the rows that the source holds and of those that arrive later."""
        reader = spark.readStream.format(self.format).options(**self.options)
        return (reader.schema(self.columns) if self.columns else reader).load()


def write_topic(
    spark: SparkSession, servers: str, topic: str, rows: int, value_size: int = VALUE_SIZE
) -> Options:
    """A new topic with equal partitions; the options that read it from its start."""
    librdkafka.create_topic(servers, PARTITIONS, topic)
    frame = rows_to_write(spark, value_size, rows).withColumn("partition", F.spark_partition_id())
    to = {"kafka.bootstrap.servers": servers, "topic": topic}
    frame.write.format("kafkawire").mode("append").options(**to).save()
    return {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}


def read_into_nothing(frame: DataFrame) -> None:
    """Read all of its rows."""
    frame.write.format("noop").mode("overwrite").save()


def ready_made(
    partition_rows: int, micro_batches: int = 1, columns: str = _ALL, value_size: int = VALUE_SIZE
) -> Side:
    """So many rows of each partition in each micro-batch, without any reading. Its Arrow batches are as large
    as full ones of ``kafkawire``."""
    options = ReadOptions.parse({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "topic"})
    full_batch_rows = options.fetch.fetch_bytes // (value_size + _RECORD_HEADER_SIZE)
    numbers = {
        "valueSize": value_size,
        "batchRows": min(full_batch_rows, partition_rows),
        "partitionRows": partition_rows,
        "partitions": PARTITIONS,
        "microBatches": micro_batches,
    }
    return Side("prebuilt", {name: str(number) for name, number in numbers.items()}, columns)
