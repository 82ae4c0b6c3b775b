"""Encoding of Arrow columns to Protobuf messages, without frames.

The columns are fitted to a message: a program of ``encoding_kernels``, and the feeds of its streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.errors import LimitError, OptionError, counted, printable, quote
from spark_kafkawire.records.arrays import Int64s, Uint8s, room
from spark_kafkawire.records.compiler import expect

from ..column_types import dtype_of, inside, is_list, sql_name
from ..feeds import Feed, Items, Numbers, Place, RowOf, Spans, Streams, join_streams, messages_of
from . import encoding_kernels as ops
from .encoding_kernels import FRAME, ROOM, encode_each
from .schema import Schema
from .types import (
    DELIMITED,
    FIXED32,
    FIXED64,
    SCALARS,
    Enum,
    Field,
    Message,
    name_of,
    unknown_number,
)

_UNSIGNED: Final = ("uint32", "fixed32")
#: Columns that fit, besides those of the scalar's own Arrow type.
_FITTING: Final[dict[pa.DataType, tuple[pa.DataType, ...]]] = {
    pa.int32(): (pa.int8(), pa.int16()),
    pa.int64(): (pa.int32(), pa.int8(), pa.int16()),
    pa.float64(): (pa.float32(),),
    pa.string(): (pa.large_string(),),
    pa.binary(): (pa.large_binary(),),
}
_OPS: Final = {FIXED32: ops.RAW4, FIXED64: ops.RAW8, DELIMITED: ops.SPAN}
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS: Final = Field("seconds", 1, "int64", has_presence=False)
_NANOS: Final = Field("nanos", 2, "int32", has_presence=False)


@dataclass(frozen=True, slots=True)
class Slot(Feed):
    """A value that may be null. ``flag`` is -1 for an item or a part of a map's entry, which are always
    present. A default is left out if its field has no presence."""

    inner: Feed
    place: Place
    flag: int
    is_required: bool
    has_presence: bool = True

    def put(self, column: pa.Array, live: Any, streams: Streams, row_of: RowOf) -> None:
        present = live
        if column.null_count:
            present = live & column.is_valid().to_numpy(zero_copy_only=False)
            if self.is_required:
                is_item = self.flag < 0
                what = "has a null item, which no message can have" if is_item else "is null, and is required"
                self.place.refuse(live & ~present, what, row_of)
        values = self.inner.put(column, present, streams, row_of)
        if self.flag >= 0:
            is_shown = self.has_presence or values is None
            streams.flags[self.flag] = present if is_shown else present & (values != 0)


@dataclass(frozen=True, slots=True)
class Group(Feed):
    """A struct: feeds of its columns, by their indexes, and the columns of which one may have a value."""

    feeds: tuple[tuple[int, Feed], ...]
    oneofs: tuple[tuple[Place, tuple[int, ...]], ...]

    def put(self, column: pa.Array, live: Any, streams: Streams, row_of: RowOf) -> None:
        for location, indexes in self.oneofs:
            set_ones = [column.field(index).is_valid().to_numpy(zero_copy_only=False) for index in indexes]
            location.refuse(live & (np.sum(set_ones, axis=0) > 1), "have values", row_of)
        for index, feed in self.feeds:
            feed.put(column.field(index), live, streams, row_of)


@dataclass(frozen=True, slots=True)
class Unsigned(Feed):
    """Numbers of 32 bits without a sign."""

    place: Place
    stream: int
    kind: str

    def put(self, column: pa.Array, live: Any, streams: Streams, row_of: RowOf) -> Int64s:
        bits = _numbers(column).astype(np.int64, copy=False)
        if column.type == pa.int64():
            self.place.refuse(live & (bits >> 32 != 0), f"is no {self.kind}, 0 to 4294967295", row_of)
        values = streams.values[self.stream] = bits & 0xFFFFFFFF
        return values


@dataclass(frozen=True, slots=True)
class Names(Feed):
    """Names of an enum's values, as their numbers."""

    place: Place
    stream: int
    enum: Enum

    def put(self, column: pa.Array, live: Any, streams: Streams, row_of: RowOf) -> Int64s:
        names = pa.array([name for name, _ in self.enum.values], column.type)
        result = pc.index_in(column, value_set=names).fill_null(-1).to_numpy()
        numbers: Int64s = np.array([*(number for _, number in self.enum.values), 0], np.int64)[result]
        is_unknown = live & (result < 0)
        if is_unknown.any() and not self.enum.is_closed:
            others = column.filter(pa.array(is_unknown)).to_pylist()
            numbers[is_unknown] = [unknown_number(self.enum, name) or 0 for name in others]
            is_unknown[is_unknown] = [unknown_number(self.enum, name) is None for name in others]
        self.place.refuse(is_unknown, f"is no value of the enum {printable(self.enum.name)}", row_of)
        streams.values[self.stream] = numbers
        return numbers


