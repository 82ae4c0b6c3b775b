"""The loop that encodes Avro; the rules are those of ``compiler.Kernel``.

A program is a list of instructions of ``WIDTH`` integers: the operation, and its arguments a, b and c. Values
come from streams of int64, which lie one after the other in one array; each has a cursor, the place of its
next value. A stream has no values for rows without one, so that a program takes only what is there.
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import BYTES, PLACE, inlined, kernel

WIDTH: Final = 4

END: Final = 0
INTEGER: Final = 1  # a: stream
RAW: Final = 2  # a: stream, b: 1, 4 or 8 bytes, the lowest first
SPAN: Final = 3  # a: stream of places, followed by that of sizes; b: 1 if the size comes before the bytes
CONSTANT: Final = 4  # b: place in the constants, c: size
CHOICE: Final = 5  # a: stream of branches, b: place in the table
OPEN: Final = 6  # a: stream of counts, b: the place after the last item
NEXT: Final = 7  # b: the place of the first instruction of an item
JUMP: Final = 8  # b: where to

#: Bits of an integer of 64 bits that was shifted right by 7, as one without a sign.
_SHIFTED: Final = 2**57 - 1


@inlined
def put_integer(value: int, out: Any, pos: int, writing: int) -> int:
    """Put a zigzag integer, if ``writing``; returns the position after it."""
    rest = (value << 1) ^ (value >> 63)
    low = rest & 0x7F
    rest = (rest >> 7) & _SHIFTED
    while rest != 0:
        if writing:
            out[pos & PLACE] = low | 0x80
        pos += 1
        low = rest & 0x7F
        rest >>= 7
    if writing:
        out[pos & PLACE] = low
    return pos + 1


@inlined
def put_bytes(source: Any, start: int, size: int, out: Any, pos: int, writing: int) -> int:
    """Copy bytes, if ``writing``; returns the position after them."""
    if writing:
        for k in range(size):
            out[(pos + k) & PLACE] = source[(start + k) & PLACE]
    return pos + size


@kernel(
    f"void(int64[::1], int64[::1], {BYTES}, {BYTES}, int64[::1], int64[::1], int64[::1],"
    " int64[::1], uint8[::1], int64)"
)
def encode_each(
    streams: Any,
    cursors: Any,
    content: Any,
    constants: Any,
    program: Any,
    table: Any,
    stack: Any,
    offsets: Any,
    out: Any,
    writing: int,
) -> None:
    """Run the program for each row; put the row's bytes at ``offsets[row]`` if ``writing``, else put the sum
    of the sizes up to the row into ``offsets[row + 1]``.

    ``stack`` has a place for each array and map that may be open at the same time.
    """
    pos = 0
    for row in range(len(offsets) - 1):
        pc = 0
        depth = 0
        while True:
            at = pc * WIDTH
            op = program[at]
            a = program[at + 1]
            b = program[at + 2]
            pc += 1
            if op == CONSTANT:
                pos = put_bytes(constants, b, program[at + 3], out, pos, writing)
            elif op == JUMP:
                pc = b
            elif op == NEXT:
                stack[depth - 1] -= 1
                if stack[depth - 1] > 0:
                    pc = b
                else:
                    pos = put_integer(0, out, pos, writing)
                    depth -= 1
            elif op == END:
                break
            else:
                value = streams[cursors[a]]
                cursors[a] += 1
                if op == INTEGER:
                    pos = put_integer(value, out, pos, writing)
                elif op == RAW:
                    if writing:
                        for k in range(b):
                            out[(pos + k) & PLACE] = (value >> (8 * k)) & 0xFF
                    pos += b
                elif op == SPAN:
                    size = streams[cursors[a + 1]]
                    cursors[a + 1] += 1
                    if b:
                        pos = put_integer(size, out, pos, writing)
                    pos = put_bytes(content, value, size, out, pos, writing)
                elif op == CHOICE:
                    pos = put_integer(value, out, pos, writing)
                    pc = table[b + value]
                else:
                    pos = put_integer(value, out, pos, writing)
                    if value == 0:
                        pc = b
                    else:
                        stack[depth] = value
                        depth += 1
        if not writing:
            offsets[row + 1] = pos
