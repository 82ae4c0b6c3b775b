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
from .partition import KafkaWirePartition, options_of_tasks
from .schema import check_read_schema, read_schema
from .spark_versions import arrow_schema
from .worker import begin


class KafkaWireBatchReader(DataSourceReader):
    """Reads what the options select, as they were resolved when Spark planned the query."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_read_schema(schema, read_schema(options))
        self._options = options
        self._schema = arrow_schema(schema)

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the tasks."""
        return {**self.__dict__, "_options": options_of_tasks(self._options)}

    def partitions(self) -> Sequence[InputPartition]:
        """One Spark partition for each planned range, or for those that follow each other; a warning where
        brokers lack what a column asks for."""
        from ..clients.features import warn_of_columns_read
        from ..planner.batch import plan
        from ..planner.key_order import chains

        tasks = plan(self._options)
        if tasks:
            warn_of_columns_read(self._schema.names, self._options.net.connection)
        return [KafkaWirePartition(*chain) for chain in chains(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one range, as Arrow batches of the schema's columns."""
        begin()
        from .reading import read_partition

        return read_partition(partition, self._options, self._schema)
