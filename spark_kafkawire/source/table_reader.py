"""The batch reader of a table of the cluster: all rows are read on the driver when Spark plans the query.

Errors then come once, and not from each retry of a task. Executors need no way to ZooKeeper, and no login.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from ..options import TableOptions
from ..tables.catalogue import read_table, table_of
from .edge import edge
from .schema import check_read_schema
from .spark_versions import arrow_schema, spark_type
from .worker import Packed


class TablePartition(InputPartition):
    """The rows of a table, which travel to the one task."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        super().__init__(None)
        self.rows = Packed(rows)


class KafkaWireTableReader(DataSourceReader):
    """Reads a table of the cluster with the columns of ``schema``.

    Raises ``OptionError`` (fatal) for a column that the table does not have.
    """

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        check_read_schema(schema, table_schema(options))
        self._options: TableOptions | None = options
        self._schema = arrow_schema(schema)

    def __getstate__(self) -> dict[str, object]:
        """State that travels with the task: no options, which may hold secrets."""
        return {**self.__dict__, "_options": None}

    @edge
    def partitions(self) -> Sequence[InputPartition]:
        """One partition with all rows of the table now."""
        assert self._options is not None
        return [TablePartition(read_table(self._options, self._schema))]

    @edge
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the partition."""
        assert isinstance(partition, TablePartition)
        yield partition.rows.value


def table_schema(options: TableOptions) -> StructType:
    """All columns of the table that the options choose."""
    table = table_of(options)
    return StructType([StructField(column.name, spark_type(column.type)) for column in table.columns])
