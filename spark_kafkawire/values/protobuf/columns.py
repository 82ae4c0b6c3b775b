"""Streams of decoded messages as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array, room

from ..span_kernels import gather
from .resolution import Node
from .types import Enum, unknown_name

_SPAN_BYTES_MAX: Final = 2**31 - 1
_DTYPES: Final = {pa.int32(): np.int32, pa.int64(): np.int64}
_Flags = npt.NDArray[np.bool_]


class Columns:
    """Columns of messages: ``stream`` and ``flags`` give what a run wrote, ``counts`` the slots of
    domains."""

    def __init__(
        self,
        data: Uint8s,
        stream: Callable[[int, int], Int64s],
        flags: Callable[[int, int], _Flags],
        counts: Int64s,
    ) -> None:
        self._data, self._stream, self._flags, self._counts = data, stream, flags, counts

    def root(self, node: Node, is_null: _Flags) -> pa.Array:
        """The column of the messages themselves."""
        children = [self._of(child, len(is_null)) for child in node.children]
        return _struct(node.type, len(is_null), _bitmap(~is_null), children)

    def _of(self, node: Node, rows: int) -> pa.Array:
        if node.kind in ("repeated", "map"):
            return self._items(node, rows)
        present = None if node.flag < 0 else self._flags(node.flag, rows)
        if present is not None and present.all():
            present = None
        validity = pa.array(present).buffers()[1] if present is not None and node.is_null else None
        if node.kind == "struct":
            return _struct(node.type, rows, validity, [self._of(child, rows) for child in node.children])
        if node.kind in ("string", "bytes"):
            return self._spans(node, rows, present, validity)
        if node.kind == "time":
            values = self._micros(node, rows, present)
        else:
            values = self._stream(node.stream, rows)
            if not node.is_null and present is not None:
                values = np.where(present, values, _bits(node))
        if node.enum is not None and pa.types.is_string(node.type):
            return _names(node.enum, values, present if node.is_null else None)
        if pa.types.is_boolean(node.type):
            return pa.Array.from_buffers(node.type, rows, [validity, pa.array(values != 0).buffers()[1]])
        content = np.ascontiguousarray(_numbers(node, values))
        return pa.Array.from_buffers(node.type, rows, [validity, pa.py_buffer(content)])

    def _items(self, node: Node, rows: int) -> pa.Array:
        count = int(self._counts[node.domain])
        offsets = np.append(self._stream(node.stream, rows), count)
        if count > _SPAN_BYTES_MAX:
            raise _too_large(count)
        child = self._of(node.children[0], count)
        if node.kind == "map":
            offsets, child = _without_doubles(offsets, child)
        buffers = [None, pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(node.type, rows, buffers, children=[child])

    def _spans(self, node: Node, rows: int, present: _Flags | None, validity: Any) -> pa.Array:
        starts, sizes = self._stream(node.stream, rows), self._stream(node.stream + 1, rows)
        default = b"" if node.default is None else bytes(node.default)
        if present is not None:
            starts = np.where(present, starts, -1)
            sizes = np.where(present, sizes, 0 if node.is_null else len(default))
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        if offsets[-1] > _SPAN_BYTES_MAX:
            raise _too_large(int(offsets[-1]))
        content = room(max(1, int(offsets[-1])), np.uint8)
        if rows:
            gather(
                self._data,
                byte_array(default),
                np.ascontiguousarray(starts),
                np.ascontiguousarray(sizes),
                offsets,
                content,
            )
        buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
        return pa.Array.from_buffers(node.type, rows, buffers)

    def _micros(self, node: Node, rows: int, present: _Flags | None) -> Int64s:
        seconds, nanos = (
            np.where(self._flags(part.flag, rows), self._stream(part.stream, rows), 0)
            for part in node.children
        )
        micros = seconds * 1_000_000 + np.trunc(nanos / 1000).astype(np.int64)
        return micros if present is None else np.where(present, micros, 0)


def _struct(of: pa.DataType, rows: int, validity: Any, children: list[pa.Array]) -> pa.Array:
    return pa.Array.from_buffers(of, rows, [validity], children=children)


def _bitmap(flags: _Flags) -> Any:
    """Bits of flags; None if all are set."""
    return None if flags.all() else pa.array(flags).buffers()[1]


def _bits(node: Node) -> int:
    """The default as its stream has it."""
    if node.enum is not None and node.default is None:
        return node.enum.values[0][1]
    if node.default is None:
        return 0
    if node.kind == "float":
        return int(np.float32(node.default).view(np.int32))
    if node.kind == "double":
        return int(np.float64(node.default).view(np.int64))
    return int(node.default)


def _numbers(node: Node, values: Int64s) -> Any:
    if node.kind == "double":
        return values.view(np.float64)
    if node.kind == "float":
        return values.astype(np.uint32).view(np.float32).astype(node.type.to_pandas_dtype(), copy=False)
    if node.type == pa.int64() and node.kind in ("uint32", "fixed32"):
        return values & 0xFFFFFFFF
    if node.type == pa.int64() and node.kind == "sfixed32":
        return values.astype(np.int32).astype(np.int64)
    return values.astype(_DTYPES.get(node.type, np.int64), copy=False)


def _names(enum: Enum, values: Int64s, present: _Flags | None) -> pa.Array:
    """Names of an enum's numbers, as Java's runtime has them: also for numbers that the enum lacks."""
    first_names: dict[int, str] = {}
    for name, number in enum.values:
        first_names.setdefault(number, name)
    numbers = np.array(sorted(first_names), np.int64)
    names = [first_names[number] for number in numbers.tolist()]
    if present is not None:
        values = np.where(present, values, numbers[0])
    indexes = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
    is_unknown = numbers[indexes] != values
    if is_unknown.any():
        unknown, which = np.unique(values[is_unknown], return_inverse=True)
        indexes[is_unknown] = len(names) + which.ravel()
        names += [unknown_name(enum, number) for number in unknown.tolist()]
    places = pa.array(indexes, mask=None if present is None else ~present)
    return pa.array(names, pa.string()).take(places)


def _without_doubles(offsets: Int64s, entries: pa.StructArray) -> tuple[Int64s, pa.StructArray]:
    """Entries of maps with the last one of each key."""
    count = len(entries)
    codes = entries.field(0).dictionary_encode().indices.to_numpy().astype(np.int64)
    maps = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    pairs = maps * (int(codes.max(initial=0)) + 1) + codes
    # Of equal ones, np.unique gives the first: so they come from the end.
    last = count - 1 - np.unique(pairs[::-1], return_index=True)[1]
    if len(last) == count:
        return offsets, entries
    last.sort()
    return np.searchsorted(last, offsets), entries.take(pa.array(last))


def _too_large(count: int) -> OptionError:
    return OptionError(
        f"a column of {count} bytes or items is larger than {_SPAN_BYTES_MAX}: read fewer rows at once"
    )
