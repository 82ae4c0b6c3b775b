"""Batches of magic 2, as Kafka writes them since 0.11: decoding in bulk.

    base offset int64 | size int32 | leader epoch int32 | magic int8 = 2 | crc uint32
    attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64
    producer id int64 | producer epoch int16 | base sequence int32 | count int32 | records

``crc`` is the CRC-32C of the bytes after it. The records are compressed together, each is

    size | attributes int8 | timestamp delta | offset delta | key | value | header count | headers

where numbers are zigzag varints, and keys and values begin with their size (-1 for null).

    batches -> check CRCs -> [decompress] -> index of records, values -> gather keys -> columns

Source: Apache Kafka's DefaultRecordBatch.java and DefaultRecord.java; KIP-98.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from spark_kafkawire.errors import LimitError, counted
from spark_kafkawire.protocol.buffers import Buffers

from .. import compiler, log_kernels
from ..arrays import Int32s, Int64s, Uint8s, room
from ..checksum import crc32c_address
from ..columns import Columns, binary_array
from ..limits import MESSAGE_BYTES_MIN, DecodeLimits
from ..log_index import BatchIndex
from ..log_layout import BATCH_ATTRIBUTES_POS
from ..spans import DecodeBuffers, gathered, head, room_for
from .headers import BadHeaders, decode_headers
from .read_kernels import SUMS, read_records
from .regions import Regions, regions_of

_CHECKED: Final = [log_kernels.POS, log_kernels.SIZE, log_kernels.CRC]
#: The values' bytes, where each begins (one more for the end), and their sizes.
_Values = tuple[Uint8s, Int32s, Int32s]
#: Where each row's headers begin and end, and how many they are.
_Headers = tuple[Int32s, Int32s, Int32s]
_NO_VALUES: Final[_Values] = (room(0, np.uint8), room(0, np.int32), room(0, np.int32))
_MEANINGS: Final = {
    log_kernels.BAD_RECORD: "the sizes of a record do not add up",
    log_kernels.BAD_OFFSET: "the offset of a record is not one of the batch, or not above the one before it",
    log_kernels.BAD_TIMESTAMP: "the timestamp of a record leaves int64",
}


def decode_records(
    index: BatchIndex,
    rows: Int64s,
    start_offset: int,
    stop_offset: int,
    wanted: Container[str],
    limits: DecodeLimits,
    buffers: DecodeBuffers,
) -> Iterator[Columns]:
    """The records of those batches of the index, all of magic 2, that are in the range of offsets.

    Raises ``CorruptDataError`` and ``LimitError`` (fatal), as ``record_log.decode_batches`` says.
    """
    check_crcs(index, rows)

    def columns(regions: Regions) -> Columns:
        return _columns(regions, start_offset, stop_offset, wanted, limits, buffers.values)

    # A loop's variable would keep the decompressed bytes while the next batch is decompressed.
    yield from map(columns, regions_of(index, rows, limits, buffers.stage))


def check_crcs(index: BatchIndex, rows: Int64s) -> None:
    """Raise ``CorruptDataError`` (fatal) where the CRC-32C of one of these batches is wrong."""
    if (wrong := _first_wrong(index, rows)) >= 0:
        raise index.damage(int(rows[wrong]), "its CRC-32C is wrong")


def _first_wrong(index: BatchIndex, rows: Int64s) -> int:
    library = crc32c_address() if compiler.loaded() else 0
    if library:
        return log_kernels.first_wrong_crc(index.buf, index.table, rows, library)
    view, batches = index.buf.data, index.table[rows][:, _CHECKED].tolist()
    for i, (pos, size, claimed) in enumerate(batches):
        if crc32c(view[pos + BATCH_ATTRIBUTES_POS : pos + size]) != claimed:
            return i
    return -1


def _columns(
    regions: Regions,
    start_offset: int,
    stop_offset: int,
    wanted: Container[str],
    limits: DecodeLimits,
    buffers: Buffers,
) -> Columns:
    count = regions.count
    compiler.expect(compiler.RECORD_COST * count)
    offsets = room(count, np.int64)
    timestamps = room(count if "timestamp" in wanted else 0, np.int64)
    timestamp_types = room(count if "timestampType" in wanted else 0, np.int32)
    keys = room_for(count if "key" in wanted else 0)
    values = _room_for_values(regions, buffers) if "value" in wanted else _NO_VALUES
    headers = _room_for_headers(count if "headers" in wanted else 0)
    sums = np.empty(SUMS, np.int64)
    columns = (offsets, timestamps, timestamp_types, keys, values, headers, sums)
    code, region, row = read_records(regions.buf, regions.table, start_offset, stop_offset, *columns)
    if code != log_kernels.END:
        raise regions.damage(region, _MEANINGS[code])
    key_bytes, null_keys, value_bytes, null_values, header_count = sums.tolist()
    has_keys = "key" in wanted and null_keys < row
    has_headers = "headers" in wanted and header_count > 0
    if has_headers and header_count > limits.rows_max:
        raise _too_many_headers(regions, header_count, limits)
    return Columns(
        offsets[:row],
        keys=gathered(regions.buf, head(keys, row), key_bytes, null_keys) if has_keys else None,
        values=_gathered_values(values, row, value_bytes, null_values) if "value" in wanted else None,
        headers=_headers(regions, headers, row, header_count) if has_headers else None,
        timestamps_ms=timestamps[:row] if "timestamp" in wanted else None,
        timestamp_types=timestamp_types[:row] if "timestampType" in wanted else None,
    )


def _too_many_headers(regions: Regions, count: int, limits: DecodeLimits) -> LimitError:
    headers = counted(count, "header")
    reason = f"the records from here on have {headers}, and each counts as {MESSAGE_BYTES_MIN} bytes"
    return regions.index.too_large(int(regions.rows[0]), reason, limits)


def _room_for_headers(count: int) -> _Headers:
    return room(count, np.int32), room(count, np.int32), room(count, np.int32)


def _room_for_values(regions: Regions, buffers: Buffers) -> _Values:
    data = np.frombuffer(buffers.take(len(regions.buf)), np.uint8)
    return data, room(regions.count + 1, np.int32), room(regions.count, np.int32)


def _gathered_values(values: _Values, count: int, size: int, nulls: int) -> pa.BinaryArray:
    data, offsets, sizes = values
    return binary_array(data[:size], offsets[: count + 1], sizes[:count] >= 0 if nulls else None)


def _headers(regions: Regions, columns: _Headers, count: int, header_count: int) -> pa.ListArray:
    starts, stops, counts = columns
    compiler.expect(header_count)
    try:
        return decode_headers(regions.buf, starts[:count], stops[:count], counts[:count], header_count)
    except BadHeaders as error:
        raise regions.damage(regions.region_of(error.row), str(error)) from error
