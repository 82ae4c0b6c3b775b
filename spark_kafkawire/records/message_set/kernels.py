"""The loops over the messages of a set of Kafka 0.6 and 0.7; the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any, Final

from ..compiler import BYTES, PLACE, inlined, kernel
from ..native import copy, library_crc32

#: Why a kernel came back.
END: Final = 0
CUT: Final = 1
ROWS_FULL: Final = 2
BAD_LENGTH: Final = 3
BAD_MAGIC: Final = 4
#: Of ``read_plain`` only: it does not read compressed messages.
COMPRESSED: Final = 5
#: Of ``message_at`` only: a whole message.
WHOLE: Final = 6

LENGTH_BYTES: Final = 4
CRC_BYTES: Final = 4
#: Position of the attributes of a message; magic 0 has none.
ATTRIBUTES_POS: Final = LENGTH_BYTES + 1
#: Least value of the length; one more with magic 1.
LENGTH_MIN: Final = 1 + CRC_BYTES
#: The bits of a message's attributes that name its codec. The others have no meaning and are kept.
CODEC_MASK: Final = 3
_LENGTH_MAX: Final = 2**31 - 1


@inlined
def uint32(buf: Any, pos: int) -> int:
    """The unsigned big-endian integer at ``pos``."""
    value: int = (buf[pos] << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | buf[pos + 3]
    return value


@inlined
def message_at(buf: Any, pos: int, stop: int) -> tuple[int, int, int]:
    """``(code, end, crc)``: end of the message at ``pos`` and position of its CRC, if it is ``WHOLE``.

    At least its length is before ``stop``.
    """
    length = uint32(buf, pos)
    if length < LENGTH_MIN or length > _LENGTH_MAX:
        return BAD_LENGTH, pos, pos
    end = pos + LENGTH_BYTES + length
    if end > stop:
        return CUT, pos, pos
    magic = buf[pos + LENGTH_BYTES]
    if magic > 1:
        return BAD_MAGIC, pos, pos
    if length < LENGTH_MIN + magic:
        return BAD_LENGTH, pos, pos
    return WHOLE, end, pos + ATTRIBUTES_POS + magic


@kernel(
    f"UniTuple(int64, 5)({BYTES}, int64, int64, int64, int64, int64, int64, uint8[::1],"
    " int64[::1], int64[::1], int32[::1])"
)
def read_plain(
    buf: Any,
    pos: int,
    row: int,
    value_pos: int,
    wrong_row: int,
    base_offset: int,
    library: int,
    values: Any,
    offsets: Any,
    next_offsets: Any,
    value_offsets: Any,
) -> tuple[int, int, int, int, int]:
    """Read plain messages from ``pos`` on and fill the columns from ``row`` on, all in one pass.

    The payload is in the cache when its CRC is compared and it is copied to ``values``, one after the other
    from ``value_pos`` on, where that has any length. ``library`` is ``checksum.library_address``, not 0.
    Returns ``(code, pos, row, value_pos, wrong_row)`` where it stopped: ``pos`` is after the last message
    that was read, ``wrong_row`` the first row with a wrong CRC, or the given one (-1 for none). The caller
    has checked that ``values`` has room for all of ``buf``.
    """
    stop = len(buf)
    while stop - pos >= LENGTH_BYTES:
        pos &= PLACE
        row &= PLACE
        code, end, crc = message_at(buf, pos, stop)
        if code != WHOLE:
            return code, pos, row, value_pos, wrong_row
        if buf[pos + LENGTH_BYTES] and buf[pos + ATTRIBUTES_POS] & CODEC_MASK:
            return COMPRESSED, pos, row, value_pos, wrong_row
        if row == len(offsets):
            return ROWS_FULL, pos, row, value_pos, wrong_row
        start = crc + CRC_BYTES
        size = end - start
        if library_crc32(library, buf, start, size) != uint32(buf, crc) and wrong_row < 0:
            wrong_row = row
        if len(values):
            copy(values, value_pos, buf, start, size)
        offsets[row] = base_offset + pos
        next_offsets[row] = base_offset + end
        value_offsets[row] = value_pos
        value_pos += size
        row += 1
        pos = end
    return (CUT if pos < stop else END), pos, row, value_pos, wrong_row


@kernel(
    f"UniTuple(int64, 4)({BYTES}, int64[::1], int64[::1], int64, int64, int64,"
    " int64[::1], int64[::1], int64[::1], uint32[::1], uint8[::1], uint8[::1], int64[::1])"
)
def index_messages(
    buf: Any,
    region_starts: Any,
    region_stops: Any,
    region: int,
    pos: int,
    row: int,
    starts: Any,
    payload_starts: Any,
    payload_sizes: Any,
    crcs: Any,
    magics: Any,
    attributes: Any,
    regions: Any,
) -> tuple[int, int, int, int]:
    """Index the messages of the regions ``[region_starts[i], region_stops[i])`` of ``buf``.

    Continues at ``pos`` in ``region`` and fills the row arrays from ``row`` on. A message cut by its region's
    end is skipped; if it is the first of its region, it stops the index.
    Returns ``(code, region, pos, row)`` where it stopped: ``pos`` is after the last whole message, ``row``
    after the last filled row. The caller has checked that regions lie in ``buf``.
    """
    while region < len(region_starts):
        stop = region_stops[region]
        while stop - pos >= LENGTH_BYTES:
            pos &= PLACE
            row &= PLACE
            code, end, crc = message_at(buf, pos, stop)
            if code == CUT and pos > region_starts[region]:
                break
            if code != WHOLE:
                return code, region, pos, row
            if row == len(starts):
                return ROWS_FULL, region, pos, row
            magic = buf[pos + LENGTH_BYTES]
            starts[row] = pos
            payload_starts[row] = crc + CRC_BYTES
            payload_sizes[row] = end - crc - CRC_BYTES
            crcs[row] = uint32(buf, crc)
            magics[row] = magic
            attributes[row] = buf[pos + ATTRIBUTES_POS] * magic
            regions[row] = region
            row += 1
            pos = end
        region += 1
        if region < len(region_starts):
            pos = region_starts[region]
    return END, region, pos, row


@kernel(f"void({BYTES}, int64[::1], int64[::1], uint8[::1], int32[::1])")
def gather(buf: Any, starts: Any, sizes: Any, values: Any, offsets: Any) -> None:
    """Copy the spans of ``buf`` one after the other into ``values``; fill their ``offsets``.

    The caller has checked that every span lies in ``buf`` and that their sum fits ``values`` and int32.
    """
    pos = 0
    offsets[0] = 0
    for row in range(len(starts)):
        size = sizes[row]
        copy(values, pos, buf, starts[row], size)
        pos += size
        offsets[row + 1] = pos


@kernel(f"void({BYTES}, int64[::1], uint32[::1], uint8[::1])")
def write_messages(values: Any, offsets: Any, crcs: Any, out: Any) -> None:
    """Write one plain magic-1 message for each value into ``out``, which they fill exactly."""
    pos = 0
    for row in range(len(crcs)):
        start = offsets[row]
        size = offsets[row + 1] - start
        length = size + 6
        crc = crcs[row]
        pos &= PLACE
        out[pos] = length >> 24
        out[pos + 1] = length >> 16 & 255
        out[pos + 2] = length >> 8 & 255
        out[pos + 3] = length & 255
        out[pos + 4] = 1
        out[pos + 5] = 0
        out[pos + 6] = crc >> 24
        out[pos + 7] = crc >> 16 & 255
        out[pos + 8] = crc >> 8 & 255
        out[pos + 9] = crc & 255
        copy(out, pos + 10, values, start, size)
        pos += 10 + size