@dataclass(frozen=True, slots=True)
class Times(Feed):
    """Timestamps or durations as messages of seconds and nanos, each with its flag and its stream."""

    streams: tuple[tuple[int, int], tuple[int, int]]
    is_point: bool

    def put(self, column: pa.Array, live: Any, streams: Streams, _row_of: RowOf) -> None:
        unit = _UNITS[column.type.unit]
        values = np.where(live, _numbers(column.cast(pa.int64())), 0)
        # The nanos of a point in time count upwards; those of a duration have its sign.
        seconds = values // unit
        if not self.is_point:
            seconds += (values < 0) & (values % unit != 0)
        parts = seconds, (values - seconds * unit) * (10**9 // unit)
        for (flag, stream), part in zip(self.streams, parts, strict=True):
            streams.values[stream] = part
            streams.flags[flag] = live & (part != 0)


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """The numbers of a column, of any value where it is null."""
    if pa.types.is_boolean(column.type):
        flags: npt.NDArray[Any] = column.fill_null(False).to_numpy(zero_copy_only=False)
        return flags
    dtype = np.dtype(dtype_of(column.type))
    if not len(column):
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


class Fitting:
    """A message and the struct that is written as it.

    ``code`` and ``scopes`` are those of the kernel. Raises ``OptionError`` (fatal) that names the field whose
    column is missing or does not fit.
    """

    def __init__(self, message: Message, arrow_type: pa.DataType) -> None:
        self.streams = self.flags = 0
        self._scopes: list[list[list[int]]] = []
        self.root = self._message(message, arrow_type, "")
        self.code: list[int] = []
        self.scopes: list[int] = []
        for scope in self._scopes:
            self.scopes += (len(self.code), len(scope))
            ordered = sorted(scope, key=itemgetter(ops.TAG))
            self.code += [item for instruction in ordered for item in instruction]

    def _stream(self, count: int = 1) -> int:
        self.streams += count
        return self.streams - count

    def _flag(self) -> int:
        self.flags += 1
        return self.flags - 1

    def _message(self, message: Message, of: pa.DataType, path: str) -> Group:
        if not pa.types.is_struct(of):
            raise OptionError(
                f"{_field(path, message)} is a message and cannot be written from "
                f"{sql_name(of)}: use a struct"
            )
        columns = _columns(message, of)
        scope: list[list[int]] = []
        self._scopes.append(scope)
        feeds: list[tuple[int, Feed]] = []
        oneofs: dict[str, list[int]] = {}
        for item in message.fields:
            location = inside(path, item.name)
            if item.name in columns:
                index, column_type = columns[item.name]
                feeds.append((index, self._column(item, column_type, location, scope)))
                if item.oneof:
                    oneofs.setdefault(item.oneof, []).append(index)
            elif item.label == "required":
                raise OptionError(f"{_field(location)} is required, and has no column: add one")
        several = tuple((_oneof(path, name), tuple(item)) for name, item in oneofs.items() if len(item) > 1)
        return Group(tuple(feeds), several)

    def _column(self, each: Field, of: pa.DataType, path: str, scope: list[list[int]]) -> Feed:
        if not each.is_repeated:
            return self._value(each, of, path, scope, self._flag())
        is_map = each.label == "map"
        fits = pa.types.is_map(of) if is_map else is_list(of)
        if not fits:
            kind, needed = ("a map", "a map") if is_map else ("repeated", "an array")
            raise OptionError(f"{_field(path)} is {kind}, and its column {of}: use {needed}")
        stream = self._stream()
        if not is_map:
            feed = self._value(each, of.value_type, path, scope, -1)
            scope[-1][ops.FIRST] = stream
            return Items(stream, (feed,))
        entry: list[list[int]] = []
        location = len(self._scopes)
        self._scopes.append(entry)
        types = (of.key_type, of.item_type)
        feeds = [
            self._value(part, part_type, f"{path}.{part.name}", entry, -1)
            for part, part_type in zip(each.message.fields, types, strict=True)
        ]
        scope.append(_instruction(each, ops.MESSAGE, stream, -1, -1, location))
        return Items(stream, tuple(feeds))

    def _value(self, each: Field, of: pa.DataType, path: str, scope: list[list[int]], flag: int) -> Feed:
        """One value in a slot; without a flag it is an item or a part of a map's entry."""
        location = Place(_field(path), "correct the value")
        is_required = each.label == "required" or flag < 0
        if each.is_message:
            op = ops.GROUP if each.kind == "group" else ops.MESSAGE
            scope.append(_instruction(each, op, -1, flag, -1, len(self._scopes)))
            time = each.message.time
            if time is not None and isinstance(of, type(time)):
                return Slot(self._time(of), location, flag, is_required)
            return Slot(self._message(each.message, of, path), location, flag, is_required)
        fitting = _fitting(each.kind)
        if of not in fitting:
            targets = " or ".join(dict.fromkeys(map(sql_name, fitting)))
            raise OptionError(
                f"{_field(path)} of type {each.kind} cannot be written from "
                f"{sql_name(of)}: cast it to {targets}"
            )
        op = ops.ZIGZAG if each.kind.startswith("sint") else _OPS.get(each.wire_type, ops.VARINT)
        stream = self._stream(2 if op == ops.SPAN else 1)
        scope.append(_instruction(each, op, -1, flag, stream, 0))
        return Slot(_feed(each, of, location, stream), location, flag, is_required, each.has_presence)

    def _time(self, of: pa.DataType) -> Feed:
        parts = [(self._flag(), self._stream()) for _ in range(2)]
        self._scopes.append(
            [
                _instruction(part, ops.VARINT, -1, part_flag, stream, 0)
                for part, (part_flag, stream) in zip((_SECONDS, _NANOS), parts, strict=True)
            ]
        )
        return Times((parts[0], parts[1]), pa.types.is_timestamp(of))


def _columns(message: Message, of: pa.DataType) -> dict[str, tuple[int, pa.DataType]]:
    """The index and the type of each column of a struct, by its name."""
    known = {item.name for item in message.fields}
    columns = {column.name: (index, column.type) for index, column in enumerate(of)}
    for name in columns:
        if name not in known:
            raise OptionError(
                f"{name_of(message)} has no field {printable(name)} for the column: drop or rename it"
            )
    if len(columns) < len(list(of)):
        names = [column.name for column in of]
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"{name_of(message)} has the column {quote(twice)} twice: rename one")
    return columns


