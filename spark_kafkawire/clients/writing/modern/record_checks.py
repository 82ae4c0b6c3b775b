"""Checks of the rows of a write to modern Kafka (0.8 to 4.x), before any of them is sent.

They refuse records that brokers or readers could not use: too large, before 1970, or with broken headers.
They work on whole columns.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.clients.writing.rows import is_text
from spark_kafkawire.errors import RowError
from spark_kafkawire.records.rows import Records

#: Bytes that a batch of one record has besides its key, value and headers, at most: the header of
#: the batch (61) and the record's lengths, attributes, timestamp and offset. Source: KIP-98.
_OVERHEAD_BYTES: Final = 61 + 26
#: Lengths of a header's key and value, bytes at most.
_HEADER_OVERHEAD_BYTES: Final = 10


def check_records(records: Records, record_bytes_max: int) -> None:
    """Refuse records that exceed ``kafka.max.request.size`` before compression, as the Java producer does;
    timestamps before 1970; and headers without a key, or with a key that is not UTF-8.

    Raises ``RowError`` (fatal) for the first such row, counted from 0.
    """
    _refuse_oversize(records, record_bytes_max)
    if records.timestamps_ms is not None and (pc.min(records.timestamps_ms).as_py() or 0) < 0:
        row = pc.index(pc.less(records.timestamps_ms, 0), True).as_py()
        raise RowError(
            f"row {row}: its timestamp is before 1970, which Kafka cannot hold; correct it; null is now"
        )
    if records.headers is not None and _keyless(records.headers).any():
        row = _rows_of_pairs(records.headers)[int(np.argmax(_keyless(records.headers)))]
        raise RowError(f"row {row}: it has a header without a key; drop the header, or name it")
    if records.headers is not None:
        _refuse_broken_keys(records.headers)


def _refuse_oversize(records: Records, record_bytes_max: int) -> None:
    has_headers = records.headers is not None and records.headers.null_count < len(records.headers)
    if not has_headers and _size_bound(records) <= record_bytes_max:
        return
    sizes = np.full(records.count, _OVERHEAD_BYTES, np.int64)
    for column in (records.values, records.keys):
        if column is not None:
            sizes += _sizes(column)
    if has_headers:
        sizes += _header_sizes(records.headers)
    if records.count and sizes.max() > record_bytes_max:
        row = int(np.argmax(sizes > record_bytes_max))
        raise RowError(
            f"row {row}: its record of {sizes[row]} bytes is larger than kafka.max.request.size="
            f"{record_bytes_max}; shorten it, or raise that option and the topic's max.message.bytes"
        )


def _size_bound(records: Records) -> int:
    """Upper bound for the size of records without headers: computing the size of each takes ten times as
    long."""
    columns = [column for column in (records.values, records.keys) if column is not None]
    return _OVERHEAD_BYTES + sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in columns)


def _sizes(column: pa.Array) -> npt.NDArray[np.int64]:
    sizes: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return sizes


def _header_sizes(headers: pa.Array) -> npt.NDArray[np.int64]:
    """Count the bytes of all headers of each row."""
    structs = pc.list_flatten(headers)
    sizes = _sizes(pc.struct_field(structs, 0)) + _sizes(pc.struct_field(structs, 1)) + _HEADER_OVERHEAD_BYTES
    of_row: npt.NDArray[np.int64] = np.bincount(_rows_of_pairs(headers), sizes, len(headers)).astype(np.int64)
    return of_row


def _rows_of_pairs(headers: pa.Array) -> npt.NDArray[np.int64]:
    """Row of each header. A null may lie over headers that do not count: unlike ``list_flatten``,
    ``list_parent_indices`` counts them."""
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(headers)), counts)


def _refuse_broken_keys(headers: pa.Array) -> None:
    """Refuse header keys that are not UTF-8: Spark's strings may hold any bytes, and readers expect UTF-8."""
    keys = pc.struct_field(pc.list_flatten(headers), 0)
    if not is_text(keys):
        pair = next(index for index in range(len(keys)) if not is_text(keys.slice(index, 1)))
        row = _rows_of_pairs(headers)[pair]
        raise RowError(f"row {row}: the key of a header is not UTF-8; drop the header, or correct the key")


def _keyless(headers: pa.Array) -> npt.NDArray[np.bool_]:
    """Mask of the headers of all rows that are null or have no key."""
    pairs = pc.list_flatten(headers)
    keyless: npt.NDArray[np.bool_] = pc.is_null(pc.struct_field(pairs, 0)).to_numpy(zero_copy_only=False)
    return keyless
