"""The surroundings of a subject: rows, topics, a Spark as users have it, Apache Kafka, and further Sparks."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.options import ReadOptions
from tests.interop.apache_kafka import ApacheKafka
from tests.support import certificates, librdkafka
from tests.support.local_spark import home_with_byte_code, plain_spark
from tests.support.spark_cluster import SparkCluster

from .ceilings import CountingDataSource, PrebuiltDataSource, text

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
    location = F.col("id") * _STEP % (len(data) - 2 * value_size) + 1
    size = value_size - value_size // 2 + F.col("id") % (value_size // 2 * 2 + 1)
    value = F.substring(F.lit(data), location.cast("int"), size.cast("int"))
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


KAFKA: Final = "4.1.1"
#: What all folders of benchmarks are called.
PREFIX: Final = "kafkawire-bench-"
#: What no query takes, with the start of its Spark, seconds.
QUERY_DEADLINE_S: Final = 3600.0
_ROOT: Final = Path(__file__).parents[2]
_EXECUTOR_MEMORY: Final = "1g"
#: Holds the session of a process of ``Spark``.
_SESSION: Final = ExitStack()


@dataclass(frozen=True, slots=True)
class Bench:
    """The rounds and the size of a subject. Spark and the broker start when they are first asked for."""

    rounds: int
    size: int
    get_session: Callable[[], SparkSession]
    get_servers: Callable[[], str]

    @property
    def spark(self) -> SparkSession:
        """The session, which all subjects of a run share."""
        return self.get_session()

    @property
    def servers(self) -> str:
        """The address of the subject's own broker of Apache Kafka."""
        return self.get_servers()


@contextmanager
def spark_session(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
    """A local session on two cores, as users have it, that knows the ceilings."""
    session = plain_spark("spark-kafkawire benchmarks", {"spark.driver.memory": "2g", **settings})
    try:
        session.dataSource.register(PrebuiltDataSource)
        session.dataSource.register(CountingDataSource)
        yield session
    finally:
        session.stop()


@contextmanager
def kafka() -> Iterator[str]:
    """The address of a broker with full JIT, which serves everybody from the page cache. It shares the
    machine's cores with Spark's JVM and the Python workers, whoever reads and writes."""
    with TemporaryDirectory(prefix=PREFIX) as name:
        tls = Path(name, "tls")
        tls.mkdir()
        with ApacheKafka(KAFKA, Path(name), certificates.make(tls), full_jit=True) as broker:
            yield broker.bootstrap_servers()


class Spark:
    """A session of these settings in a process of its own, until the ``with`` ends: several are warm at the
    same time. It has these CPUs alone, where some are named."""

    def __init__(self, settings: Mapping[str, str], cpus: Collection[int] = ()) -> None:
        context = multiprocessing.get_context("spawn")
        self._process = ProcessPoolExecutor(1, context, _begin, (dict(settings), cpus))

    def read(self, side: Side) -> None:
        """Read it into nothing. Raises what the query raised, and ``BrokenExecutor`` without the process."""
        self._process.submit(_read, side).result(QUERY_DEADLINE_S)

    def count(self, side: Side) -> int:
        """Read all of its columns, and count the rows."""
        return self._process.submit(_count, side).result(QUERY_DEADLINE_S)

    def __enter__(self) -> Spark:
        return self

    def __exit__(self, *exc_info: object) -> None:
        # Its JVM ends with it.
        self._process.shutdown(cancel_futures=True)


def _begin(settings: Mapping[str, str], cpus: Collection[int]) -> None:
    if cpus:
        os.sched_setaffinity(0, cpus)
    _SESSION.enter_context(spark_session(settings))


def _read(side: Side) -> None:
    read_into_nothing(side.batch(SparkSession.active()))


def _count(side: Side) -> int:
    return side.batch(SparkSession.active()).count()


@contextmanager
def standalone(workers: int) -> Iterator[dict[str, str]]:
    """The settings for a standalone cluster of so many workers, each with a core and an executor of 1 GiB."""
    with TemporaryDirectory(prefix=PREFIX) as folder:
        environ = {"SPARK_HOME": home_with_byte_code()}
        with SparkCluster(Path(folder), environ, workers=workers, memory=_EXECUTOR_MEMORY) as cluster:
            yield {
                "spark.master": cluster.master,
                "spark.executor.memory": _EXECUTOR_MEMORY,
                # The ready-made batches are made by modules of the tests.
                "spark.executorEnv.PYTHONPATH": str(_ROOT),
            }
