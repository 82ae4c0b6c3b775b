"""Batches of magic 2, as Kafka writes them since 0.11: decoding in bulk, and the batches of aborted
transactions.

    base offset int64 | size int32 | leader epoch int32 | magic int8 = 2 | crc uint32
    attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64
    producer id int64 | producer epoch int16 | base sequence int32 | count int32 | records

``crc`` is the CRC-32C of the bytes after it. The records are compressed together, each is

    size | attributes int8 | timestamp delta | offset delta | key | value | header count | headers

where numbers are zigzag varints, and keys and values begin with their size (-1 for null).

    batches -> check CRCs -> [decompress] -> index of records, values -> gather keys -> columns

Plain batches stay where they are. With a compressed one among them, the records of all are joined in a new
buffer, so that they are still indexed at once (``regions_of``).

Readers with ``isolation.level=read_committed`` leave out aborted transactions (``AbortedTransactions``). A
Fetch response names for each its producer and first offset. From there on the producer's transactional
batches do not count, until its abort marker: a control batch. No checksum covers the list in the response,
but the markers in the log have checksums. So both must agree.

Source: Apache Kafka's DefaultRecordBatch.java, DefaultRecord.java, CompletedFetch.java and
ControlRecordType.java; KIP-98. The rules of the kernels are those of ``compiler.Kernel``.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from spark_kafkawire.errors import CorruptDataError, KafkaWireError, counted
from spark_kafkawire.protocol.primitives import Buffer, Buffers

from .. import compiler, log_index
from ..arrays import Int32s, Int64s, Uint8s, byte_array, join_arrays, room
from ..checksum import crc32c_address
from ..columns import Columns, binary_array
from ..compiler import BYTES, inlined, kernel
from ..compression import Format, TooLarge, decompress
from ..limits import MESSAGE_BYTES_MIN, DecodeLimits
from ..log_index import (
    ATTRIBUTES,
    BAD_COUNT,
    BAD_OFFSET,
    BAD_RECORD,
    BAD_TIMESTAMP,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH_ATTRIBUTES_POS,
    BATCH_COLUMNS,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_BIT,
    COUNT,
    END,
    KEPT,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    POS,
    RECORD_BYTES_MIN,
    SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchIndex,
    table_room,
)
from ..native import copy
from ..spans import DecodeBuffers, gather_binary, head, room_for
from .headers import BadHeaders, decode_headers
from .varints import varint, varlong

#: Sums of ``read_records`` over the rows that it keeps.
KEY_BYTES: Final = 0
NULL_KEYS: Final = 1
VALUE_BYTES: Final = 2
NULL_VALUES: Final = 3
HEADER_COUNT: Final = 4
SUMS: Final = 5

_INT64_MAX: Final = 2**63 - 1


@inlined
def overflows(base: int, delta: int) -> bool:
    """Return true if the sum of these overflows int64."""
    if base >= 0:
        return delta > _INT64_MAX - base
    return delta < -_INT64_MAX - 1 - base


@kernel(
    f"UniTuple(int64, 3)({BYTES}, int64[:, ::1], int64, int64, int64[::1], int64[::1], int32[::1],"
    " UniTuple(int32[::1], 2), Tuple((uint8[::1], int32[::1], int32[::1])), UniTuple(int32[::1], 3),"
    " int64[::1])"
)
def read_records(
    buf: Any,
    regions: Any,
    start_offset: int,
    stop_offset: int,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    keys: Any,
    value_column: Any,
    headers: Any,
    sums: Any,
) -> tuple[int, int, int]:
    """Index the records of all regions that are in the range of offsets; check all of them.

    ``keys`` are starts and sizes, ``headers`` starts, stops and counts, ``value_column`` is the values'
    bytes, where each begins (one more for the end) and their sizes. Columns of no length are not filled. A
    null has the size -1. Values are copied one after the other, as soon as they are read: the copy brings the
    next record into the cache. The caller has checked that regions lie in ``buf``, that there are rows for
    all their records, and that there is room for the values of all of ``buf``.
    Returns ``(code, region, row)``: the place where it stopped; ``sums`` are filled at the ``END``.
    """
    key_starts, key_sizes = keys
    values, value_offsets, value_sizes = value_column
    header_starts, header_stops, header_counts = headers
    row = key_bytes = null_keys = value_bytes = null_values = header_total = 0
    for region in range(len(regions)):
        pos = regions[region, POS]
        stop = pos + regions[region, SIZE]
        base_offset = regions[region, BASE_OFFSET]
        last_delta = regions[region, NEXT_OFFSET] - base_offset - 1
        base_timestamp = regions[region, BASE_TIMESTAMP]
        timestamp_type = int(regions[region, ATTRIBUTES] & TIMESTAMP_TYPE_BIT != 0)
        first_row = row
        last_seen = -1
        for _ in range(regions[region, COUNT]):
            size, pos = varint(buf, pos, stop)
            end = pos + size
            if pos >= stop or size < 1 or end > stop:
                return BAD_RECORD, region, row
            timestamp_delta, pos = varlong(buf, pos + 1, end)
            delta, pos = varint(buf, pos, end)
            key_size, pos = varint(buf, pos, end)
            key_start = pos
            pos += max(key_size, 0)
            value_size, pos = varint(buf, pos, end)
            value_start = pos
            pos += max(value_size, 0)
            header_count, pos = varint(buf, pos, end)
            if (
                pos > end
                or key_size < -1
                or value_size < -1
                or header_count < 0
                or header_count * 2 > end - pos
                or (header_count == 0 and pos < end)
            ):
                return BAD_RECORD, region, row
            if delta <= last_seen or delta > last_delta:
                return BAD_OFFSET, region, row
            last_seen = delta
            offset = base_offset + delta
            if start_offset <= offset < stop_offset:
                offsets[row] = offset
                if len(timestamps):
                    timestamp = regions[region, MAX_TIMESTAMP]
                    if not timestamp_type:
                        if overflows(base_timestamp, timestamp_delta):
                            return BAD_TIMESTAMP, region, row
                        timestamp = base_timestamp + timestamp_delta
                    timestamps[row] = timestamp
                if len(timestamp_types):
                    timestamp_types[row] = timestamp_type
                if len(key_starts):
                    key_starts[row] = key_start
                    key_sizes[row] = key_size
                if len(value_offsets):
                    value_offsets[row] = value_bytes
                    value_sizes[row] = value_size
                    if value_size > 0:
                        copy(values, value_bytes, buf, value_start, value_size)
                if len(header_starts):
                    header_starts[row] = pos
                    header_stops[row] = end
                    header_counts[row] = header_count
                key_bytes += max(key_size, 0)
                null_keys += key_size < 0
                value_bytes += max(value_size, 0)
                null_values += value_size < 0
                header_total += header_count
                row += 1
            pos = end
        if pos != stop:
            return BAD_RECORD, region, row
        regions[region, KEPT] = row - first_row
    if len(value_offsets):
        value_offsets[row] = value_bytes
    sums[KEY_BYTES] = key_bytes
    sums[NULL_KEYS] = null_keys
    sums[VALUE_BYTES] = value_bytes
    sums[NULL_VALUES] = null_values
    sums[HEADER_COUNT] = header_total
    return END, 0, row


@kernel("UniTuple(int64, 5)(int64[:, ::1], int64[::1], int64[::1], int64, int64, int64, int64[:, ::1])")
def place_records(
    table: Any, rows: Any, sizes: Any, bytes_max: int, count_max: int, record_bytes_min: int, part: Any
) -> tuple[int, int, int, int, int]:
    """Copy the first ``rows`` of the table, whose records make a part of ``bytes_max``, to ``part``.

    In ``part``, position and size are those of the records. For plain batches they are places in the buffer,
    from the part's begin on. With ``sizes`` they are those of decompressed records, one after the other. A
    record counts as ``record_bytes_min`` at least. The batch that reaches the limit is the last.
    Returns ``(code, stop, begin, end, count)``: how many of the rows, the part's place in the buffer,
    and the number of its records.
    """
    pos = count = taken = begin = 0
    if len(sizes) == 0:
        begin += table[rows[0], POS] + BATCH_OVERHEAD
    for i in range(len(rows)):
        row = rows[i]
        if len(sizes) > 0:
            size = sizes[i]
        else:
            size = table[row, SIZE] - BATCH_OVERHEAD
            pos = table[row, POS] + BATCH_OVERHEAD - begin
        claimed = table[row, COUNT]
        if claimed < 0 or claimed > size // RECORD_BYTES_MIN or claimed > count_max:
            return BAD_COUNT, i, begin, begin + pos, count
        for column in range(BATCH_COLUMNS):
            part[i, column] = table[row, column]
        part[i, POS] = pos
        part[i, SIZE] = size
        pos += size
        count += claimed
        taken += max(size, record_bytes_min * claimed)
        if taken >= bytes_max:
            return END, i + 1, begin, begin + pos, count
    return END, len(rows), begin, begin + pos, count


#: For batches without compression the sizes of the records follow from those of the batches.
_PLAIN: Final = np.empty(0, np.int64)
#: Decompressed bytes of one part: rows enough for a batch in Spark, and few enough to stay in caches.
_STAGE_BYTES: Final = 4 << 20
#: Room for the batch that ends a part; brokers take batches of up to about a megabyte.
_LAST_BATCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Regions:
    """Records in ``buf``: one row of ``table`` for each batch, whose row in the index is in ``rows``.

    ``table`` is that of the index, but position and size are those of the records in ``buf``,
    which may be overwritten when the next regions are requested. There are ``count`` records,
    whether they are in the range of offsets or not.
    """

    index: BatchIndex
    rows: Int64s
    buf: Uint8s
    table: Int64s
    count: int

    def damage(self, region: int, reason: str) -> CorruptDataError:
        return self.index.damage(int(self.rows[region]), reason)


def regions_of(index: BatchIndex, rows: Int64s, limits: DecodeLimits, buffers: Buffers) -> Iterator[Regions]:
    """The records of those batches of the index, in parts of about ``batch_bytes_max``.

    Decompressed bytes are in memory of ``buffers``.

    Raises ``CorruptDataError`` for an unknown codec, damaged compressed data or a count that the
    bytes cannot hold, ``LimitError`` for a batch that decompresses to too much. All fatal.
    """
    if (index.table[rows, log_index.ATTRIBUTES] & CODEC_MASK).any():
        yield from _decompress_batches(index, rows, limits, buffers)
        return
    while len(rows):
        result = _place_records(index, rows, limits)
        yield result
        rows = rows[len(result.rows) :]


def _decompress_batches(
    index: BatchIndex, rows: Int64s, limits: DecodeLimits, buffers: Buffers
) -> Iterator[Regions]:
    stage, sizes = _JoinedRecords(buffers), list[int]()
    part_bytes_max = min(limits.batch_bytes_max, _STAGE_BYTES)
    first, taken, view = 0, 0, index.buf.data
    columns = (log_index.POS, log_index.SIZE, log_index.ATTRIBUTES, log_index.COUNT)
    for i, (pos, size, attributes, count) in enumerate(index.table[rows][:, columns].tolist()):
        payload = view[pos + BATCH_OVERHEAD : pos + size]
        parts = _records(index, int(rows[i]), payload, attributes & CODEC_MASK, limits)
        size = sum(map(len, parts))
        if size >= part_bytes_max:
            # Large enough for a part of its own, and too large to copy.
            if sizes:
                yield _place_records(index, rows[first:i], limits, stage.take(), np.array(sizes))
            yield _place_records(index, rows[i : i + 1], limits, join_arrays(parts), np.array([size]))
            sizes, first, taken = [], i + 1, 0
            continue
        sizes.append(stage.append(parts))
        taken += max(size, MESSAGE_BYTES_MIN * count)
        if taken >= part_bytes_max:
            yield _place_records(index, rows[first : i + 1], limits, stage.take(), np.array(sizes))
            sizes, first, taken = [], i + 1, 0
    if sizes:
        yield _place_records(index, rows[first:], limits, stage.take(), np.array(sizes))


def _records(
    index: BatchIndex, row: int, payload: memoryview, number: int, limits: DecodeLimits
) -> list[Buffer]:
    """The records of the batch at that row, in parts."""
    if not number or not payload:
        return [payload]
    try:
        return decompress(number, Format.MAGIC_2, payload, limits.decompressed_bytes_max)
    except CorruptDataError as error:
        raise index.damage(row, error.reason) from error
    except TooLarge as error:
        raise index.too_large(row, error.reason, limits) from error


class _JoinedRecords:
    """Buffer in which the records of one part are joined; each part uses the same memory."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._view = buffers.take(_STAGE_BYTES + _LAST_BATCH_BYTES)
        self._size = 0

    def append(self, parts: list[Buffer]) -> int:
        """Add the bytes of all parts; their number."""
        start = self._size
        for part in parts:
            stop = self._size + len(part)
            if stop > len(self._view):
                self._grow(stop)
            self._view[self._size : stop] = part
            self._size = stop
        return self._size - start

    def _grow(self, size_min: int) -> None:
        grown = self._buffers.take(max(size_min, 2 * len(self._view)))
        grown[: self._size] = self._view[: self._size]
        self._view = grown

    def take(self) -> Uint8s:
        """All that was added; the memory is written again by the next ``append``."""
        taken, self._size = self._view[: self._size], 0
        return byte_array(taken)


