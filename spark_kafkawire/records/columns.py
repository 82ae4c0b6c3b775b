"""Rows of a log as columns over buffers, no Python object per message, and headers of records as an Arrow
array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import OptionError
from .arrays import Int32s, Int64s, Uint8s


@dataclass(frozen=True, slots=True)
class Columns:
    """Messages in log order, one row each. All columns own their memory.

    ``offset`` (int64) is the record's offset, in 0.7 that of the outermost message. Only 0.7 has
    ``index`` (int32), the place inside a compressed message, and ``next_offset`` (int64), the
    offset after the outermost one. The other columns are None if they were not requested. ``keys`` (binary)
    and ``headers`` (list<struct<key: string, value: binary>>) are also None if all are null, and
    ``timestamps_ms`` (int64, -1 for none) and ``timestamp_types`` (int32, 0 CreateTime, 1 LogAppendTime) if
    no row has any. ``corrupt`` is not None for rows that could not become others: ``corrupt.CORRUPT_TYPE``.
    ``layouts`` (int32) and ``misplaced`` (string, None where all are null) are not decoded:
    the reader adds them.
    """

    offset: Int64s
    index: Int32s | None = None
    next_offset: Int64s | None = None
    values: pa.BinaryArray | None = None
    keys: pa.BinaryArray | None = None
    headers: pa.ListArray | None = None
    timestamps_ms: Int64s | None = None
    timestamp_types: Int32s | None = None
    layouts: Int32s | None = None
    misplaced: pa.StringArray | None = None
    corrupt: pa.StructArray | None = None

    @property
    def count(self) -> int:
        return len(self.offset)


def check_spans(offsets: npt.NDArray[Any], size: int) -> None:
    """Refuse value offsets that run backwards or leave a buffer of ``size`` bytes."""
    if offsets[0] < 0 or offsets[-1] > size or (offsets[1:] < offsets[:-1]).any():
        raise AssertionError(f"value offsets leave their buffer of {size} bytes")


def binary_array(data: Uint8s, offsets: Int32s, valid: npt.NDArray[np.bool_] | None = None) -> pa.BinaryArray:
    """An Arrow array over ``data`` without a copy; row ``i`` is ``[offsets[i], offsets[i + 1])``.

    Rows that are not ``valid`` are null; without it no row is. Arrow trusts its input, so the spans are
    checked here.
    """
    check_spans(offsets, len(data))
    buffers = [validity_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def validity_bitmap(valid: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    """Arrow's bitmap of the rows that are not null; None if no row is null."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


#: One header.
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: A record's headers in order, as Spark's own connector has them: null, not empty, for none.
HEADERS: Final = pa.list_(HEADER)


def header_counts(headers: pa.Array | None) -> Int64s:
    """The number of headers of each row; empty without headers. Raises ``OptionError`` (fatal)."""
    return np.empty(0, np.int64) if headers is None else _counts(_cast(headers))


def header_pairs(headers: pa.Array) -> tuple[pa.StructArray, Int64s]:
    """All headers one after the other, and where those of each row begin; one more for the end.

    Raises ``OptionError`` (fatal) for another type than ``HEADERS``.
    """
    array = _cast(headers)
    return array.flatten(), np.append(0, np.cumsum(_counts(array)))


def header_lists(headers: pa.Array) -> pa.Array:
    """Headers to write as lists of pairs; those of a map share its memory, but for texts as values."""
    if not pa.types.is_map(headers.type):
        return headers
    keys, values = headers.keys, headers.items
    values = values.cast(pa.binary()) if pa.types.is_string(values.type) else values
    values = values.cast(pa.large_binary()) if pa.types.is_large_string(values.type) else values
    pairs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    buffers, offset = headers.buffers()[:2], headers.offset
    return pa.ListArray.from_buffers(
        pa.list_(pairs.type), len(headers), buffers, headers.null_count, offset, children=[pairs]
    )


def _counts(headers: pa.ListArray) -> Int64s:
    return np.array(headers.value_lengths().fill_null(0), np.int64)


def _cast(headers: pa.Array) -> pa.ListArray:
    try:
        return headers.cast(HEADERS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise OptionError(f"headers have the type {HEADERS}, not {headers.type}: cast them") from error
