"""Spark's own ceilings: data sources that do nothing but hand batches over, or count them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records.arrow import BatchBuilder
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.encoding import encode_sets
from spark_kafkawire.source.schema import V07_SCHEMA

from .values import values


class PrebuiltDataSource(DataSource):
    """Yields one batch, made once, again and again: a read without any reading.

    Options: ``valueSize``, ``batchRows``, ``partitionRows``, ``partitions``. Its columns are those of
    0.7, or those of a schema that is given; timestamps are there where the schema has no ``broker``.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "prebuilt"

    def schema(self) -> StructType:
        """The columns of ``kafkawire``."""
        return V07_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of those of the columns that are asked for."""
        return _PrebuiltReader({name: int(value) for name, value in self.options.items()}, schema)


class _PrebuiltReader(DataSourceReader):
    def __init__(self, options: dict[str, int], schema: StructType) -> None:
        self._options = options
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._options["partitions"])]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._options["valuesize"], self._options["batchrows"], self._schema)
        left = self._options["partitionrows"]
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


@cache
def _batch(value_size: int, rows: int, schema: pa.Schema) -> pa.RecordBatch:
    column = values(value_size, rows)
    message_sets = encode_sets(column, set_bytes_max=1 << 30, message_size_max=1 << 30)
    columns = decode(next(message_sets).data, 0).columns
    if "broker" not in schema.names:
        stamps = np.arange(rows, dtype=np.int64)
        columns = replace(columns, timestamps_ms=stamps, timestamp_types=np.zeros(rows, np.int32))
    return BatchBuilder(TopicPartition("bench", 0, 0), schema).build(columns)


class CountingDataSource(DataSource):
    """Takes Arrow batches and counts rows and bytes: a write without any writing."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "counting"

    def writer(self, _schema: StructType, _overwrite: bool) -> DataSourceArrowWriter:
        """A writer for any rows."""
        return _CountingWriter()


@dataclass(frozen=True)
class _Counted(WriterCommitMessage):
    rows: int
    size: int


class _CountingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        rows = size = 0
        for batch in iterator:
            rows += batch.num_rows
            size += batch.nbytes
        return _Counted(rows, size)
