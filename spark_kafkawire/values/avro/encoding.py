"""Encoding of Arrow columns to Avro messages, without frames.

The columns are fitted to a schema: a program of ``encoding_kernels``, and the ``feeds`` of its streams. The
program runs twice: the first run counts the bytes of each row, the second one writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import LimitError, OptionError, printable, quoted
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array, room
from spark_kafkawire.records.compiler import expect

from ..type_names import sql_name
from . import encoding_kernels as ops
from . import feeds
from .encoding_kernels import encode_each
from .feeds import SIZE_MAX, Streams
from .schema import (
    RECURSION_DEPTH,
    AvroField,
    AvroType,
    Schema,
    arrow_type_of,
    default_of,
    encoded,
    encoded_integer,
)

#: Bytes of all defaults: in a hostile schema each level doubles them.
_CONSTANTS_MAX: Final = 1 << 22
_PER_SECOND: Final = {"us": 10**6, "ns": 10**9}


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

    def _value(self, avro: AvroType, arrow: pa.DataType, path: str) -> feeds.Feed:
        if avro.kind == "union":
            return self._union(avro, arrow, path)
        if avro.kind == "null" and pa.types.is_null(arrow):
            return feeds.Nothing()
        return feeds.Nullable(self._present(avro, arrow, path), path)

    def _union(self, avro: AvroType, arrow: pa.DataType, path: str) -> feeds.Feed:
        kinds = [branch.kind for branch in avro.branches]
        null = kinds.index("null") if "null" in kinds else None
        if pa.types.is_null(arrow) and null is not None:
            self._constant(encoded_integer(null))
            return feeds.Nothing()
        if avro.has_members:
            return self._members(avro, arrow, null, path)
        value = _branch(avro)
        if value is None:
            raise _misfit(avro, arrow, path)
        stream, place = self._streams(), len(self.table)
        self.table += [0] * len(kinds)
        self._emit(ops.CHOICE, stream, place)
        self.table[place + value] = self._pc
        inner = self._present(avro.read_as(avro.branches[value]), arrow, path)
        if null is None:
            return feeds.Nullable(inner, path, stream, None, value)
        self.table[place + null] = self._pc
        return feeds.Nullable(inner, path, stream, null, value)

    def _members(self, avro: AvroType, arrow: pa.DataType, null: int | None, path: str) -> feeds.Feed:
        values = {f"member{index}": each for index, each in enumerate(avro.values)}
        if not pa.types.is_struct(arrow):
            raise _misfit(avro, arrow, path)
        self._refuse_columns(arrow, values, path)
        stream, place = self._streams(), len(self.table)
        self.table += [0] * len(avro.branches)
        self._emit(ops.CHOICE, stream, place)
        members, jumps = [], []
        for index, column in enumerate(arrow):
            branch = avro.branches.index(values[column.name])
            self.table[place + branch] = self._pc
            inner = self._present(values[column.name], column.type, _inside(path, column.name))
            members.append((index, branch, inner))
            jumps.append(self._emit(ops.JUMP))
        for jump in jumps:
            self._aim(jump)
        if null is not None:
            self.table[place + null] = self._pc
        return feeds.Members(path, stream, tuple(members), null)

    def _present(self, avro: AvroType, arrow: pa.DataType, path: str) -> feeds.Feed:
        """A value that is not null, of a type that is no union."""
        if avro.kind == "record" and pa.types.is_struct(arrow):
            return self._record(avro, arrow, path)
        if avro.kind == "array" and (pa.types.is_list(arrow) or pa.types.is_large_list(arrow)):
            return self._items(avro, (arrow.value_type,), path)
        if avro.kind == "map" and pa.types.is_map(arrow) and _is_text(arrow.key_type):
            return self._items(avro, (arrow.key_type, arrow.item_type), path)
        return self._leaf(avro, arrow, path)

    def _record(self, avro: AvroType, arrow: pa.DataType, path: str) -> feeds.Feed:
        names = {each.name: each for each in avro.fields}
        self._refuse_columns(arrow, names, path)
        indexes = {column.name: index for index, column in enumerate(arrow)}
        inner: list[tuple[int, feeds.Feed]] = []
        endless = None
        self._open.append(avro)
        for each in avro.fields:
            inside = _inside(path, each.name)
            if each.name in indexes:
                index = indexes[each.name]
                inner.append((index, self._value(each.type, arrow.field(index).type, inside)))
            elif not self._missing(each, inside):
                endless = inside
        self._open.pop()
        return feeds.Struct(tuple(inner), endless)

    def _missing(self, each: AvroField, path: str) -> bool:
        """A field without a column: its default, or nothing where its record contains itself too often for a
        column. Returns False where nothing cannot be written."""
        if each.has_default:
            self._constant(encoded(default_of(each.default, each.type, path), each.type))
        elif not _contains(each.type, [of for of in self._open if self._open.count(of) >= RECURSION_DEPTH]):
            raise OptionError(
                f"{feeds.named(path)} has no column and no default: add a column to the DataFrame"
            )
        elif each.type.kind in ("array", "map"):
            self._constant(b"\0")
        elif each.type.has_null:
            kinds = [branch.kind for branch in each.type.branches]
            self._constant(encoded_integer(kinds.index("null")))
        else:
            return False
        return True

    def _items(self, avro: AvroType, arrows: tuple[pa.DataType, ...], path: str) -> feeds.Feed:
        stream = self._streams()
        opened = self._emit(ops.OPEN, stream)
        loop = self._pc
        self.depth_max += 1
        inner: list[feeds.Feed] = []
        if avro.kind == "map":
            key = self._leaf(AvroType("string"), arrows[0], path)
            inner.append(feeds.Nullable(key, path))
        inner.append(self._value(avro.item_type, arrows[-1], path))
        self._emit(ops.NEXT, 0, loop)
        self._aim(opened)
        return feeds.Items(stream, tuple(inner))

    def _refuse_columns(self, arrow: pa.DataType, known: Any, path: str) -> None:
        seen = set()
        for column in arrow:
            if column.name not in known or column.name in seen:
                what = "is not in the Avro schema: drop it, or add it to the schema"
                if column.name in seen:
                    what = "is there twice: rename one"
                raise OptionError(f"the column {quoted(_inside(path, column.name))} {what}")
            seen.add(column.name)

    # Leaves

    def _leaf(self, avro: AvroType, arrow: pa.DataType, path: str) -> feeds.Feed:
        if avro.kind == "enum" and _is_text(arrow):
            stream = self._streams()
            self._emit(ops.INTEGER, stream)
            return feeds.Symbols(path, stream, avro.symbols)
        if avro.logical == "decimal":
            return self._decimal(avro, arrow, path)
        if avro.kind == "fixed" and _is_binary(arrow):
            stream = self._streams(2)
            self._emit(ops.SPAN, stream)
            return feeds.Spans(path, stream, avro.size)
        if (avro.kind == "string" and _is_text(arrow)) or (avro.kind == "bytes" and _is_binary(arrow)):
            stream = self._streams(2)
            self._emit(ops.SPAN, stream, 1)
            return feeds.Spans(path, stream)
        numbers = _numbers(avro, arrow)
        if numbers is None:
            raise _misfit(avro, arrow, path)
        stream = self._streams()
        size = _SIZES.get(avro.kind)
        self._emit(ops.INTEGER if size is None else ops.RAW, stream, size or 0)
        return feeds.Numbers(stream, numbers)

    def _decimal(self, avro: AvroType, arrow: pa.DataType, path: str) -> feeds.Feed:
        target = arrow_type_of(avro)
        if (
            not pa.types.is_decimal(arrow)
            or arrow.scale > target.scale
            or arrow.precision - arrow.scale > target.precision - target.scale
        ):
            raise _misfit(avro, arrow, path)
        stream = self._streams(2)
        self._emit(ops.SPAN, stream, int(avro.kind == "bytes"))
        return feeds.Decimals(stream, target, avro.size if avro.kind == "fixed" else None)


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


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def _is_binary(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


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
        f"{feeds.named(path)} is of the type {kind}, which a column of {printable(sql_name(arrow))} does not "
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
