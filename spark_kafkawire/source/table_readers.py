"""The batch readers of tables: one of the cluster's, one of log directories.

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
    """The rows of a table, which travel to the one task."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        super().__init__(None)
        self.rows = Packed(rows)


class KafkaWireTableReader(DataSourceReader):
    """Reads a table of the cluster with the columns of ``schema``.

    Raises ``OptionError`` (fatal) for a column that the table does not have.
    """

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        from .schema import check_read_schema

        check_read_schema(schema, table_schema(options))
        self._options: TableOptions | None = options
        self._schema = arrow_schema(schema)

    def __getstate__(self) -> dict[str, object]:
        """State that travels with the task: no options, which may hold secrets."""
        return {**self.__dict__, "_options": None}

    @edge
    def partitions(self) -> Sequence[InputPartition]:
        """One partition with all rows of the table now."""
        from ..tables.catalogue import read_table

        assert self._options is not None
        return [TablePartition(read_table(self._options, self._schema))]

    @edge
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the partition."""
        assert isinstance(partition, TablePartition)
        yield partition.rows.value


def table_schema(options: TableOptions) -> StructType:
    """All columns of the table that the options choose."""
    from ..tables.catalogue import table_of

    table = table_of(options)
    return StructType([StructField(column.name, spark_type(column.type)) for column in table.columns])


class LogTablePartition(InputPartition):
    """The segments that a task reads."""

    def __init__(self, share: Share) -> None:
        super().__init__(None)
        self.share = Packed(share)


class KafkaWireLogTableReader(DataSourceReader):
    """Reads a table of log directories with the columns of ``schema``.

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
        """Segments of one directory each, in the order of topics, partitions and offsets."""
        from ..tables.catalogue import shares

        assert self._options is not None
        return [LogTablePartition(share) for share in shares(self._options)]

    @edge
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the segments of a partition."""
        freeze_imports()
        from ..records.memory import keep_memory
        from ..tables.log_tables import batches, read_share, segments

        keep_memory()
        rows = {"segments": segments, "batches": batches}[self._table]
        if isinstance(partition, LogTablePartition):  # Spark turns an empty plan into one without a share
            yield from read_share(partition.share.value, self._schema, rows)
