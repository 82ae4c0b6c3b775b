"""Decoding of JSON messages to Arrow.

The kernels fill a column for each node of the type. Rare messages, with a key twice or with escapes in names
or numbers, are written again by Python's json, and then decoded as all others.
"""

from __future__ import annotations

import binascii
import json
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records.arrays import Int32s, Int64s, Uint8s, room
from spark_kafkawire.records.compiler import expect

from ..faults import Decoded
from ..payloads import Payloads, payloads_of
from . import nodes as ops
from .kernels import DEPTH_MAX, FRAME, ODD, decode_each, gather
from .layout import Layout, Node
from .schema import Schema

_SPAN_BYTES_MAX: Final = 2**31 - 1
#: Values of repeated nodes that there is room for at first, for each row.
_ITEMS_PER_ROW: Final = 2


class Decoder:
    """Decoder of messages to an Arrow type, by the names of its fields.

    ``reader`` says which fields are required, and how numbers and texts are read; without one it is the
    writer's. ``arrow_type`` is the reader's own, or has other fields; fields that it lacks are skipped.
    Without any schema, values are read as Spark's ``from_json`` reads them, but wrong ones are faults. Raises
    ``OptionError`` (fatal) for a type that JSON cannot have.
    """

    def __init__(
        self, writer: Schema | None, reader: Schema | None = None, arrow_type: pa.DataType | None = None
    ) -> None:
        target = reader or writer
        assert target is not None or arrow_type is not None
        self.arrow_type = target.arrow_type if arrow_type is None and target is not None else arrow_type
        self._layout = Layout(self.arrow_type, target.root if target is not None else None)
        self._tables, self._names = self._layout.tables, self._layout.name_bytes
        self._paths = tuple(node.path for node in self._layout.nodes)
        self._has_path = np.array([bool(path) for path in self._paths])

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        present = np.flatnonzero(~payloads.is_null)
        column, found, fields = self._run(payloads.taken(present), final=False)
        columns, good = [column], [present[found == 0]]
        odd = present[found == ODD]
        if len(odd):
            written = payloads_of(pa.array([_plain(each) for each in _texts(payloads, odd)], pa.binary()))
            column, odd_found, odd_fields = self._run(written, final=True)
            fields[found == ODD] = odd_fields
            found[found == ODD] = odd_found
            columns.append(column)
            good.append(odd[odd_found == 0])
        faults = np.zeros(len(payloads), np.uint8)
        indexes = np.full(len(payloads), -1, np.int32)
        faults[present] = found
        # The root has no name, and neither have its items.
        indexes[present] = np.where(self._has_path[fields], fields, -1)
        return Decoded(_placed(columns, good, len(payloads)), faults, indexes, self._paths)

    def _run(self, payloads: Payloads, *, final: bool) -> tuple[pa.Array, Uint8s, Int32s]:
        rows, row = len(payloads), 0
        faults, places = np.zeros(rows, np.uint8), np.zeros(rows, np.int32)
        starts, stops = np.ascontiguousarray(payloads.starts), np.ascontiguousarray(payloads.stops)
        nodes = self._layout.nodes
        values = _Values([rows * _ITEMS_PER_ROW if node.is_repeated else rows for node in nodes])
        needed, stamps = np.zeros(len(nodes), np.int64), np.zeros(len(nodes) + 1, np.int64)
        stack = np.zeros(FRAME * DEPTH_MAX, np.int64)
        messages = payloads.data, starts, stops, self._tables, self._names
        while row < rows:
            room_for = values.bases, values.counts, needed, stamps, stack, values.arrays
            row = decode_each(*messages, *room_for, faults, places, row, int(final))
            if row < rows:
                values.grow(needed, rows / (row + 1))
        column = _Columns(payloads.data, values).of(nodes[0], int(values.counts[0]))
        return column, faults, places


