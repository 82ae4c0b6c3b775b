"""The loops that decode Protobuf; the rules are those of ``compiler.Kernel``.

A value has a place of its own, whatever the order in which fields come: its stream is that of its column,
its slot that of the message around it. All columns outside of repeated fields have one slot for each row.
The items of a repeated field form a domain: a message in it has one slot in each of its columns. So a later
value replaces an earlier one, messages in pieces are merged, and a stream is what Arrow wants.
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import BYTES, inlined, kernel

from ..faults import Fault
from ..span_kernels import is_utf8
from .layout import (
    ARG,
    ARG2,
    CLEARED,
    CLEARED_COUNT,
    CLOSED_ENUM,
    D_FLAG,
    D_FLAGS,
    D_REQUIRED,
    D_REQUIREDS,
    D_SIZE,
    D_START,
    D_STARTS,
    DEPTH_MAX,
    DOMAIN,
    FAIL,
    FLAG,
    FRAME,
    IMPLICIT,
    INT64,
    ITEMS,
    MESSAGE,
    NO_SCOPE,
    OP,
    PATH,
    PRESENT,
    SECONDS,
    SECONDS_MAX,
    SPAN,
    STEPS_MIN,
    STEPS_PER_BYTE,
    STREAM,
    WIDTH,
    WIRE,
)
from .types import DELIMITED, END_GROUP, FIXED32, START_GROUP
from .wire_kernels import scalar, varint

_TRUNCATED: Final = int(Fault.TRUNCATED)
_BAD_LENGTH: Final = int(Fault.BAD_LENGTH)
_BAD_UTF8: Final = int(Fault.BAD_UTF8)
_BAD_WIRE: Final = int(Fault.BAD_WIRE_TYPE)
_TOO_DEEP: Final = int(Fault.TOO_DEEP)
_TOO_LARGE: Final = int(Fault.TOO_LARGE)
_MISSING: Final = int(Fault.MISSING_FIELD)
_UNFIT: Final = int(Fault.NOT_REPRESENTABLE)
_SIZE_MAX: Final = 2**31 - 1


@inlined
def is_known(table: Any, place: int, count: int, number: int) -> bool:
    """True if a closed enum has a value of this number."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if table[place + middle] < number:
            low = middle + 1
        else:
            high = middle
    return bool(low < count and table[place + low] == number)


@inlined
def new_slot(
    domain: int,
    domains: Any,
    table: Any,
    counts: Any,
    capacity: Any,
    streams: Any,
    presents: Any,
    out: Any,
    flags: Any,
) -> int:
    """The next slot of a domain, without any field; -1 if there is no room."""
    slot = counts[domain]
    if slot >= capacity[domain]:
        return -1
    at = domain * DOMAIN
    for k in range(domains[at + D_FLAG], domains[at + D_FLAG] + domains[at + D_FLAGS]):
        flags[presents[table[k]] + slot] = 0
    for k in range(domains[at + D_STARTS]):
        pair = domains[at + D_START] + 2 * k
        out[streams[table[pair]] + slot] = counts[table[pair + 1]]
    counts[domain] = slot + 1
    return int(slot)


