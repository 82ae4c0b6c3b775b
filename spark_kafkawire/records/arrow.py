"""Columns of a log as an Arrow record batch with any subset of the source's schema.

The column ``_corrupt_record`` has the bytes that could not become a row, and the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from ..errors import LimitError, OptionError
from ..model import TopicPartition
from .arrays import Int32s, Int64s
from .columns import HEADERS, Columns, validity_bitmap
from .limits import VALUE_BYTES_MAX

CORRUPT: Final = "_corrupt_record"
#: Type of the column. The offsets are those that the bytes had: one, or all of a damaged place.
CORRUPT_TYPE: Final = pa.struct(
    [
        ("bytes", pa.binary()),
        ("reason", pa.string()),
        ("schemaId", pa.int32()),
        ("startOffset", pa.int64()),
        ("endOffset", pa.int64()),
    ]
)


def is_corrupt_type(of: pa.DataType) -> bool:
    """True if this type has some of the fields of ``CORRUPT_TYPE``."""
    if not pa.types.is_struct(of) or not of.num_fields:
        return False
    known = {field.name: field.type for field in CORRUPT_TYPE}
    return all(known.get(field.name) == field.type for field in of)


def corrupt_column(columns: Columns, of: pa.DataType) -> pa.Array:
    """The column of these rows, with the fields of a type."""
    return pa.nulls(columns.count, of) if columns.corrupt is None else project(columns.corrupt, of)


def project(corrupt: pa.StructArray, of: pa.DataType) -> pa.Array:
    """The column with the fields of a type that ``is_corrupt_type``."""
    if of == corrupt.type:
        return corrupt
    fields = list(of)
    return pa.StructArray.from_arrays(
        [corrupt.field(field.name) for field in fields], fields=fields, mask=corrupt.is_null()
    )


def make_damaged_row(start_offset: int, stop_offset: int, data: bytes, reason: str) -> Columns:
    """The row of a damaged place, which has these offsets: all its other columns are null."""
    record = {
        "bytes": data,
        "reason": reason,
        "schemaId": None,
        "startOffset": start_offset,
        "endOffset": stop_offset,
    }
    return Columns(
        np.array([start_offset]),
        index=np.zeros(1, np.int32),
        next_offset=np.array([stop_offset]),
        values=pa.nulls(1, pa.binary()),
        corrupt=pa.array([record], CORRUPT_TYPE),
    )


_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
#: ``timestampType`` of a message that has no timestamp, as Spark's own connector has it.
_NO_TIMESTAMP_TYPE: Final = -1
#: ``timestamp`` of a record that has none. Source: RecordBatch.NO_TIMESTAMP.
_NO_TIMESTAMP_MS: Final = -1
#: Largest timestamp whose microseconds fit in int64, year 294247; later ones become this one.
_TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000


class BatchBuilder:
    """Makes record batches of one log, with exactly the columns of ``schema`` in its order.

    Known names and types: ``key`` and ``value`` binary, ``topic`` string, ``partition`` int32,
    ``offset`` int64, ``timestamp`` timestamp[us, UTC], ``timestampType`` int32, ``headers`` as
    ``HEADERS``, ``broker`` int32 (null where the log has none), ``index`` int32, ``nextOffset``
    int64, ``layout`` int32, ``misplaced`` string, ``_corrupt_record`` of ``corrupt.CORRUPT_TYPE`` or some of
    its fields. Columns that the schema does not name are never built. Key,
    headers, timestamp and misplaced are null and timestampType is -1 where the columns have none. Columns of
    values and numbers share the columns' memory; a column that is the same in all rows is built once, and the
    batches share its memory.

    Raises ``OptionError`` (fatal) for another name or type.
    """

    def __init__(self, partition: TopicPartition, schema: pa.Schema) -> None:
        for field in schema:
            _check(field)
        self._partition = partition
        self._schema = schema
        self._constants: dict[str, pa.Array] = {}
        #: The columns of ``Columns`` that the batches need.
        self.wanted = frozenset(schema.names)

    def build(self, columns: Columns) -> pa.RecordBatch:
        """A batch of these rows. Raises ``LimitError`` (fatal) for too many for Arrow."""
        count = columns.count
        if not self._schema.names:
            # A batch without columns still has rows: count() asks for nothing else.
            rows = pa.StructArray.from_buffers(pa.struct([]), count, [None])
            return pa.RecordBatch.from_struct_array(rows)
        arrays = [self._array(name, columns) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, name: str, columns: Columns) -> pa.Array:
        if name == CORRUPT:
            return corrupt_column(columns, self._schema.field(name).type)
        array = _VARYING[name][1](columns) if name in _VARYING else None
        return self._constant(name, columns.count) if array is None else array

    def _constant(self, name: str, count: int) -> pa.Array:
        array = self._constants.get(name)
        if array is None or len(array) < count:
            array = self._constants[name] = _CONSTANT[name][1](self._partition, count)
        return array.slice(0, count)


def _check(field: pa.Field) -> None:
    if field.name == CORRUPT and is_corrupt_type(field.type):
        return
    if field.name not in _CONSTANT and field.name not in _VARYING:
        known = ", ".join([*_CONSTANT, *_VARYING, CORRUPT])
        raise OptionError(f"column {field.name} is unknown; known are {known}")
    own, _ = _CONSTANT.get(field.name) or _VARYING[field.name]
    if own != field.type:
        raise OptionError(f"column {field.name} is {own}: ask for it as that and not as {field.type}")


def _topic(partition: TopicPartition, count: int) -> pa.Array:
    # Four times faster than pa.repeat, and the same bytes.
    topic = partition.topic.encode()
    if len(topic) * count > VALUE_BYTES_MAX:
        raise LimitError(
            f"{partition}: the topic column of {count} rows is above {VALUE_BYTES_MAX} bytes: lower "
            "fetchBytes"
        )
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(topic))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(topic * count))


def _int32(count: int, value: int | None) -> pa.Array:
    return pa.nulls(count, pa.int32()) if value is None else _integers(np.full(count, value, np.int32))


def _integers(column: Int32s | Int64s) -> pa.Array:
    # A fifth of the time of pa.array, which checks for types that cannot occur here, and imports pandas for
    # that.
    arrow_type = pa.int32() if column.itemsize == 4 else pa.int64()
    return pa.Array.from_buffers(arrow_type, len(column), [None, pa.py_buffer(column)])


def _own(column: str) -> Callable[[Columns], pa.Array | None]:
    """The column of that name, or AssertionError where it was not decoded."""

    def build(columns: Columns) -> pa.Array:
        values = getattr(columns, column)
        if values is None:
            raise AssertionError(f"{column} was not decoded")
        return values if isinstance(values, pa.Array) else _integers(values)

    return build


def _timestamp(columns: Columns) -> pa.Array | None:
    ms = columns.timestamps_ms
    if ms is None:
        return None
    valid = None
    if len(ms) and not 0 <= ms.min() <= ms.max() <= _TIMESTAMP_MS_MAX:
        valid = ms != _NO_TIMESTAMP_MS
        ms = np.clip(ms, -_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX)
    return pa.Array.from_buffers(_TIMESTAMP, len(ms), [validity_bitmap(valid), pa.py_buffer(ms * 1000)])


def _timestamp_type(columns: Columns) -> pa.Array | None:
    return None if columns.timestamp_types is None else _integers(columns.timestamp_types)


_STRING, _BINARY, _INT, _LONG = pa.string(), pa.binary(), pa.int32(), pa.int64()
#: Columns with one value in all rows of a partition, and the value of other columns if it is the same in all
#: rows: a type, and the function that builds the column.
_CONSTANT: Final[dict[str, tuple[pa.DataType, Callable[[TopicPartition, int], pa.Array]]]] = {
    "key": (_BINARY, lambda _, count: pa.nulls(count, _BINARY)),
    "topic": (_STRING, _topic),
    "partition": (_INT, lambda tp, count: _int32(count, tp.partition)),
    "timestamp": (_TIMESTAMP, lambda _, count: pa.nulls(count, _TIMESTAMP)),
    "timestampType": (_INT, lambda _, count: _int32(count, _NO_TIMESTAMP_TYPE)),
    "headers": (HEADERS, lambda _, count: pa.nulls(count, HEADERS)),
    "broker": (_INT, lambda tp, count: _int32(count, tp.broker)),
    "misplaced": (_STRING, lambda _, count: pa.nulls(count, _STRING)),
}
#: The other columns; None if all rows are the same.
_VARYING: Final[dict[str, tuple[pa.DataType, Callable[[Columns], pa.Array | None]]]] = {
    "key": (_BINARY, lambda columns: columns.keys),
    "value": (_BINARY, _own("values")),
    "offset": (_LONG, _own("offset")),
    "timestamp": (_TIMESTAMP, _timestamp),
    "timestampType": (_INT, _timestamp_type),
    "headers": (HEADERS, lambda columns: columns.headers),
    "index": (_INT, _own("index")),
    "nextOffset": (_LONG, _own("next_offset")),
    "layout": (_INT, _own("layouts")),
    "misplaced": (_STRING, lambda columns: columns.misplaced),
}