class _Values:
    """Room for the values of each node: ``sizes`` of them, of which there are ``counts``."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = np.array(sizes, np.int64)
        self.counts = np.zeros(len(sizes), np.int64)
        self._allocate()

    def _allocate(self) -> None:
        self.bases = np.zeros(len(self.sizes) + 1, np.int64)
        np.cumsum(self.sizes, out=self.bases[1:])
        count = max(1, int(self.bases[-1]))
        #: Marks, and two integers.
        self.arrays = room(count, np.uint8), room(count, np.int64), room(count, np.int64)

    def grow(self, needed: Int64s, factor: float) -> None:
        """Make room for what one message needs, and for as much again where more messages follow."""
        bases, arrays = self.bases, self.arrays
        ahead = (needed * min(factor, 2.0)).astype(np.int64)
        self.sizes = np.where(needed > self.sizes, ahead, self.sizes)
        self._allocate()
        for base, new_base, count in zip(
            bases.tolist(), self.bases.tolist(), self.counts.tolist(), strict=False
        ):
            for old, new in zip(arrays, self.arrays, strict=True):
                new[new_base : new_base + count] = old[base : base + count]

    def of(self, node: Node) -> tuple[Uint8s, Int64s, Int64s]:
        base = self.bases[node.index]
        stop = base + self.counts[node.index]
        marks, firsts, seconds = self.arrays
        return marks[base:stop], firsts[base:stop], seconds[base:stop]


class _Columns:
    """Values of the nodes as Arrow arrays."""

    def __init__(self, data: Uint8s, values: _Values) -> None:
        self.data, self.values = data, values

    def of(self, node: Node, rows: int) -> pa.Array:
        of = node.type
        if pa.types.is_null(of):
            return pa.nulls(rows)
        marks, firsts, seconds = self.values.of(node)
        is_null = marks == ops.ABSENT
        validity = pa.array(~is_null).buffers()[1] if is_null.any() else None
        if pa.types.is_struct(of):
            children = [self.of(child, rows) for child in node.children]
            return pa.Array.from_buffers(of, rows, [validity], children=children)
        if pa.types.is_list(of) or pa.types.is_map(of):
            return self._items(node, rows, validity, np.where(is_null, 0, firsts))
        if pa.types.is_string(of) or pa.types.is_binary(of):
            content, offsets = self._gathered(marks, firsts, seconds)
            if pa.types.is_binary(of):
                content, offsets = _from_base64(content, offsets)
            return pa.Array.from_buffers(
                of, rows, [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
            )
        return pa.Array.from_buffers(of, rows, [validity, self._numbers(of, marks, firsts, seconds)])

    def _items(self, node: Node, rows: int, validity: Any, sizes: Int64s) -> pa.Array:
        of, offsets = node.type, _offsets(sizes)
        children = [self.of(child, int(offsets[-1])) for child in node.children]
        if pa.types.is_map(of):
            children, offsets = _without_equal_keys(children, offsets)
            pairs = pa.struct([of.key_field, of.item_field])
            children = [pa.Array.from_buffers(pairs, int(offsets[-1]), [None], children=children)]
        return pa.Array.from_buffers(
            of, rows, [validity, pa.py_buffer(offsets.astype(np.int32))], children=children
        )

    def _gathered(self, marks: Uint8s, firsts: Int64s, sizes: Int64s) -> tuple[Uint8s, Int64s]:
        """The strings of a column, one after the other, and their offsets."""
        sizes = np.where(marks == ops.ABSENT, 0, sizes)
        offsets = _offsets(sizes)
        content = room(max(1, int(offsets[-1])), np.uint8)
        if len(marks):
            firsts, sizes = np.ascontiguousarray(firsts), np.ascontiguousarray(sizes)
            gather(self.data, firsts, sizes, np.ascontiguousarray(marks), offsets, content)
        return content, offsets

    def _numbers(self, of: pa.DataType, marks: Uint8s, firsts: Int64s, seconds: Int64s) -> Any:
        numbers: Any = firsts
        if pa.types.is_boolean(of):
            return pa.array(firsts != 0).buffers()[1]
        if pa.types.is_decimal(of):
            numbers = np.stack([firsts, seconds], axis=1)
        elif pa.types.is_floating(of):
            numbers = self._doubles(marks, firsts, seconds)
        return pa.py_buffer(np.ascontiguousarray(numbers.astype(_DTYPES.get(of, numbers.dtype), copy=False)))

    def _doubles(self, marks: Uint8s, firsts: Int64s, seconds: Int64s) -> npt.NDArray[np.float64]:
        is_exact = marks == ops.VALUE
        digits, exponents = np.where(is_exact, firsts, 0), np.where(is_exact, seconds, 0)
        powers = _POWERS[np.abs(exponents)]
        doubles: npt.NDArray[np.float64] = np.where(exponents < 0, digits / powers, digits * powers)
        for mark in (ops.LONG_NUMBER, ops.TINY_NUMBER):
            rows = np.flatnonzero(marks == mark)
            if len(rows):
                content, offsets = self._gathered(marks[rows], firsts[rows], seconds[rows])
                doubles[rows] = _parsed(content, offsets, is_tiny=mark == ops.TINY_NUMBER)
        is_special = marks == ops.SPECIAL
        if is_special.any():
            doubles[is_special] = _SPECIALS[firsts[is_special] + 1]
        return doubles


_DTYPES: Final[dict[Any, Any]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.date32(): np.int32,
    pa.float32(): np.float32,
}
_POWERS: Final = np.array([float(10**exponent) for exponent in range(23)])
_SPECIALS: Final = np.array([-np.inf, np.nan, np.inf])


def _parsed(content: Uint8s, offsets: Int64s, *, is_tiny: bool) -> Any:
    texts = pa.Array.from_buffers(
        pa.string(),
        len(offsets) - 1,
        [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)],
    )
    if is_tiny:  # some versions of Arrow refuse what is too small
        return [float(text) for text in texts.to_pylist()]
    return texts.cast(pa.float64()).to_numpy()


def _from_base64(content: Uint8s, offsets: Int64s) -> tuple[Uint8s, Int64s]:
    """Decode texts that follow each other, each with its padding."""
    content = content[: offsets[-1]]
    padding = np.zeros(len(content) + 1, np.int64)
    np.cumsum(content == ord("="), out=padding[1:])
    filled = np.where(content == ord("="), ord("A"), content).astype(np.uint8)
    plain = np.frombuffer(binascii.a2b_base64(filled.data), np.uint8)
    # Each padding has become the last bytes of its text.
    sizes = np.diff(offsets) // 4 * 3
    extra = np.diff(padding[offsets])
    ends = np.repeat(np.cumsum(sizes), extra)
    place = np.arange(len(ends)) - np.repeat(np.cumsum(extra) - extra, extra)
    return np.delete(plain, ends - 1 - place), _offsets(sizes - extra)


def _without_equal_keys(children: list[pa.Array], offsets: Int64s) -> tuple[list[pa.Array], Int64s]:
    """The entries of maps, the last one of each key at the place of the first one, as in Python's dict."""
    keys = children[0].dictionary_encode()
    maps = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    codes = maps * max(1, len(keys.dictionary)) + keys.indices.to_numpy()
    if len(codes) < 2:
        return children, offsets
    distinct, firsts = np.unique(codes, return_index=True)
    if len(distinct) == len(codes):
        return children, offsets
    lasts = len(codes) - 1 - np.unique(codes[::-1], return_index=True)[1]
    rows = pa.array(lasts[np.argsort(firsts)])
    return [each.take(rows) for each in children], _offsets(
        np.bincount(maps[firsts], minlength=len(offsets) - 1)
    )


