"""Record batches made of rows: magic 2, as producers write them since Kafka 0.11."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from .. import compiler
from ..arrays import Int64s, room
from ..encoded_batch import NO_PRODUCER, EncodedBatch, Packing, record_too_large
from ..log_layout import BATCH_HEADER, BATCH_OVERHEAD, LOG_OVERHEAD
from ..rows import Column, Records
from . import write_kernels
from .headers import encode_headers

#: Batches of one kernel call, and their bytes: so many that the call itself costs little.
_PLAN_BATCHES: Final = 64
_PLAN_BYTES: Final = 1 << 20


def encode_records(records: Records, packing: Packing, now_ms: int) -> Iterator[EncodedBatch]:
    """Batches of all records, in order; raises as ``record_log.encode_batches`` tells."""
    keys, values = Column.of(records.keys, "key"), Column.of(records.values, "value")
    headers, timestamps = encode_headers(records.headers), records.timestamps(now_ms)
    return _BatchEncoder(keys, values, headers, timestamps, packing).batches()


@dataclass(frozen=True, slots=True)
class _BatchEncoder:
    """Columns of the rows, and how they become batches."""

    keys: Column
    values: Column
    headers: Column
    timestamps: Int64s
    packing: Packing

    def batches(self) -> Iterator[EncodedBatch]:
        count = len(self.timestamps)
        compiler.expect(compiler.RECORD_COST * count)
        bodies = room(count, np.int64)
        table = np.empty((_PLAN_BATCHES, write_kernels.PLAN_COLUMNS), np.int64)
        row = 0
        while row < count:
            code, batches, row, size = write_kernels.plan_batches(
                self.keys.sizes,
                self.values.sizes,
                self.headers.sizes,
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

    def _written(self, bodies: Int64s, table: Int64s) -> Iterator[EncodedBatch]:
        out = room(int(table[:, write_kernels.BATCH_SIZE].sum()), np.uint8)
        columns = [
            (spans.data, spans.starts, spans.sizes) for spans in (self.keys, self.values, self.headers)
        ]
        write_kernels.write_records(
            *columns[0], *columns[1], *columns[2], self.timestamps, bodies, table, out
        )
        pos = 0
        for first, stop, size, base_timestamp, max_timestamp in table.tolist():
            data = out.data[pos : pos + size]
            pos += size
            if self.packing.codec is not None:
                payload = self.packing.codec.compress(data[BATCH_OVERHEAD:], self.packing.level)
                data = memoryview(bytearray().join((bytes(BATCH_OVERHEAD), payload)))
            self._stamp(data, stop - first, base_timestamp, max_timestamp)
            yield EncodedBatch(data, stop - first)

    def _stamp(self, data: memoryview, count: int, base_timestamp: int, max_timestamp: int) -> None:
        """Write the header; what is -1 or 0 here, the broker or ``with_producer`` fills in."""
        BATCH_HEADER.pack_into(
            data,
            0,
            *(0, len(data) - LOG_OVERHEAD, -1, self.packing.magic, 0),
            *(self.packing.codec.number if self.packing.codec else 0, count - 1),
            *(base_timestamp, max_timestamp),
            *NO_PRODUCER,
            count,
        )
