"""The batch reader of a table of log directories: the driver lists files, and tasks read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .edge import edge
from .spark_versions import arrow_schema
from .worker import Packed, freeze_imports

if TYPE_CHECKING:
    from ..options import TableOptions
    from ..tables.log_segments import Share


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
        from .table_reader import table_schema

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
        from ..tables.log_plan import shares

        assert self._options is not None
        return [LogTablePartition(share) for share in shares(self._options)]

    @edge
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the segments of a partition."""
        freeze_imports()
        from ..records.memory import keep_memory
        from ..tables.batches import batches
        from ..tables.log_segments import read_share
        from ..tables.segments import segments

        keep_memory()
        rows = {"segments": segments, "batches": batches}[self._table]
        if isinstance(partition, LogTablePartition):  # Spark turns an empty plan into one without a share
            yield from read_share(partition.share.value, self._schema, rows)
