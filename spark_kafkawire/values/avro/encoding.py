"""Encoding of Arrow columns to Avro messages, without frames.

One program runs twice: the first run counts the bytes of each row, the second one writes them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import LimitError
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array, room
from spark_kafkawire.records.compiler import expect

from .encoding_kernels import encode_each
from .feeds import SIZE_MAX, Streams
from .fitting import Fitting
from .schema import Schema


class Encoder:
    """Encoder of a column of an Arrow type with a schema.

    Columns of structs are matched by name; a field without a column has its default. ``int`` columns become
    ``long`` and ``double``, ``float`` columns ``double``, decimals those of more digits and a larger scale.
    A timestamp in milliseconds is the last one that is not after the column's, as in Spark's ``to_avro``. Any
    column may have nulls in its type; a null where the schema has none is an error of its row. A union of
    several types is a struct with the fields ``member0``, ``member1`` and so on, with one value.

    Raises ``OptionError`` (fatal) that names the field whose column is missing or does not fit.
    """

    def __init__(self, schema: Schema, arrow_type: pa.DataType) -> None:
        self._fitting = Fitting(schema.root, arrow_type)
        self._code = np.array(self._fitting.code, np.int64)
        self._table = np.array(self._fitting.table or [0], np.int64)

    def encode(self, column: pa.Array) -> pa.BinaryArray:
        """The messages of a column; null for a row that is null.

        Raises ``RowError`` (fatal) for the first value found that the schema does not allow, with its row,
        counted from 0, and its field; ``LimitError`` (fatal) if the messages take 2 GiB.
        """
        expect(len(column))
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        streams = Streams()
        self._fitting.feed.put(
            column if len(rows) == len(column) else column.drop_null(),
            streams,
            lambda index: int(rows[index]),
        )
        inputs = streams.joined(self._fitting.stream_count)
        offsets = np.zeros(len(rows) + 1, np.int64)
        self._run(inputs, offsets, np.zeros(1, np.uint8), 0)
        if offsets[-1] > SIZE_MAX:
            raise LimitError(
                f"a batch takes {offsets[-1]} bytes as Avro, more than {SIZE_MAX}:"
                " write smaller batches (spark.sql.execution.arrow.maxRecordsPerBatch)"
            )
        out = room(max(1, int(offsets[-1])), np.uint8)
        self._run(inputs, offsets, out, 1)
        return _array(column, np.diff(offsets), out)

    def _run(self, inputs: tuple[Int64s, Int64s, Uint8s], offsets: Int64s, out: Uint8s, writing: int) -> None:
        values, starts, content = inputs
        encode_each(
            values,
            starts.copy(),
            content,
            byte_array(bytes(self._fitting.constants)),
            self._code,
            self._table,
            np.zeros(self._fitting.depth_max + 1, np.int64),
            offsets,
            out,
            writing,
        )


def _array(column: pa.Array, sizes: Int64s, out: Uint8s) -> pa.BinaryArray:
    all_sizes = np.zeros(len(column), np.int64)
    is_valid = column.is_valid()
    all_sizes[is_valid.to_numpy(zero_copy_only=False)] = sizes
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(all_sizes, out=offsets[1:])
    validity = is_valid.buffers()[1] if column.null_count else None
    return pa.Array.from_buffers(
        pa.binary(), len(column), [validity, pa.py_buffer(offsets), pa.py_buffer(out)]
    )
