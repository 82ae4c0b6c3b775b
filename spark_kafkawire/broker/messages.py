"""Checks of message bytes as a 0.7.2 broker makes them: at a produce request, and at recovery.

Source: recordings (``produce/*``), 0.7.2 message/ByteBufferMessageSet.scala (the order of the
checks), message/FileMessageSet.scala (recovery).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import CorruptDataError
from ..protocol.primitives import Buffer, read_int32
from ..records.checksum import crc32
from ..records.message_set.decoding import decode
from ..records.message_set.index import MessageIndex, Stop, index_messages, message_size
from ..records.message_set.kernels import LENGTH_BYTES

#: Bytes of a segment that are checked at once; a larger message is checked as a whole.
RECOVERY_WINDOW_BYTES: Final = 16 << 20


class OversizeMessage(Exception):
    """A payload is above ``max.message.size``: the broker silently drops its whole set."""


@dataclass(frozen=True, slots=True)
class CheckedSet:
    """The part of a produced set that is stored: its first ``size`` bytes, which are whole messages.

    ``count`` is the number of messages in them when compressed ones are unpacked.
    """

    size: int
    count: int


def check_produced(message_set: Buffer, payload_size_max: int) -> CheckedSet:
    """Check a produced set at all levels of nesting. A message that its end cuts is dropped.

    Raises ``OversizeMessage``, ``CorruptDataError`` for sets that 0.7.2 refuses, and ``LimitError`` for a set
    that decompresses to more than ``DecodeLimits`` allow; 0.7.2 itself has no such limit.
    """
    buf = memoryview(message_set)
    index = index_messages(buf)
    oversize = (index.payload_size > payload_size_max).nonzero()[0]
    if len(oversize):
        # By then 0.7.2 has checked only the messages before it, and its own checksum.
        row = int(oversize[0])
        if (wrong := _first_wrong_crc(buf, index, row + 1)) is not None:
            raise CorruptDataError(f"the CRC-32 of the message at {wrong} is wrong; send it again")
        raise OversizeMessage(
            f"payload of {index.payload_size[row]} bytes is above max.message.size {payload_size_max}; "
            "raise that"
        )
    if index.stop is not Stop.END and not _is_partial(buf, index):
        raise CorruptDataError(f"the message set holds {index.stop.meaning} at {index.size}")
    return CheckedSet(index.size, _count_deep(buf[: index.size]))


def _is_partial(buf: memoryview, index: MessageIndex) -> bool:
    """Return true if the bytes after the whole messages are a message that the end of the set cuts, and not
    the first message."""
    rest = buf[index.size :]
    if len(rest) < LENGTH_BYTES:
        return True
    return index.count > 0 and read_int32(rest) > len(rest) - LENGTH_BYTES


def _count_deep(buf: memoryview) -> int:
    pos = count = 0
    while pos < len(buf):
        decoded = decode(buf[pos:], pos, values=False)
        pos += decoded.size
        count += decoded.columns.count
    return count


def valid_size(data: memoryview) -> int:
    """Number of bytes at the start of a segment that are whole messages with a right CRC.

    Messages inside compressed ones are not checked.
    """
    pos = 0
    while size := _next_size(data[pos:]):
        window = data[pos : pos + max(size, RECOVERY_WINDOW_BYTES)]
        index = index_messages(window)
        if (wrong := _first_wrong_crc(window, index, index.count)) is not None:
            return pos + wrong
        assert index.size, "a message that is whole was not indexed"
        pos += index.size
    return pos


def _next_size(data: memoryview) -> int:
    """Size of the message that ``data`` begins with, 0 where that is cut or cannot be one."""
    try:
        size = message_size(data)
    except CorruptDataError:
        return 0
    return size if size is not None and size <= len(data) else 0


def _first_wrong_crc(buf: memoryview, index: MessageIndex, count: int) -> int | None:
    """The position of the first of ``count`` messages whose payload does not match its CRC-32."""
    starts, stops = index.payload_pos[:count].tolist(), index.next_pos[:count].tolist()
    for row, claimed in enumerate(index.crc[:count].tolist()):
        if crc32(buf[starts[row] : stops[row]]) != claimed:
            return int(index.pos[row])
    return None