def _instruction(each: Field, op: int, first: int, flag: int, stream: int, scope: int) -> list[int]:
    wire_type = DELIMITED if each.is_packed else each.wire_type
    return [op, each.number << 3 | wire_type, first, flag, stream, int(each.is_packed), scope]


def _fitting(kind: str) -> tuple[pa.DataType, ...]:
    """The types of columns that fit a scalar, the narrowest one first."""
    of = pa.int64() if kind in _UNSIGNED else SCALARS[kind][0]
    return of, *_FITTING.get(of, ()), *((pa.int32(),) if kind == "enum" else ())


def _feed(each: Field, of: pa.DataType, place: Place, stream: int) -> Feed:
    if each.kind in ("string", "bytes"):
        return Spans(place, stream)
    if each.kind == "enum" and of != pa.int32():
        return Names(place, stream, each.enum)
    if each.kind in _UNSIGNED:
        return Unsigned(place, stream, each.kind)
    if each.kind == "float":
        return Numbers(stream, lambda column: _numbers(column).view(np.uint32))
    if each.kind == "double":
        return Numbers(stream, lambda column: _numbers(column).astype(np.float64, copy=False).view(np.int64))
    return Numbers(stream, _numbers)


def _oneof(path: str, name: str) -> Place:
    name = printable(inside(path, name))
    return Place(f"several fields of the Protobuf oneof {name}", "set one of them, the others to null")


def _field(path: str, message: Message | None = None) -> str:
    return f"the Protobuf field {printable(path)}" if path or message is None else name_of(message)


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
        content = pa.py_buffer(out).slice(first, int(offsets[-1]) - first)
        return messages_of(column, offsets - first, content)

    def _run(self, streams: Streams, is_valid: Uint8s) -> tuple[Int64s, Uint8s]:
        """The bounds of messages, and the bytes that they lie in."""
        values, places = join_streams(streams.values, self._fitting.streams, np.int64)
        flags, flag_places = join_streams(streams.flags, self._fitting.flags, np.uint8)
        content = streams.content()
        out = room(ROOM + len(content) + _VALUE_SIZE * (len(values) + len(is_valid)), np.uint8)
        offsets = np.full(len(is_valid) + 1, len(out), np.int64)
        row = len(is_valid) - 1
        inputs = values, places, flags, flag_places, content
        stack = np.zeros(FRAME * len(self._scopes) // 2, np.int64)  # each scope is open once at most
        program = self._code, self._scopes, is_valid.view(np.uint8), stack
        while True:
            row = encode_each(row, *inputs, *program, offsets, out)
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
