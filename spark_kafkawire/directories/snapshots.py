"""The snapshots of producers' states beside a segment, ``NNN.snapshot``: the open transactions at an offset.
Pure.

    version int16 = 1 | crc uint32 | count int32 | entries
    entry: producer id int64 | producer epoch int16 | last sequence int32 | last offset int64
           | offset delta int32 | timestamp int64 | coordinator epoch int32 | first offset of its open
           transaction int64, -1 without one

``crc`` is the CRC-32C of all bytes after it. The number in the file's name is the offset up to which the log
was read. Source: Apache Kafka's ProducerStateManager.java, ProducerSnapshot.json.
"""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from .file_damage import damaged_file

_HEAD: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_END: Final = 6
_VERSION: Final = 1


def open_transactions(data: bytes) -> dict[int, int]:
    """The first offset of the open transaction of each producer that has one.

    Raises ``CorruptDataError`` (fatal) for a wrong CRC, size or version.
    """
    if len(data) < _HEAD.size:
        raise damaged_file(f"it has {len(data)} bytes, fewer than its header")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise damaged_file(f"it has version {version}; {_VERSION} is supported")
    if crc32c.crc32c(data[_CRC_END:]) != crc:
        raise damaged_file("its CRC is wrong")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise damaged_file(f"it has {len(data)} bytes, which are not {count} entries")
    entries = (_ENTRY.unpack_from(data, _HEAD.size + index * _ENTRY.size) for index in range(count))
    return {entry[0]: entry[-1] for entry in entries if entry[-1] >= 0}
