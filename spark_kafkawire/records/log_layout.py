"""Positions of the fields of batches and messages in a log of Kafka 0.8 or later.

    offset int64 | size int32 | crc uint32 | magic int8 = 0, 1 | attributes int8 | [timestamp int64] | ...
    offset int64 | size int32 | epoch int32 | magic int8 = 2 | crc uint32 | attributes int16
        | last offset delta int32 | base timestamp int64 | max timestamp int64
        | producer id int64 | producer epoch int16 | base sequence int32 | count int32 | records

All formats have offset, size and magic at the same places. ``size`` counts the bytes after it. Magic 0 has no
timestamp. Source: Apache Kafka's DefaultRecordBatch.java, LegacyRecord.java; KIP-32, KIP-98.
"""

from __future__ import annotations

import struct
from typing import Final

MESSAGE_HEADER: Final = struct.Struct(">qiIbb")
BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")


def _positions(header: struct.Struct) -> tuple[int, ...]:
    """Position of each field."""
    fields = header.format[1:]
    return tuple(struct.calcsize(f">{fields[:i]}") for i in range(len(fields)))


_, SIZE_POS, MESSAGE_CRC_POS, MAGIC_POS, MESSAGE_ATTRIBUTES_POS = _positions(MESSAGE_HEADER)
TIMESTAMP_POS: Final = MESSAGE_HEADER.size
TIMESTAMP_BYTES: Final = 8
(
    *(_, _, _, _),
    BATCH_CRC_POS,
    BATCH_ATTRIBUTES_POS,
    LAST_DELTA_POS,
    BASE_TIMESTAMP_POS,
    MAX_TIMESTAMP_POS,
    PRODUCER_ID_POS,
    _,
    _,
    COUNT_POS,
) = _positions(BATCH_HEADER)

#: ``offset | size``, which ``size`` does not count.
LOG_OVERHEAD: Final = MESSAGE_CRC_POS
#: The size before a key or a value of a message.
LENGTH_BYTES: Final = 4
#: A message of magic 0 without key and value; with magic 1 it has a timestamp more.
MESSAGE_OVERHEAD: Final = MESSAGE_HEADER.size + 2 * LENGTH_BYTES
#: A batch before its records.
BATCH_OVERHEAD: Final = BATCH_HEADER.size
#: Smallest record of a batch: seven numbers of one byte.
RECORD_BYTES_MIN: Final = 7

#: Bits of the attributes: the codec's number, ...
CODEC_MASK: Final = 7
#: ... that the timestamp is the broker's, and in a batch its largest one that of all records, ...
TIMESTAMP_TYPE_BIT: Final = 8
#: ... that a batch belongs to a transaction, and that it holds a marker of the broker and no records.
TRANSACTIONAL_BIT: Final = 16
CONTROL_BIT: Final = 32
