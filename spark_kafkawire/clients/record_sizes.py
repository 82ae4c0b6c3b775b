"""Which records are larger than a request may be, seen for a whole column at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import RowError
from ..records.rows import Records

#: Bytes that a batch of one record has besides its key, value and headers, at most: the header of
#: the batch (61) and the record's lengths, attributes, timestamp and offset. Source: KIP-98.
_OVERHEAD_BYTES: Final = 61 + 26
#: Lengths of a header's key and value, bytes at most.
_HEADER_OVERHEAD_BYTES: Final = 10


def refuse_oversize(records: Records, record_bytes_max: int) -> None:
    """Refuse records that are larger than ``kafka.max.request.size`` before compression, as the
    Java producer does.

    Raises ``RowError`` (fatal) naming the first one, counted from 0.
    """
    sizes = np.full(records.count, _OVERHEAD_BYTES, np.int64)
    for column in (records.values, records.keys):
        if column is not None:
            sizes += _sizes(column)
    if records.headers is not None and records.headers.null_count < len(records.headers):
        sizes += _header_sizes(records.headers)
    if records.count and sizes.max() > record_bytes_max:
        row = int(np.argmax(sizes > record_bytes_max))
        raise RowError(
            f"row {row}: its record of {sizes[row]} bytes is larger than kafka.max.request.size="
            f"{record_bytes_max}; shorten it, or raise that option and the topic's max.message.bytes"
        )


def _sizes(column: pa.Array) -> npt.NDArray[np.int64]:
    sizes: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return sizes


def _header_sizes(headers: pa.Array) -> npt.NDArray[np.int64]:
    """Bytes of all headers of each row."""
    structs = pc.list_flatten(headers)
    sizes = _sizes(structs.field(0)) + _sizes(structs.field(1)) + _HEADER_OVERHEAD_BYTES
    of_row: npt.NDArray[np.int64] = np.bincount(
        pc.list_parent_indices(headers).to_numpy(zero_copy_only=False), sizes, len(headers)
    ).astype(np.int64)
    return of_row
