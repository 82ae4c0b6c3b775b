"""Encoding of Arrow columns to Avro messages, without frames.

The columns are fitted to a schema: a program of ``encoding_kernels``, and the feeds of its streams. The
program runs twice: the first run counts the bytes of each row, the second one writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.errors import LimitError, OptionError, counted, printable, quote
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array, room
from spark_kafkawire.records.compiler import expect

from ..column_types import RECURSION_DEPTH, inside, is_binary, is_list, is_text, sql_name
from ..feeds import Feed, Items, Live, Numbers, Place, RowOf, Spans, Streams, join_streams, messages_of
from ..payloads import encode_integer
from . import encoding_kernels as ops
from .encoding_kernels import encode_each
from .schema import AvroField, AvroType, Schema, arrow_type_of, default_of, encode_default

#: Bytes of all defaults: in a hostile schema each level doubles them.
_CONSTANTS_MAX: Final = 1 << 22
_SIZE_MAX: Final = 2**31 - 1
_DECIMAL_SIZE: Final = 16
_PER_SECOND: Final = {"us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class Nullable(Feed):
    """A column that may have nulls: ``null`` and ``value`` are the branches of a union for both.

    ``null`` is None where a null is an error, ``stream`` is -1 where the schema has no union.
    """

    inner: Feed
    place: Place
    stream: int = -1
    null: int | None = None
    value: int = 0

    def put(self, column: pa.Array, _live: Live, streams: Streams, row_of: RowOf) -> None:
        is_null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        if is_null is not None and self.null is None:
            self.place.refuse(is_null, _IS_NULL, row_of, _FILL)
        if self.stream >= 0:
            branches = streams.values[self.stream] = np.full(len(column), self.value, np.int64)
            if is_null is not None and self.null is not None:
                branches[is_null] = self.null
        if is_null is not None:
            column, row_of = column.drop_null(), _rows_at(np.flatnonzero(~is_null), row_of)
        self.inner.put(column, None, streams, row_of)


_IS_NULL: Final = "is null, and its schema has no null"
_FILL: Final = "fill it, or add null to the schema"


@dataclass(frozen=True, slots=True)
class Struct(Feed):
    """A struct: feeds of its columns, by their indexes; none for a column that is always null.

    ``endless`` is a field that must have a value, and has no column because its record contains itself too
    often.
    """

    feeds: tuple[tuple[int, Feed], ...]
    endless: Place | None = None

    def put(self, column: pa.Array, _live: Live, streams: Streams, row_of: RowOf) -> None:
        if self.endless is not None:
            what = "is missing: its record contains itself too often for a column"
            self.endless.refuse(np.ones(len(column), np.bool_), what, row_of, "make it nullable")
        for index, feed in self.feeds:
            feed.put(column.field(index), None, streams, row_of)


@dataclass(frozen=True, slots=True)
class Members(Feed):
    """A struct in which one member has a value: the index of each column, its branch and its feed.

    ``null`` is the branch of a struct that is null, and None where the union has no null.
    """

    place: Place
    stream: int
    feeds: tuple[tuple[int, int, Feed], ...]
    null: int | None

    def put(self, column: pa.Array, _live: Live, streams: Streams, row_of: RowOf) -> None:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        if self.null is None:
            self.place.refuse(is_null, _IS_NULL, row_of, _FILL)
        members = [column.field(index) for index, _, _ in self.feeds]
        is_set = np.zeros((len(members) + 1, len(column)), np.bool_)
        for index, member in enumerate(members):
            is_set[index] = member.is_valid().to_numpy(zero_copy_only=False) & ~is_null
        is_set[-1] = is_null
        counts = is_set.sum(axis=0)
        if (is_bad := counts != 1).any():
            count = counted(int(counts[np.argmax(is_bad)]), "member")
            what = f"has {count} with values, and a union one"
            self.place.refuse(is_bad, what, row_of, "set the others to null")
        branches = np.array([*(branch for _, branch, _ in self.feeds), self.null or 0], np.int64)
        streams.values[self.stream] = branches[is_set.argmax(axis=0)]
        for (_, _, feed), member, chosen in zip(self.feeds, members, is_set[:-1], strict=True):
            rows = _rows_at(np.flatnonzero(chosen), row_of)
            feed.put(member.filter(pa.array(chosen)), None, streams, rows)


def _rows_at(places: Int64s, row_of: RowOf) -> RowOf:
    return lambda index: row_of(int(places[index]))


@dataclass(frozen=True, slots=True)
class Symbols(Feed):
    """Strings as the indexes of an enum's symbols."""

    place: Place
    stream: int
    symbols: tuple[str, ...]

    def put(self, column: pa.Array, _live: Live, streams: Streams, row_of: RowOf) -> None:
        result = pc.index_in(column, value_set=pa.array(self.symbols, column.type)).fill_null(-1).to_numpy()
        remedy = "correct it, or add it to the schema"
        self.place.refuse(result < 0, "is not a symbol of its enum", row_of, remedy)
        streams.values[self.stream] = result.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Decimals(Feed):
    """Decimals as their unscaled numbers, the highest byte first, in ``size`` bytes or as few as possible."""

    stream: int
    type: pa.DataType
    size: int | None = None

    def put(self, column: pa.Array, _live: Live, streams: Streams, _row_of: RowOf) -> None:
        column = column.cast(self.type)
        _, data = column.buffers()
        first = column.offset * _DECIMAL_SIZE
        numbers = byte_array(data or b"")[first : first + len(column) * _DECIMAL_SIZE]
        content = np.ascontiguousarray(numbers.reshape(-1, _DECIMAL_SIZE)[:, ::-1])
        fills: Any = (content[:, :1] >> 7) * np.uint8(0xFF)
        if self.size is None:
            sizes = _least_sizes(content, fills)
        else:
            content = _extend(content, fills, self.size)
            sizes = np.full(len(column), self.size, np.int64)
        ends = np.arange(1, len(column) + 1, dtype=np.int64) * content.shape[1]
        streams.put_spans(self.stream, content.reshape(-1), ends - sizes, sizes)


