"""The nodes of a type, and the values that are put into their columns, as parts of the kernels.

A type is a tree of nodes, each a row of ``NODE`` integers. The values of a node lie one after the other in
three arrays: a mark, and two integers. So a node under a list has as many as there are items.
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import PLACE, inlined

from .lexing import DIGITS, UNFIT, WRONG_TYPE, integer, special
from .texts import date, decimal, is_base64, timestamp

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
TIMESTAMP: Final = (
    7  # a: microseconds for 1, or 0 if integers are no timestamps, b: 1 in UTC, 0 without a zone
)
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
