"""Decoding of Avro messages to Arrow.

A program runs once where each message has one value in each column. With arrays or maps it runs twice: the
first run counts values and finds faults, the second one fills the columns.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array, room
from spark_kafkawire.records.compiler import expect

from ..payloads import Decoded, Payloads
from ..span_kernels import gather
from .kernels import DECIMAL_SIZE, DEPTH_MAX, decode_each, gather_decimals
from .resolution import SOURCES, Node, program_of
from .schema import Schema

_SPAN_BYTES_MAX: Final = 2**31 - 1
#: Steps that each byte of a message pays for, at most: one byte may be an item that fills many columns.
_STEPS_OF_BYTE_MAX: Final = 4096
_STEPS_MIN: Final = 256


class Decoder:
    """Decoder of messages of one writer's schema to an Arrow type.

    ``reader`` is the schema that values are resolved to, with its defaults and aliases; without one it is the
    writer's. ``arrow_type`` is the reader's own or has fewer fields; fields that it lacks are skipped. Of
    equal keys in a map the last one stays, as in Spark's ``from_avro``. Raises ``OptionError`` (fatal) for a
    pair that has no program.
    """

    def __init__(
        self, writer: Schema, reader: Schema | None = None, arrow_type: pa.DataType | None = None
    ) -> None:
        target = reader or writer
        self.arrow_type = target.arrow_type if arrow_type is None else arrow_type
        self.program, self.root = program_of(writer.root, target.root, self.arrow_type)
        self._cost = self.program.cost
        self._has_items = any(
            pa.types.is_list(node.type) or pa.types.is_map(node.type) for node in self.program.nodes
        )
        self._code = np.array(self.program.code, np.int64)
        self._table = np.array(self.program.table or [0], np.int64)

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        present = np.flatnonzero(~payloads.is_null)
        messages = payloads if len(present) == len(payloads) else payloads.taken(present)
        if self._has_items:
            counts, found, fields = self._run(messages, None)
            good = present[found == 0]
            out, bases = _room(counts)
            self._run(payloads.taken(good), (bases, out), checking=False)
        else:
            out, bases = _room(np.full(self.program.stream_count, len(present)))
            counts, found, fields = self._run(messages, (bases, out))
            good = present[found == 0]
        column = _Columns(payloads.data, byte_array(bytes(self.program.constants)), out, bases, counts).of(
            self.root, len(good)
        )
        if len(good) < len(payloads):
            places = np.full(len(payloads), -1, np.int64)
            places[good] = np.arange(len(good))
            column = column.take(pa.array(places, mask=places < 0))
        faults = np.zeros(len(payloads), np.uint8)
        indexes = np.full(len(payloads), -1, np.int32)
        faults[present], indexes[present] = found, fields
        return Decoded(column, faults, indexes, self.program.paths)

    def _run(
        self, payloads: Payloads, target: tuple[Int64s, Int64s] | None, *, checking: bool = True
    ) -> tuple[Int64s, Uint8s, Any]:
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
                self._cost + _STEPS_MIN,
                min(self._cost, _STEPS_OF_BYTE_MAX),
                int(checking),
                int(target is not None),
                int(not self._has_items),
            )
        return counts, faults, fields


def _room(counts: Int64s) -> tuple[Int64s, Int64s]:
    """Room for so many values of each stream, and where each stream begins."""
    bases = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bases[1:])
    return room(max(1, int(bases[-1])), np.int64), bases


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
        if pa.types.is_decimal(of):
            return pa.Array.from_buffers(of, rows, [validity, self._decimals(values, self.stream(first + 2))])
        if pa.types.is_string(of) or pa.types.is_binary(of):
            offsets, content = self._spans(values, self.stream(first + 2))
            return pa.Array.from_buffers(of, rows, [validity, offsets, content])
        if pa.types.is_boolean(of):
            return pa.Array.from_buffers(of, rows, [validity, pa.array(values != 0).buffers()[1]])
        sources = self.stream(first + 2) if node.width == 3 else None
        numbers = np.ascontiguousarray(_numbers(node, values, sources))
        return pa.Array.from_buffers(of, rows, [validity, pa.py_buffer(numbers)])

    def _spans(self, starts: Int64s, sizes: Int64s) -> tuple[pa.Buffer, pa.Buffer]:
        offsets = _offsets(sizes)
        content = room(max(1, int(offsets[-1])), np.uint8)
        if len(starts):
            gather(self.data, self.constants, starts, sizes, offsets, content)
        return pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)

    def _decimals(self, starts: Int64s, sizes: Int64s) -> pa.Buffer:
        content = np.empty(max(1, len(starts) * DECIMAL_SIZE), np.uint8)
        if len(starts):
            gather_decimals(self.data, self.constants, starts, sizes, content)
        return pa.py_buffer(content)

    def _items(self, node: Node, rows: int, validity: Any, sizes: Int64s) -> pa.Array:
        of = node.type
        offsets = _offsets(sizes)
        children = [self.of(child, int(offsets[-1])) for child in node.children]
        if pa.types.is_map(of):
            is_last = _is_last_of_its_key(children[0], sizes)
            if is_last is not None:
                children = [child.filter(pa.array(is_last)) for child in children]
                kept = np.zeros(len(is_last) + 1, np.int64)
                np.cumsum(is_last, out=kept[1:])
                offsets = kept[offsets]
            pairs = pa.struct([of.key_field, of.item_field])
            children = [pa.Array.from_buffers(pairs, int(offsets[-1]), [None], children=children)]
        buffers = [validity, pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(of, rows, buffers, children=children)


def _is_last_of_its_key(keys: pa.Array, sizes: Int64s) -> npt.NDArray[np.bool_] | None:
    """True for each entry of maps that no other one with its key follows; None if this is true for all."""
    if not len(keys) or sizes.max() < 2:
        return None
    codes = keys.dictionary_encode()
    entries = np.repeat(np.arange(len(sizes)), sizes) * len(codes.dictionary) + codes.indices.to_numpy()
    in_order = np.sort(entries)
    if (in_order[1:] != in_order[:-1]).all():
        return None
    is_last = np.zeros(len(keys), np.bool_)
    is_last[len(keys) - 1 - np.unique(entries[::-1], return_index=True)[1]] = True
    return is_last


def _offsets(sizes: Int64s) -> Int64s:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > _SPAN_BYTES_MAX:
        raise OptionError(
            f"a column of {offsets[-1]} bytes or items is larger than {_SPAN_BYTES_MAX}: read fewer rows at "
            "once"
        )
    return offsets


def _numbers(node: Node, values: Int64s, sources: Int64s | None) -> npt.NDArray[Any]:
    dtype = _DTYPES.get(node.type, np.int64)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if sources is None:
            return _from_source(values, next(iter(node.sources), "integer")).astype(dtype, copy=False)
        numbers = np.empty(len(values), dtype)
        for index, source in enumerate(SOURCES):
            is_of = sources == index
            numbers[is_of] = _from_source(values[is_of], source)
        return numbers


_DTYPES: Final[dict[pa.DataType, Any]] = {
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.int32(): np.int32,
    pa.date32(): np.int32,
}


def _from_source(values: Int64s, source: str) -> npt.NDArray[Any]:
    if source == "f8":
        return values.view(np.float64)
    return values.astype(np.uint32).view(np.float32) if source == "f4" else values
