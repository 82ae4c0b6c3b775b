"""Message sets of magic 0 and 1 made of rows, for brokers before Kafka 0.11.

Uncompressed, each row is one message. Compressed, these messages are the value of one message.
Offsets count from 0; the broker makes them those of its log. Layout: ``legacy_records``.
Source: Apache Kafka's LegacyRecord.java and MemoryRecordsBuilder.java.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...errors import RowError
from .. import compiler
from ..batch import write_kernels
from ..checksum import crc32, crc32_each
from ..columns import Int64s
from ..compression.gzip import Codec
from ..encoded_batch import EncodedBatch, record_too_large
from ..message_set.index import byte_array
from ..rows import Column, Records, header_counts

_CRC_POS: Final = 12
_MAGIC_POS: Final = 16
#: A message without key and value, by magic.
_OVERHEAD: Final = (26, 34)
#: ``offset | size | crc | magic | attributes | [timestamp |] key size = -1 | value size``.
_WRAPPERS: Final = (struct.Struct(">qiIbbii"), struct.Struct(">qiIbbqii"))


def encode_messages(
    records: Records,
    magic: int,
    codec: Codec | None,
    level: int | None,
    batch_bytes_max: int,
    request_bytes_max: int,
    now_ms: int,
) -> Iterator[EncodedBatch]:
    """Message sets of all records, in order; raises as ``encode_batches`` tells."""
    if (counts := header_counts(records.headers)).any():
        row = int(np.argmax(counts > 0))
        raise RowError(f"row {row}: headers need Kafka 0.11 or later, and this broker is older")
    keys, values = Column.of(records.keys, "key"), Column.of(records.values, "value")
    sizes = keys.sizes_of(records.count) + values.sizes_of(records.count) + _OVERHEAD[magic]
    if records.count and sizes.max() > request_bytes_max:
        row = int(np.argmax(sizes > request_bytes_max))
        raise record_too_large(row, int(sizes[row]), request_bytes_max)
    encoder = _Encoder(keys, values, records.timestamps(now_ms), sizes, magic, codec, level)
    return encoder.batches(batch_bytes_max)


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Columns of the rows, and how their messages are compressed. ``sizes`` are those of the messages."""

    keys: Column
    values: Column
    timestamps: Int64s
    sizes: Int64s
    magic: int
    codec: Codec | None
    level: int | None

    def batches(self, batch_bytes_max: int) -> Iterator[EncodedBatch]:
        compiler.expect(len(self.sizes))
        stops = np.cumsum(self.sizes)
        first, done = 0, 0
        while first < len(stops):
            stop = max(int(np.searchsorted(stops, done + batch_bytes_max, "right")), first + 1)
            data = self._messages(first, stop)
            if self.codec is not None:
                data = self._wrapped(data, first, stop)
            yield EncodedBatch(data, stop - first, self.magic)
            first, done = stop, int(stops[stop - 1])

    def _messages(self, first: int, stop: int) -> memoryview:
        sizes = self.sizes[first:stop]
        starts = np.cumsum(sizes) - sizes
        out = np.empty(int(sizes.sum()), np.uint8)
        columns = (
            *(self.keys.data, self.keys.starts, self.keys.sizes),
            *(self.values.data, self.values.starts, self.values.sizes),
        )
        write_kernels.write_messages(*columns, self.timestamps, first, stop, self.magic, out)
        # What a CRC covers, and what lies between, as one row of spans.
        bounds = np.column_stack((starts + _MAGIC_POS, starts + sizes)).reshape(-1)
        crcs = crc32_each(byte_array(out.data), bounds)[::2]
        places = starts[:, None] + np.arange(_CRC_POS, _MAGIC_POS)
        out[places] = crcs.astype(">u4").view(np.uint8).reshape(-1, 4)
        return out.data

    def _wrapped(self, content: memoryview, first: int, stop: int) -> memoryview:
        assert self.codec is not None
        payload = self.codec.compress(content, self.level)
        timestamps = (int(self.timestamps[first:stop].max()),) if self.magic else ()
        head = (stop - first - 1, _OVERHEAD[self.magic] - 12 + len(payload), 0, self.magic, self.codec.number)
        data = bytearray().join((_WRAPPERS[self.magic].pack(*head, *timestamps, -1, len(payload)), payload))
        data[_CRC_POS:_MAGIC_POS] = crc32(memoryview(data)[_MAGIC_POS:]).to_bytes(4, "big")
        return memoryview(data)
