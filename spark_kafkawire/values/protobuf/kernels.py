"""The loops that decode Protobuf, and the meaning of the integers of their programs; the rules are those of
``compiler.Kernel``.

A value has a place of its own, whatever the order in which fields come: its stream is that of its column,
its slot that of the message around it. All columns outside of repeated fields have one slot for each row.
The items of a repeated field form a domain: a message in it has one slot in each of its columns. So a later
value replaces an earlier one, messages in pieces are merged, and a stream is what Arrow wants.

    program   ``WIDTH`` integers for each field, by scopes and numbers
    scopes    for each message: its first field in the program, and how many it has
    domains   ``DOMAIN`` integers for each domain, see there
    table     lists of integers of varying lengths that these refer to
    out       the streams, int64; that of a repeated field has the index of the first item in its domain
    flags     1 where a field is present, in streams of their own
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import BYTES, PLACE, kernel
from spark_kafkawire.records.spans import is_utf8

from ..payloads import Fault
from .types import DELIMITED, END_GROUP, FIXED32, FIXED64, START_GROUP, VARINT

#: Messages that may be open at the same time, as in the official runtimes.
DEPTH_MAX: Final = 101
#: Slots that a message may take, so that few bytes cannot ask for much memory.
STEPS_MIN: Final = 1 << 16
STEPS_PER_BYTE: Final = 256

#: Integers of a field.
WIDTH: Final = 13
NUMBER, OP, WIRE, ITEMS, FLAG, STREAM, ARG, ARG2, IMPLICIT, CLEARED, CLEARED_COUNT, PATH, ANY = range(WIDTH)
# ITEMS: domain of a repeated field, -1 for others. FLAG, STREAM: -1 for none. IMPLICIT: 1 if the default is
# not shown. ANY: the flag of a oneof of which a member is set, -1 outside of one. CLEARED: place in the
# table of what all members of it have: triples of a flag, -1, -1, or of a domain, the stream with its first
# item, and the domain of the message around it, -1 for the slot itself.

#: Operations.
INT64: Final = 0
INT32: Final = 1
BOOLEAN: Final = 2
SINT32: Final = 3
SINT64: Final = 4
FIXED: Final = 5
CLOSED_ENUM: Final = 6  # ARG, ARG2: place and count of sorted numbers in the table
SECONDS: Final = 7
SPAN: Final = 8  # ARG: 1 if it has to be UTF-8
MESSAGE: Final = 9  # ARG: scope
PRESENT: Final = 10  # only the flag counts
FAIL: Final = 11  # ARG: fault

#: Integers of a domain: its flags, the streams of repeated fields right in it, its size, and required fields.
DOMAIN: Final = 7
D_FLAG, D_FLAGS, D_START, D_STARTS, D_SIZE, D_REQUIRED, D_REQUIREDS = range(DOMAIN)
# D_FLAG: place in the table of flags. D_START: of pairs of a stream and a domain. D_REQUIRED: of triples of
# the flag of the message around a field (-1 for the slot itself), the field's flag, and its path.

#: Integers of an open message: those of the message around it.
FRAME: Final = 7
#: The scope without fields.
NO_SCOPE: Final = 0
#: Seconds of a timestamp that microseconds of 64 bits can have.
SECONDS_MAX: Final = (2**63 - 1) // 1_000_000 - 2**31


_TRUNCATED: Final = int(Fault.TRUNCATED)
_BAD_LENGTH: Final = int(Fault.BAD_LENGTH)
_BAD_VARINT: Final = int(Fault.BAD_VARINT)
_BAD_UTF8: Final = int(Fault.BAD_UTF8)
_BAD_WIRE: Final = int(Fault.BAD_WIRE_TYPE)
_TOO_DEEP: Final = int(Fault.TOO_DEEP)
_TOO_LARGE: Final = int(Fault.TOO_LARGE)
_MISSING: Final = int(Fault.MISSING_FIELD)
_UNFIT: Final = int(Fault.NOT_REPRESENTABLE)
_LOW_32: Final = 2**32 - 1
_HIGH_OF_32: Final = 2**31
_NO_SIGN: Final = 2**63 - 1
_SIGN: Final = -(2**63)
_SIZE_MAX: Final = 2**31 - 1


@kernel(
    f"int64({BYTES}, int64[::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], uint8[::1],"
    " int64[::1], uint8[::1], int32[::1])"
)
def decode_each(
    data: Any,
    starts: Any,
    stops: Any,
    row: int,
    program: Any,
    scopes: Any,
    domains: Any,
    table: Any,
    counts: Any,
    saved: Any,
    cut: Any,
    capacity: Any,
    streams: Any,
    presents: Any,
    out: Any,
    flags: Any,
    stack: Any,
    faults: Any,
    fields: Any,
) -> int:
    """Decode rows from ``row`` on. Returns the first one that is not decoded: there are no more, or a domain
    has no room, whose index is then in ``cut[0]``.

    ``counts`` are the slots that are used in each domain; that of the rows themselves is 0. ``streams`` and
    ``presents`` are the places of streams in ``out`` and in ``flags``, ``stack`` has ``FRAME * DEPTH_MAX``
    places. A row with a fault has no field, and takes no slots in other domains.
    """
    # No call in the loop has arrays as arguments: numba counts references to them, at 10 ns each.
    while row < len(starts):
        for k in range(len(counts)):
            saved[k] = counts[k]
        for k in range(domains[D_FLAG], domains[D_FLAG] + domains[D_FLAGS]):
            flags[presents[table[k]] + row] = 0
        for k in range(domains[D_START], domains[D_START] + 2 * domains[D_STARTS], 2):
            out[streams[table[k]] + row] = counts[table[k + 1]]
        counts[0] = row + 1
        pos = starts[row]
        stop = stops[row]
        if pos < 0 or faults[row]:
            row += 1
            continue
        steps = STEPS_MIN + STEPS_PER_BYTE * (stop - pos)
        slot, scope, domain, group, guess, path, depth = row, 1, 0, 0, 0, -1, 0
        fault, full, field_path, at, op, items, wire, number, packed_stop = 0, -1, -1, -1, -1, -1, 0, 0, -1
        while True:
            if packed_stop < 0:
                field_path = path
                if pos >= stop and group == 0:
                    wire, number = END_GROUP, 0
                else:
                    tag, shift = 0, 0
                    while True:
                        if pos >= stop:
                            fault = _TRUNCATED
                            break
                        byte = int(data[pos & PLACE])
                        pos += 1
                        tag |= (byte & 0x7F) << shift
                        if byte < 0x80:
                            break
                        shift += 7
                        if shift > 28:
                            fault = _BAD_VARINT
                            break
                    if fault:
                        break
                    wire = tag & 7
                    number = tag >> 3
                    if number <= 0 or number >= 2**29 or wire > FIXED32:
                        fault = _BAD_WIRE
                        break
                if wire == END_GROUP:
                    if number != group:
                        fault = _BAD_WIRE
                        break
                    if domain >= 0:
                        first = domains[domain * DOMAIN + D_REQUIRED]
                        for k in range(first, first + 3 * domains[domain * DOMAIN + D_REQUIREDS], 3):
                            around = table[k]
                            if flags[presents[table[k + 1]] + slot] == 0 and (
                                around < 0 or flags[presents[around] + slot] != 0
                            ):
                                fault = _MISSING
                                field_path = table[k + 2]
                                break
                    if fault or depth == 0:
                        break
                    depth -= 1
                    top = depth * FRAME
                    scope = stack[top]
                    stop = stack[top + 1]
                    slot = stack[top + 2]
                    domain = stack[top + 3]
                    group = stack[top + 4]
                    guess = stack[top + 5]
                    path = stack[top + 6]
                    continue
                # The field: the one after the last one, if fields come in order.
                first = scopes[2 * scope]
                count = scopes[2 * scope + 1]
                if guess >= count or program[(first + guess) * WIDTH] != number:
                    guess = 0
                    high = count
                    while guess < high:
                        middle = (guess + high) // 2
                        if program[(first + middle) * WIDTH] < number:
                            guess = middle + 1
                        else:
                            high = middle
                op, items = -1, -1
                if guess < count and program[(first + guess) * WIDTH] == number:
                    at = (first + guess) * WIDTH
                    op = program[at + OP]
                    items = program[at + ITEMS]
                    field_path = program[at + PATH]
                    if op == FAIL:
                        fault = program[at + ARG]
                        break
                    if items < 0:
                        guess += 1
                    if wire != program[at + WIRE]:
                        if wire == DELIMITED and items >= 0 and op < SPAN:
                            packed_stop = 0
                        else:  # another wire type is that of an unknown field
                            op = -1
            # The value, or the size of a delimited one.
            limit = packed_stop if packed_stop > 0 else stop
            value = 0
            if wire in (VARINT, DELIMITED):
                shift = 0
                while True:
                    if pos >= limit:
                        fault = _TRUNCATED
                        break
                    byte = int(data[pos & PLACE])
                    pos += 1
                    if shift == 63:
                        if byte >= 0x80:
                            fault = _BAD_VARINT
                            break
                        if byte & 1:  # other bits are left out, as in the official runtimes
                            value += _SIGN
                        break
                    value |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                    if shift > 28 and wire == DELIMITED:  # a size has 5 bytes at most
                        fault = _BAD_VARINT
                        break
            elif wire in (FIXED32, FIXED64):
                size = 4 if wire == FIXED32 else 8
                if size > limit - pos:
                    fault = _TRUNCATED
                else:
                    for k in range(4):
                        value |= int(data[(pos + k) & PLACE]) << (8 * k)
                    if size == 8:
                        for k in range(4, 7):
                            value |= int(data[(pos + k) & PLACE]) << (8 * k)
                        top = int(data[(pos + 7) & PLACE])
                        value |= (top - 256 if top > 127 else top) << 56
                    pos += size
            if fault:
                break
            size = 0
            if wire == DELIMITED:
                if value < 0 or value > stop - pos:
                    fault = _BAD_LENGTH if value < 0 or value > _SIZE_MAX else _TRUNCATED
                    break
                size = value
                if packed_stop == 0:
                    packed_stop = pos + size if size else -1
                    wire = program[at + WIRE]
                    continue
                value = pos
                if op == SPAN and program[at + ARG] and not is_utf8(data, pos, pos + size):
                    fault = _BAD_UTF8
                    break
                if op != MESSAGE:
                    pos += size
            elif op in (INT32, SINT32, CLOSED_ENUM):
                value &= _LOW_32
                if op == SINT32:
                    value = (value >> 1) ^ -(value & 1)
                elif value >= _HIGH_OF_32:
                    value -= _LOW_32 + 1
                if op == CLOSED_ENUM:
                    low = program[at + ARG]
                    high = low + program[at + ARG2]
                    while low < high:
                        middle = (low + high) // 2
                        if table[middle] < value:
                            low = middle + 1
                        else:
                            high = middle
                    if low >= program[at + ARG] + program[at + ARG2] or table[low] != value:
                        if packed_stop >= 0 and pos >= packed_stop:
                            packed_stop = -1
                        continue
            elif op == SINT64:
                value = ((value >> 1) & _NO_SIGN) ^ -(value & 1)
            elif op == BOOLEAN:
                value = 1 if value != 0 else 0
            elif op == SECONDS and (value > SECONDS_MAX or value < -SECONDS_MAX):
                fault = _UNFIT
                break
            inner = slot
            if items >= 0 and op >= 0:
                inner = counts[items]
                if inner >= capacity[items]:
                    full = items
                    break
                location = items * DOMAIN
                for k in range(
                    domains[location + D_FLAG], domains[location + D_FLAG] + domains[location + D_FLAGS]
                ):
                    flags[presents[table[k]] + inner] = 0
                first = domains[location + D_START]
                for k in range(first, first + 2 * domains[location + D_STARTS], 2):
                    out[streams[table[k]] + inner] = counts[table[k + 1]]
                counts[items] = inner + 1
                if op == MESSAGE:
                    steps -= domains[location + D_SIZE]
                    if steps < 0:
                        fault = _TOO_LARGE
                        break
            elif op >= 0:
                is_default = size == 0 if op == SPAN else value == 0
                location = presents[program[at + FLAG]] + slot
                first = program[at + CLEARED]
                oneof = program[at + ANY]
                if oneof < 0 or flags[location] != 0:
                    count = 0
                elif flags[presents[oneof] + slot] == 0:
                    flags[presents[oneof] + slot] = 1
                    count = 0
                else:  # another member is taken away
                    count = program[at + CLEARED_COUNT]
                for k in range(first, first + 3 * count, 3):
                    if table[k + 1] < 0:
                        flags[presents[table[k]] + slot] = 0
                        continue
                    cleared, around = table[k], table[k + 2]
                    cut[cleared] = 0
                    if around >= 0 and cut[around] == 0:
                        continue
                    kept = slot if around < 0 else counts[around]
                    kept = out[streams[table[k + 1]] + kept]
                    if kept < counts[cleared]:
                        counts[cleared] = kept
                        cut[cleared] = 1
                flags[location] = 0 if is_default and program[at + IMPLICIT] else 1
            if op == MESSAGE or wire == START_GROUP:
                if depth >= DEPTH_MAX - 1:
                    fault = _TOO_DEEP
                    break
                top = depth * FRAME
                depth += 1
                stack[top] = scope
                stack[top + 1] = stop
                stack[top + 2] = slot
                stack[top + 3] = domain
                stack[top + 4] = group
                stack[top + 5] = guess
                stack[top + 6] = path
                scope = program[at + ARG] if op == MESSAGE else NO_SCOPE
                domain = items if op == MESSAGE else -1
                slot = inner
                group = number if wire == START_GROUP else 0
                stop = stop if wire == START_GROUP else pos + size
                guess = 0
                path = field_path
            elif op >= 0 and op < MESSAGE:
                stream = program[at + STREAM]
                out[streams[stream] + inner] = value
                if op == SPAN:
                    out[streams[stream + 1] + inner] = size
                if packed_stop >= 0 and pos >= packed_stop:
                    packed_stop = -1
        if full >= 0:
            for k in range(len(counts)):
                counts[k] = saved[k]
            cut[0] = full
            return int(row)
        if fault:  # the same row again, as one without fields
            faults[row] = fault
            fields[row] = field_path
            for k in range(len(counts)):
                counts[k] = saved[k]
        else:
            row += 1
    return int(row)
