"""Headers of records, from their bytes to an Arrow array and back.

    key size | key (UTF-8) | value size (-1 for null) | value

Sizes are zigzag varints. Source: Apache Kafka's DefaultRecord.java; KIP-82. The rules of the kernels are
those of ``compiler.Kernel``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import RowError

from ..arrays import Int32s, Uint8s, byte_array
from ..columns import HEADER, HEADERS, header_pairs, validity_bitmap
from ..compiler import BYTES, kernel
from ..log_index import BAD_RECORD, END
from ..native import copy
from ..rows import Column
from ..spans import gather_binary, room_for, size_at
from .varints import varint, varint_size, write_varint


@kernel(
    f"UniTuple(int64, 5)({BYTES}, int32[::1], int32[::1], int32[::1],"
    " int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])"
)
def read_headers(
    buf: Any,
    starts: Any,
    stops: Any,
    counts: Any,
    key_starts: Any,
    key_sizes: Any,
    value_starts: Any,
    value_sizes: Any,
    offsets: Any,
) -> tuple[int, int, int, int, int]:
    """Index the headers of all rows, which lie in ``[starts[i], stops[i])``; check all of them.

    Fills one key and one value for each header, null values with the size -1, and ``offsets``:
    the first header of each row, one more for the end.
    Returns ``(code, row, key_bytes, value_bytes, null_values)``: the row where it stopped, and sums.
    """
    header = key_bytes = value_bytes = null_values = 0
    offsets[0] = 0
    for row in range(len(starts)):
        pos = int(starts[row])
        stop = stops[row]
        for _ in range(counts[row]):
            key_size, pos = varint(buf, pos, stop)
            key_start = pos
            pos += max(key_size, 0)
            value_size, pos = varint(buf, pos, stop)
            if pos > stop or key_size < 0 or value_size < -1:
                return BAD_RECORD, row, key_bytes, value_bytes, null_values
            key_starts[header] = key_start
            key_sizes[header] = key_size
            value_starts[header] = pos
            value_sizes[header] = value_size
            pos += max(value_size, 0)
            key_bytes += key_size
            value_bytes += max(value_size, 0)
            null_values += value_size < 0
            header += 1
        if pos != stop:
            return BAD_RECORD, row, key_bytes, value_bytes, null_values
        offsets[row + 1] = header
    return END, 0, key_bytes, value_bytes, null_values


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1])")
def size_headers(offsets: Any, key_sizes: Any, value_sizes: Any, sizes: Any) -> None:
    """The bytes of each row's headers, their count included; ``offsets`` are where its headers begin."""
    for row in range(len(sizes)):
        first = offsets[row]
        stop = offsets[row + 1]
        size = varint_size(stop - first)
        for header in range(first, stop):
            key_size = size_at(key_sizes, header)
            value_size = size_at(value_sizes, header)
            size += varint_size(key_size) + key_size + varint_size(value_size) + max(value_size, 0)
        sizes[row] = size


@kernel(f"void(int64[::1], {BYTES}, int64[::1], int64[::1], {BYTES}, int64[::1], int64[::1], uint8[::1])")
def write_headers(
    offsets: Any,
    keys: Any,
    key_starts: Any,
    key_sizes: Any,
    values: Any,
    value_starts: Any,
    value_sizes: Any,
    out: Any,
) -> None:
    """Write the headers of all rows one after the other into ``out``, each row's count before them."""
    pos = 0
    for row in range(len(offsets) - 1):
        first = offsets[row]
        stop = offsets[row + 1]
        pos = write_varint(out, pos, stop - first)
        for header in range(first, stop):
            key_size = size_at(key_sizes, header)
            pos = write_varint(out, pos, key_size)
            if key_size > 0:
                copy(out, pos, keys, key_starts[header], key_size)
                pos += key_size
            value_size = size_at(value_sizes, header)
            pos = write_varint(out, pos, value_size)
            if value_size > 0:
                copy(out, pos, values, value_starts[header], value_size)
                pos += value_size


class BadHeaders(Exception):
    """The headers of ``row`` are damaged. Internal to the package: the caller adds the place."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def decode_headers(buf: Uint8s, starts: Int32s, stops: Int32s, counts: Int32s, total: int) -> pa.ListArray:
    """The headers of each row, null where it has none; ``total`` is the sum of ``counts``.

    Row ``i`` has ``counts[i]`` headers in ``[starts[i], stops[i])``, which the caller has checked to
    lie in ``buf``, with two bytes for each header. Raises ``BadHeaders``.
    """
    keys, values = room_for(total), room_for(total)
    offsets = np.empty(len(starts) + 1, np.int32)
    code, row, key_bytes, value_bytes, nulls = read_headers(
        buf, starts, stops, counts, *keys, *values, offsets
    )
    if code != END:
        raise BadHeaders(row, "the sizes of a record's headers do not add up")
    pairs = pa.StructArray.from_arrays(
        [
            _strings(gather_binary(buf, keys, key_bytes, 0), offsets),
            gather_binary(buf, values, value_bytes, nulls),
        ],
        fields=list(HEADER),
    )
    validity = validity_bitmap(counts > 0)
    return pa.ListArray.from_buffers(
        HEADERS, len(starts), [validity, pa.py_buffer(offsets)], children=[pairs]
    )


def _strings(keys: pa.BinaryArray, offsets: Int32s) -> pa.StringArray:
    """The keys as strings. Arrow trusts that strings are UTF-8, so that is checked here."""
    data = np.frombuffer(keys.buffers()[2], np.uint8)
    strings = keys.view(pa.string())
    if len(data) and data.max() >= 0x80 and not _is_utf8(strings):
        row = int(np.searchsorted(offsets, _first_bad(strings), "right")) - 1
        raise BadHeaders(row, "the key of a header is not UTF-8")
    return strings


def _first_bad(strings: pa.StringArray) -> int:
    """The first of some strings that is not UTF-8: by halves, for there may be millions."""
    start, stop = 0, len(strings)
    while stop - start > 1:
        middle = (start + stop) // 2
        if _is_utf8(strings[start:middle]):
            start = middle
        else:
            stop = middle
    return start


def _is_utf8(strings: pa.StringArray) -> bool:
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def encode_headers(headers: pa.Array | None) -> Column:
    """The encoded headers of each row, their count before them.

    Raises ``OptionError`` for another type than ``HEADERS``, ``RowError`` for a header without a key.
    """
    if headers is None or headers.null_count == len(headers):
        return Column.of(None, "headers")
    pairs, offsets = header_pairs(headers)
    keys, values = pairs.field("key"), pairs.field("value")
    bad = _is_null(pairs) | _is_null(keys)
    if bad.any():
        row = int(np.searchsorted(offsets, int(np.argmax(bad)), "right")) - 1
        raise RowError(f"row {row}: a header has no key; drop the header, or name it")
    key_column, value_column = Column.of(keys, "a header's key"), Column.of(values, "its value")
    sizes = np.empty(len(offsets) - 1, np.int64)
    size_headers(offsets, key_column.sizes, value_column.sizes, sizes)
    out = np.empty(int(sizes.sum()), np.uint8)
    write_headers(offsets, *key_column, *value_column, out)
    return Column(byte_array(out.data), np.cumsum(sizes) - sizes, sizes)


def _is_null(array: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return nulls
