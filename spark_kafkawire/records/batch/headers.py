"""Headers of records as an Arrow array.

    key size | key (UTF-8) | value size (-1 for null) | value

Sizes are zigzag varints. Source: Apache Kafka's DefaultRecord.java; KIP-82.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ..columns import Int32s, Uint8s, validity_bitmap
from ..log_kernels import END
from ..spans import gathered, room_for
from .read_kernels import read_headers

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: A record's headers in order, as Spark's own connector has them: null, not empty, for none.
HEADERS: Final = pa.list_(_HEADER)


class BadHeaders(Exception):
    """The headers of ``row`` cannot be. Never leaves the package: the caller tells the place."""

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
        fields=list(_HEADER),
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
