"""The shallow index of a message set of Kafka 0.6 and 0.7: the place of each message, before decompression;
and the walk over the messages of a damaged log: the sound ones, and the extent of the damage. Pure.

length int32 | magic int8 = 0 |                   crc uint32 | payload     (Kafka 0.6)
    length int32 | magic int8 = 1 | attributes int8 | crc uint32 | payload     (Kafka 0.7)

``length`` counts the bytes after it, ``crc`` is the CRC-32 of the payload, the lowest two bits of
``attributes`` name the codec. Both magics may alternate within one set.

``records.damage`` says which places prove where a log continues. An offset is the position of a byte, so the
offsets of sound messages are right once their begin is proven. No checksum covers length, magic and
attributes of a message.

Source: recordings of a 0.7.2 broker.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.protocol.primitives import Buffer, read_int32

from .. import compiler
from ..arrays import Int64s, Uint8s, byte_array, room
from ..checksum import crc32
from ..damage import SEARCH_BYTES, Entries, Undecodable, Walk
from ..limits import VALUE_BYTES_MAX
from . import kernels
from .kernels import ATTRIBUTES_POS, CODEC_MASK, CRC_BYTES, LENGTH_BYTES, LENGTH_MIN

MAGIC_MAX: Final = 1
#: Smallest message: one of magic 0 and no payload.
MESSAGE_SIZE_MIN: Final = LENGTH_BYTES + LENGTH_MIN
#: The columns of ``MessageIndex``, in the order in which ``kernels.index_messages`` fills them.
_COLUMNS: Final = {
    "pos": np.int64,
    "payload_pos": np.int64,
    "payload_size": np.int64,
    "crc": np.uint32,
    "magic": np.uint8,
    "attributes": np.uint8,
    "region": np.int64,
}
#: Rows that are indexed before the number of the others is guessed from them.
_FIRST_ROWS: Final = 1024


class Stop(enum.IntEnum):
    """Reason for the end of an index, and its ``meaning`` for error messages."""

    END = kernels.END, "nothing more"
    CUT = kernels.CUT, "a message that is cut"
    ROWS_FULL = kernels.ROWS_FULL, "more messages than were asked for"
    BAD_LENGTH = kernels.BAD_LENGTH, "a message of an impossible length"
    BAD_MAGIC = kernels.BAD_MAGIC, "a message of an unknown magic"

    meaning: str

    def __new__(cls, code: int, meaning: str = "") -> Stop:
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member


@dataclass(frozen=True, slots=True)
class MessageIndex:
    """Messages of a buffer, one row each, in order. The columns own their memory.

    ``size`` bytes were indexed, all of them whole messages, and ``stop`` is the reason for the end: the
    ``END`` of the buffer, a message ``CUT`` by it, a damaged one, or ``ROWS_FULL``. ``pos`` (int64) is the
    position of a message, ``payload_pos`` and ``payload_size`` (int64) span its payload, ``crc`` (uint32) is
    the checksum it claims, ``magic`` and ``attributes`` are uint8 (attributes 0 with magic 0), ``region``
    (int64) is the part of the buffer that holds it: 0 if there is only one.
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
        return len(self.pos)

    def head(self, count: int) -> MessageIndex:
        """The first ``count`` messages; ``stop`` and ``size`` do not change."""
        columns: Any = {name: getattr(self, name)[:count] for name in _COLUMNS}
        return replace(self, **columns)

    @property
    def next_pos(self) -> Int64s:
        """Position after each message."""
        return self.payload_pos + self.payload_size

    @property
    def codec(self) -> Uint8s:
        """The codec number of each message, 0 for a plain one."""
        codec: Uint8s = self.attributes & np.uint8(CODEC_MASK)
        return codec


def index_messages(buf: Buffer, rows_max: int = sys.maxsize) -> MessageIndex:
    """Index the messages of ``buf``, ``rows_max`` at most, without reading payloads.

    Never raises, whatever the bytes.
    """
    return index_array(byte_array(buf), rows_max)


