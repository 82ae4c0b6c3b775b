"""The loops over the messages of a set; the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any, Final

from ..compiler import BYTES, PLACE, copy, kernel

#: Why ``index_messages`` came back.
END: Final = 0
CUT: Final = 1
ROWS_FULL: Final = 2
BAD_LENGTH: Final = 3
BAD_MAGIC: Final = 4

#: The bits of a message's attributes that name its codec.
_CODEC_MASK: Final = 3


@kernel(
    f"UniTuple(int64, 5)({BYTES}, int64[::1], int64[::1], int64, int64, int64, int64, uint8[::1],"
    " int64[::1], int64[::1], int64[::1], uint32[::1], uint8[::1], uint8[::1], int64[::1])"
)
def index_messages(
    buf: Any,
    region_starts: Any,
    region_stops: Any,
    region: int,
    pos: int,
    row: int,
    value_pos: int,
    values: Any,
    starts: Any,
    payload_starts: Any,
    payload_sizes: Any,
    crcs: Any,
    magics: Any,
    attributes: Any,
    regions: Any,
) -> tuple[int, int, int, int, int]:
    """Index the messages of the regions ``[region_starts[i], region_stops[i])`` of ``buf``.

    Goes on at ``pos`` in ``region`` and fills the row arrays from ``row`` on. A message cut by
    its region's end is passed over; one that is the first of its region stops the walk.
    The payloads of plain messages are copied one after the other to ``values`` from ``value_pos``
    on, where it has any length: the copy brings the next message into the cache.
    Returns ``(code, region, pos, row, value_pos)`` where it stopped: ``pos`` is after the last
    whole message, ``row`` after the last filled row. The caller has checked that regions lie in
    ``buf`` and that ``values`` has room for them.
    """
    while region < len(region_starts):
        stop = region_stops[region]
        while stop - pos >= 4:
            pos &= PLACE
            length = (buf[pos] << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | buf[pos + 3]
            if length < 5 or length > 0x7FFFFFFF:
                return BAD_LENGTH, region, pos, row, value_pos
            end = pos + 4 + length
            if end > stop:
                if pos == region_starts[region]:
                    return CUT, region, pos, row, value_pos
                break
            magic = buf[pos + 4]
            if magic > 1:
                return BAD_MAGIC, region, pos, row, value_pos
            if length < 5 + magic:
                return BAD_LENGTH, region, pos, row, value_pos
            if row == len(starts):
                return ROWS_FULL, region, pos, row, value_pos
            crc = pos + 5 + magic
            starts[row] = pos
            payload_starts[row] = crc + 4
            payload_sizes[row] = length - 5 - magic
            crcs[row] = (buf[crc] << 24) | (buf[crc + 1] << 16) | (buf[crc + 2] << 8) | buf[crc + 3]
            magics[row] = magic
            attributes[row] = buf[pos + 5] * magic
            regions[row] = region
            if len(values) and attributes[row] & _CODEC_MASK == 0:
                copy(values, value_pos, buf, crc + 4, payload_sizes[row])
                value_pos += payload_sizes[row]
            row += 1
            pos = end
        region += 1
        if region < len(region_starts):
            pos = region_starts[region]
    return END, region, pos, row, value_pos


@kernel(f"void({BYTES}, int64[::1], int64[::1], uint8[::1], int32[::1])")
def gather(buf: Any, starts: Any, sizes: Any, values: Any, offsets: Any) -> None:
    """Copy the spans of ``buf`` one after the other into ``values``; fill their ``offsets``.

    With ``values`` of no length they have been copied before. The caller has checked that every span
    lies in ``buf`` and that their sum fits ``values`` and int32.
    """
    pos = 0
    offsets[0] = 0
    for row in range(len(starts)):
        size = sizes[row]
        if len(values):
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
