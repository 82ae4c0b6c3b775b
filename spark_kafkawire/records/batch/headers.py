"""Headers of records, from their bytes to an Arrow array and back.

    key size | key (UTF-8) | value size (-1 for null) | value

Sizes are zigzag varints. Source: Apache Kafka's DefaultRecord.java; KIP-82.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import RowError

from ..arrays import Int32s, Int64s, Uint8s, byte_array
from ..columns import validity_bitmap
from ..headers import HEADER, HEADERS, header_pairs
from ..log_kernels import END
from ..rows import Column
from ..spans import gathered, room_for
from .header_kernels import read_headers, size_headers, write_headers


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
            _strings(gathered(buf, keys, key_bytes, 0), offsets),
            gathered(buf, values, value_bytes, nulls),
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
    return _encoded(Column.of(keys, "a header's key"), Column.of(values, "its value"), offsets)


def _is_null(array: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _encoded(keys: Column, values: Column, offsets: Int64s) -> Column:
    sizes = np.empty(len(offsets) - 1, np.int64)
    size_headers(offsets, keys.sizes, values.sizes, sizes)
    out = np.empty(int(sizes.sum()), np.uint8)
    write_headers(offsets, keys.data, keys.starts, keys.sizes, values.data, values.starts, values.sizes, out)
    return Column(byte_array(out.data), np.cumsum(sizes) - sizes, sizes)
