"""Message sets of magic 0 and 1 made of rows, for brokers of Kafka 0.8 to 0.10.

Uncompressed, each row is one message. Compressed, these messages are the value of one message.
Offsets count from 0; the broker makes them those of its log. Layout: ``decoding``.
Source: Apache Kafka's LegacyRecord.java and MemoryRecordsBuilder.java.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_kafkawire.errors import RowError

from .. import compiler
from ..arrays import Int64s, byte_array
from ..checksum import crc32, crc32_each
from ..compression.codec import Codec
from ..encoded_batch import EncodedBatch, Packing, record_too_large
from ..headers import header_counts
from ..log_layout import (
    LOG_OVERHEAD,
    MAGIC_POS,
    MESSAGE_CRC_POS,
    MESSAGE_HEADER,
    MESSAGE_OVERHEAD,
    TIMESTAMP_BYTES,
)
from ..rows import Column, Records, cut
from . import kernels

#: A message without key and value, by magic.
_OVERHEAD: Final = (MESSAGE_OVERHEAD, MESSAGE_OVERHEAD + TIMESTAMP_BYTES)
#: Fields before a compressed message's value, by magic: ``[timestamp |] key size = -1 | value size``.
_WRAPPERS: Final = (struct.Struct(f"{MESSAGE_HEADER.format}ii"), struct.Struct(f"{MESSAGE_HEADER.format}qii"))


def encode_messages(parts: Sequence[Records], packing: Packing, now_ms: int) -> Iterator[EncodedBatch]:
    """Message sets of the records of all parts, in order; raises as ``record_log.encode_batches`` says."""
    records = Records.concat(parts)
    if (counts := header_counts(records.headers)).any():
        row = int(np.argmax(counts > 0))
        raise RowError(f"row {row}: headers need Kafka 0.11 or later, and this broker is older; drop them")
    keys, values = Column.of(records.keys, "key"), Column.of(records.values, "value")
    sizes = keys.sizes_of(records.count) + values.sizes_of(records.count) + _OVERHEAD[packing.magic]
    if records.count and sizes.max() > packing.request_bytes_max:
        row = int(np.argmax(sizes > packing.request_bytes_max))
        raise record_too_large(row, int(sizes[row]), packing.request_bytes_max)
    return _MessageEncoder(keys, values, records.timestamps(now_ms), sizes, packing).sets()


@dataclass(frozen=True, slots=True)
class _MessageEncoder:
    """Columns of the rows, and how they become message sets. ``sizes`` are those of the messages."""

    keys: Column
    values: Column
    timestamps: Int64s
    sizes: Int64s
    packing: Packing

    def sets(self) -> Iterator[EncodedBatch]:
        compiler.expect(len(self.sizes))
        for start, stop in cut(self.sizes, self.packing.batch_bytes_max):
            data = self._messages(start, stop)
            if self.packing.codec is not None:
                data = self._wrapped(data, start, stop, self.packing.codec)
            yield EncodedBatch(data, stop - start, self.packing.magic)

    def _messages(self, start: int, stop: int) -> memoryview:
        sizes = self.sizes[start:stop]
        starts = np.cumsum(sizes) - sizes
        out = np.empty(int(sizes.sum()), np.uint8)
        columns = (
            *(self.keys.data, self.keys.starts, self.keys.sizes),
            *(self.values.data, self.values.starts, self.values.sizes),
        )
        kernels.write_messages(*columns, self.timestamps, start, stop, self.packing.magic, out)
        # The bytes that a CRC covers, and those between, as one row of spans.
        bounds = np.column_stack((starts + MAGIC_POS, starts + sizes)).reshape(-1)
        crcs = crc32_each(byte_array(out.data), bounds)[::2]
        places = starts[:, None] + np.arange(MESSAGE_CRC_POS, MAGIC_POS)
        out[places] = crcs.astype(">u4").view(np.uint8).reshape(-1, 4)
        return out.data

    def _wrapped(self, content: memoryview, start: int, stop: int, codec: Codec) -> memoryview:
        """The compressed message that holds these messages."""
        magic, payload = self.packing.magic, codec.compress(content, self.packing.level)
        timestamps = (int(self.timestamps[start:stop].max()),) if magic else ()
        header = (stop - start - 1, _OVERHEAD[magic] - LOG_OVERHEAD + len(payload), 0, magic, codec.number)
        before = _WRAPPERS[magic].pack(*header, *timestamps, -1, len(payload))
        data = bytearray().join((before, payload))
        data[MESSAGE_CRC_POS:MAGIC_POS] = crc32(memoryview(data)[MAGIC_POS:]).to_bytes(4, "big")
        return memoryview(data)
