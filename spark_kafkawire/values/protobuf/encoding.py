"""Encoding of Arrow columns to Protobuf messages, without frames."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import LimitError, counted
from spark_kafkawire.records.arrays import Int64s, Uint8s, room
from spark_kafkawire.records.compiler import expect

from .encoding_kernels import FRAME, ROOM, encode_each
from .feeds import Streams, content_of, joined
from .fitting import Fitting
from .schema import Schema

_SIZE_MAX: Final = 2**31 - 1
#: Bytes of a value without its content, and of a message, which are expected at first.
_VALUE_SIZE: Final = 4


class Encoder:
    """Encoder of a column of structs as messages of a schema.

    Columns are matched by name; fields without a column are not written. A null is a field that is not
    present, an array or a map without items. Fields are in the order of their numbers, and a value of proto3
    that cannot be told from its default is left out: equal rows become equal bytes.

    Raises ``OptionError`` (fatal) that names the field whose column is missing or does not fit.
    """

    def __init__(self, schema: Schema, arrow_type: pa.DataType) -> None:
        self._fitting = Fitting(schema.root, arrow_type)
        self._code = np.array(self._fitting.code or [0], np.int64)
        self._scopes = np.array(self._fitting.scopes, np.int64)

    def encode(self, column: pa.Array) -> pa.BinaryArray:
        """The messages of a column; null for a row that is null.

        Raises ``RowError`` (fatal) for the first value found that the schema does not allow, with its row,
        counted from 0, and its field; ``LimitError`` (fatal) if the messages take 2 GiB.
        """
        expect(len(column))
        is_valid = column.is_valid().to_numpy(zero_copy_only=False)
        streams = Streams()
        self._fitting.root.put(column, is_valid, streams, int)
        offsets, out = self._run(streams, is_valid)
        first = int(offsets[0])
        validity = column.is_valid().buffers()[1] if column.null_count else None
        bounds = (offsets - first).astype(np.int32)
        content = pa.py_buffer(out).slice(first, int(offsets[-1]) - first)
        return pa.Array.from_buffers(pa.binary(), len(column), [validity, pa.py_buffer(bounds), content])

    def _run(self, streams: Streams, is_valid: Uint8s) -> tuple[Int64s, Uint8s]:
        """The bounds of messages, and the bytes that they lie in."""
        values, places = joined(streams.values, self._fitting.streams, np.int64)
        flags, flag_places = joined(streams.flags, self._fitting.flags, np.uint8)
        content = content_of(streams)
        out = room(ROOM + len(content) + _VALUE_SIZE * (len(values) + len(is_valid)), np.uint8)
        offsets = np.full(len(is_valid) + 1, len(out), np.int64)
        row = len(is_valid) - 1
        while True:
            row = encode_each(
                row,
                values,
                places,
                flags,
                flag_places,
                content,
                self._code,
                self._scopes,
                is_valid.view(np.uint8),
                np.zeros(FRAME * self._fitting.depth_max, np.int64),
                offsets,
                out,
            )
            if row < 0:
                return offsets, out
            out = _wider(out, offsets, row)


def _wider(out: Uint8s, offsets: Int64s, row: int) -> Uint8s:
    """Room of twice the size, with the rows behind ``row`` at its end."""
    size = len(out)
    if size > _SIZE_MAX:
        raise LimitError(
            f"{counted(len(offsets) - 1, 'row')} need room for more than {_SIZE_MAX} bytes as Protobuf:"
            " write smaller batches (spark.sql.execution.arrow.maxRecordsPerBatch)"
        )
    wider: Uint8s = room(2 * size, np.uint8)
    start = int(offsets[row + 1])
    wider[size + start :] = out[start:]
    offsets[row + 1 :] += size
    return wider
