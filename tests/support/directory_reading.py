"""A whole read of log directories without a JVM, as ``reading.Read`` reads from brokers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.source.batch_reader import KafkaWireBatchReader
from spark_kafkawire.source.spark_versions import arrow_schema
from spark_kafkawire.source.worker import KafkaWirePartition


class DirectoryRead:
    """One loaded source, planned once. Option names have ``__`` for dots."""

    def __init__(self, *paths: Path | str, **options: str) -> None:
        given = {name.replace("__", "."): value for name, value in options.items()}
        if len(paths) == 1:
            given["path"] = str(paths[0])
        elif paths:
            given["paths"] = json.dumps([str(path) for path in paths])
        source = KafkaWireDataSource(given)
        self.schema: Final = source.schema()
        reader = source.reader(self.schema)
        assert isinstance(reader, KafkaWireBatchReader)
        self._reader = reader
        self.partitions = [part for part in reader.partitions() if isinstance(part, KafkaWirePartition)]

    @property
    def tasks(self) -> list[FetchTask]:
        """Tasks of all Spark partitions."""
        return [task for partition in self.partitions for task in partition.tasks]

    def table(self) -> pa.Table:
        """All rows, in the order of the tasks; the reader and its partitions travel as Spark has them."""
        reader, partitions = pickle.loads(pickle.dumps((self._reader, self.partitions)))
        batches = [batch for partition in partitions for batch in reader.read(partition)]
        return pa.Table.from_batches(batches, arrow_schema(self.schema))

    def column(self, name: str) -> list[Any]:
        """All rows of one column."""
        values: list[Any] = self.table().column(name).to_pylist()
        return values