def message_size(buf: Buffer) -> int | None:
    """Size of the message at the start of ``buf``, its length field included.

    None if ``buf`` is too short for the length. Raises ``CorruptDataError`` (fatal) if its bytes cannot begin
    a message.
    """
    if len(buf) < LENGTH_BYTES:
        return None
    length = read_int32(buf)
    magic = buf[LENGTH_BYTES] if len(buf) > LENGTH_BYTES else 0
    if magic > MAGIC_MAX:
        raise CorruptDataError(
            f"no message of Kafka 0.7 begins here, its magic would be {magic}: begin at the offset of a "
            "message; if this is one, the data is damaged, or of a newer Kafka"
        )
    if length < LENGTH_MIN + magic:
        raise CorruptDataError(
            f"no message of Kafka 0.7 begins here, its length would be {length}, shorter than a header: "
            "begin at the offset of a message; if this is one, the data is damaged"
        )
    return LENGTH_BYTES + length


def damage(offset: int, next_offset: int, reason: str) -> CorruptDataError:
    return CorruptDataError(
        f"message at offset {offset} is damaged: {reason}; to read on after it, start at offset "
        f"{next_offset}",
        offset,
        reason=reason,
    )


def index_array(buf: Uint8s, rows_max: int) -> MessageIndex:
    """``index_messages`` of a read-only array."""
    starts, stops = np.zeros(1, np.int64), np.array([len(buf)], np.int64)
    code, pos, columns = _index(buf, starts, stops, rows_max)
    is_cut = code == kernels.END and pos < len(buf)
    return MessageIndex(pos, Stop.CUT if is_cut else Stop(code), *columns)


def index_regions(buf: Uint8s, starts: Int64s, stops: Int64s, rows_max: int) -> MessageIndex:
    """Index the messages of several sets that lie in ``buf`` in ascending order.

    Set ``i`` is ``[starts[i], stops[i])``; a message that a set's end cuts is skipped, but a set with no
    whole message and at least a length stops the index as ``CUT``.
    """
    code, pos, columns = _index(buf, starts, stops, rows_max)
    return MessageIndex(pos, Stop(code), *columns)


def _index(buf: Uint8s, starts: Int64s, stops: Int64s, rows_max: int) -> tuple[int, int, Any]:
    """The kernel's code, the place where it stopped, and the columns, which grow with the number of messages
    found."""
    columns: Any = [room(first_rows(buf, rows_max), dtype) for dtype in _COLUMNS.values()]
    region, pos, row = 0, int(starts[0]), 0
    while True:
        code, region, pos, row = kernels.index_messages(buf, starts, stops, region, pos, row, *columns)
        if code != kernels.ROWS_FULL or row == rows_max:
            return code, pos, [column[:row] for column in columns]
        columns = [grown(column, row, more_rows(buf, pos, row, rows_max)) for column in columns]


