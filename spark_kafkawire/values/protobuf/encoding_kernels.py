"""The loop that encodes Protobuf; the rules are those of ``compiler.Kernel``.

Messages are written from the last byte to the first: the size of a message comes before it, and is known when
it is written. So one pass is enough, and fields are in the order of their numbers.

    program   ``WIDTH`` integers for each field, by scopes and numbers
    scopes    for each message: its first field in the program, and how many it has
    values    streams of int64; a slot in each for each message, and one more in those of first items
    flags     1 where a field is present
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import BYTES, PLACE, inlined, kernel
from spark_kafkawire.records.native import copy

#: Integers of a field. TAG is its number with its wire type. FIRST is a stream of first items, -1 if the
#: field is not repeated, FLAG -1 if it is always present. SCOPE is that of a message.
WIDTH: Final = 7
OP, TAG, FIRST, FLAG, STREAM, IS_PACKED, SCOPE = range(WIDTH)

#: Operations.
VARINT: Final = 0
ZIGZAG: Final = 1
RAW4: Final = 2
RAW8: Final = 3
SPAN: Final = 4
MESSAGE: Final = 5
GROUP: Final = 6

#: Integers of an open message: those of the message around it, and the position of its end.
FRAME: Final = 6
#: Bytes that one value without a size may take, with its tag and a size.
ROOM: Final = 32
#: Bits of an integer of 64 bits that was shifted right by 7, as one without a sign.
_SHIFTED: Final = 2**57 - 1


@inlined
def put_before(value: int, out: Any, pos: int) -> int:
    """Put an integer that ends at ``pos``; returns where it begins."""
    size = 1
    rest = (value >> 7) & _SHIFTED
    while rest != 0:
        rest >>= 7
        size += 1
    pos -= size
    rest = value
    for k in range(size - 1):
        out[(pos + k) & PLACE] = (rest & 0x7F) | 0x80
        rest = (rest >> 7) & _SHIFTED
    out[(pos + size - 1) & PLACE] = rest & 0x7F
    return pos


@kernel(
    f"int64(int64, int64[::1], int64[::1], uint8[::1], int64[::1], {BYTES}, int64[::1], int64[::1],"
    " uint8[::1], int64[::1], int64[::1], uint8[::1])"
)
def encode_each(
    row: int,
    values: Any,
    places: Any,
    flags: Any,
    flag_places: Any,
    content: Any,
    program: Any,
    scopes: Any,
    present: Any,
    stack: Any,
    offsets: Any,
    out: Any,
) -> int:
    """Encode rows from ``row`` down to 0, up to the byte before ``offsets[row + 1]``. Returns the row for
    which there is no room, -1 if there is room for all.

    ``offsets[row]`` becomes the place of each row, ``stack`` has ``FRAME`` places for each message that may
    be open.
    """
    while row >= 0:
        pos = offsets[row + 1]
        first = scopes[0]
        at = first + (scopes[1] - 1) * WIDTH if present[row] else first - WIDTH
        slot, low, cursor, depth, is_full = row, 0, 0, 0, 0
        while True:
            if pos < ROOM:
                is_full = 1
                break
            if at >= first:
                low = slot
                cursor = slot
                if program[at + FIRST] >= 0:
                    location = places[program[at + FIRST]] + slot
                    low = values[location]
                    cursor = values[location + 1] - 1
                elif program[at + FLAG] >= 0 and flags[flag_places[program[at + FLAG]] + slot] == 0:
                    cursor = slot - 1
                if cursor < low:
                    at -= WIDTH
                    continue
                op = program[at + OP]
                if op < MESSAGE:
                    tag = program[at + TAG]
                    is_packed = program[at + IS_PACKED]
                    stream = places[program[at + STREAM]]
                    end = pos
                    while cursor >= low:
                        value = values[stream + cursor]
                        if op == SPAN:
                            size = values[places[program[at + STREAM] + 1] + cursor]
                            if pos - size < ROOM:
                                is_full = 1
                                break
                            pos -= size
                            if size > 0:
                                copy(out, pos, content, value, size)
                            value = size
                        elif pos < ROOM:
                            is_full = 1
                            break
                        elif op in (RAW4, RAW8):
                            size = 4 if op == RAW4 else 8
                            pos -= size
                            for k in range(size):
                                out[(pos + k) & PLACE] = (value >> (8 * k)) & 0xFF
                        elif op == ZIGZAG:
                            value = (value << 1) ^ (value >> 63)
                        # The value or its size, then the tag in front of it.
                        for which in range(1 if op in (RAW4, RAW8) else 0, 1 if is_packed else 2):
                            rest = value if which == 0 else tag
                            size = 1
                            left = (rest >> 7) & _SHIFTED
                            while left != 0:
                                left >>= 7
                                size += 1
                            pos -= size
                            for k in range(size - 1):
                                out[(pos + k) & PLACE] = (rest & 0x7F) | 0x80
                                rest = (rest >> 7) & _SHIFTED
                            out[(pos + size - 1) & PLACE] = rest & 0x7F
                        cursor -= 1
                    if is_full:
                        break
                    if is_packed:
                        pos = put_before(end - pos, out, pos)
                        pos = put_before(tag, out, pos)
                    at -= WIDTH
                    continue
            elif depth == 0:
                break
            else:
                depth -= 1
                top = depth * FRAME
                at = stack[top]
                first = stack[top + 1]
                slot = stack[top + 2]
                low = stack[top + 3]
                cursor = stack[top + 4]
                if program[at + OP] == MESSAGE:
                    pos = put_before(stack[top + 5] - pos, out, pos)
                pos = put_before(program[at + TAG], out, pos)
                cursor -= 1
                if cursor < low:
                    at -= WIDTH
                    continue
                if pos < ROOM:
                    is_full = 1
                    break
            # A message ends here.
            if program[at + OP] == GROUP:
                pos = put_before(program[at + TAG] + 1, out, pos)
            top = depth * FRAME
            depth += 1
            stack[top] = at
            stack[top + 1] = first
            stack[top + 2] = slot
            stack[top + 3] = low
            stack[top + 4] = cursor
            stack[top + 5] = pos
            slot = cursor
            location = 2 * program[at + SCOPE]
            first = scopes[location]
            at = first + (scopes[location + 1] - 1) * WIDTH
        if is_full:
            return int(row)
        offsets[row] = pos
        row -= 1
    return -1
