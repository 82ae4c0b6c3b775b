"""Dates, times, decimals and base64 in strings, as parts of the kernels; the rules are ``compiler.Kernel``'s.

Source: Spark's stringToTimestamp and stringToDate, whose forms these are without years of other than four
digits, without dates that lack a month or a day, and with offsets for time zones.
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import PLACE, inlined

from .lexing import DIGITS, UNFIT, WRONG_TYPE

_DAY_S: Final = 86400
_ZONE_MINUTES_MAX: Final = 18 * 60
_UINT32: Final = 2**32 - 1
_INT31: Final = 2**31
#: Digits that a Decimal128 holds.
_DECIMAL_DIGITS: Final = 38


@inlined
def digits_at(data: Any, pos: int, stop: int, most: int) -> tuple[int, int]:
    """Up to ``most`` digits as a number, and the place after them."""
    value = 0
    end = min(stop, pos + most)
    while pos < end and 48 <= data[pos & PLACE] <= 57:
        value = value * 10 + int(data[pos & PLACE]) - 48
        pos += 1
    return value, pos


@inlined
def date(data: Any, pos: int, stop: int) -> tuple[int, int, int]:
    """The days since 1970 of the date at ``pos``, the place after it, and a fault."""
    year, end = digits_at(data, pos, stop, 4)
    if end - pos != 4 or end >= stop or data[end & PLACE] != 45:
        return 0, pos, WRONG_TYPE
    pos = end + 1
    month, end = digits_at(data, pos, stop, 2)
    if end == pos or end >= stop or data[end & PLACE] != 45:
        return 0, pos, WRONG_TYPE
    pos = end + 1
    day, end = digits_at(data, pos, stop, 2)
    if end == pos:
        return 0, pos, WRONG_TYPE
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    month_days = 30 + (month + month // 8) % 2
    if month == 2:
        month_days = 29 if is_leap else 28
    if month < 1 or month > 12 or day < 1 or day > month_days:
        return 0, pos, UNFIT
    # Years begin in March here, so that the leap day is the last one.
    since = year - int(month <= 2)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * since + since // 4 - since // 100 + since // 400 + day_of_year - 719468, end, 0


@inlined
def timestamp(data: Any, pos: int, stop: int, days: int, zoned: int) -> tuple[int, int]:
    """The microseconds since 1970 of a date and what follows it at ``pos``, and a fault.

    Without a zone, it is in UTC.
    """
    seconds = days * _DAY_S
    if pos == stop:
        return seconds * 1_000_000, 0
    if data[pos & PLACE] != 84 and data[pos & PLACE] != 32:
        return 0, WRONG_TYPE
    factor = 3600
    has_seconds = 1
    while factor > 0:
        pos += 1
        value, end = digits_at(data, pos, stop, 2)
        if end == pos:
            return 0, WRONG_TYPE
        if value > (23 if factor == 3600 else 59):
            return 0, UNFIT
        seconds += value * factor
        factor //= 60
        pos = end
        if factor > 0 and (pos >= stop or data[pos & PLACE] != 58):
            if factor == 60:
                return 0, WRONG_TYPE
            factor = 0
            has_seconds = 0
    micros = 0
    if has_seconds and pos < stop and data[pos & PLACE] == 46:
        micros, end = digits_at(data, pos + 1, stop, 6)
        if end == pos + 1:
            return 0, WRONG_TYPE
        for _ in range(end, pos + 7):
            micros *= 10
        pos = end
        while pos < stop and 48 <= data[pos & PLACE] <= 57:
            pos += 1
    if pos < stop:
        minutes, fault = zone(data, pos, stop)
        if fault or not zoned:
            return 0, (fault if zoned else WRONG_TYPE)
        seconds -= minutes * 60
    return seconds * 1_000_000 + micros, 0


@inlined
def zone(data: Any, pos: int, stop: int) -> tuple[int, int]:
    """The minutes of Z, +02, +0200 or +02:00, and a fault."""
    first = int(data[pos & PLACE])
    pos += 1
    if (first | 32) == 122 and pos == stop:
        return 0, 0
    hours, end = digits_at(data, pos, stop, 2)
    if (first != 43 and first != 45) or end - pos != 2:
        return 0, WRONG_TYPE
    minutes = 0
    pos = end
    if pos < stop:
        pos += int(data[pos & PLACE] == 58)
        minutes, end = digits_at(data, pos, stop, 2)
        if end - pos != 2 or end != stop:
            return 0, WRONG_TYPE
    minutes += hours * 60
    if minutes > _ZONE_MINUTES_MAX or minutes - hours * 60 > 59:
        return 0, UNFIT
    return (44 - first) * minutes, 0


@inlined
def decimal(
    data: Any, pos: int, stop: int, negative: int, digits: int, count: int, exponent: int, precision: int
) -> tuple[int, int, int]:
    """The low and the high 64 bits of a number, rounded half up to an integer, and a fault.

    ``digits`` and so on are those that ``number`` has found in the text at ``pos``; the scale of the decimal
    is in the exponent already.
    """
    size = count + exponent
    if size < 0 or count == 0:
        return 0, 0, 0
    if size > precision:
        return 0, 0, UNFIT
    if count <= DIGITS and size <= DIGITS:
        for _ in range(exponent):
            digits *= 10
        if exponent < 0:
            factor = 1
            for _ in range(-exponent):
                factor *= 10
            digits = (digits + factor // 2) // factor
        limit = 1
        for _ in range(min(precision, DIGITS)):
            limit *= 10
        if precision <= DIGITS and digits >= limit:
            return 0, 0, UNFIT
        low = -digits if negative else digits
        return low, -int(low < 0), 0
    return long_decimal(data, pos, stop, negative, size, precision)


@inlined
def long_decimal(
    data: Any, pos: int, stop: int, negative: int, size: int, precision: int
) -> tuple[int, int, int]:
    """The first ``size`` digits of the text at ``pos``, and rounding by the next one."""
    a, b, c, d = 0, 0, 0, 0  # 32 bits each
    taken = 0
    nines = 1
    up = 0
    while taken <= size:
        digit = 0
        if pos < stop:
            byte = int(data[pos & PLACE])
            pos += 1
            if (byte | 32) == 101:
                pos = stop
                continue
            if byte < 48 or (byte == 48 and taken == 0):
                continue
            digit = byte - 48
        taken += 1
        if taken > size:
            up = int(digit >= 5)
        else:
            nines &= int(digit == 9)
            a = a * 10 + digit
            b = b * 10 + (a >> 32)
            c = c * 10 + (b >> 32)
            d = d * 10 + (c >> 32)
            a, b, c, d = a & _UINT32, b & _UINT32, c & _UINT32, d & _UINT32
    if up and nines and size == precision:
        return 0, 0, UNFIT
    a += up
    for step in range(2):
        b += a >> 32
        c += b >> 32
        d += c >> 32
        a, b, c, d = a & _UINT32, b & _UINT32, c & _UINT32, d & _UINT32
        if step == 0 and negative:
            a, b, c, d = _UINT32 - a + 1, _UINT32 - b, _UINT32 - c, _UINT32 - d
    b -= 2 * _INT31 * int(b >= _INT31)
    d -= 2 * _INT31 * int(d >= _INT31)
    return b << 32 | a, d << 32 | c, 0


@inlined
def is_base64(data: Any, pos: int, stop: int) -> bool:
    """True for base64 with its padding and without line breaks."""
    if (stop - pos) % 4 != 0:
        return False
    if stop > pos and data[(stop - 1) & PLACE] == 61:
        stop -= 1
        if data[(stop - 1) & PLACE] == 61:
            stop -= 1
    while pos < stop:
        byte = data[pos & PLACE]
        letter = byte | 32
        if not (97 <= letter <= 122 and byte >= 65) and not 47 <= byte <= 57 and byte != 43:
            return False
        pos += 1
    return True