def first_rows(buf: Uint8s, rows_max: int) -> int:
    """Number of rows to make room for before any message was seen."""
    return min(len(buf) // MESSAGE_SIZE_MIN + 1, _FIRST_ROWS, rows_max)


def more_rows(buf: Uint8s, pos: int, row: int, rows_max: int) -> int:
    """Number of rows to make room for once there were ``row`` in the first ``pos`` bytes."""
    guess = row * (len(buf) - pos) // pos
    compiler.expect(guess)
    return min(row + guess + guess // 8 + 64, rows_max)


def grown(column: npt.NDArray[Any], row: int, count: int) -> npt.NDArray[Any]:
    """The first rows of the column, with room for ``count``."""
    larger = room(count, column.dtype)
    larger[:row] = column[:row]
    return larger


OFFSET_MAX: Final = 2**63 - 1


def walk_messages(
    buf: Buffer,
    base_offset: int,
    stop_offset: int = OFFSET_MAX,
    *,
    size_max: int = VALUE_BYTES_MAX,
    is_end: bool = False,
    boundaries: Iterable[int] = (),
    undecodable: Undecodable | None = None,
) -> Walk:
    """The sound messages of ``buf``, which begins with one at ``base_offset``, and the damage between them.

    No message crosses ``stop_offset``. With ``is_end`` a message ends where the buffer does, so a cut one is
    damaged. ``boundaries`` are positions of the buffer where messages are known to begin. A message larger
    than ``size_max`` cannot be. ``undecodable`` are sound messages that ``decode`` refused. Never raises.
    """
    array = byte_array(buf)
    return _Messages(array, base_offset, stop_offset, size_max, is_end, boundaries, undecodable).walk()


class _Messages(Entries):
    """Outermost messages of magic 0 and 1."""

    def walk(self) -> Walk:
        builder, pos = self._builder, 0
        while pos < self.size:
            if not self._is_end and (self.size - pos < MESSAGE_SIZE_MIN or self.claimed_end(pos) > self.size):
                break
            if not (reason := self._fault(pos)):
                end = self.sound_end(pos)
                builder.add_whole(pos, end, self._start_offset + pos, self._start_offset + end)
                pos = end
                continue
            stop = self.resume(pos)
            builder.add_damage(pos, stop if stop > 0 else self.size, reason)
            if stop < 0:
                break
            if stop == self.size:
                builder.close(self._start_offset + stop)
            pos = stop
        return builder.walk(pos)

    def _fault(self, pos: int) -> str:
        if self.size - pos < MESSAGE_SIZE_MIN:
            return "it is cut"
        if (end := self.claimed_end(pos)) < 0:
            return "it has a length or a magic that cannot be"
        if end > self.size:
            return "it is longer than the rest of the log"
        if self.sound_end(pos, is_free=True) < 0:
            return "the CRC-32 of its payload is wrong"
        return self._undecodable.get((self._start_offset + pos, end - pos), "")

    def claimed_end(self, pos: int) -> int:
        if self.size - pos < MESSAGE_SIZE_MIN:
            return -1
        length, magic = read_int32(self._view, pos), self._view[pos + LENGTH_BYTES]
        # The magic may be what is damaged.
        size_min = LENGTH_MIN + (magic if magic <= MAGIC_MAX else 0)
        end = pos + LENGTH_BYTES + length
        is_too_large = length > self._size_max and end > self.size
        is_after = self._start_offset + end > self._stop_offset
        return -1 if length < size_min or is_after or is_too_large else end

    def is_right(self, pos: int, end: int) -> bool:
        if self._view[pos + LENGTH_BYTES] > MAGIC_MAX:
            return False
        crc = self._crc_pos(pos)
        return crc32(self._view[crc + CRC_BYTES : end]) == read_int32(self._view, crc) & 0xFFFFFFFF

    def likely(self, start: int, stop: int) -> Iterator[int]:
        last = min(stop, self.size - MESSAGE_SIZE_MIN + 1)
        for begin in range(start, last, SEARCH_BYTES):
            count = min(SEARCH_BYTES, last - begin)
            lengths = np.ndarray((count,), ">i4", self._view, begin, (1,))
            magics = np.ndarray((count,), np.uint8, self._view, begin + LENGTH_BYTES, (1,))
            rows = np.flatnonzero((magics <= MAGIC_MAX) & (lengths >= LENGTH_MIN))
            ends = begin + rows + LENGTH_BYTES + lengths[rows].astype(np.int64)
            for row in rows[ends <= self.size].tolist():
                if self.claimed_end(begin + row) > 0:
                    yield begin + row

    def completion(self, pos: int) -> Callable[[int], bool]:
        if self.size - pos < MESSAGE_SIZE_MIN + MAGIC_MAX:
            return lambda _: False
        start = self._crc_pos(pos) + CRC_BYTES
        claimed = read_int32(self._view, start - CRC_BYTES) & 0xFFFFFFFF
        state = [start, 0]

        def is_completed(end: int) -> bool:
            if end < state[0]:
                return False
            state[:] = end, crc32(self._view[state[0] : end], state[1])
            return state[1] == claimed

        return is_completed

    def may_hold(self, damaged: int, pos: int) -> bool:
        return self._is_compressed(damaged) and not self._is_compressed(pos)

    def _is_compressed(self, pos: int) -> bool:
        is_cut = self.size - pos <= ATTRIBUTES_POS
        return not is_cut and bool(
            self._view[pos + LENGTH_BYTES] and self._view[pos + ATTRIBUTES_POS] & CODEC_MASK
        )

    def _crc_pos(self, pos: int) -> int:
        return pos + ATTRIBUTES_POS + min(self._view[pos + LENGTH_BYTES], MAGIC_MAX)