def _extend(content: Uint8s, fills: Uint8s, size: int) -> Uint8s:
    more = size - _DECIMAL_SIZE
    if more <= 0:
        return content
    if size * len(content) > _SIZE_MAX:
        raise LimitError(
            f"{len(content)} decimals of {size} bytes take more than {_SIZE_MAX} bytes: write smaller batches"
        )
    return np.concatenate([np.repeat(fills, more, axis=1), content], axis=1)


def _least_sizes(content: Uint8s, fills: Uint8s) -> Int64s:
    differs = content != fills
    places = np.where(differs.any(axis=1), differs.argmax(axis=1), _DECIMAL_SIZE)
    # The first byte that says more than the sign must not change the sign.
    nexts = content[np.arange(len(content)), np.minimum(places, _DECIMAL_SIZE - 1)]
    needs_sign = (places == _DECIMAL_SIZE) | ((nexts ^ fills[:, 0]) >= 0x80)
    sizes: Int64s = (_DECIMAL_SIZE - places + needs_sign).astype(np.int64)
    return sizes


def _place(path: str) -> Place:
    return Place(_named(path), "correct it")


def _named(path: str) -> str:
    return f"the Avro field {printable(path)}" if path else "the Avro value"


class Fitting:
    """Compiler of an Avro type and an Arrow type. ``feed`` puts a column into the streams of the program.

    Raises ``OptionError`` (fatal) that names a field whose column is missing or does not fit.
    """

    def __init__(self, avro: AvroType, arrow: pa.DataType) -> None:
        self.code: list[int] = []
        self.table: list[int] = []
        self.constants = bytearray()
        self.stream_count = 0
        self.depth_max = 0
        self._open: list[AvroType] = []
        try:
            self.feed = self._value(avro, arrow, "")
        except RecursionError:
            raise OptionError(
                "the Avro schema has too many types inside of each other to be written: flatten it"
            ) from None
        self._emit(ops.END)

    # Instructions

    @property
    def _pc(self) -> int:
        return len(self.code) // ops.WIDTH

    def _emit(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        at = self._pc
        self.code += (op, a, b, c)
        return at

    def _aim(self, at: int) -> None:
        self.code[at * ops.WIDTH + 2] = self._pc

    def _streams(self, count: int = 1) -> int:
        self.stream_count += count
        return self.stream_count - count

    def _constant(self, content: bytes) -> None:
        if len(self.constants) > _CONSTANTS_MAX:
            raise OptionError(
                f"the defaults of the Avro schema take more than {_CONSTANTS_MAX} bytes: shorten them"
            )
        self._emit(ops.CONSTANT, 0, len(self.constants), len(content))
        self.constants += content

    # Values

    def _value(self, avro: AvroType, arrow: pa.DataType, path: str) -> Feed:
        if avro.kind == "union":
            return self._union(avro, arrow, path)
        if avro.kind == "null" and pa.types.is_null(arrow):
            return Struct(())
        return Nullable(self._present(avro, arrow, path), _place(path))

    def _union(self, avro: AvroType, arrow: pa.DataType, path: str) -> Feed:
        kinds = [branch.kind for branch in avro.branches]
        null = kinds.index("null") if "null" in kinds else None
        if pa.types.is_null(arrow) and null is not None:
            self._constant(encode_integer(null))
            return Struct(())
        if avro.has_members:
            return self._members(avro, arrow, null, path)
        value = _branch(avro)
        if value is None:
            raise _misfit(avro, arrow, path)
        stream, location = self._streams(), len(self.table)
        self.table += [0] * len(kinds)
        self._emit(ops.CHOICE, stream, location)
        self.table[location + value] = self._pc
        inner = self._present(avro.read_as(avro.branches[value]), arrow, path)
        if null is None:
            return Nullable(inner, _place(path), stream, None, value)
        self.table[location + null] = self._pc
        return Nullable(inner, _place(path), stream, null, value)

    def _members(self, avro: AvroType, arrow: pa.DataType, null: int | None, path: str) -> Feed:
        values = {f"member{index}": item for index, item in enumerate(avro.values)}
        if not pa.types.is_struct(arrow):
            raise _misfit(avro, arrow, path)
        self._refuse_columns(arrow, values, path)
        stream, location = self._streams(), len(self.table)
        self.table += [0] * len(avro.branches)
        self._emit(ops.CHOICE, stream, location)
        members, jumps = [], []
        for index, column in enumerate(arrow):
            branch = avro.branches.index(values[column.name])
            self.table[location + branch] = self._pc
            inner = self._present(values[column.name], column.type, inside(path, column.name))
            members.append((index, branch, inner))
            jumps.append(self._emit(ops.JUMP))
        for jump in jumps:
            self._aim(jump)
        if null is not None:
            self.table[location + null] = self._pc
        return Members(_place(path), stream, tuple(members), null)

    def _present(self, avro: AvroType, arrow: pa.DataType, path: str) -> Feed:
        """A value that is not null, of a type that is no union."""
        if avro.kind == "record" and pa.types.is_struct(arrow):
            return self._record(avro, arrow, path)
        if avro.kind == "array" and is_list(arrow):
            return self._items(avro, (arrow.value_type,), path)
        if avro.kind == "map" and pa.types.is_map(arrow) and is_text(arrow.key_type):
            return self._items(avro, (arrow.key_type, arrow.item_type), path)
        return self._leaf(avro, arrow, path)

    def _record(self, avro: AvroType, arrow: pa.DataType, path: str) -> Feed:
        names = {item.name: item for item in avro.fields}
        self._refuse_columns(arrow, names, path)
        indexes = {column.name: index for index, column in enumerate(arrow)}
        inner: list[tuple[int, Feed]] = []
        endless = None
        self._open.append(avro)
        for item in avro.fields:
            location = inside(path, item.name)
            if item.name in indexes:
                index = indexes[item.name]
                inner.append((index, self._value(item.type, arrow.field(index).type, location)))
            elif not self._missing(item, location):
                endless = _place(location)
        self._open.pop()
        return Struct(tuple(inner), endless)

    def _missing(self, each: AvroField, path: str) -> bool:
        """A field without a column: its default, or nothing where its record contains itself too often for a
        column. Returns False where nothing cannot be written."""
        if each.has_default:
            self._constant(encode_default(default_of(each.default, each.type, path), each.type))
        elif not _contains(each.type, [of for of in self._open if self._open.count(of) >= RECURSION_DEPTH]):
            raise OptionError(f"{_named(path)} has no column and no default: add a column to the DataFrame")
        elif each.type.kind in ("array", "map"):
            self._constant(b"\0")
        elif each.type.has_null:
            kinds = [branch.kind for branch in each.type.branches]
            self._constant(encode_integer(kinds.index("null")))
        else:
            return False
        return True

    def _items(self, avro: AvroType, arrows: tuple[pa.DataType, ...], path: str) -> Feed:
        stream = self._streams()
        opened = self._emit(ops.OPEN, stream)
        loop = self._pc
        self.depth_max += 1
        inner: list[Feed] = []
        if avro.kind == "map":
            key = self._leaf(AvroType("string"), arrows[0], path)
            inner.append(Nullable(key, _place(path)))
        inner.append(self._value(avro.item_type, arrows[-1], path))
        self._emit(ops.NEXT, 0, loop)
        self._aim(opened)
        return Items(stream, tuple(inner))

    def _refuse_columns(self, arrow: pa.DataType, known: Any, path: str) -> None:
        seen = set()
        for column in arrow:
            if column.name not in known or column.name in seen:
                what = "is not in the Avro schema: drop it, or add it to the schema"
                if column.name in seen:
                    what = "is there twice: rename one"
                raise OptionError(f"the column {quote(inside(path, column.name))} {what}")
            seen.add(column.name)

    # Leaves

    def _leaf(self, avro: AvroType, arrow: pa.DataType, path: str) -> Feed:
        if avro.kind == "enum" and is_text(arrow):
            stream = self._streams()
            self._emit(ops.INTEGER, stream)
            return Symbols(_place(path), stream, avro.symbols)
        if avro.logical == "decimal":
            return self._decimal(avro, arrow, path)
        if avro.kind == "fixed" and is_binary(arrow):
            stream = self._streams(2)
            self._emit(ops.SPAN, stream)
            return Spans(_place(path), stream, avro.size)
        if (avro.kind == "string" and is_text(arrow)) or (avro.kind == "bytes" and is_binary(arrow)):
            stream = self._streams(2)
            self._emit(ops.SPAN, stream, 1)
            return Spans(_place(path), stream)
        numbers = _numbers(avro, arrow)
        if numbers is None:
            raise _misfit(avro, arrow, path)
        stream = self._streams()
        size = _SIZES.get(avro.kind)
        self._emit(ops.INTEGER if size is None else ops.RAW, stream, size or 0)
        return Numbers(stream, numbers)

    def _decimal(self, avro: AvroType, arrow: pa.DataType, path: str) -> Feed:
        target = arrow_type_of(avro)
        if (
            not pa.types.is_decimal(arrow)
            or arrow.scale > target.scale
            or arrow.precision - arrow.scale > target.precision - target.scale
        ):
            raise _misfit(avro, arrow, path)
        stream = self._streams(2)
        self._emit(ops.SPAN, stream, int(avro.kind == "bytes"))
        return Decimals(stream, target, avro.size if avro.kind == "fixed" else None)


def _branch(avro: AvroType) -> int | None:
    """The branch of a union's only value, or of the wider of two numbers."""
    kinds = [branch.kind for branch in avro.branches]
    if avro.widened is None:
        return next((index for index, kind in enumerate(kinds) if kind != "null"), None)
    return kinds.index("double" if "double" in kinds else "long")


_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


def _numbers(avro: AvroType, arrow: pa.DataType) -> Callable[[pa.Array], Any] | None:
    """The conversion of a column of numbers; None if it does not fit."""
    is_int = arrow in (pa.int8(), pa.int16(), pa.int32())
    is_plain = arrow_type_of(avro) in (pa.int32(), pa.int64())
    if avro.kind == "boolean" and pa.types.is_boolean(arrow):
        return lambda column: column.cast(pa.uint8()).to_numpy()
    if avro.kind == "float" and arrow == pa.float32():
        return lambda column: column.to_numpy().view(np.int32)
    if avro.kind == "double" and (is_int or arrow in (pa.float32(), pa.float64())):
        return lambda column: column.cast(pa.float64()).to_numpy().view(np.int64)
    if is_plain and (is_int or (arrow == pa.int64() and avro.kind == "long")):
        return lambda column: column.to_numpy()
    if avro.logical == "date" and arrow == pa.date32():
        return lambda column: column.cast(pa.int32()).to_numpy()
    ratio = _ratio(avro, arrow)
    # Times that are too exact are cut, as Spark does: to the one before, also in years before 1970.
    return None if ratio is None else lambda column: column.cast(pa.int64()).to_numpy() // ratio


def _ratio(avro: AvroType, arrow: pa.DataType) -> int | None:
    """Units of a column of times in one unit of the schema; None for another column or schema."""
    name, _, unit = avro.logical.rpartition("-")
    if pa.types.is_time64(arrow):
        fits = name == "time"
    else:
        fits = (
            pa.types.is_timestamp(arrow)
            and arrow.unit == "us"
            and name == ("local-timestamp" if arrow.tz is None else "timestamp")
        )
    per_second = {"millis": 10**3, "micros": 10**6}.get(unit)
    return _PER_SECOND[arrow.unit] // per_second if fits and per_second else None


def _contains(avro: AvroType, records: list[AvroType]) -> bool:
    """True if a field of the type is one of the records, inside of arrays and unions, too."""
    if avro.kind in ("array", "map"):
        return _contains(avro.item_type, records)
    return avro in records or any(_contains(branch, records) for branch in avro.branches)


def _misfit(avro: AvroType, arrow: pa.DataType, path: str) -> OptionError:
    kind = f"{avro.kind} ({avro.logical})" if avro.logical else avro.kind
    advice = "convert the column"
    if avro.logical == "decimal":
        advice = f"cast it to DECIMAL({avro.precision},{avro.scale})"
        kind += f" of {avro.precision} digits, {avro.scale} after the point"
    if avro.has_members:
        advice = "write a struct with a field member0, member1, … for each branch, all null but one"
    elif avro.kind == "map":
        advice = "its keys must be strings"
    elif avro.logical.startswith(("timestamp", "local-timestamp")):
        advice = "cast it to TIMESTAMP_NTZ" if avro.logical.startswith("local") else "cast it to TIMESTAMP"
    return OptionError(
        f"{_named(path)} is of the type {kind}, which a column of {printable(sql_name(arrow))} does not "
        f"fit: {advice}"
    )


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
        present = column if len(rows) == len(column) else column.drop_null()
        self._fitting.feed.put(present, None, streams, lambda index: int(rows[index]))
        values, starts = join_streams(streams.values, self._fitting.stream_count, np.int64)
        inputs = values, starts, streams.content()
        offsets = np.zeros(len(rows) + 1, np.int64)
        self._run(inputs, offsets, np.zeros(1, np.uint8), 0)
        if offsets[-1] > _SIZE_MAX:
            raise LimitError(
                f"a batch takes {offsets[-1]} bytes as Avro, more than {_SIZE_MAX}:"
                " write smaller batches (spark.sql.execution.arrow.maxRecordsPerBatch)"
            )
        out = room(max(1, int(offsets[-1])), np.uint8)
        self._run(inputs, offsets, out, 1)
        sizes = np.zeros(len(column), np.int64)
        sizes[rows] = np.diff(offsets)
        return messages_of(column, np.append(0, np.cumsum(sizes)), pa.py_buffer(out))

    def _run(self, inputs: tuple[Int64s, Int64s, Uint8s], offsets: Int64s, out: Uint8s, writing: int) -> None:
        values, starts, content = inputs
        constants = byte_array(bytes(self._fitting.constants))
        program = self._code, self._table, np.zeros(self._fitting.depth_max + 1, np.int64)
        encode_each(values, starts.copy(), content, constants, *program, offsets, out, writing)
