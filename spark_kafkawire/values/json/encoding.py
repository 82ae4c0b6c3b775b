"""Encoding of columns as JSON, as Spark's ``to_json`` writes it: compact, and without fields that are null.

Whole columns become texts, and texts of fields are joined. Timestamps have six digits of a second and are in
UTC, where Spark would cut them to three; NaN and Infinity are refused, where Spark writes strings.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.errors import OptionError, RowError, printable, quote
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array

from ..column_types import inside, is_binary, is_list, is_text, sql_name
from ..feeds import find_broken, is_valid
from .schema import ANY, JsonType, Schema

_CONTROLS: Final = 32
_DAY_US: Final = 86_400_000_000
#: Days from 1970 to the years 1 and 10000.
_FIRST_DAY, _STOP_DAY = -719_162, 2_932_897
_UTC: Final = pa.timestamp("us", tz="UTC")


class Encoder:
    """Encoder of a column to messages of one schema.

    Raises ``OptionError`` (fatal) for columns that the schema does not have, or that cannot be of its types,
    and for required properties without a column.
    """

    def __init__(self, schema: Schema, arrow_type: pa.DataType) -> None:
        self._root = schema.root
        _check(schema.root, arrow_type, "")

    def encode(self, column: pa.Array) -> pa.BinaryArray:
        """A message for each row, null for a null. ``column`` has the type that was checked.

        Raises ``RowError`` (fatal) that names the row, counted from 0, and the field that does not fit.
        """
        rows = np.arange(len(column), dtype=np.int64)
        return _Texts().of(column, self._root, "", rows).cast(pa.binary())


def _named(path: str) -> str:
    return f"the field {printable(path)}" if path else "the value"


def _check(of: JsonType, column: pa.DataType, path: str) -> None:
    """Raise ``OptionError`` (fatal) if no column of this type fits the schema."""
    if pa.types.is_struct(column) and of.kind in ("object", "map", "any"):
        _check_fields(of, column, path)
    elif pa.types.is_map(column) and of.kind in ("map", "any"):
        if not is_text(column.key_type):
            raise OptionError(
                f"{_named(path)}: keys of a JSON object are strings, not "
                f"{sql_name(column.key_type)}: cast them to STRING"
            )
        _check(of.item_type, column.item_type, path)
    elif is_list(column) and of.kind in ("array", "any"):
        _check(of.item_type, column.value_type, path)
    elif pa.types.is_null(column):
        if not of.nullable:
            raise OptionError(f"{_named(path)} is always null, which the JSON schema does not allow: fill it")
    elif not _fits(of, column):
        known = f"{of.kind} ({of.logical})" if of.logical else of.kind
        raise OptionError(
            f"{_named(path)} is {sql_name(column)}, and the JSON schema has {known}: "
            "convert the column, or change the schema"
        )


def _check_fields(of: JsonType, column: pa.DataType, path: str) -> None:
    names = [item.name for item in column]
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"{_named(path)} has the field {quote(twice[0])} twice: rename one")
    for item in column:
        location = inside(path, item.name)
        if of.kind == "object" and item.name not in of.fields:
            raise OptionError(
                f"the JSON schema has no property {quote(location)}: drop the column, or change the schema"
            )
        _check(of.fields.get(item.name, of.item_type), item.type, location)
    missing = sorted(of.required - set(names))
    if missing:
        location = inside(path, missing[0])
        raise OptionError(
            f"the JSON schema requires the property {quote(location)}, for which there is no column: add one"
        )


def _fits(of: JsonType, column: pa.DataType) -> bool:
    is_integer = pa.types.is_signed_integer(column)
    is_decimal = pa.types.is_decimal(column)
    if of.logical:
        fits: dict[str, Callable[[Any], bool]] = {
            "timestamp": lambda _: pa.types.is_timestamp(column) and column.tz is not None,
            "date": pa.types.is_date32,
            "bytes": is_binary,
            "decimal": lambda _: is_integer or (is_decimal and column.scale <= of.scale),
        }
        return fits[of.logical](column)
    is_number = is_integer or is_decimal or column in (pa.float32(), pa.float64())
    is_time = pa.types.is_timestamp(column) or pa.types.is_date32(column)
    is_string = is_text(column) or is_binary(column) or is_time
    if of.kind == "integer":
        return bool(is_integer or (is_decimal and column.scale <= 0))
    kinds = {"number": is_number, "boolean": pa.types.is_boolean(column), "string": is_string}
    return any(kinds.values()) if of.kind == "any" else kinds.get(of.kind, False)


def _refuse(is_bad: npt.NDArray[np.bool_], rows: Int64s, path: str, reason: str) -> None:
    """Raise ``RowError`` (fatal) for the first of the rows that are bad."""
    if is_bad.any():
        raise RowError(f"row {rows[int(np.argmax(is_bad))]}: {_named(path)} {reason}; correct the value")


class _Texts:
    """Columns as texts of JSON: null where the column is null."""

    def of(self, column: pa.Array, of: JsonType, path: str, rows: Int64s) -> pa.Array:
        if pa.types.is_struct(column.type):
            return self._struct(column, of, path, rows)
        if pa.types.is_map(column.type):
            return self._map(column, of, path, rows)
        if is_list(column.type):
            return self._list(column, of, path, rows)
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.string())
        if is_text(column.type):
            return _quote(_check_strings(column.cast(pa.string()), of, path, rows))
        if is_binary(column.type):
            return _join('"', _base64(column.cast(pa.binary())), '"')
        if pa.types.is_timestamp(column.type) or pa.types.is_date32(column.type):
            return _times(column, of, path, rows)
        if pa.types.is_floating(column.type):
            finite = pc.fill_null(pc.is_finite(column), True).to_numpy(zero_copy_only=False)
            _refuse(~finite, rows, path, "is NaN or infinite, which JSON does not have")
        return column.cast(pa.string())

    def _struct(self, column: pa.Array, of: JsonType, path: str, rows: Int64s) -> pa.Array:
        is_there = column.is_valid().to_numpy(zero_copy_only=False)
        pieces = []
        for field, values in zip(column.type, column.flatten(), strict=True):
            location = inside(path, field.name)
            given = of.fields.get(field.name, of.item_type)
            is_null = values.is_null().to_numpy(zero_copy_only=False) & is_there
            text = self.of(values, given, location, rows)
            if field.name in of.required:
                if not given.nullable:
                    _refuse(is_null, rows, location, "is null, and the JSON schema requires it")
                text = text.fill_null("null")
            pieces.append(_join(f",{json.dumps(field.name, ensure_ascii=False)}:", text))
        if not pieces:
            return _null_like(column, pa.array(["{}"] * len(column), pa.string()))
        # Arrow's null_handling="skip" loses rows in which all fields are null.
        members = pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
        return _null_like(column, _join(pc.binary_replace_slice(members, 0, 1, "{"), "}"))

    def _list(self, column: pa.Array, of: JsonType, path: str, rows: Int64s) -> pa.Array:
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        texts = self._items(column.flatten(), of.item_type, path, np.repeat(rows, sizes))
        return _null_like(column, _join("[", _group_texts(texts, sizes), "]"))

    def _map(self, column: pa.Array, of: JsonType, path: str, rows: Int64s) -> pa.Array:
        pairs = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        entries = pa.Array.from_buffers(
            pa.list_(pairs.type), len(column), column.buffers()[:2], offset=column.offset, children=[pairs]
        )
        sizes = pc.fill_null(pc.list_value_length(entries), 0).to_numpy().astype(np.int64)
        keys, values = entries.flatten().flatten()
        inner = np.repeat(rows, sizes)
        keys = _quote(_check_strings(keys.cast(pa.string()), ANY, path, inner))
        texts = _join(_join(keys, ":"), self._items(values, of.item_type, path, inner))
        return _null_like(column, _join("{", _group_texts(texts, sizes), "}"))

    def _items(self, values: pa.Array, of: JsonType, path: str, rows: Int64s) -> pa.Array:
        """Items of arrays and maps, which are never left out."""
        if not of.nullable:
            is_null = values.is_null().to_numpy(zero_copy_only=False)
            _refuse(is_null, rows, path, "has a null, which the JSON schema does not allow")
        return self.of(values, of, path, rows).fill_null("null")


def _join(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _null_like(column: pa.Array, texts: pa.Array) -> pa.Array:
    return texts if column.null_count == 0 else pc.if_else(column.is_valid(), texts, None)


def _group_texts(texts: pa.Array, sizes: Int64s) -> pa.Array:
    """Texts of items, joined by commas for each of their lists."""
    lists = pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes)), pa.int32()), texts)
    return pc.binary_join(lists, ",")


def _check_strings(column: pa.Array, of: JsonType, path: str, rows: Int64s) -> pa.Array:
    """The strings, if all are UTF-8, which Spark does not promise, and of the schema's enum."""
    if not is_valid(column):
        _refuse(find_broken(column), rows, path, "is not UTF-8")
    if of.symbols:
        is_known = pc.or_(pc.is_in(column, value_set=pa.array(of.symbols)), pc.is_null(column))
        _refuse(~is_known.to_numpy(zero_copy_only=False), rows, path, "is not in the JSON schema's enum")
    return column


