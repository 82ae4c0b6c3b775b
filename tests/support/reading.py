"""A whole read without a JVM: planned as on the driver, and each partition read as in a task."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.source.batch_reader import KafkaWireBatchReader
from spark_kafkawire.source.spark_versions import arrow_schema
from spark_kafkawire.source.worker import KafkaWirePartition

#: Deadlines for tests: what is there is quick, and what is not should not take long.
QUICK = {"kafkaConsumer.pollTimeoutMs": "1s", "retryBackoff": "1ms", "requestTimeout": "10s"}


class PlannedRead:
    """One loaded source with exactly these options: planned once, read as often as the test wants, as Spark
    does it."""

    def __init__(self, options: Mapping[str, str], schema: StructType | None = None) -> None:
        source = KafkaWireDataSource(dict(options))
        self.schema: Final = source.schema() if schema is None else schema
        self._reader = source.reader(self.schema)
        assert isinstance(self._reader, KafkaWireBatchReader)
        self.partitions = [part for part in self._reader.partitions() if isinstance(part, KafkaWirePartition)]

    @property
    def tasks(self) -> list[FetchTask]:
        """Tasks of all Spark partitions."""
        return [task for partition in self.partitions for task in partition.tasks]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches in the order of the tasks; the reader and its partitions travel as Spark has them."""
        reader, partitions = pickle.loads(pickle.dumps((self._reader, self.partitions)))
        return (batch for partition in partitions for batch in reader.read(partition))

    def table(self) -> pa.Table:
        """All rows, in the order of the tasks."""
        return pa.Table.from_batches(self.batches(), arrow_schema(self.schema))

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order of the tasks."""
        rows: list[dict[str, Any]] = self.table().to_pylist()
        return rows

    def column(self, name: str) -> list[Any]:
        """All rows of one column."""
        values: list[Any] = self.table().column(name).to_pylist()
        return values


class Read(PlannedRead):
    """A read from brokers. Option names have ``__`` for dots."""

    def __init__(self, bootstrap_servers: str, schema: StructType | None = None, /, **options: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap_servers, **QUICK, **with_dots(options)}
        super().__init__(given, schema)


def with_dots(options: Mapping[str, str]) -> dict[str, str]:
    """Options whose names have ``__`` for dots, with dots."""
    return {name.replace("__", "."): value for name, value in options.items()}


def read(bootstrap_servers: str, schema: StructType | None = None, /, **options: str) -> list[dict[str, Any]]:
    """All rows of a read; option names have ``__`` for dots."""
    return Read(bootstrap_servers, schema, **options).rows()


def read_values(bootstrap_servers: str, **options: str) -> list[Any]:
    """The values of a read, sorted: partitions come in any order."""
    values = [row["value"] for row in read(bootstrap_servers, **options)]
    return sorted(values, key=lambda value: (value is not None, value))
