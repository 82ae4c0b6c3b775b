"""The shallow index of a message set: where each message lies, before anything is decompressed.

    length int32 | magic int8 = 0 |                   crc uint32 | payload     (Kafka 0.6)
    length int32 | magic int8 = 1 | attributes int8 | crc uint32 | payload     (Kafka 0.7)

``length`` counts what follows it, ``crc`` is the CRC-32 of the payload, the lowest two bits of
``attributes`` name the codec. Both magics may alternate within one set.
Source: recordings of a 0.7.2 broker.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import CorruptDataError
from ..protocol.primitives import Buffer
from . import compiler, kernels
from .columns import Int64s

Uint8s = npt.NDArray[np.uint8]

LENGTH_BYTES: Final = 4
#: Bytes before the payload of a magic-0 message; one more with magic 1.
HEADER_BYTES: Final = 9
MAGIC_MAX: Final = 1
#: The bits of ``attributes`` that name the codec. The others mean nothing and are kept.
CODEC_MASK: Final = 3

_LENGTH: Final = struct.Struct(">i")
#: Element types of the columns of ``Entries``, in order.
_DTYPES: Final = (np.int64, np.int64, np.int64, np.uint32, np.uint8, np.uint8, np.int64)
#: Rows that are indexed before the number of the others is guessed from them.
_FIRST_ROWS: Final = 1024


class Stop(enum.IntEnum):
    """Why ``walk`` went no further."""

    END = kernels.END
    CUT = kernels.CUT
    BAD_LENGTH = kernels.BAD_LENGTH
    BAD_MAGIC = kernels.BAD_MAGIC

    @property
    def meaning(self) -> str:
        """What was found where the walk stopped, for error messages."""
        return _MEANINGS[self]


_MEANINGS: Final = {
    Stop.END: "nothing more",
    Stop.CUT: "a message that is cut",
    Stop.BAD_LENGTH: "a message of an impossible length",
    Stop.BAD_MAGIC: "a message of an unknown magic",
}


@dataclass(frozen=True, slots=True)
class Entries:
    """Messages of a buffer, one row each, in order. The columns own their memory.

    ``size`` bytes were indexed, all of them whole messages, and ``stop`` tells why no more: the
    ``END`` of the buffer, a message ``CUT`` by it, or one that cannot be. ``pos`` (int64) is where
    a message begins, ``payload_pos`` and ``payload_size`` (int64) span its payload, ``crc``
    (uint32) is the checksum it claims, ``magic`` and ``attributes`` are uint8 (attributes 0 with
    magic 0), ``region`` (int64) is the part of the buffer it was found in: 0 where there is one.
    """

    size: int
    stop: Stop
    pos: Int64s
    payload_pos: Int64s
    payload_size: Int64s
    crc: npt.NDArray[np.uint32]
    magic: Uint8s
    attributes: Uint8s
    region: Int64s

    @property
    def count(self) -> int:
        """Number of messages."""
        return len(self.pos)

    @property
    def next_pos(self) -> Int64s:
        """Where each message ends."""
        return self.payload_pos + self.payload_size

    @property
    def codec(self) -> Uint8s:
        """The codec number of each message, 0 for a plain one."""
        return self.attributes & np.uint8(CODEC_MASK)


def walk(buf: Buffer) -> Entries:
    """Index the messages of ``buf`` without reading payloads. Never raises, whatever the bytes."""
    array = byte_array(buf)
    entries = walk_regions(array, np.zeros(1, np.int64), np.array([len(array)], np.int64))
    if entries.stop is Stop.END and entries.size < len(array):
        return replace(entries, stop=Stop.CUT)
    return entries


def entry_size(buf: Buffer) -> int | None:
    """Size of the message at the start of ``buf``, its length field included.

    None while the length is not there yet. Raises ``CorruptDataError`` (fatal) where the bytes
    that are there cannot begin a message.
    """
    if len(buf) < LENGTH_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(buf)
    magic = buf[LENGTH_BYTES] if len(buf) > LENGTH_BYTES else 0
    if magic > MAGIC_MAX:
        raise CorruptDataError(f"no message begins here: magic {magic} is not one of Kafka 0.7")
    if length < HEADER_BYTES - LENGTH_BYTES + magic:
        raise CorruptDataError(f"no message begins here: length {length} is shorter than a header")
    return LENGTH_BYTES + int(length)


def byte_array(buf: Buffer) -> Uint8s:
    """The buffer's bytes as a read-only array, which owns no memory."""
    array = np.frombuffer(buf, np.uint8)
    # Kernels are compiled for read-only input, whatever the buffer is.
    array.flags.writeable = False
    return array


def walk_regions(buf: Uint8s, starts: Int64s, stops: Int64s) -> Entries:
    """Index the messages of several sets that lie in ``buf`` in ascending order.

    Set ``i`` is ``[starts[i], stops[i])``; what a set's end cuts is passed over, but a set
    with no whole message and at least a length stops the walk as ``CUT``.
    """
    room = min(len(buf) // (HEADER_BYTES + 1) + 1, _FIRST_ROWS)
    columns: Any = [np.empty(room, dtype) for dtype in _DTYPES]
    region, pos, row = 0, int(starts[0]), 0
    while True:
        code, region, pos, row = kernels.walk(buf, starts, stops, region, pos, row, *columns)
        if code != kernels.ROWS_FULL:
            return Entries(pos, Stop(code), *(column[:row] for column in columns))
        guess = row * (len(buf) - pos) // pos
        compiler.expect(guess)
        room = row + guess + guess // 8 + 64
        columns = [_grown(column, room) for column in columns]


def _grown(column: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    grown = np.empty(room, column.dtype)
    grown[: len(column)] = column
    return grown
