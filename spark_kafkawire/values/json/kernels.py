"""The loops that decode JSON, and the nodes of a type, into whose columns they put values; the rules are
those of ``compiler.Kernel``.

A type is a tree of nodes, each a row of ``NODE`` integers. The values of a node lie one after the other in
three arrays: a mark, and two integers. So a node under a list has as many as there are items.
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import BYTES, PLACE, inlined, kernel
from spark_kafkawire.records.native import copy

from ..payloads import Fault
from .lexing import (
    BAD_JSON,
    BAD_UTF8,
    DIGITS,
    ESCAPES,
    FALSE,
    INFINITY,
    LONE_SURROGATE,
    NAN,
    NULL,
    TRUE,
    UNFIT,
    WRONG_TYPE,
    date,
    decimal,
    escape,
    integer,
    is_base64,
    number,
    skip_space,
    skip_string,
    special,
    timestamp,
    word,
)

# A node: kind, a, b, 1 if it is nullable, the place and the count of the nodes that are null with it in
# ``nulls``, and the place and the count of its children.
NODE: Final = 8
SKIP: Final = -1
EMPTY: Final = 0  # only null
BOOLEAN: Final = 1
INTEGER: Final = 2  # a: the least, b: the largest
DOUBLE: Final = 3  # a: the largest exponent, b: its 19 digits from which on a number is infinite
DECIMAL: Final = 4  # a: precision, b: scale
STRING: Final = 5
TEXT: Final = 6  # a string, or any other value as its JSON
TIMESTAMP: Final = 7  # a: microseconds for 1, or 0 for no integers, b: 1 in UTC, 0 without a zone
DATE: Final = 8  # a: 1 if integers are days
BINARY: Final = 9
STRUCT: Final = 10  # a: the place in ``slots``, b: their count, children: rows in ``fields``
MAP: Final = 11  # children: key and value
LIST: Final = 12  # children: item

#: A field: its node, the hash of its name, the place and the size of the name in ``names``.
FIELD: Final = 4
HASH_FACTOR: Final = 31
HASH_BITS: Final = 2**28 - 1

# Marks of values.
ABSENT: Final = 0
VALUE: Final = 1  # an integer, digits and an exponent, 128 bits, or a place and a size
ESCAPED: Final = 2  # the place of a string with escapes, and its size without them
LONG_NUMBER: Final = 3  # the place and the size of a number that is more than 15 digits and a small exponent
TINY_NUMBER: Final = 4  # the same, next to 0
SPECIAL: Final = 5  # 1, -1 or 0: Infinity, -Infinity or NaN

#: Digits and exponents from which a double follows by one multiplication or division, without an error.
_EXACT_DIGITS: Final = 15
_EXACT_EXPONENT: Final = 22
_TINY: Final = -300


@inlined
def put(bases: Any, counts: Any, out: Any, node: int, mark: int, first: int, second: int) -> int:
    """Append a value to those of a node; 1 if there is no room, so that it was only counted."""
    marks, firsts, seconds = out
    at = bases[node] + counts[node]
    counts[node] += 1
    if at >= bases[node + 1]:
        return 1
    marks[at] = mark
    firsts[at] = first
    seconds[at] = second
    return 0


@inlined
def field_of(
    data: Any, pos: int, stop: int, place: int, size: int, slots: Any, fields: Any, names: Any
) -> int:
    """The place in ``fields`` of the field with this name, or -1."""
    value = 0
    for k in range(pos, stop):
        value = (value * HASH_FACTOR + int(data[k & PLACE])) & HASH_BITS
    slot = value & (size - 1)
    while slots[place + slot] >= 0:
        at = int(slots[place + slot])
        if fields[at + 1] == value and fields[at + 3] == stop - pos:
            k = 0
            while k < stop - pos and names[(fields[at + 2] + k) & PLACE] == data[(pos + k) & PLACE]:
                k += 1
            if k == stop - pos:
                return at
        slot = (slot + 1) & (size - 1)
    return -1


@inlined
def text_value(data: Any, pos: int, stop: int, kind: int, b: int) -> tuple[int, int, int, int]:
    """The value of a string without escapes in a column of another kind: mark, two integers, fault."""
    if kind in (TIMESTAMP, DATE):
        first, end, fault = date(data, pos, stop)
        if fault:
            return VALUE, 0, 0, fault
        if kind == TIMESTAMP:
            first, fault = timestamp(data, end, stop, first, b)
        elif end < stop and data[end & PLACE] != 84 and data[end & PLACE] != 32:
            fault = WRONG_TYPE
        return VALUE, first, 0, fault
    if kind == BINARY:
        return VALUE, pos, stop - pos, (0 if is_base64(data, pos, stop) else WRONG_TYPE)
    if kind == DOUBLE:
        first = special(data, pos, stop)
        return SPECIAL, first, 0, (WRONG_TYPE if first == 2 else 0)
    return VALUE, 0, 0, WRONG_TYPE


@inlined
def number_value(
    data: Any, pos: int, end: int, kind: int, a: int, b: int, found: tuple[int, int, int, int, int]
) -> tuple[int, int, int, int]:
    """The value of a number that is at ``data[pos:end]``: mark, two integers, fault."""
    negative, digits, count, last, exponent = found
    if kind == INTEGER:
        first, fault = integer(negative, digits, count, last, exponent)
        if fault == 0 and (first < a or first > b):
            fault = UNFIT
        return VALUE, first, 0, fault
    if kind == DOUBLE:
        is_exact = count <= _EXACT_DIGITS and -_EXACT_EXPONENT <= exponent <= _EXACT_EXPONENT
        if is_exact and (count > 0 or not negative):  # -0 is not an integer
            return VALUE, (-digits if negative else digits), exponent, 0
        top = count + exponent - 1
        if count > 0 and top >= a:
            for _ in range(count, DIGITS):
                digits *= 10
            if top > a or digits > b // 10 or (digits == b // 10 and last >= b % 10):
                return VALUE, 0, 0, UNFIT
        return (TINY_NUMBER if count > 0 and top < _TINY else LONG_NUMBER), pos, end - pos, 0
    if kind == DECIMAL:
        first, second, fault = decimal(data, pos, end, negative, digits, count, exponent + b, a)
        return VALUE, first, second, fault
    if kind in (TIMESTAMP, DATE) and a > 0:
        first, fault = integer(negative, digits, count, last, exponent)
        limit = (2**31 - 1) if kind == DATE else (2**63 - 1) // a
        if fault == 0 and (first > limit or first < -limit):
            fault = UNFIT
        return VALUE, (0 if fault else first * a), 0, fault
    if kind == TEXT:
        return VALUE, pos, end - pos, 0
    return VALUE, 0, 0, (0 if kind == SKIP else WRONG_TYPE)


#: Arrays and objects that may be open at the same time.
DEPTH_MAX: Final = 200
#: Nulls for missing fields that a message may ask for, so that few bytes cannot take much memory.
NULLS_MIN: Final = 1 << 16
NULLS_PER_BYTE: Final = 16

#: The fault of a message that has to be written in another way first: a key twice, or escapes that matter.
ODD: Final = 255

# A frame on the stack: node or -1, what it is, a number of it, and how many fields it has.
FRAME: Final = 4
_STRUCT: Final = 0  # its number: the mark of fields that it has
_MAP: Final = 1  # its number: entries
_LIST: Final = 2  # its number: items
_OBJECT: Final = 3  # skipped, or a text; its number: where it begins
_ARRAY: Final = 4

# What is expected.
_VALUE: Final = 0
_FIRST_ITEM: Final = 1
_FIRST_KEY: Final = 2
_KEY: Final = 3
_NEXT: Final = 4
_END: Final = 5

_TRAILING: Final = int(Fault.TRAILING_BYTES)
_MISSING: Final = int(Fault.MISSING_FIELD)
_TOO_DEEP: Final = int(Fault.TOO_DEEP)
_TOO_LARGE: Final = int(Fault.TOO_LARGE)


@kernel(
    f"int64({BYTES}, int64[::1], int64[::1], UniTuple(int64[::1], 4), {BYTES}, int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1],"
    " Tuple((uint8[::1], int64[::1], int64[::1])), uint8[::1], int32[::1], int64, int64)"
)
def decode_each(
    data: Any,
    starts: Any,
    stops: Any,
    tables: Any,
    names: Any,
    bases: Any,
    counts: Any,
    saved: Any,
    stamps: Any,
    stack: Any,
    out: Any,
    faults: Any,
    places: Any,
    row: int,
    final: int,
) -> int:
    """Decode messages from ``row`` on. Returns the first one that had no room, or the count of messages.

    ``tables`` are nodes, fields, slots and nulls. ``counts`` are those of the messages without a fault; where
    there was no room, ``saved`` has those with the message. ``stamps`` has one more place than there are
    nodes: the number of the last object. ``final`` says that no message is odd.
    """
    nodes, fields, slots, nulls = tables
    serial = len(stamps) - 1
    while row < len(starts):
        pos = starts[row]
        stop = stops[row]
        budget = NULLS_MIN + NULLS_PER_BYTE * (stop - pos)
        for k in range(len(counts)):
            saved[k] = counts[k]
        depth = 0
        top = 0
        node = 0
        at = 0
        fault = 0
        odd = 0
        full = 0
        state = _VALUE
        while True:
            pos = skip_space(data, pos, stop)
            if state == _END:
                if pos < stop:
                    fault = _TRAILING
                break
            if pos >= stop:
                fault = BAD_JSON
                break
            byte = int(data[pos & PLACE])
            if state == _NEXT and byte == 44:
                pos += 1
                state = _KEY if stack[top + 1] in (_STRUCT, _MAP, _OBJECT) else _VALUE
                continue
            if (byte == 125 or byte == 93) and state in (_FIRST_ITEM, _FIRST_KEY, _NEXT):
                frame = stack[top + 1]
                if (byte == 125) != (frame in (_STRUCT, _MAP, _OBJECT)):
                    fault = BAD_JSON
                    break
                node = stack[top]
                pos += 1
                if frame == _STRUCT:
                    location = nodes[node * NODE + 6]
                    count = nodes[node * NODE + 7]
                    if stack[top + 3] < count and odd == 0:
                        for k in range(location, location + count * FIELD, FIELD):
                            child = fields[k]
                            if stamps[child] != stack[top + 2]:
                                if nodes[child * NODE + 3] == 0:
                                    fault = _MISSING
                                    at = child
                                    break
                                size = nodes[child * NODE + 5]
                                budget -= size
                                if budget < 0:
                                    fault = _TOO_LARGE
                                    break
                                location = nodes[child * NODE + 4]
                                for m in range(location, location + size):
                                    full |= put(bases, counts, out, nulls[m], ABSENT, 0, 0)
                        if fault:
                            break
                elif frame in (_MAP, _LIST):
                    full |= put(bases, counts, out, node, VALUE, stack[top + 2], 0)
                elif node >= 0:
                    full |= put(bases, counts, out, node, VALUE, stack[top + 2], pos - stack[top + 2])
                depth -= 1
                top -= FRAME
                state = _NEXT if depth > 0 else _END
                continue
            if state == _NEXT:
                fault = BAD_JSON
                break
            start = pos
            size = 0
            flags = 0
            if byte == 34:
                start += 1
                pos, size, flags, fault = skip_string(data, start, stop)
                if fault:
                    break
            if state in (_KEY, _FIRST_KEY):
                if byte != 34:
                    fault = BAD_JSON
                    break
                node = stack[top]
                frame = stack[top + 1]
                if frame == _STRUCT:
                    location = node * NODE
                    child = field_of(
                        data, start, pos - 1, nodes[location + 1], nodes[location + 2], slots, fields, names
                    )
                    node = SKIP
                    if child >= 0:
                        child = fields[child]
                        if stamps[child] == stack[top + 2]:
                            odd = 1
                        else:
                            stamps[child] = stack[top + 2]
                            stack[top + 3] += 1
                            node = child
                    elif flags & ESCAPES and not final:
                        odd = 1
                elif frame == _MAP:
                    location = nodes[node * NODE + 6]
                    if flags & LONE_SURROGATE:
                        fault = BAD_UTF8
                        at = location
                        break
                    mark = ESCAPED if flags & ESCAPES else VALUE
                    full |= put(bases, counts, out, location, mark, start, size)
                    stack[top + 2] += 1
                    node = nodes[node * NODE + 7]
                else:
                    node = SKIP
                pos = skip_space(data, pos, stop)
                if pos >= stop or data[pos & PLACE] != 58:
                    fault = BAD_JSON
                    break
                pos += 1
                state = _VALUE
                continue
            # A value
            if depth > 0:
                if stack[top + 1] == _LIST:
                    stack[top + 2] += 1
                    node = nodes[stack[top] * NODE + 6]
                elif stack[top + 1] == _ARRAY:
                    node = SKIP
            kind, a, b = SKIP, 0, 0
            if node >= 0:
                at = node
                location = node * NODE
                kind, a, b = nodes[location], nodes[location + 1], nodes[location + 2]
            mark, first, second = VALUE, 0, 0
            is_number = 0
            end = stop
            if byte == 34:
                if kind in (STRING, TEXT):
                    if flags & LONE_SURROGATE:
                        fault = BAD_UTF8
                        break
                    mark = ESCAPED if flags & ESCAPES else VALUE
                    first = start
                    second = size
                elif kind != SKIP:
                    if flags & ESCAPES and kind >= DOUBLE and kind <= BINARY and not final:
                        odd = 1
                    elif kind == DECIMAL:
                        is_number = 1
                        end = pos - 1
                    else:
                        mark, first, second, fault = text_value(data, start, pos - 1, kind, b)
            elif byte == 123 or byte == 91:
                if depth >= DEPTH_MAX:
                    fault = _TOO_DEEP
                    break
                frame = _OBJECT if byte == 123 else _ARRAY
                first = pos
                if kind == STRUCT and byte == 123:
                    frame = _STRUCT
                    stamps[serial] += 1
                    first = stamps[serial]
                    full |= put(bases, counts, out, node, VALUE, 0, 0)
                elif (kind == MAP and byte == 123) or (kind == LIST and byte == 91):
                    frame = _MAP if byte == 123 else _LIST
                    first = 0
                elif kind != SKIP and kind != TEXT:
                    fault = WRONG_TYPE
                if fault:
                    break
                top = depth * FRAME
                depth += 1
                stack[top] = node
                stack[top + 1] = frame
                stack[top + 2] = first
                stack[top + 3] = 0
                state = _FIRST_KEY if byte == 123 else _FIRST_ITEM
                pos += 1
                continue
            elif byte == 110:
                if word(data, pos, stop, 4) != NULL:
                    fault = BAD_JSON
                    break
                pos += 4
                if kind != SKIP:
                    if nodes[node * NODE + 3] == 0:
                        fault = WRONG_TYPE
                        break
                    location = nodes[node * NODE + 4]
                    size = nodes[node * NODE + 5]
                    budget -= size
                    if budget < 0:
                        fault = _TOO_LARGE
                        break
                    for m in range(location, location + size):
                        full |= put(bases, counts, out, nulls[m], ABSENT, 0, 0)
                    kind = SKIP
            elif byte == 116 or byte == 102:
                size = 4 if byte == 116 else 5
                if word(data, pos + size - 4, stop, 4) != (TRUE if byte == 116 else FALSE & 0xFFFFFFFF):
                    fault = BAD_JSON
                    break
                pos += size
                if kind == BOOLEAN:
                    first = int(byte == 116)
                elif kind == TEXT:
                    first = start
                    second = size
                elif kind != SKIP:
                    fault = WRONG_TYPE
            elif (
                byte == 78 or byte == 73 or (byte == 45 and pos + 1 < stop and data[(pos + 1) & PLACE] == 73)
            ):
                first = 1 - 2 * int(byte == 45)
                size = 3 if byte == 78 else 8
                pos += int(byte == 45)
                if word(data, pos, stop, size) != (NAN if byte == 78 else INFINITY):
                    fault = BAD_JSON
                    break
                pos += size
                if kind == DOUBLE:
                    mark = SPECIAL
                    first = 0 if byte == 78 else first
                elif kind == TEXT:
                    first = start
                    second = pos - start
                elif kind != SKIP:
                    fault = UNFIT if kind == DECIMAL else WRONG_TYPE
            else:
                is_number = 1
            if is_number:
                size, negative, digits, count, last, exponent = number(data, start, end, int(byte != 34))
                if byte != 34:
                    pos = end = size
                    fault = BAD_JSON if pos < 0 else 0
                elif size != end:
                    fault = WRONG_TYPE
                if fault:
                    break
                mark, first, second, fault = number_value(
                    data, start, end, kind, a, b, (negative, digits, count, last, exponent)
                )
            if fault:
                break
            if kind != SKIP and odd == 0:
                full |= put(bases, counts, out, node, mark, first, second)
            state = _NEXT if depth > 0 else _END
        if fault == 0 and odd:
            fault = ODD
            at = SKIP
        if fault or full:
            for k in range(len(counts)):
                counts[k], saved[k] = saved[k], counts[k]
        if full and fault == 0:
            return row
        faults[row] = fault
        places[row] = at if fault else -1
        row += 1
    return row


@kernel(f"void({BYTES}, int64[::1], int64[::1], uint8[::1], int64[::1], uint8[::1])")
def gather(data: Any, starts: Any, sizes: Any, marks: Any, offsets: Any, out: Any) -> None:
    """Copy strings into ``out``, without their escapes. ``sizes`` are those of the copies."""
    for row in range(len(starts)):
        start = starts[row]
        target = offsets[row]
        size = sizes[row]
        if marks[row] != ESCAPED:
            copy(out, target, data, start, size)
            continue
        stop = target + size
        while target < stop:
            byte = int(data[start & PLACE])
            if byte != 92:
                out[target & PLACE] = byte
                target += 1
                start += 1
                continue
            code, taken = escape(data, start, len(data))
            start += taken
            more = int(code > 0x7F) + int(code > 0x7FF) + int(code > 0xFFFF)
            if more == 0:
                out[target & PLACE] = code
            else:
                out[target & PLACE] = (0xF0 << (3 - more) & 0xFF) | code >> 6 * more
                for k in range(1, more + 1):
                    out[(target + k) & PLACE] = 0x80 | (code >> 6 * (more - k) & 0x3F)
            target += more + 1
