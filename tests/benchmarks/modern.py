"""Today's Kafka through Spark: record batches of magic 2, against the same ceilings as 0.7's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource

from .against import Moving, against_ceiling
from .log_server import SINK, log_server
from .logs import LogData
from .measure import Figure, say
from .modern_logs import BATCH_BYTES_MAX, write_log
from .writing import rows_to_write

COMPRESSIONS: Final = ("none", "lz4", "zstd")
VALUE_SIZES: Final = (100, 1024)
PARTITIONS: Final = 2
#: Java's producer closes a batch at ``batch.size``, 16 KiB.
SMALL_BATCHES: Final = "none, batches of 16 KiB"
_SMALL_BATCH_BYTES_MAX: Final = 16 << 10
#: Rows of a partition: each read takes two seconds or more.
_PARTITION_ROWS: Final = {100: 5_000_000, 1024: 1_000_000}
_WRITE_ROWS: Final = {100: 6_000_000, 1024: 1_500_000}
_READ_TARGETS: Final = {(100, "none"): 0.65, (1024, "none"): 0.55, (100, "lz4"): 0.55, (100, "zstd"): 0.45}
_WRITE_TARGETS: Final = {(100, "none"): 0.4}


def read_modern(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    """Reads of values of 100 B and 1 KiB, with each compression."""
    for value_size in VALUE_SIZES:
        with TemporaryDirectory(prefix="kafkawire-bench-") as folder:
            say(f"read modern: writing logs of values of {value_size} bytes")
            logs = _write_logs(Path(folder), value_size)
            with log_server(Path(folder)) as servers:
                yield from _read(spark, rounds, servers, value_size, logs)


def _write_logs(folder: Path, value_size: int) -> dict[str, LogData]:
    """Topics of equal logs, named by number; what each log holds, by how it was written."""
    kinds = {compression: (compression, BATCH_BYTES_MAX) for compression in COMPRESSIONS}
    if value_size == VALUE_SIZES[0]:
        kinds[SMALL_BATCHES] = ("none", _SMALL_BATCH_BYTES_MAX)
    logs = {}
    for number, (kind, (compression, batch_bytes_max)) in enumerate(kinds.items()):
        for partition in range(PARTITIONS):
            logs[kind] = write_log(
                folder,
                f"{number}-{partition}",
                value_size=value_size,
                rows=_PARTITION_ROWS[value_size],
                compression=compression,
                batch_bytes_max=batch_bytes_max,
            )
    return logs


def _read(
    spark: SparkSession, rounds: int, servers: str, value_size: int, logs: dict[str, LogData]
) -> Iterator[Figure]:
    frames = {kind: _frame(spark, servers, str(number)) for number, kind in enumerate(logs)}
    first = logs["none"]
    prebuilt = _ceiling(spark, value_size, first.rows, frames["none"], _batch_rows(servers))
    runs = {
        kind: Moving(
            _reader(spark, servers, str(number)), PARTITIONS * log.rows, PARTITIONS * log.value_bytes
        )
        for number, (kind, log) in enumerate(logs.items())
    }
    ceiling = Moving(prebuilt, PARTITIONS * first.rows, PARTITIONS * first.value_bytes)
    yield from against_ceiling("read modern", value_size, ceiling, runs, _READ_TARGETS, rounds)


def _frame(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    return spark.read.format("kafkawire").options(**options).load()


def _reader(spark: SparkSession, servers: str, topic: str) -> Callable[[], None]:
    """Reads a topic and throws it away."""
    return lambda: _frame(spark, servers, topic).write.format("noop").mode("overwrite").save()


def _ceiling(
    spark: SparkSession, value_size: int, rows: int, like: DataFrame, batch_rows: int
) -> Callable[[], None]:
    """Reads as many rows of the same columns in batches that are there already."""
    options = {
        "valueSize": value_size,
        "batchRows": batch_rows,
        "partitionRows": rows,
        "partitions": PARTITIONS,
    }

    def run() -> None:
        frame = spark.read.format("prebuilt").schema(like.schema).options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    return run


def _batch_rows(servers: str) -> int:
    """Rows in the first batch that a read of the first topic gives."""
    return len(next(batches(servers, "0")))


def batches(servers: str, topic: str, names: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """The first partition of a topic, these columns or all, as Spark's task reads it but without Spark."""
    source = KafkaWireDataSource({"kafka.bootstrap.servers": servers, "subscribe": topic})
    schema = source.schema()
    asked = [field for field in schema if field.name in names] if names else list(schema)
    reader = source.reader(StructType(asked))
    found: Any = reader.read(reader.partitions()[0])
    yield from found


def write_modern(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    """Writes with the defaults (``acks=all``, idempotent), to a broker that keeps nothing."""
    with TemporaryDirectory(prefix="kafkawire-bench-") as folder, log_server(Path(folder)) as servers:
        for value_size in VALUE_SIZES:
            yield from _write(spark, rounds, servers, value_size)


def _write(spark: SparkSession, rounds: int, servers: str, value_size: int) -> Iterator[Figure]:
    say(f"write modern: values of {value_size} bytes")
    rows = _WRITE_ROWS[value_size]
    frame = rows_to_write(spark, value_size, rows)
    size = rows * value_size
    ceiling = Moving(lambda: frame.write.format("counting").mode("append").save(), rows, size)
    runs = {name: Moving(_writer(frame, servers, name), rows, size) for name in COMPRESSIONS}
    yield from against_ceiling("write modern", value_size, ceiling, runs, _WRITE_TARGETS, rounds)


def _writer(frame: DataFrame, servers: str, compression: str) -> Callable[[], None]:
    options = {"kafka.bootstrap.servers": servers, "topic": SINK, "kafka.compression.type": compression}
    return lambda: frame.write.format("kafkawire").mode("append").options(**options).save()