def _place_records(
    index: BatchIndex, rows: Int64s, limits: DecodeLimits, stage: Uint8s | None = None, sizes: Int64s = _PLAIN
) -> Regions:
    """The records of the first of these batches, as many as one part may have.

    They are in the index's buffer, or all of them in the stage, one after the other, with these sizes.
    """
    part = table_room(len(rows))
    code, stop, begin, end, count = place_records(
        index.table,
        rows,
        sizes,
        limits.batch_bytes_max if stage is None else sys.maxsize,
        limits.decompressed_bytes_max // MESSAGE_BYTES_MIN,
        MESSAGE_BYTES_MIN,
        part,
    )
    if code == log_index.BAD_COUNT:
        # Refused before memory is taken for them.
        size = sizes[stop] if len(sizes) else index.table[rows[stop], log_index.SIZE] - BATCH_OVERHEAD
        raise _bad_count(index, int(rows[stop]), int(size), limits)
    buf = index.buf if stage is None else stage
    return Regions(index, rows[:stop], buf[begin:end], part[:stop], count)


def _bad_count(index: BatchIndex, row: int, size: int, limits: DecodeLimits) -> KafkaWireError:
    count = int(index.table[row, log_index.COUNT])
    if 0 <= count <= size // RECORD_BYTES_MIN:
        return index.too_large(
            row, f"it holds {counted(count, 'record')}, and each counts as {MESSAGE_BYTES_MIN} bytes", limits
        )
    return index.damage(row, f"it claims {counted(count, 'record')} in {size} bytes")


