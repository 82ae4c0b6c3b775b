"""The loops that decode Avro; the rules are those of ``compiler.Kernel``.

A program is a list of instructions of ``WIDTH`` integers: the operation, its arguments a, b and c, and the
index of the field's path. Values go into streams of int64, which lie one after the other in one array.
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import BYTES, PLACE, inlined, kernel

from ..faults import Fault

WIDTH: Final = 5
#: Arrays, maps and skipped records that may be open at the same time.
DEPTH_MAX: Final = 64
#: Instructions that a message may take, so that few bytes cannot ask for much memory.
STEPS_MIN: Final = 1 << 16
STEPS_PER_BYTE: Final = 256

END: Final = 0
LONG: Final = 1  # a: stream or -1, b: factor, c: 1 for values of 32 bits
FIXED: Final = 2  # a: stream or -1, b: 4 or 8 bytes
BOOLEAN: Final = 3  # a: stream or -1
BYTES_OF: Final = 4  # a: stream or -1, b: 1 for UTF-8
SIZED: Final = 5  # a: stream or -1, b: size
ENUM: Final = 6  # a: stream or -1, b: place in the table, c: count of symbols
UNION: Final = 7  # b: place in the table, c: count of branches
CONSTANT: Final = 8  # a: stream, b: place in the table, c: count of streams
OPEN: Final = 9  # an array or a map begins
NEXT: Final = 10  # a: stream or -1, b: the place after the last item
JUMP: Final = 11  # b: where to
CALL: Final = 12  # b: where to
RETURN: Final = 13
FAIL: Final = 14  # b: fault

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
def is_utf8(data: Any, pos: int, stop: int) -> bool:
    """True if ``data[pos:stop]`` is UTF-8: no surrogates, no longer forms, nothing above U+10FFFF."""
    while pos < stop:
        first = data[pos & PLACE]
        pos += 1
        if first < 0x80:
            continue
        low, high, more = 0x80, 0xBF, 0
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        if more == 0 or stop - pos < more:
            return False
        for _ in range(more):
            byte = data[pos & PLACE]
            if byte < low or byte > high:
                return False
            low, high = 0x80, 0xBF
            pos += 1
    return True


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


@kernel(
    f"void({BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], uint8[::1], int32[::1], int64)"
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
    writing: int,
) -> None:
    """Run the program over each message; count the values of each stream, and write them if ``writing``.

    ``counts`` are those of the messages without a fault. ``stack`` has ``2 * DEPTH_MAX`` places.
    """
    for row in range(len(starts)):
        pos = starts[row]
        stop = stops[row]
        steps = STEPS_MIN + STEPS_PER_BYTE * (stop - pos)
        for k in range(len(counts)):
            saved[k] = counts[k]
        pc = 0
        depth = 0
        fault = 0
        while True:
            at = pc * WIDTH
            op = program[at]
            a = program[at + 1]
            b = program[at + 2]
            c = program[at + 3]
            pc += 1
            steps -= 1 + (c if op == CONSTANT else 0)
            if steps < 0:
                fault = _TOO_LARGE
                break
            first = 0
            second = 0
            filled = 1
            if op == LONG:
                first, pos, fault = varint(data, pos, stop)
                if fault:
                    break
                if c and (first < -(2**31) or first >= 2**31):
                    fault = _BAD_VARINT
                    break
                if b > 1:
                    if first > (2**63 - 1) // b or first < -((2**63 - 1) // b):
                        fault = _UNFIT
                        break
                    first *= b
                filled = 2
            elif op == BYTES_OF:
                second, pos, fault = varint(data, pos, stop)
                if fault:
                    break
                if second < 0 or second > stop - pos:
                    fault = _BAD_LENGTH
                    break
                if b and not writing and not is_utf8(data, pos, pos + second):
                    fault = _BAD_UTF8
                    break
                first = pos
                pos += second
                filled = 3
            elif op == SIZED:
                if b > stop - pos:
                    fault = _TRUNCATED
                    break
                first = pos
                second = b
                pos += b
                filled = 3
            elif op == FIXED:
                if b > stop - pos:
                    fault = _TRUNCATED
                    break
                for k in range(4):
                    first |= int(data[(pos + k) & PLACE]) << (8 * k)
                if b == 8:
                    for k in range(4, 7):
                        first |= int(data[(pos + k) & PLACE]) << (8 * k)
                    top = int(data[(pos + 7) & PLACE])
                    if top > 127:
                        top -= 256
                    first |= top << 56
                pos += b
                filled = 2
            elif op == BOOLEAN:
                if pos >= stop:
                    fault = _TRUNCATED
                    break
                first = int(data[pos & PLACE])
                if first > 1:
                    fault = _BAD_BOOLEAN
                    break
                pos += 1
                filled = 2
            elif op in (ENUM, UNION):
                first, pos, fault = varint(data, pos, stop)
                if fault:
                    break
                if first < 0 or first >= c:
                    fault = _BAD_ENUM if op == ENUM else _BAD_UNION
                    break
                if op == UNION:
                    pc = table[b + first]
                    continue
                second = table[b + 2 * first + 1]
                first = table[b + 2 * first]
                if second < 0:
                    fault = _BAD_ENUM
                    break
                filled = 3
            elif op == CONSTANT:
                for k in range(c):
                    if writing:
                        out[bases[a + k] + counts[a + k]] = table[b + k]
                    counts[a + k] += 1
                continue
            elif op in (OPEN, CALL):
                if depth >= DEPTH_MAX:
                    fault = _TOO_DEEP
                    break
                stack[2 * depth] = pc if op == CALL else 0
                stack[2 * depth + 1] = 0
                depth += 1
                if op == CALL:
                    pc = b
                continue
            elif op == NEXT:
                top = 2 * (depth - 1)
                if stack[top] == 0:
                    first, pos, fault = varint(data, pos, stop)
                    if fault:
                        break
                    if first < 0:
                        second, pos, fault = varint(data, pos, stop)
                        if fault:
                            break
                        if second < 0 or second > stop - pos or first < -steps:
                            fault = _BAD_LENGTH
                            break
                        first = -first
                    if first > steps:
                        fault = _BAD_LENGTH
                        break
                    stack[top] = first
                if stack[top] > 0:
                    stack[top] -= 1
                    stack[top + 1] += 1
                    continue
                first = stack[top + 1]
                depth -= 1
                pc = b
                filled = 2
            elif op == JUMP:
                pc = b
                continue
            elif op == RETURN:
                depth -= 1
                pc = stack[2 * depth]
                continue
            elif op == FAIL:
                fault = b
                break
            else:
                if pos < stop:
                    fault = _TRAILING
                break
            if a >= 0:
                if writing:
                    out[bases[a] + counts[a]] = 1
                    out[bases[a + 1] + counts[a + 1]] = first
                    if filled == 3:
                        out[bases[a + 2] + counts[a + 2]] = second
                counts[a] += 1
                counts[a + 1] += 1
                if filled == 3:
                    counts[a + 2] += 1
        faults[row] = fault
        fields[row] = -1
        if fault:
            fields[row] = program[at + 4]
            for k in range(len(counts)):
                counts[k] = saved[k]


@kernel(f"void({BYTES}, {BYTES}, int64[::1], int64[::1], int64[::1], uint8[::1])")
def gather(data: Any, constants: Any, starts: Any, sizes: Any, offsets: Any, out: Any) -> None:
    """Copy spans into ``out``; a start of -1 and less is a place in ``constants``, counted from -1 down."""
    for row in range(len(starts)):
        start = starts[row]
        target = offsets[row]
        if start < 0:
            for k in range(sizes[row]):
                out[(target + k) & PLACE] = constants[(-1 - start + k) & PLACE]
        else:
            for k in range(sizes[row]):
                out[(target + k) & PLACE] = data[(start + k) & PLACE]
