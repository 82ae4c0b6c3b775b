"""Record batches made of rows: magic 2, as producers write them since Kafka 0.11."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from .. import compiler
from ..columns import Int64s, room
from ..compression.gzip import Codec
from ..compression.table import codec_named
from ..encoded_batch import NO_PRODUCER, EncodedBatch, record_too_large
from ..legacy.encoding import encode_messages
from ..rows import Column, Records, header_column
from . import write_kernels

__all__ = ["EncodedBatch", "Records", "encode_batches"]

#: The whole header; what is -1 or 0 here, the broker or ``with_producer`` fills in.
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
#: Largest batch: its size is an int32, also where compression makes it a little larger.
_SIZE_MAX: Final = 2_000_000_000
#: Batches of one kernel call, and their bytes: so many that the call itself costs little.
_PLAN_BATCHES: Final = 64
_PLAN_BYTES: Final = 1 << 20


def encode_batches(
    records: Records,
    *,
    magic: int = 2,
    compression: str = "none",
    level: int | None = None,
    batch_bytes_max: int,
    request_bytes_max: int,
    now_ms: int,
) -> Iterator[EncodedBatch]:
    """Batches of all records, in order; each is what one partition of a Produce request carries.

    ``magic`` 2 needs Produce 3 (Kafka 0.11), 1 needs Produce 2 (0.10); before those it is 0, which
    has no timestamps. A batch has at most ``batch_bytes_max`` bytes before compression, or one
    record. Records without a timestamp have ``now_ms``.

    Raises ``RowError`` naming the row for a record whose batch would be larger than
    ``request_bytes_max``, a timestamp below 0, or headers where the magic has none; ``OptionError``
    for a wrong type, compression or level. All fatal.
    """
    codec = codec_named(compression, magic)
    batch_bytes_max, request_bytes_max = (
        min(each, _SIZE_MAX) for each in (batch_bytes_max, request_bytes_max)
    )
    if magic < 2:
        return encode_messages(records, magic, codec, level, batch_bytes_max, request_bytes_max, now_ms)
    keys, values = Column.of(records.keys, "key"), Column.of(records.values, "value")
    headers, timestamps = header_column(records.headers), records.timestamps(now_ms)
    encoder = _Encoder(keys, values, headers, timestamps, codec, level)
    return encoder.batches(batch_bytes_max, request_bytes_max)


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Columns of the rows, and how their batches are compressed."""

    keys: Column
    values: Column
    headers: Column
    timestamps: Int64s
    codec: Codec | None
    level: int | None

    def batches(self, batch_bytes_max: int, request_bytes_max: int) -> Iterator[EncodedBatch]:
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
                batch_bytes_max,
                request_bytes_max,
                _PLAN_BYTES,
                bodies,
                table,
            )
            if code == write_kernels.RECORD_TOO_LARGE:
                raise record_too_large(row, size, request_bytes_max)
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
            if self.codec is not None:
                payload = self.codec.compress(data[_HEADER.size :], self.level)
                data = memoryview(bytearray().join((bytes(_HEADER.size), payload)))
            self._stamp(data, stop - first, base_timestamp, max_timestamp)
            yield EncodedBatch(data, stop - first)

    def _stamp(self, data: memoryview, count: int, base_timestamp: int, max_timestamp: int) -> None:
        attributes = self.codec.number if self.codec else 0
        length = len(data) - 12
        _HEADER.pack_into(
            data,
            0,
            0,
            length,
            -1,
            2,
            0,
            attributes,
            count - 1,
            base_timestamp,
            max_timestamp,
            *NO_PRODUCER,
            count,
        )
