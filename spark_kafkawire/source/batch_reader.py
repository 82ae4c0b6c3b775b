"""The batch reader: planned once on the driver, then one ``read`` for each range.

Planning imports nothing of reading, and tasks nothing of planning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ..options import ReadOptions
from .edge import edge
from .schema import Schemas, check_read, pack_typed_task
from .spark_versions import arrow_schema
from .worker import KafkaWirePartition, Packed, freeze_imports


class KafkaWireBatchReader(DataSourceReader):
    """Reads what the options select, as they were resolved when Spark planned the query."""

    def __init__(self, options: ReadOptions, schema: StructType, schemas: Schemas | None = None) -> None:
        check_read(schema, options)
        self._options = options
        self._of_tasks = Packed(options.of_tasks)
        self._schema = arrow_schema(schema)
        self._typed = pack_typed_task(options, schema, self._schema, schemas)

    def __getstate__(self) -> dict[str, Any]:
        """State that travels with each task."""
        return {"_of_tasks": self._of_tasks, "_schema": self._schema, "_typed": self._typed}

    @edge
    def partitions(self) -> Sequence[InputPartition]:
        """The Spark partitions: one for each planned range, chain or pack of ranges. Warns if brokers do not
        support a selected column."""
        from ..clients.features import warn_of_columns_read
        from ..planner.batch import hint, plan, spark_partitions

        tasks = plan(self._options)
        if not tasks:
            return []
        warn_of_columns_read(self._schema.names, self._options.net.connection)
        hint(tasks, self._options)
        login = None
        if self._options.net.delegates:
            from ..cluster.modern.delegation_tokens import login_of_tasks

            login = login_of_tasks(self._options.net)
        return [KafkaWirePartition(*item, login=login) for item in spark_partitions(tasks, self._options)]

    @edge
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one range, as Arrow batches of the schema's columns."""
        freeze_imports()
        from .reading import read_partition

        yield from read_partition(partition, self._of_tasks.value, self._schema, self._typed)
