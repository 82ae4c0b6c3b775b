"""Record batches made of rows: magic 2, as producers write them since Kafka 0.11.

The columns of spans are those of ``spans``, int64. The rules of the kernels are those of ``compiler.Kernel``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from .. import compiler
from ..arrays import Int64s, Uint8s, room
from ..compiler import BYTES, kernel
from ..encoded_batch import NO_PRODUCER, EncodedBatch, Packing, record_too_large
from ..log_index import BATCH_HEADER, BATCH_OVERHEAD, LOG_OVERHEAD
from ..native import copy
from ..rows import NULL_SIZE, Column, Records
from ..spans import size_at
from .headers import encode_headers
from .varints import varint_size, write_varint

#: Why ``plan_batches`` came back.
PLANNED: Final = 0
RECORD_TOO_LARGE: Final = 1

#: Columns of the table of batches that ``plan_batches`` fills.
FIRST_ROW: Final = 0
STOP_ROW: Final = 1
BATCH_SIZE: Final = 2
BASE_TIMESTAMP: Final = 3
MAX_TIMESTAMP: Final = 4
PLAN_COLUMNS: Final = 5


@kernel(
    "UniTuple(int64, 4)(int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64, int64, int64, int64, int64[::1], int64[:, ::1])"
)
def plan_batches(
    key_sizes: Any,
    value_sizes: Any,
    header_sizes: Any,
    timestamps: Any,
    row: int,
    batch_bytes_max: int,
    record_bytes_max: int,
    total_max: int,
    body_sizes: Any,
    table: Any,
) -> tuple[int, int, int, int]:
    """Cut the rows from ``row`` on into batches of at most ``batch_bytes_max``, or one record.

    Fills ``body_sizes`` (of a record, without its size) and one row of ``table`` for each batch,
    until the table is full or another batch may exceed the rest of ``total_max`` bytes.
    Returns ``(code, batches, row, total)``: the row after the last batch, or the one that is larger
    than ``record_bytes_max`` and that size.
    """
    batch = 0
    total = 0
    while (
        batch < len(table) and row < len(timestamps) and (batch == 0 or total + batch_bytes_max <= total_max)
    ):
        first = row
        size = BATCH_OVERHEAD
        base_timestamp = timestamps[row]
        max_timestamp = base_timestamp
        while row < len(timestamps):
            timestamp = timestamps[row]
            key_size = size_at(key_sizes, row)
            value_size = size_at(value_sizes, row)
            body = (
                1
                + varint_size(timestamp - base_timestamp)
                + varint_size(row - first)
                + varint_size(key_size)
                + max(key_size, 0)
                + varint_size(value_size)
                + max(value_size, 0)
                + (header_sizes[row] if len(header_sizes) else 1)
            )
            record_size = varint_size(body) + body
            if row > first and size + record_size > batch_bytes_max:
                break
            if BATCH_OVERHEAD + record_size > record_bytes_max:
                return RECORD_TOO_LARGE, batch, row, BATCH_OVERHEAD + record_size
            body_sizes[row] = body
            size += record_size
            max_timestamp = max(max_timestamp, timestamp)
            row += 1
        table[batch, FIRST_ROW] = first
        table[batch, STOP_ROW] = row
        table[batch, BATCH_SIZE] = size
        table[batch, BASE_TIMESTAMP] = base_timestamp
        table[batch, MAX_TIMESTAMP] = max_timestamp
        total += size
        batch += 1
    return PLANNED, batch, row, total


@kernel(
    f"int64({BYTES}, int64[::1], int64[::1], {BYTES}, int64[::1], int64[::1],"
    f" {BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1],"
    " int64, int64, uint8[::1])"
)
def write_records(
    keys: Any,
    key_starts: Any,
    key_sizes: Any,
    values: Any,
    value_starts: Any,
    value_sizes: Any,
    headers: Any,
    header_starts: Any,
    header_sizes: Any,
    timestamps: Any,
    body_sizes: Any,
    table: Any,
    start: int,
    pos: int,
    out: Any,
) -> int:
    """Write those records of the planned batches that are of these columns, from ``pos`` of ``out`` on;
    where a batch begins, after room for its header. Returns the position after them.

    The first row of the columns is the row ``start`` of the table.
    """
    count = len(timestamps)
    for batch in range(len(table)):
        first = table[batch, FIRST_ROW] - start
        base_timestamp = table[batch, BASE_TIMESTAMP]
        if 0 <= first < count:
            pos += BATCH_OVERHEAD
        for row in range(max(first, 0), min(table[batch, STOP_ROW] - start, count)):
            key_size = size_at(key_sizes, row)
            value_size = size_at(value_sizes, row)
            pos = write_varint(out, pos, body_sizes[row])
            out[pos] = 0
            pos = write_varint(out, pos + 1, timestamps[row] - base_timestamp)
            pos = write_varint(out, pos, row - first)
            pos = write_varint(out, pos, key_size)
            if key_size > 0:
                copy(out, pos, keys, key_starts[row], key_size)
                pos += key_size
            pos = write_varint(out, pos, value_size)
            if value_size > 0:
                copy(out, pos, values, value_starts[row], value_size)
                pos += value_size
            if len(header_sizes):
                copy(out, pos, headers, header_starts[row], header_sizes[row])
                pos += header_sizes[row]
            else:
                out[pos] = 0
                pos += 1
    return pos


#: Batches of one kernel call, and their bytes: enough that the cost of the call itself is small.
_PLAN_BATCHES: Final = 64
_PLAN_BYTES: Final = 1 << 20
#: Bytes of a record that has no headers: their count.
_NO_HEADERS_SIZE: Final = 1


def encode_records(parts: Sequence[Records], packing: Packing, now_ms: int) -> Iterator[EncodedBatch]:
    """Batches of the records of all parts, in order; raises as ``record_log.encode_batches`` says."""
    encoded = [_EncodedPart.of(part) for part in parts]
    timestamps = _end_to_end([part.timestamps(now_ms) for part in parts])
    return _BatchEncoder(encoded, timestamps, packing).batches()


class _EncodedPart(NamedTuple):
    """Columns of ``row_count`` consecutive rows."""

    keys: Column
    values: Column
    headers: Column
    row_count: int

    @classmethod
    def of(cls, records: Records) -> _EncodedPart:
        keys, values = Column.of(records.keys, "key"), Column.of(records.values, "value")
        return cls(keys, values, encode_headers(records.headers), records.count)


@dataclass(frozen=True, slots=True)
class _BatchEncoder:
    """Parts with all rows, and how these become batches, which may have rows of several parts."""

    parts: Sequence[_EncodedPart]
    timestamps: Int64s
    packing: Packing

    def batches(self) -> Iterator[EncodedBatch]:
        count = len(self.timestamps)
        compiler.expect(compiler.RECORD_COST * count)
        bodies = room(count, np.int64)
        table = np.empty((_PLAN_BATCHES, PLAN_COLUMNS), np.int64)
        keys, values, headers, _ = zip(*self.parts, strict=True)
        sizes = self._sizes(keys), self._sizes(values), self._sizes(headers, _NO_HEADERS_SIZE)
        row = 0
        while row < count:
            code, batches, row, size = plan_batches(
                *sizes,
                self.timestamps,
                row,
                self.packing.batch_bytes_max,
                self.packing.request_bytes_max,
                _PLAN_BYTES,
                bodies,
                table,
            )
            if code == RECORD_TOO_LARGE:
                raise record_too_large(row, size, self.packing.request_bytes_max)
            yield from self._written(bodies, table[:batches])

    def _sizes(self, columns: Sequence[Column], missing: int = NULL_SIZE) -> Int64s:
        """The sizes of all rows; no sizes if all parts have none."""
        if not any(len(column.sizes) for column in columns):
            return columns[0].sizes
        return _end_to_end(
            [
                column.sizes if len(column.sizes) else np.full(part.row_count, missing, np.int64)
                for part, column in zip(self.parts, columns, strict=True)
            ]
        )

    def _written(self, bodies: Int64s, table: Int64s) -> Iterator[EncodedBatch]:
        batches = table.tolist()
        out = room(sum(batch[BATCH_SIZE] for batch in batches), np.uint8)
        rows = batches[0][FIRST_ROW], batches[-1][STOP_ROW]
        self._write_records(out, bodies, table, *rows)
        pos = 0
        for first, stop, size, base_timestamp, max_timestamp in batches:
            data = out.data[pos : pos + size]
            pos += size
            if self.packing.codec is not None:
                payload = self.packing.codec.compress(data[BATCH_OVERHEAD:], self.packing.level)
                data = memoryview(bytearray().join((bytes(BATCH_OVERHEAD), payload)))
            self._stamp(data, stop - first, base_timestamp, max_timestamp)
            yield EncodedBatch(data, stop - first)

    def _write_records(self, out: Uint8s, bodies: Int64s, table: Int64s, first: int, last: int) -> None:
        """Write the planned batches, whose rows are ``[first, last)``, without their headers."""
        start = pos = 0
        for part in self.parts:
            stop = start + part.row_count
            if start < last and first < stop:
                rows = self.timestamps[start:stop], bodies[start:stop], table
                pos = write_records(*part.keys, *part.values, *part.headers, *rows, start, pos, out)
            start = stop

    def _stamp(self, data: memoryview, count: int, base_timestamp: int, max_timestamp: int) -> None:
        """Write the header; the broker or ``with_producer`` fills in the fields that are -1 or 0 here."""
        BATCH_HEADER.pack_into(
            data,
            0,
            *(0, len(data) - LOG_OVERHEAD, -1, self.packing.magic, 0),
            *(self.packing.codec.number if self.packing.codec else 0, count - 1),
            *(base_timestamp, max_timestamp),
            *NO_PRODUCER,
            count,
        )


def _end_to_end(parts: Sequence[Int64s]) -> Int64s:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