def _bytes_of(column: pa.Array) -> tuple[Uint8s, Int64s]:
    """The content of strings or of binary values, and their offsets, which may begin after 0."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return byte_array(data if data is not None else b""), bounds.astype(np.int64)


def _quote(column: pa.Array) -> pa.Array:
    if len(column):
        data, bounds = _bytes_of(column)
        content = data[bounds[0] : bounds[-1]]
        if (content == ord("\\")).any():
            column = pc.replace_substring(column, "\\", "\\\\")
        if (content == ord('"')).any():
            column = pc.replace_substring(column, '"', '\\"')
        for code in np.unique(content[content < _CONTROLS]).tolist():
            column = pc.replace_substring(column, chr(code), json.dumps(chr(code))[1:-1])
    return _join('"', column, '"')


def _base64(column: pa.Array) -> pa.Array:
    """Base64 of each value: of all at once, each filled up with zeros to a multiple of three bytes."""
    if not len(column):
        return pa.array([], pa.string())
    data, bounds = _bytes_of(column)
    sizes = np.diff(bounds)
    lengths = (sizes + 2) // 3 * 3
    starts = np.append(0, np.cumsum(lengths))
    content = np.zeros(int(starts[-1]), np.uint8)
    content[np.repeat(starts[:-1] - bounds[:-1], sizes) + np.arange(bounds[0], bounds[-1])] = data[
        bounds[0] : bounds[-1]
    ]
    text = np.frombuffer(binascii.b2a_base64(content.data, newline=False), np.uint8).copy()
    ends = starts[1:] // 3 * 4
    text[ends[lengths - sizes >= 1] - 1] = ord("=")
    text[ends[lengths - sizes == 2] - 2] = ord("=")
    offsets = pa.py_buffer((starts // 3 * 4).astype(np.int32))
    texts = pa.Array.from_buffers(pa.string(), len(column), [None, offsets, pa.py_buffer(text)])
    return _null_like(column, texts)


def _times(column: pa.Array, of: JsonType, path: str, rows: Int64s) -> pa.Array:
    is_date = pa.types.is_date32(column.type)
    if not is_date:
        column = column.cast(_UTC if column.type.tz is not None else pa.timestamp("us"))
    numbers = pc.fill_null(column.cast(pa.int32() if is_date else pa.int64()), 0).to_numpy()
    if of.kind == "integer":
        integers = pa.array(numbers if is_date else numbers // 1000)
        return _null_like(column, integers.cast(pa.string()))
    unit = 1 if is_date else _DAY_US
    is_bad = (numbers < _FIRST_DAY * unit) | (numbers >= _STOP_DAY * unit)
    _refuse(is_bad, rows, path, "is outside of the years 1 to 9999")
    texts = column.cast(pa.string())
    return _join('"', texts if is_date else pc.replace_substring(texts, " ", "T"), '"')
