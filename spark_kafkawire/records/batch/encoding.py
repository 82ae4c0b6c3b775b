"""Record batches made of rows: magic 2, as producers write them since Kafka 0.11."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .. import compiler
from ..arrays import Int64s, Uint8s, room
from ..encoded_batch import NO_PRODUCER, EncodedBatch, Packing, record_too_large
from ..log_layout import BATCH_HEADER, BATCH_OVERHEAD, LOG_OVERHEAD
from ..rows import NULL_SIZE, Column, Records
from . import write_kernels
from .headers import encode_headers

#: Batches of one kernel call, and their bytes: enough that the cost of the call itself is small.
_PLAN_BATCHES: Final = 64
_PLAN_BYTES: Final = 1 << 20
#: Bytes of a record that has no headers: their count.
_NO_HEADERS_SIZE: Final = 1
#: The bytes of a column, where each row's begin, and their sizes.
_Spans = tuple[Uint8s, Int64s, Int64s]


def encode_records(parts: Sequence[Records], packing: Packing, now_ms: int) -> Iterator[EncodedBatch]:
    """Batches of the records of all parts, in order; raises as ``record_log.encode_batches`` says."""
    columns = [_EncodedPart.of(part) for part in parts]
    timestamps = _end_to_end([part.timestamps(now_ms) for part in parts])
    return _BatchEncoder(columns, timestamps, packing).batches()


@dataclass(frozen=True, slots=True)
class _EncodedPart:
    """Keys, values and headers of ``count`` consecutive rows, and the same columns as arguments of
    kernels."""

    columns: tuple[Column, Column, Column]
    spans: tuple[_Spans, _Spans, _Spans]
    count: int

    @classmethod
    def of(cls, records: Records) -> _EncodedPart:
        keys, values = Column.of(records.keys, "key"), Column.of(records.values, "value")
        headers = encode_headers(records.headers)
        columns = keys, values, headers
        return cls(columns, (_spans(keys), _spans(values), _spans(headers)), records.count)


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
        table = np.empty((_PLAN_BATCHES, write_kernels.PLAN_COLUMNS), np.int64)
        sizes = self._all_sizes()
        row = 0
        while row < count:
            code, batches, row, size = write_kernels.plan_batches(
                *sizes,
                self.timestamps,
                row,
                self.packing.batch_bytes_max,
                self.packing.request_bytes_max,
                _PLAN_BYTES,
                bodies,
                table,
            )
            if code == write_kernels.RECORD_TOO_LARGE:
                raise record_too_large(row, size, self.packing.request_bytes_max)
            yield from self._written(bodies, table[:batches])

    def _all_sizes(self) -> tuple[Int64s, Int64s, Int64s]:
        keys, values, headers = zip(*(part.columns for part in self.parts), strict=True)
        return (
            self._sizes(keys, NULL_SIZE),
            self._sizes(values, NULL_SIZE),
            self._sizes(headers, _NO_HEADERS_SIZE),
        )

    def _sizes(self, columns: Sequence[Column], missing: int) -> Int64s:
        """The sizes of all rows; no sizes if all parts have none."""
        if not any(len(column.sizes) for column in columns):
            return columns[0].sizes
        return _end_to_end(
            [
                column.sizes if len(column.sizes) else np.full(part.count, missing, np.int64)
                for part, column in zip(self.parts, columns, strict=True)
            ]
        )

    def _written(self, bodies: Int64s, table: Int64s) -> Iterator[EncodedBatch]:
        batches = table.tolist()
        out = room(sum(batch[write_kernels.BATCH_SIZE] for batch in batches), np.uint8)
        rows = batches[0][write_kernels.FIRST_ROW], batches[-1][write_kernels.STOP_ROW]
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
            stop = start + part.count
            if start < last and first < stop:
                keys, values, headers = part.spans
                rows = self.timestamps[start:stop], bodies[start:stop], table
                pos = write_kernels.write_records(*keys, *values, *headers, *rows, start, pos, out)
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


def _spans(column: Column) -> _Spans:
    return column.data, column.starts, column.sizes


def _end_to_end(parts: Sequence[Int64s]) -> Int64s:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
