"""The input of subjects: rows, topics, and batches that are made before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.options import ReadOptions
from tests.support import librdkafka

from .ceilings import text

PARTITIONS: Final = 2
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
#: Steps from row to row through the text: prime, so that values differ.
_STEP: Final = 7919

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Side:
    """A source to measure: a format of Spark, its options, and columns where not all are wanted."""

    format: str
    options: Options
    columns: str | StructType | None = None

    def batch(self, spark: SparkSession) -> DataFrame:
        """A DataFrame of the rows that the source holds now."""
        reader = spark.read.format(self.format).options(**self.options)
        return (reader.schema(self.columns) if self.columns else reader).load()

    def stream(self, spark: SparkSession) -> DataFrame:
        """A stream of the rows that the source holds and of those that arrive later."""
        reader = spark.readStream.format(self.format).options(**self.options)
        return (reader.schema(self.columns) if self.columns else reader).load()

    def first_partition(self, names: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """The batches of the first partition, these columns or all, as the task of kafkawire reads them."""
        source = KafkaWireDataSource(dict(self.options))
        asked = [field for field in source.schema() if not names or field.name in names]
        reader: Any = source.reader(StructType(asked))
        yield from reader.read(reader.partitions()[0])


def ready_made(
    partition_rows: int,
    value_size: int = VALUE_SIZE,
    columns: str | StructType = _ALL,
    *,
    batch_rows: int = 0,
    micro_batches: int = 1,
) -> Side:
    """So many rows of each partition in each micro-batch, without any reading. Its Arrow batches are as large
    as full ones of ``kafkawire``, or have so many rows."""
    options = ReadOptions.parse({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "topic"})
    full_batch_rows = options.fetch.fetch_bytes // (value_size + _RECORD_HEADER_SIZE)
    numbers = {
        "valueSize": value_size,
        "batchRows": batch_rows or min(full_batch_rows, partition_rows),
        "partitionRows": partition_rows,
        "partitions": PARTITIONS,
        "microBatches": micro_batches,
    }
    return Side("prebuilt", {name: str(number) for name, number in numbers.items()}, columns)


def read_into_nothing(frame: DataFrame) -> None:
    """Read all of its rows."""
    frame.write.format("noop").mode("overwrite").save()


def rows_to_write(spark: SparkSession, value_size: int, rows: int) -> DataFrame:
    """Pieces of a text: cheap to make, half to one and a half times the size, compressible."""
    data = bytearray(text()[: 1 << 20])
    place = F.col("id") * _STEP % (len(data) - 2 * value_size) + 1
    size = value_size - value_size // 2 + F.col("id") % (value_size // 2 * 2 + 1)
    value = F.substring(F.lit(data), place.cast("int"), size.cast("int"))
    return spark.range(0, rows, 1, PARTITIONS).select(value.alias("value"))


def new_topic(servers: str) -> str:
    """One that no write had, whose files are gone as soon as it is deleted."""
    return librdkafka.create_topic(servers, PARTITIONS, None, {"file.delete.delay.ms": "0"})


def write_topic(spark: SparkSession, servers: str, rows: int, value_size: int = VALUE_SIZE) -> Options:
    """A new topic with equal partitions; the options that read it from its start."""
    topic = new_topic(servers)
    frame = rows_to_write(spark, value_size, rows).withColumn("partition", F.spark_partition_id())
    to = {"kafka.bootstrap.servers": servers, "topic": topic}
    frame.write.format("kafkawire").mode("append").options(**to).save()
    return {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}


def check(what: str, found: int, rows: int) -> None:
    """Nothing is compared that moves other rows."""
    if found != rows:
        raise AssertionError(f"{what}: {found:,} rows, not {rows:,}")
