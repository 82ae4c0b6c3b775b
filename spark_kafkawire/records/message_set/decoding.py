"""Message sets of Kafka 0.6 and 0.7 (magic 0 and 1): decoding in bulk.

A message set is messages one after the other (layout: ``index``). A compressed message holds
a message set, again with compressed messages perhaps. Decoding is deep: rows are the innermost
messages, and offsets are byte positions of the outermost ones in the log.

    bytes -> index -> [flatten compressed messages] -> gather values -> check CRCs -> columns

Every step runs once for all messages of a buffer; only decompression runs once per message.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import CorruptDataError
from ...protocol.buffers import Buffers
from ...protocol.primitives import Buffer
from .. import compiler
from ..arrays import Int32s, Int64s, Uint8s, byte_array
from ..checksum import first_mismatch
from ..columns import Columns, binary_array
from ..limits import DEFAULT_LIMITS, DecodeLimits
from . import kernels
from .index import CODEC_MASK, HEADER_BYTES, LENGTH_BYTES, NO_VALUES, MessageIndex, Stop, damage, index_array
from .nesting import Level, flatten


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows of the first ``size`` bytes of a buffer, which are whole outermost messages.

    ``cut`` tells that what follows them is not a whole message, or nothing; otherwise a limit
    ended the call, and the rest can be decoded next.
    """

    columns: Columns
    size: int
    cut: bool


#: Payloads in a row, where each begins (one more for the end), the first row with a wrong CRC.
_Gathered = tuple[Uint8s, Int32s, int | None]


def decode(
    buf: Buffer,
    base_offset: int,
    limits: DecodeLimits = DEFAULT_LIMITS,
    *,
    values: bool = True,
    buffers: Buffers | None = None,
) -> Decoded:
    """Decode the whole messages at the start of ``buf``, which lies at ``base_offset`` of its log.

    A message that the buffer's end cuts is left over, never an error. ``nextOffset`` of an inner
    message is the end of its outermost one. All checksums are checked, also without ``values``.
    The values' memory is one of ``buffers``, used again once nobody looks at them.

    Raises ``CorruptDataError`` with the outermost message's offset for a wrong CRC, an unknown
    magic or codec, an impossible length or damaged compressed data at any level; ``LimitError``
    for a message that decompresses to too much or is nested too deep. All fatal.
    """
    whole, buffers = byte_array(buf), buffers or Buffers()
    window = _window(whole, limits)
    outer, copied = _index_copying(window, limits, buffers)
    if outer.stop in (Stop.BAD_LENGTH, Stop.BAD_MAGIC):
        offset = base_offset + outer.size
        raise CorruptDataError(
            f"no message begins at offset {offset} ({outer.stop.meaning}): the log is damaged there,"
            " or it was read from an offset where no message begins",
            offset,
        )
    level = Level(window, outer, np.arange(outer.count), outer.count)
    if copied is None:
        level = flatten(level, base_offset, limits)
    gathered = _gather(level.buf, level.index, copied, buffers)
    columns = _columns(level, outer, base_offset, values, gathered)
    size = outer.size if level.kept == outer.count else int(outer.pos[level.kept])
    is_limited = len(window) < len(whole) or outer.stop is Stop.ROWS_FULL or level.kept < outer.count
    return Decoded(columns, size, cut=not is_limited)


def _window(buf: Uint8s, limits: DecodeLimits) -> Uint8s:
    """As much of the buffer as one call may take: the batch limit, or one larger message."""
    if len(buf) <= limits.batch_bytes_max:
        return buf
    first = LENGTH_BYTES + int.from_bytes(buf[:LENGTH_BYTES].tobytes(), "big")
    return buf[: max(limits.batch_bytes_max, first)]


def _index_copying(
    window: Uint8s, limits: DecodeLimits, buffers: Buffers
) -> tuple[MessageIndex, Uint8s | None]:
    """The messages, and memory that begins with their payloads; None where some are compressed."""
    # Where the first one is compressed all are, most likely.
    if len(window) > HEADER_BYTES and window[4] and window[5] & CODEC_MASK:
        return index_array(window, limits.rows_max), None
    values = np.frombuffer(buffers.take(len(window)), np.uint8)
    outer = index_array(window, limits.rows_max, values)
    return outer, None if outer.codec.any() else values


def _columns(
    level: Level, outer: MessageIndex, base_offset: int, values: bool, gathered: _Gathered
) -> Columns:
    data, offsets, wrong_row = gathered
    if wrong_row is not None:
        origin = int(level.origin[wrong_row])
        raise damage(outer, origin, base_offset, "the CRC-32 of its payload is wrong")
    offset, next_offset = base_offset + outer.pos, base_offset + outer.next_pos
    place = np.zeros(len(offset), np.int32)
    if level.index is not outer:
        offset, next_offset = offset[level.origin], next_offset[level.origin]
        place = _index(level.origin)
    return Columns(offset, place, next_offset, binary_array(data, offsets) if values else None)


def _gather(buf: Uint8s, index: MessageIndex, copied: Uint8s | None, buffers: Buffers) -> _Gathered:
    """All payloads in a row, which the index_messages may have ``copied`` already."""
    compiler.expect(index.count)
    size = int(index.payload_size.sum())
    target = np.frombuffer(buffers.take(size), np.uint8) if copied is None else NO_VALUES
    data = target if copied is None else copied[:size]
    offsets = np.empty(index.count + 1, np.int32)
    kernels.gather(buf, index.payload_pos, index.payload_size, target, offsets)
    wrong_row = first_mismatch(buf, index.payload_pos, index.payload_size, index.crc)
    return data, offsets, wrong_row


def _index(origin: Int64s) -> Int32s:
    """The place of each row among those of the same origin."""
    rows = np.arange(len(origin))
    first = np.flatnonzero(np.diff(origin, prepend=-1))
    counts = np.diff(first, append=len(origin))
    return (rows - np.repeat(first, counts)).astype(np.int32)