@inlined
def clear(
    place: int,
    count: int,
    table: Any,
    slot: int,
    counts: Any,
    cut: Any,
    streams: Any,
    presents: Any,
    out: Any,
    flags: Any,
) -> None:
    """Take away the other members of a oneof: flags of the slot, and items of domains.

    Entries are a flag, -1, -1; or a domain, the stream with its first item, and the domain of the message
    around it if that is taken away, too, else -1.
    """
    for k in range(place, place + 3 * count, 3):
        if table[k + 1] < 0:
            flags[presents[table[k]] + slot] = 0
            continue
        domain, around = table[k], table[k + 2]
        cut[domain] = 0
        if around < 0:
            first = out[streams[table[k + 1]] + slot]
        elif cut[around]:
            first = out[streams[table[k + 1]] + counts[around]]
        else:
            continue
        if first < counts[domain]:
            counts[domain] = first
            cut[domain] = 1


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
    while row < len(starts):
        for k in range(len(counts)):
            saved[k] = counts[k]
        slot = new_slot(0, domains, table, counts, capacity, streams, presents, out, flags)
        pos = starts[row]
        stop = stops[row]
        if pos < 0 or faults[row]:
            row += 1
            continue
        steps = STEPS_MIN + STEPS_PER_BYTE * (stop - pos)
        scope, domain, group, guess, path, depth, fault, full = 1, 0, 0, 0, -1, 0, 0, -1
        inner, cleared = -1, -1
        while True:
            field_path = path
            if cleared >= 0:
                if program[cleared + CLEARED_COUNT]:
                    place = program[cleared + CLEARED]
                    members = program[cleared + CLEARED_COUNT]
                    clear(place, members, table, slot, counts, cut, streams, presents, out, flags)
                cleared = -1
            if pos >= stop and group == 0:
                wire = END_GROUP
                number = 0
            else:
                tag, pos, fault = varint(data, pos, stop)
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
                    at = domain * DOMAIN
                    for k in range(domains[at + D_REQUIREDS]):
                        entry = domains[at + D_REQUIRED] + 3 * k
                        around = table[entry]
                        if flags[presents[table[entry + 1]] + slot] == 0 and (
                            around < 0 or flags[presents[around] + slot] != 0
                        ):
                            fault = _MISSING
                            field_path = table[entry + 2]
                            break
                if fault or depth == 0:
                    break
                depth -= 1
                at = depth * FRAME
                scope = stack[at]
                stop = stack[at + 1]
                slot = stack[at + 2]
                domain = stack[at + 3]
                group = stack[at + 4]
                guess = stack[at + 5]
                path = stack[at + 6]
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
            at = -1
            op = -1
            items = -1
            is_packed = False
            if guess < count and program[(first + guess) * WIDTH] == number:
                at = (first + guess) * WIDTH
                op = program[at + OP]
                items = program[at + ITEMS]
                field_path = program[at + PATH]
                guess += 1 if items < 0 else 0
                if op == FAIL:
                    fault = program[at + ARG]
                    break
                if wire != program[at + WIRE]:
                    is_packed = wire == DELIMITED and items >= 0 and op < SPAN
                    op = op if is_packed else -1
            size = 0
            if wire == DELIMITED:
                size, pos, fault = varint(data, pos, stop)
                if fault:
                    break
                if size < 0 or size > stop - pos:
                    fault = _BAD_LENGTH if size < 0 or size > _SIZE_MAX else _TRUNCATED
                    break
            if op < 0 or op >= MESSAGE:
                if op == PRESENT:
                    flags[presents[program[at + FLAG]] + slot] = 1
                    cleared = at
                if op == MESSAGE or wire == START_GROUP:
                    if depth >= DEPTH_MAX - 1:
                        fault = _TOO_DEEP
                        break
                    inner = slot
                    if op == MESSAGE and items >= 0:
                        inner = new_slot(
                            items, domains, table, counts, capacity, streams, presents, out, flags
                        )
                        steps -= domains[items * DOMAIN + D_SIZE]
                        if inner < 0:
                            full = items
                            break
                        if steps < 0:
                            fault = _TOO_LARGE
                            break
                    elif op == MESSAGE:
                        flags[presents[program[at + FLAG]] + slot] = 1
                        cleared = at
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
                elif wire == DELIMITED:
                    pos += size
                else:
                    _, pos, fault = scalar(data, pos, stop, wire, INT64)
                    if fault:
                        break
                continue
            end = stop
            if is_packed:
                end = pos + size
                wire = program[at + WIRE]
                if size == 0:
                    continue
            stream = program[at + STREAM]
            while True:
                value = pos
                if op == SPAN:
                    if program[at + ARG] and not is_utf8(data, pos, pos + size):
                        fault = _BAD_UTF8
                        break
                    pos += size
                else:
                    value, pos, fault = scalar(data, pos, end, wire, op)
                    if fault:
                        break
                    if op == CLOSED_ENUM and not is_known(
                        table, program[at + ARG], program[at + ARG2], value
                    ):
                        stream = -1
                    elif op == SECONDS and (value > SECONDS_MAX or value < -SECONDS_MAX):
                        fault = _UNFIT
                        break
                if stream >= 0:
                    inner = slot
                    if items >= 0:
                        inner = new_slot(
                            items, domains, table, counts, capacity, streams, presents, out, flags
                        )
                        if inner < 0:
                            full = items
                            break
                    else:
                        is_default = size == 0 if op == SPAN else value == 0
                        flags[presents[program[at + FLAG]] + slot] = (
                            0 if is_default and program[at + IMPLICIT] else 1
                        )
                        cleared = at
                    out[streams[stream] + inner] = value
                    if op == SPAN:
                        out[streams[stream + 1] + inner] = size
                stream = program[at + STREAM]
                if not is_packed or pos >= end:
                    break
            if fault or full >= 0:
                break
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
