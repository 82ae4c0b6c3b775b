"""Columns of a log as an Arrow record batch with any subset of the source's schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import LimitError, OptionError
from ..model import TopicPartition
from .columns import Columns
from .limits import VALUE_BYTES_MAX

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
#: ``timestampType`` of a message that has no timestamp, as Spark's own connector has it.
_NO_TIMESTAMP_TYPE: Final = -1

_Builder = Callable[[Columns, TopicPartition], pa.Array]


def to_record_batch(columns: Columns, log: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of ``columns`` with exactly the columns of ``schema``, in its order.

    Known names and types: ``key`` binary (null), ``value`` binary, ``topic`` string, ``partition``
    int32, ``offset`` int64, ``timestamp`` timestamp[us, UTC] (null), ``timestampType`` int32 (-1),
    ``broker`` int32 (null where the log has none), ``index`` int32, ``nextOffset`` int64. Only
    what is asked for is built; offset, index, nextOffset and value share the columns' memory.

    Raises ``OptionError`` for another name or type, ``LimitError`` for a topic column too large
    for Arrow. Both fatal.
    """
    arrays = [_array(columns, log, field) for field in schema]
    if not arrays:
        # A batch without columns still has rows: count() asks for nothing else.
        rows = pa.StructArray.from_buffers(pa.struct([]), columns.count, [None])
        return pa.RecordBatch.from_struct_array(rows)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(columns: Columns, log: TopicPartition, field: pa.Field) -> pa.Array:
    builder = _BUILDERS.get(field.name)
    if builder is None:
        raise OptionError(f"column {field.name} is unknown; known are {', '.join(_BUILDERS)}")
    array = builder(columns, log)
    if array.type != field.type:
        raise OptionError(f"column {field.name} has the type {array.type}, not {field.type}")
    return array


def _value(columns: Columns, _: TopicPartition) -> pa.Array:
    if columns.values is None:
        raise AssertionError("values were not decoded")
    return columns.values


def _topic(columns: Columns, log: TopicPartition) -> pa.Array:
    # Four times faster than pa.repeat, and the same bytes.
    topic, count = log.topic.encode(), columns.count
    if len(topic) * count > VALUE_BYTES_MAX:
        raise LimitError(
            f"{log}: the topic column of {count} rows is above {VALUE_BYTES_MAX} bytes: lower fetchBytes"
        )
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(topic))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(topic * count))


def _int32(count: int, value: int | None) -> pa.Array:
    if value is None:
        return pa.nulls(count, pa.int32())
    return _primitive(np.full(count, value, np.int32))


def _primitive(column: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(column)


_BUILDERS: Final[dict[str, _Builder]] = {
    "key": lambda columns, _: pa.nulls(columns.count, pa.binary()),
    "value": _value,
    "topic": _topic,
    "partition": lambda columns, log: _int32(columns.count, log.partition),
    "offset": lambda columns, _: _primitive(columns.offset),
    "timestamp": lambda columns, _: pa.nulls(columns.count, _TIMESTAMP),
    "timestampType": lambda columns, _: _int32(columns.count, _NO_TIMESTAMP_TYPE),
    "broker": lambda columns, log: _int32(columns.count, log.broker),
    "index": lambda columns, _: _primitive(columns.index),
    "nextOffset": lambda columns, _: _primitive(columns.next_offset),
}
