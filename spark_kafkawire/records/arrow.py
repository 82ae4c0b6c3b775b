"""Columns of a log as an Arrow record batch with any subset of the source's schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec

import numpy as np
import pyarrow as pa

from ..errors import LimitError, OptionError
from ..model import TopicPartition
from .columns import Columns
from .limits import VALUE_BYTES_MAX

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
#: ``timestampType`` of a message that has no timestamp, as Spark's own connector has it.
_NO_TIMESTAMP_TYPE: Final = -1

P = ParamSpec("P")


class BatchBuilder:
    """Makes record batches of one log, with exactly the columns of ``schema`` in its order.

    Known names and types: ``key`` binary (null), ``value`` binary, ``topic`` string, ``partition``
    int32, ``offset`` int64, ``timestamp`` timestamp[us, UTC] (null), ``timestampType`` int32 (-1),
    ``broker`` int32 (null where the log has none), ``index`` int32, ``nextOffset`` int64. Only
    what is asked for is built. Offset, index, nextOffset and value share the columns' memory; a
    column that is the same in all rows is built once, and the batches share its memory.

    Raises ``OptionError`` (fatal) for another name or type.
    """

    def __init__(self, log: TopicPartition, schema: pa.Schema) -> None:
        for field in schema:
            _check(field)
        self._log = log
        self._schema = schema
        self._constants: dict[str, pa.Array] = {}
        self._constants_count = -1

    def build(self, columns: Columns) -> pa.RecordBatch:
        """A batch of these rows. Raises ``LimitError`` (fatal) for too many for Arrow."""
        count = columns.count
        if not self._schema.names:
            # A batch without columns still has rows: count() asks for nothing else.
            rows = pa.StructArray.from_buffers(pa.struct([]), count, [None])
            return pa.RecordBatch.from_struct_array(rows)
        if count > self._constants_count:
            names = [name for name in self._schema.names if name in _CONSTANT]
            self._constants = {name: _CONSTANT[name].build(self._log, count) for name in names}
            self._constants_count = count
        arrays = [
            self._constants[name].slice(0, count)
            if name in self._constants
            else _VARYING[name].build(columns)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _check(field: pa.Field) -> None:
    column: _Column[Any] | None = _CONSTANT.get(field.name) or _VARYING.get(field.name)
    if column is None:
        known = ", ".join((*_CONSTANT, *_VARYING))
        raise OptionError(f"column {field.name} is unknown; known are {known}")
    if column.type != field.type:
        raise OptionError(f"column {field.name} has the type {column.type}, not {field.type}")


def _topic(log: TopicPartition, count: int) -> pa.Array:
    # Four times faster than pa.repeat, and the same bytes.
    topic = log.topic.encode()
    if len(topic) * count > VALUE_BYTES_MAX:
        raise LimitError(
            f"{log}: the topic column of {count} rows is above {VALUE_BYTES_MAX} bytes: lower fetchBytes"
        )
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(topic))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(topic * count))


def _int32(count: int, value: int | None) -> pa.Array:
    return pa.nulls(count, pa.int32()) if value is None else pa.array(np.full(count, value, np.int32))


def _value(columns: Columns) -> pa.Array:
    if columns.values is None:
        raise AssertionError("values were not decoded")
    return columns.values


@dataclass(frozen=True, slots=True)
class _Column(Generic[P]):
    """An Arrow type, and how a column of it is built."""

    type: pa.DataType
    build: Callable[P, pa.Array]


#: Columns that are the same in all rows of a log.
_CONSTANT: Final[dict[str, _Column[[TopicPartition, int]]]] = {
    "key": _Column(pa.binary(), lambda _, count: pa.nulls(count, pa.binary())),
    "topic": _Column(pa.string(), _topic),
    "partition": _Column(pa.int32(), lambda log, count: _int32(count, log.partition)),
    "timestamp": _Column(_TIMESTAMP, lambda _, count: pa.nulls(count, _TIMESTAMP)),
    "timestampType": _Column(pa.int32(), lambda _, count: _int32(count, _NO_TIMESTAMP_TYPE)),
    "broker": _Column(pa.int32(), lambda log, count: _int32(count, log.broker)),
}
_VARYING: Final[dict[str, _Column[[Columns]]]] = {
    "value": _Column(pa.binary(), _value),
    "offset": _Column(pa.int64(), lambda columns: pa.array(columns.offset)),
    "index": _Column(pa.int32(), lambda columns: pa.array(columns.index)),
    "nextOffset": _Column(pa.int64(), lambda columns: pa.array(columns.next_offset)),
}