_CHECKED: Final = [log_index.POS, log_index.SIZE, log_index.CRC]
#: The values' bytes, where each begins (one more for the end), and their sizes.
_Values = tuple[Uint8s, Int32s, Int32s]
#: Where each row's headers begin and end, and how many they are.
_Headers = tuple[Int32s, Int32s, Int32s]
_NO_VALUES: Final[_Values] = (room(0, np.uint8), room(0, np.int32), room(0, np.int32))
_NO_HEADERS: Final[_Headers] = (room(0, np.int32), room(0, np.int32), room(0, np.int32))
_MEANINGS: Final = {
    log_index.BAD_RECORD: "the sizes of a record do not add up",
    log_index.BAD_OFFSET: "the offset of a record is not one of the batch, or not above the one before it",
    log_index.BAD_TIMESTAMP: "the timestamp of a record leaves int64",
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
    wrong = -1
    if compiler.loaded() and (library := crc32c_address()):
        wrong = log_index.first_wrong_crc(index.buf, index.table, rows, library)
    else:
        view, batches = index.buf.data, index.table[rows][:, _CHECKED].tolist()
        for i, (pos, size, claimed) in enumerate(batches):
            if crc32c(view[pos + BATCH_ATTRIBUTES_POS : pos + size]) != claimed:
                wrong = i
                break
    if wrong >= 0:
        raise index.damage(int(rows[wrong]), "its CRC-32C is wrong")


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
    values = _NO_VALUES
    if "value" in wanted:
        data = np.frombuffer(buffers.take(len(regions.buf)), np.uint8)
        values = data, room(count + 1, np.int32), room(count, np.int32)
    headers = _NO_HEADERS
    if "headers" in wanted:
        headers = room(count, np.int32), room(count, np.int32), room(count, np.int32)
    sums = np.empty(SUMS, np.int64)
    columns = (offsets, timestamps, timestamp_types, keys, values, headers, sums)
    code, region, row = read_records(regions.buf, regions.table, start_offset, stop_offset, *columns)
    if code != log_index.END:
        raise regions.damage(region, _MEANINGS[code])
    key_bytes, null_keys, value_bytes, null_values, header_count = sums.tolist()
    has_keys = "key" in wanted and null_keys < row
    has_headers = "headers" in wanted and header_count > 0
    if has_headers and header_count > limits.rows_max:
        held = counted(header_count, "header")
        reason = f"the records from here on have {held}, and each counts as {MESSAGE_BYTES_MIN} bytes"
        raise regions.index.too_large(int(regions.rows[0]), reason, limits)
    return Columns(
        offsets[:row],
        keys=gather_binary(regions.buf, head(keys, row), key_bytes, null_keys) if has_keys else None,
        values=_gather_values(values, row, value_bytes, null_values) if "value" in wanted else None,
        headers=_headers(regions, headers, row, header_count) if has_headers else None,
        timestamps_ms=timestamps[:row] if "timestamp" in wanted else None,
        timestamp_types=timestamp_types[:row] if "timestampType" in wanted else None,
    )


def _gather_values(values: _Values, count: int, size: int, nulls: int) -> pa.BinaryArray:
    data, offsets, sizes = values
    return binary_array(data[:size], offsets[: count + 1], sizes[:count] >= 0 if nulls else None)


def _headers(regions: Regions, columns: _Headers, count: int, header_count: int) -> pa.ListArray:
    starts, stops, counts = columns
    compiler.expect(header_count)
    try:
        return decode_headers(regions.buf, starts[:count], stops[:count], counts[:count], header_count)
    except BadHeaders as error:
        region = int(np.searchsorted(np.cumsum(regions.table[:, log_index.KEPT]), error.row, "right"))
        raise regions.damage(region, str(error)) from error


#: The types in the key of a control record, ``version int16 | type int16``.
_ABORT: Final = 0
_COMMIT: Final = 1
_KEY_SIZE_MIN: Final = 4
#: Position after the type in a control batch whose varints have one byte each, as brokers write it.
_TYPE_POS: Final = BATCH_OVERHEAD + 8


class AbortedEntry(Protocol):
    """A transaction that a Fetch response names as aborted."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class AbortedTransactions:
    """The transactions of one read, whose batches and markers come in several responses, in order."""

    def __init__(self) -> None:
        #: Producers whose records were returned, and those whose records were skipped, since their last
        #: marker.
        self._given: set[int] = set()
        self._left_out: set[int] = set()

    def left_out(self, index: BatchIndex, aborted: Sequence[AbortedEntry]) -> npt.NDArray[np.bool_] | None:
        """Mark each batch of the index that belongs to an aborted transaction; None if there is none.

        Raises ``CorruptDataError`` (fatal) for a marker whose CRC is wrong or that cannot be read, and where
        a marker contradicts what responses call aborted, or responses contradict each other.
        """
        attributes = index.column(log_index.ATTRIBUTES)
        is_ours = (attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0
        rows = np.flatnonzero(is_ours & (index.column(log_index.PRODUCER_ID) >= 0))
        if not (aborted or self._left_out or _may_abort(index, rows[attributes[rows] & CONTROL_BIT != 0])):
            self._take_committed(index, rows)
            return None
        result = np.zeros(index.count, np.bool_)
        waiting = sorted(((item.first_offset, item.producer_id) for item in aborted), reverse=True)
        open_producers: set[int] = set()
        for row in rows.tolist():
            while waiting and waiting[-1][0] < index.table[row, log_index.NEXT_OFFSET]:
                first_offset, producer_id = waiting.pop()
                if producer_id in self._given:
                    reason = (
                        f"the response calls the transaction of producer {producer_id} aborted from offset"
                    )
                    raise index.disagreement(row, f"{reason} {first_offset} on, and it began before that")
                open_producers.add(producer_id)
            if attributes[row] & CONTROL_BIT:
                self._take_marker(index, row, open_producers)
            else:
                result[row] = self._take_batch(index, row, open_producers)
        return result

    def _take_committed(self, index: BatchIndex, rows: Int64s) -> None:
        """Record the producers whose transactions continue after these batches; none of the batches is
        aborted."""
        is_marker = index.column(log_index.ATTRIBUTES)[rows] & CONTROL_BIT != 0
        counts = is_marker | (index.column(log_index.COUNT)[rows] > 0)
        rows, is_marker = rows[counts][::-1], is_marker[counts][::-1]
        producers, last = np.unique(index.column(log_index.PRODUCER_ID)[rows], return_index=True)
        is_marker = is_marker[last]
        self._given.update(producers[~is_marker].tolist())
        self._given.difference_update(producers[is_marker].tolist())

    def _take_marker(self, index: BatchIndex, row: int, open_producers: set[int]) -> None:
        producer_id = int(index.table[row, log_index.PRODUCER_ID])
        is_left_out = producer_id in open_producers or producer_id in self._left_out
        kind = _kind(index, row) if is_left_out or producer_id in self._given else None
        if kind == _COMMIT and is_left_out:
            reason = f"it commits the transaction of producer {producer_id}, which the response calls aborted"
            raise index.disagreement(row, reason)
        if kind == _ABORT and producer_id in self._given:
            reason = f"it aborts the transaction of producer {producer_id}, which no response calls aborted"
            raise index.disagreement(row, reason)
        if kind == _ABORT:
            open_producers.discard(producer_id)
        self._given.discard(producer_id)
        self._left_out.discard(producer_id)

    def _take_batch(self, index: BatchIndex, row: int, open_producers: set[int]) -> bool:
        producer_id = int(index.table[row, log_index.PRODUCER_ID])
        is_aborted = producer_id in open_producers
        if producer_id in self._left_out and not is_aborted:
            reason = f"an earlier response called its transaction, of producer {producer_id}, aborted"
            raise index.disagreement(row, reason)
        # A batch that compaction has emptied belongs to no known transaction.
        if index.table[row, log_index.COUNT]:
            (self._left_out if is_aborted else self._given).add(producer_id)
        return is_aborted


def _may_abort(index: BatchIndex, markers: Int64s) -> bool:
    """True if a marker may be other than a commit. The check is fast, because transactions may be small and
    most of them commit."""
    positions, sizes = index.column(log_index.POS)[markers], index.column(log_index.SIZE)[markers]
    if (sizes <= _TYPE_POS).any():
        return True
    return bool((index.buf[positions + _TYPE_POS] != _COMMIT).any())


def _kind(index: BatchIndex, row: int) -> int | None:
    """Type of the marker in a control batch; None if its record was compacted away."""
    check_crcs(index, np.array([row]))
    if not index.table[row, log_index.COUNT]:
        return None
    records = index.batch(row)[BATCH_OVERHEAD:]
    stop = len(records)
    _, pos = varint(records, 0, stop)
    _, pos = varlong(records, pos + 1, stop)
    _, pos = varint(records, pos, stop)
    key_size, pos = varint(records, pos, stop)
    if not _KEY_SIZE_MIN <= key_size <= stop - pos:
        raise index.damage(row, "it is a control batch without a type")
    return int.from_bytes(records[pos + 2 : pos + 4], "big")
