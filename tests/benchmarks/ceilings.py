"""Spark's own ceilings: sources and sinks that only pass batches on or count them; the values in all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_kafkawire import decode_message_set
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records.arrow import BatchBuilder
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.encoding import encode_sets
from spark_kafkawire.source.schema import V07_SCHEMA
from spark_kafkawire.source.spark_versions import arrow_schema
from spark_kafkawire.source.worker import freeze_objects
from tests.support.golden import CORPUS

#: Mean value sizes, bytes.
VALUE_SIZES: Final = (10, 100, 1024)


def values(size: int, count: int) -> pa.BinaryArray:
    """``count`` values of ``size`` bytes in the mean; the same at every call."""
    sizes = np.random.default_rng(size).integers(size - size // 2, size + size // 2, count, endpoint=True)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = text() * -(-int(offsets[-1]) // len(text()))
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


@cache
def text() -> bytes:
    """5 MB of JSON, the messages of the recorded corpus: gzip makes a sixth of it, snappy a quarter."""
    batches = [
        decode_message_set(path.read_bytes()) for path in sorted(CORPUS.glob("*/debian-plain-*/*.kafka"))
    ]
    return b"\n".join(value for batch in batches for value in batch["value"].to_pylist())


class PrebuiltDataSource(DataSource):
    """Yields one batch, made once, again and again: a read without any reading.

    Options: ``valueSize``, ``batchRows``, ``partitionRows``, ``partitions``, and of a stream, which is so
    many such reads, ``microBatches``. Its columns are those of 0.7, or those of a schema that is given;
    timestamps are there where the schema has no ``broker``.
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
        return _PrebuiltReader(self._numbers, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The same again and again, a micro-batch each."""
        return _PrebuiltStream(self._numbers, schema)

    @property
    def _numbers(self) -> dict[str, int]:
        return {name: int(value) for name, value in self.options.items()}


class _PrebuiltReader(DataSourceReader):
    def __init__(self, options: dict[str, int], schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._options["partitions"])]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._options["valuesize"], self._options["batchrows"], self._schema)
        left = self._options["partitionrows"]
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


class _PrebuiltStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offset is the number of the next micro-batch. What its tasks leave behind is not collected as
    garbage again and again, as with ``kafkawire``: the floor of a micro-batch is Spark's alone."""

    def __init__(self, options: dict[str, int], schema: StructType) -> None:
        self._batches = _PrebuiltReader(options, schema)
        self._count = options["microbatches"]

    def initialOffset(self) -> dict[str, int]:
        return {"batch": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """It ends anyway."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], _limit: ReadLimit) -> dict[str, int]:
        return {"batch": min(start["batch"] + 1, self._count)}

    def partitions(self, _start: dict[str, int], _end: dict[str, int]) -> Sequence[InputPartition]:
        return self._batches.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._batches.read(partition)
        freeze_objects(True)

    def commit(self, _end: dict[str, int]) -> None:
        """Nothing is kept."""


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

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002
        """The same for each micro-batch."""
        return _CountingStreamWriter()


@dataclass(frozen=True)
class _Counted(WriterCommitMessage):
    rows: int
    size: int


class _CountingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _counted(iterator)


class _CountingStreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        counted = _counted(iterator)
        freeze_objects(True)
        return counted

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is kept."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is kept."""


def _counted(batches: Iterable[pa.RecordBatch]) -> _Counted:
    rows = size = 0
    for batch in batches:
        rows += batch.num_rows
        size += batch.nbytes
    return _Counted(rows, size)
