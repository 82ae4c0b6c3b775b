"""The batch reader of tables, those of the cluster and those of log directories.

The driver reads all rows of a table of the cluster when Spark plans the query. Errors then come once,
and not from each retry of a task. Executors need no way to ZooKeeper, and no login. For a table of log
directories the driver lists files, and tasks read them; a task imports nothing of planning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from .edge import edge
from .spark_versions import arrow_schema, spark_type
from .worker import Packed, freeze_imports

if TYPE_CHECKING:
    from ..options import TableOptions
    from ..tables.log_tables import Share


class TablePartition(InputPartition):
    """The rows of a table, or the segments that the task reads."""

    def __init__(self, content: pa.RecordBatch | Share) -> None:
        super().__init__(None)
        self.content = Packed(content)


class KafkaWireTableReader(DataSourceReader):
    """Reads a table with the columns of ``schema``.

    Raises ``OptionError`` (fatal) for a column that the table does not have.
    """

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        from .schema import check_read_schema

        check_read_schema(schema, table_schema(options))
        self._options: TableOptions | None = options
        self._table = options.table
        self._schema = arrow_schema(schema)

    def __getstate__(self) -> dict[str, object]:
        """State that travels with each task: no options, which may hold secrets."""
        return {**self.__dict__, "_options": None}

    @edge
    def partitions(self) -> Sequence[InputPartition]:
        """One partition with all rows of a table of the cluster now; of log directories, segments of one
        directory each, in the order of topics, partitions and offsets."""
        from ..tables.catalogue import read_table, shares

        assert self._options is not None
        if self._options.discovery.directories is None:
            return [TablePartition(read_table(self._options, self._schema))]
        return [TablePartition(share) for share in shares(self._options)]

    @edge
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        freeze_imports()
        if not isinstance(partition, TablePartition):  # Spark turns an empty plan into one without segments
            return
        content = partition.content.value
        if isinstance(content, pa.RecordBatch):
            yield content
            return
        from ..records.arrays import keep_memory
        from ..tables.log_tables import batches, read_share, segments

        keep_memory()
        rows = {"segments": segments, "batches": batches}[self._table]
        yield from read_share(content, self._schema, rows)


def table_schema(options: TableOptions) -> StructType:
    """All columns of the table that the options choose."""
    from ..tables.catalogue import table_of

    table = table_of(options)
    return StructType([StructField(column.name, spark_type(column.type)) for column in table.columns])