def _offsets(sizes: Int64s) -> Int64s:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > _SPAN_BYTES_MAX:
        raise OptionError(
            f"a column of {offsets[-1]} bytes or items is larger than {_SPAN_BYTES_MAX}: read fewer rows at "
            "once"
        )
    return offsets


def _placed(columns: list[pa.Array], rows: list[Int64s], count: int) -> pa.Array:
    """One column of these columns' values in their rows, and null in all others."""
    column = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    if len(columns) == 1 and len(column) == count:
        return column
    places = np.full(count, -1, np.int64)
    places[np.concatenate(rows)] = np.arange(len(column))
    return column.take(pa.array(places, mask=places < 0))


def _texts(payloads: Payloads, rows: Int64s) -> list[bytes]:
    spans = zip(payloads.starts[rows].tolist(), payloads.stops[rows].tolist(), strict=True)
    return [payloads.data[start:stop].tobytes() for start, stop in spans]


class _Number(str):
    """The text of a number."""

    __slots__ = ()


def _plain(message: bytes) -> bytes:
    """A message in which each key is there once, with its last value, and nothing is escaped needlessly."""
    return _written(
        json.loads(message, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    ).encode()


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join([f"{_quoted(key)}:{_written(each)}" for key, each in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_written(each) for each in value]) + "]"
    if isinstance(value, _Number):
        return str(value)
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    # A surrogate by itself has no other form than its escape.
    has_surrogate = any("\ud800" <= letter <= "\udfff" for letter in text)
    return json.dumps(text, ensure_ascii=has_surrogate)
