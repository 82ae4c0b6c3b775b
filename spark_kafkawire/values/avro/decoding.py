"""Decoding of Avro messages to Arrow.

One program runs twice: the first run counts values and finds faults, the second one fills the columns.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array
from spark_kafkawire.records.compiler import expect

from ..faults import Decoded
from ..payloads import Payloads
from .kernels import DEPTH_MAX, decode_each, gather
from .resolution import Node, Resolver
from .schema import Schema

_SPAN_BYTES_MAX: Final = 2**31 - 1


class Decoder:
    """Decoder of messages of one writer's schema to an Arrow type.

    ``reader`` is the schema that values are resolved to, with its defaults and aliases; without one it is the
    writer's. ``arrow_type`` is the reader's own or has fewer fields; fields that it lacks are skipped. Raises
    ``OptionError`` (fatal) for a pair that has no program.
    """

    def __init__(
        self, writer: Schema, reader: Schema | None = None, arrow_type: pa.DataType | None = None
    ) -> None:
        target = reader or writer
        self.arrow_type = target.arrow_type if arrow_type is None else arrow_type
        self.program = Resolver(self.arrow_type).compile(writer.root, target.root)
        self._code = np.array(self.program.code, np.int64)
        self._table = np.array(self.program.table or [0], np.int64)

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        present = np.flatnonzero(~payloads.is_null)
        counts, found, fields = self._run(payloads.taken(present), None)
        good = present[found == 0]
        _, out, bases = self._filled(payloads.taken(good), counts)
        column = _Columns(payloads.data, byte_array(bytes(self.program.constants)), out, bases, counts).of(
            self.program.root, len(good)
        )
        if len(good) < len(payloads):
            places = np.full(len(payloads), -1, np.int64)
            places[good] = np.arange(len(good))
            column = column.take(pa.array(places, mask=places < 0))
        faults = np.zeros(len(payloads), np.uint8)
        indexes = np.full(len(payloads), -1, np.int32)
        faults[present], indexes[present] = found, fields
        return Decoded(column, faults, indexes, tuple(self.program.paths))

    def _filled(self, payloads: Payloads, counts: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        bases = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=bases[1:])
        out = np.zeros(max(1, int(bases[-1])), np.int64)
        written, _, _ = self._run(payloads, (bases, out))
        return written, out, bases

    def _run(self, payloads: Payloads, target: tuple[Int64s, Int64s] | None) -> tuple[Int64s, Uint8s, Any]:
        rows = len(payloads)
        counts = np.zeros(self.program.stream_count, np.int64)
        faults, fields = np.zeros(rows, np.uint8), np.zeros(rows, np.int32)
        bases, out = target or (np.zeros(1, np.int64), np.zeros(1, np.int64))
        if rows:
            decode_each(
                payloads.data,
                np.ascontiguousarray(payloads.starts),
                np.ascontiguousarray(payloads.stops),
                self._code,
                self._table,
                counts,
                np.zeros_like(counts),
                bases,
                out,
                np.zeros(2 * DEPTH_MAX, np.int64),
                faults,
                fields,
                int(target is not None),
            )
        return counts, faults, fields


class _Columns:
    """Streams of a run as Arrow arrays."""

    def __init__(self, data: Uint8s, constants: Uint8s, out: Int64s, bases: Int64s, counts: Int64s) -> None:
        self.data, self.constants = data, constants
        self.out, self.bases, self.counts = out, bases, counts

    def stream(self, index: int) -> Int64s:
        base = self.bases[index]
        return self.out[base : base + self.counts[index]]

    def of(self, node: Node, rows: int) -> pa.Array:
        of, first = node.type, node.stream
        if pa.types.is_null(of):
            return pa.nulls(rows)
        is_null = self.stream(first) == 0
        validity = None if not is_null.any() else pa.array(~is_null).buffers()[1]
        if pa.types.is_struct(of):
            children = [self.of(child, rows) for child in node.children]
            return pa.Array.from_buffers(of, rows, [validity], children=children)
        values = self.stream(first + 1)
        if pa.types.is_list(of) or pa.types.is_map(of):
            return self._items(node, rows, validity, values)
        if node.width == 3:
            sizes = np.ascontiguousarray(self.stream(first + 2))
            offsets = _offsets(sizes)
            content = np.empty(max(1, int(offsets[-1])), np.uint8)
            if rows:
                gather(self.data, self.constants, np.ascontiguousarray(values), sizes, offsets, content)
            buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
            return pa.Array.from_buffers(of, rows, buffers)
        if pa.types.is_boolean(of):
            return pa.Array.from_buffers(of, rows, [validity, pa.array(values != 0).buffers()[1]])
        return pa.Array.from_buffers(
            of, rows, [validity, pa.py_buffer(np.ascontiguousarray(_numbers(node, values)))]
        )

    def _items(self, node: Node, rows: int, validity: Any, sizes: Int64s) -> pa.Array:
        of = node.type
        offsets = _offsets(sizes)
        children = [self.of(child, int(offsets[-1])) for child in node.children]
        if pa.types.is_map(of):
            pairs = pa.struct([of.key_field, of.item_field])
            children = [pa.Array.from_buffers(pairs, int(offsets[-1]), [None], children=children)]
        return pa.Array.from_buffers(
            of, rows, [validity, pa.py_buffer(offsets.astype(np.int32))], children=children
        )


def _offsets(sizes: Int64s) -> Int64s:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > _SPAN_BYTES_MAX:
        raise OptionError(
            f"a column of {offsets[-1]} bytes or items is larger than {_SPAN_BYTES_MAX}: read fewer rows"
        )
    return offsets


def _numbers(node: Node, values: Int64s) -> Any:
    of = node.type
    if node.source == "f8":
        numbers: Any = values.view(np.float64)
    elif node.source == "f4":
        numbers = values.astype(np.uint32).view(np.float32)
    else:
        numbers = values
    width = {pa.float32(): np.float32, pa.float64(): np.float64, pa.int32(): np.int32, pa.date32(): np.int32}
    return numbers.astype(width.get(of, np.int64), copy=False)
