"""A source that does nothing: what Spark itself takes for one that is written in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows that there are to read.
ROWS: Final = 100


class NothingDataSource(DataSource):
    """Rows out of nowhere, and into nowhere. As little is imported as Spark lets it."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "nothing"

    def schema(self) -> StructType:
        """The one column."""
        return StructType([StructField("value", BinaryType())])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """All rows in one partition."""
        return _Reader()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        """Forgets them."""
        return _Writer()


class _Reader(DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        empty = pa.py_buffer(bytes(4 * (ROWS + 1)))
        # Of buffers: pa.array would import pandas.
        values = pa.Array.from_buffers(pa.binary(), ROWS, [None, empty, pa.py_buffer(b"")])
        yield pa.RecordBatch.from_arrays([values], names=["value"])


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
