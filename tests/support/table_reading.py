"""Tables of a cluster as Spark reads them, without a JVM: planned on the driver, read by the one task."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource

Rows = list[dict[str, Any]]


def table_rows(servers: str, table: str, columns: Sequence[str] = (), **options: str) -> Rows:
    """The rows of a table, or some columns of them. Options have ``__`` in place of dots."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    return rows_of({"kafka.bootstrap.servers": servers, "table": table, **given}, columns)


def rows_of(options: dict[str, str], columns: Sequence[str] = ()) -> Rows:
    """The rows of the table that the options choose."""
    source = KafkaWireDataSource(options)
    every = source.schema()
    schema = StructType([every[name] for name in columns]) if columns else every
    reader: Any = source.reader(schema)
    partitions = reader.partitions()
    reader, partitions = pickle.loads(pickle.dumps((reader, partitions)))
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return [row for batch in batches for row in batch.to_pylist()]
