"""The loops that decode Avro; the rules are those of ``compiler.Kernel``.

A program is a list of instructions of ``WIDTH`` integers: the operation, its arguments a, b and c, and the
index of the field's path. Values go into streams of int64, which lie one after the other in one array.
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import BYTES, PLACE, inlined, kernel
from spark_kafkawire.records.spans import is_utf8

from ..payloads import Fault

WIDTH: Final = 5
#: Arrays, maps and skipped records that may be open at the same time.
DEPTH_MAX: Final = 64
#: Steps that messages of one call may take together, beyond those of their own bytes: what arrays of nulls or
#: of empty records take, whose items have no bytes.
SPARE_STEPS: Final = 1 << 20

END: Final = 0
# These take a value of the message. a: its first stream, or -1 for a value that is skipped.
LONG: Final = 1  # b: factor, c: 1 for values of 32 bits
FIXED: Final = 2  # b: 4 or 8 bytes, the lowest first
BOOLEAN: Final = 3
BYTES_OF: Final = 4  # b: 1 for UTF-8, c: a decimal's bounds in the table, or -1
SIZED: Final = 5  # b: size, c: a decimal's bounds in the table, or -1
ENUM: Final = 6  # b: place in the table, c: count of symbols
# These choose what comes next.
UNION: Final = 7  # b: place in the table, c: count of branches
CONSTANT: Final = 8  # a: stream, b: place in the table, c: count of streams
OPEN: Final = 9  # an array or a map begins
NEXT: Final = 10  # a: stream of the count or -1, b: the place after the last item
JUMP: Final = 11  # b: where to
CALL: Final = 12  # b: where to
RETURN: Final = 13
FAIL: Final = 14  # b: fault

#: Bytes of a decimal in Arrow; the table has them for the greatest and for the least number.
DECIMAL_SIZE: Final = 16

_TRUNCATED: Final = int(Fault.TRUNCATED)
_BAD_LENGTH: Final = int(Fault.BAD_LENGTH)
_BAD_VARINT: Final = int(Fault.BAD_VARINT)
_BAD_UNION: Final = int(Fault.BAD_UNION_BRANCH)
_BAD_ENUM: Final = int(Fault.BAD_ENUM_INDEX)
_BAD_BOOLEAN: Final = int(Fault.BAD_BOOLEAN)
_BAD_UTF8: Final = int(Fault.BAD_UTF8)
_TOO_DEEP: Final = int(Fault.TOO_DEEP)
_TOO_LARGE: Final = int(Fault.TOO_LARGE)
_UNFIT: Final = int(Fault.NOT_REPRESENTABLE)
_TRAILING: Final = int(Fault.TRAILING_BYTES)


@inlined
def varint(data: Any, pos: int, stop: int) -> tuple[int, int, int]:
    """A zigzag integer, the position after it, and a fault."""
    if pos >= stop:
        return 0, pos, _TRUNCATED
    byte = int(data[pos & PLACE])
    pos += 1
    sign = byte & 1
    value = (byte & 0x7F) >> 1
    shift = 6
    while byte >= 0x80:
        if pos >= stop:
            return 0, pos, _TRUNCATED
        byte = int(data[pos & PLACE])
        pos += 1
        if shift == 62 and byte > 1:
            return 0, pos, _BAD_VARINT
        value |= (byte & 0x7F) << shift
        shift += 7
    return value ^ -sign, pos, 0


@inlined
def long_of(data: Any, pos: int, stop: int, factor: int, is_int: int) -> tuple[int, int, int]:
    """An integer times a factor, the position after it, and a fault."""
    value, pos, fault = varint(data, pos, stop)
    if fault == 0 and is_int and (value < -(2**31) or value >= 2**31):
        fault = _BAD_VARINT
    if fault == 0 and factor > 1:
        if value > (2**63 - 1) // factor or value < -((2**63 - 1) // factor):
            fault = _UNFIT
        else:
            value *= factor
    return value, pos, fault


@inlined
def bits_of(data: Any, pos: int, stop: int, size: int) -> tuple[int, int, int]:
    """The bits of a float of 4 or 8 bytes, the position after it, and a fault."""
    bits = 0
    if size > stop - pos:
        return bits, pos, _TRUNCATED
    for k in range(4):
        bits |= int(data[(pos + k) & PLACE]) << (8 * k)
    if size == 8:
        for k in range(4, 7):
            bits |= int(data[(pos + k) & PLACE]) << (8 * k)
        top = int(data[(pos + 7) & PLACE])
        if top > 127:
            top -= 256
        bits |= top << 56
    return bits, pos + size, 0


@inlined
def boolean_of(data: Any, pos: int, stop: int) -> tuple[int, int, int]:
    """A boolean, the position after it, and a fault."""
    if pos >= stop:
        return 0, pos, _TRUNCATED
    value = int(data[pos & PLACE])
    return value, pos + 1, 0 if value <= 1 else _BAD_BOOLEAN


@inlined
def size_of(data: Any, pos: int, stop: int) -> tuple[int, int, int]:
    """The size of bytes that lie in the message, the position after it, and a fault."""
    size, pos, fault = varint(data, pos, stop)
    if fault == 0 and (size < 0 or size > stop - pos):
        fault = _BAD_LENGTH
    return size, pos, fault


@inlined
def index_of(data: Any, pos: int, stop: int, count: int, fault_beyond: int) -> tuple[int, int, int]:
    """The index of a branch or of a symbol, the position after it, and a fault."""
    index, pos, fault = varint(data, pos, stop)
    if fault == 0 and (index < 0 or index >= count):
        fault = fault_beyond
    return index, pos, fault


@inlined
def is_decimal(data: Any, pos: int, stop: int, table: Any, place: int) -> bool:
    """True if the number in ``data[pos:stop]`` is within the bounds in the table; more bytes than needed are
    allowed."""
    if pos >= stop:
        return False
    fill = 0xFF if data[pos & PLACE] >= 0x80 else 0
    while stop - pos > DECIMAL_SIZE:
        if data[pos & PLACE] != fill:
            return False
        pos += 1
    if (data[pos & PLACE] >= 0x80) != (fill == 0xFF):
        return False
    if fill:
        place += DECIMAL_SIZE
    for k in range(DECIMAL_SIZE):
        at = stop - DECIMAL_SIZE + k
        byte = int(data[at & PLACE]) if at >= pos else fill
        bound = int(table[place + k])
        if byte != bound:
            return (byte < bound) == (fill == 0)
    return True


@inlined
def place_of(
    data: Any, pos: int, stop: int, table: Any, op: int, b: int, c: int, checking: int
) -> tuple[int, int, int, int]:
    """The place of bytes, their size, the position after them, and a fault."""
    size, fault = b, 0
    if op == BYTES_OF:
        size, pos, fault = size_of(data, pos, stop)
    elif size > stop - pos:
        fault = _TRUNCATED
    start = pos
    if fault == 0:
        pos += size
        if checking and op == BYTES_OF and b and not is_utf8(data, start, pos):
            fault = _BAD_UTF8
        elif checking and c >= 0 and not is_decimal(data, start, pos, table, c):
            fault = _UNFIT
    return start, size, pos, fault


@inlined
def value_of(
    data: Any, pos: int, stop: int, table: Any, op: int, b: int, c: int, checking: int
) -> tuple[int, int, int, int]:
    """A value or the place of one, its size, the position after it, and a fault."""
    first, size, fault = 0, 0, 0
    if op == LONG:
        first, pos, fault = long_of(data, pos, stop, b, c)
    elif op == FIXED:
        first, pos, fault = bits_of(data, pos, stop, b)
    elif op == BOOLEAN:
        first, pos, fault = boolean_of(data, pos, stop)
    elif op == ENUM:
        index, pos, fault = index_of(data, pos, stop, c, _BAD_ENUM)
        if fault == 0:
            first = table[b + 2 * index]
            size = table[b + 2 * index + 1]
            fault = _BAD_ENUM if size < 0 else 0
    else:
        first, size, pos, fault = place_of(data, pos, stop, table, op, b, c, checking)
    return first, size, pos, fault


@inlined
def block_of(data: Any, pos: int, stop: int, steps: int) -> tuple[int, int, int]:
    """The count of items in the next block, the position after it, and a fault. Each item takes a step."""
    count, pos, fault = varint(data, pos, stop)
    if fault == 0 and count < 0:
        _, pos, fault = size_of(data, pos, stop)
        if fault == 0:
            # The least integer has no negative.
            count = -count if count > -(2**62) else 2**62
    if fault == 0 and count > steps:
        fault = _BAD_LENGTH
    return count, pos, fault


@inlined
def put(out: Any, bases: Any, counts: Any, stream: int, value: int, writing: int, place: int) -> None:
    """Write a value of a stream at ``place``. Without a place, count it, and write it if ``writing`` and if
    the stream has room."""
    if place >= 0:
        out[(bases[stream & PLACE] + place) & PLACE] = value
        return
    if writing:
        place = bases[stream] + counts[stream]
        if place < bases[stream + 1]:
            out[place] = value
    counts[stream] += 1


@kernel(
    f"void({BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], uint8[::1], int32[::1], int64, int64, int64, int64, int64)"
)
def decode_each(
    data: Any,
    starts: Any,
    stops: Any,
    program: Any,
    table: Any,
    counts: Any,
    saved: Any,
    bases: Any,
    out: Any,
    stack: Any,
    faults: Any,
    fields: Any,
    steps_of_message: int,
    steps_of_byte: int,
    checking: int,
    writing: int,
    flat: int,
) -> None:
    """Run the program over each message; count the values of each stream, and write them if ``writing``.

    With ``flat`` each message has one value in each stream, and streams have room for those of all messages.
    ``counts`` are those of the messages without a fault: what others have written is written over. Without
    ``checking``, texts and decimals are those of a run before. ``stack`` has ``2 * DEPTH_MAX`` places.
    """
    spare = SPARE_STEPS
    location = 0 if flat else -1
    for row in range(len(starts)):
        pos = starts[row]
        stop = stops[row]
        own = steps_of_message + steps_of_byte * (stop - pos)
        steps = own + spare
        if not flat:
            for k in range(len(counts)):
                saved[k] = counts[k]
        pc = 0
        depth = 0
        fault = 0
        at = 0
        while fault == 0:
            at = pc * WIDTH
            op = program[at]
            a = program[at + 1]
            b = program[at + 2]
            c = program[at + 3]
            pc += 1
            steps -= 1
            if steps < 0:
                fault = _TOO_LARGE
            elif op == END:
                break
            elif op < UNION:
                first, size, pos, fault = value_of(data, pos, stop, table, op, b, c, checking)
                if fault == 0 and a >= 0:
                    put(out, bases, counts, a, 1, writing, location)
                    put(out, bases, counts, a + 1, first, writing, location)
                    if op >= BYTES_OF:
                        put(out, bases, counts, a + 2, size, writing, location)
            elif op == UNION:
                first, pos, fault = index_of(data, pos, stop, c, _BAD_UNION)
                if fault == 0:
                    pc = table[b + first]
            elif op == CONSTANT:
                steps -= c
                for k in range(c):
                    put(out, bases, counts, a + k, table[b + k], writing, location)
            elif op == NEXT:
                top = 2 * (depth - 1)
                if stack[top] == 0:
                    stack[top], pos, fault = block_of(data, pos, stop, steps)
                if stack[top] > 0:
                    stack[top] -= 1
                    stack[top + 1] += 1
                elif fault == 0:
                    if a >= 0:
                        put(out, bases, counts, a, 1, writing, location)
                        put(out, bases, counts, a + 1, stack[top + 1], writing, location)
                    depth -= 1
                    pc = b
            elif op == JUMP:
                pc = b
            elif op == RETURN:
                depth -= 1
                pc = stack[2 * depth]
            elif op == FAIL:
                fault = b
            elif depth >= DEPTH_MAX:
                fault = _TOO_DEEP
            else:
                stack[2 * depth] = pc if op == CALL else 0
                stack[2 * depth + 1] = 0
                depth += 1
                if op == CALL:
                    pc = b
        if fault == 0 and pos < stop:
            fault = _TRAILING
        spare = min(spare, max(0, steps))
        faults[row] = fault
        fields[row] = -1
        if fault:
            fields[row] = program[at + 4]
            if not flat:
                for k in range(len(counts)):
                    counts[k] = saved[k]
        elif flat:
            location += 1
    if flat:
        for k in range(len(counts)):
            counts[k] = location


@kernel(f"void({BYTES}, {BYTES}, int64[::1], int64[::1], uint8[::1])")
def gather_decimals(data: Any, constants: Any, starts: Any, sizes: Any, out: Any) -> None:
    """Copy numbers into ``out``, the lowest byte first, as ``gather`` does."""
    for row in range(len(starts)):
        start = starts[row]
        source = data if start >= 0 else constants
        if start < 0:
            start = -1 - start
        stop = start + sizes[row]
        fill = 0
        if stop > start and source[start & PLACE] >= 0x80:
            fill = 0xFF
        for k in range(DECIMAL_SIZE):
            at = stop - 1 - k
            out[(row * DECIMAL_SIZE + k) & PLACE] = source[at & PLACE] if at >= start else fill
