"""Strings, numbers and words of JSON, and dates, times, decimals and base64 in strings, as parts of the
kernels; the rules are those of ``compiler.Kernel``.

Source: RFC 8259. NaN, Infinity and -Infinity are numbers, as in Python's json and in Spark's from_json. Times
and dates have the forms of Spark's stringToTimestamp and stringToDate, without years of other than four
digits, without dates that lack a month or a day, and with offsets for time zones.
"""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import PLACE, inlined
from spark_kafkawire.records.spans import utf8_size

from ..payloads import Fault

BAD_JSON: Final = int(Fault.BAD_JSON)
BAD_UTF8: Final = int(Fault.BAD_UTF8)
WRONG_TYPE: Final = int(Fault.WRONG_TYPE)
UNFIT: Final = int(Fault.NOT_REPRESENTABLE)
#: Flags of a string.
ESCAPES: Final = 1
LONE_SURROGATE: Final = 2
#: Digits of a number that are kept as one integer; the next one is kept by itself.
DIGITS: Final = 18
_EXPONENT_MAX: Final = 10**9
_INT64_TENTH: Final = (2**63 - 1) // 10

NULL: Final = int.from_bytes(b"null", "big")
TRUE: Final = int.from_bytes(b"true", "big")
FALSE: Final = int.from_bytes(b"false", "big")
NAN: Final = int.from_bytes(b"NaN", "big")
INFINITY: Final = int.from_bytes(b"Infinity", "big")
_INF: Final = int.from_bytes(b"INF", "big")


@inlined
def skip_space(data: Any, pos: int, stop: int) -> int:
    """The place of the next byte that is not space."""
    while pos < stop and (data[pos & PLACE] == 32 or 9 <= data[pos & PLACE] <= 10 or data[pos & PLACE] == 13):
        pos += 1
    return pos


@inlined
def word(data: Any, pos: int, stop: int, size: int) -> int:
    """Up to 8 bytes as one integer; -1 where fewer are left."""
    if stop - pos < size:
        return -1
    value = 0
    for k in range(size):
        value = value << 8 | int(data[(pos + k) & PLACE])
    return value


@inlined
def special(data: Any, pos: int, stop: int) -> int:
    """The number that a string stands for: 1 for Infinity, -1 for its negative, 0 for NaN; 2 for others."""
    if stop - pos == 3 and word(data, pos, stop, 3) == NAN:
        return 0
    sign = 1
    if stop > pos and data[pos & PLACE] in (43, 45):
        sign = 44 - int(data[pos & PLACE])
        pos += 1
    elif stop - pos == 3:  # Spark takes INF with a sign only
        return 2
    if stop - pos == 8 and word(data, pos, stop, 8) == INFINITY:
        return sign
    if stop - pos == 3 and word(data, pos, stop, 3) == _INF:
        return sign
    return 2


@inlined
def code_unit(data: Any, pos: int, stop: int) -> int:
    """The code unit of ``\\uXXXX`` at ``pos``; -1 if there is no such escape."""
    if stop - pos < 6 or data[pos & PLACE] != 92 or data[(pos + 1) & PLACE] != 117:
        return -1
    value = 0
    for k in range(2, 6):
        digit = int(data[(pos + k) & PLACE])
        if 48 <= digit <= 57:
            digit -= 48
        elif 65 <= digit <= 70:
            digit -= 55
        elif 97 <= digit <= 102:
            digit -= 87
        else:
            return -1
        value = value << 4 | digit
    return value


@inlined
def escape(data: Any, pos: int, stop: int) -> tuple[int, int]:
    """The character of the escape at ``pos``, and the size of the escape; -1 and 0 for other bytes."""
    if stop - pos < 2:
        return -1, 0
    letter = data[(pos + 1) & PLACE]
    if letter == 34 or letter == 92 or letter == 47:
        return int(letter), 2
    if letter == 110:
        return 10, 2
    if letter == 116:
        return 9, 2
    if letter == 114:
        return 13, 2
    if letter == 98:
        return 8, 2
    if letter == 102:
        return 12, 2
    code = code_unit(data, pos, stop)
    if code < 0:
        return -1, 0
    if 0xD800 <= code < 0xDC00:
        low = code_unit(data, pos + 6, stop)
        if 0xDC00 <= low < 0xE000:
            return 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00, 12
    return code, 6


@inlined
def skip_string(data: Any, pos: int, stop: int) -> tuple[int, int, int, int]:
    """The place after a string whose content begins at ``pos``, its size without escapes, flags, a fault."""
    size = 0
    flags = 0
    while pos < stop:
        byte = data[pos & PLACE]
        if byte == 34:
            return pos + 1, size, flags, 0
        if byte == 92:
            flags |= ESCAPES
            code, taken = escape(data, pos, stop)
            if taken == 0:
                return pos, size, flags, BAD_JSON
            if 0xD800 <= code < 0xE000:
                flags |= LONE_SURROGATE
            size += 1 + int(code > 0x7F) + int(code > 0x7FF) + int(code > 0xFFFF)
            pos += taken
        elif byte < 32:
            return pos, size, flags, BAD_JSON
        elif byte < 128:
            pos += 1
            size += 1
        else:
            taken = utf8_size(data, pos, stop)
            if taken == 0:
                return pos, size, flags, BAD_UTF8
            pos += taken
            size += taken
    return pos, size, flags, BAD_JSON


@inlined
def number(data: Any, pos: int, stop: int, strict: int) -> tuple[int, int, int, int, int, int]:
    """The number at ``pos``: the place after it, or -1; a sign; and its digits without zeros at either end.

    The digits are the first 18 as one integer, their count, and the 19th. The number is all of them times ten
    to the exponent, which comes last. Without ``strict``, it may be written as Java's BigDecimal allows.
    """
    negative = 0
    if pos < stop and (data[pos & PLACE] == 45 or (data[pos & PLACE] == 43 and not strict)):
        negative = int(data[pos & PLACE] == 45)
        pos += 1
    begin = pos
    digits = 0
    count = 0
    last = 0
    zeros = 0
    point = -1
    while pos < stop:
        digit = int(data[pos & PLACE]) - 48
        if digit == 0:
            zeros += int(count > 0)
        elif 0 < digit <= 9:
            while zeros > 0:
                if count < DIGITS:
                    digits *= 10
                count += 1
                zeros -= 1
            if count < DIGITS:
                digits = digits * 10 + digit
            elif count == DIGITS:
                last = digit
            count += 1
        elif digit == -2 and point < 0:
            point = pos
        else:
            break
        pos += 1
    whole = (pos if point < 0 else point) - begin
    fraction = 0 if point < 0 else pos - point - 1
    if whole + fraction == 0:
        return -1, 0, 0, 0, 0, 0
    if strict and (whole == 0 or (point >= 0 and fraction == 0) or (whole > 1 and data[begin & PLACE] == 48)):
        return -1, 0, 0, 0, 0, 0
    exponent = 0
    if pos < stop and (data[pos & PLACE] | 32) == 101:
        pos += 1
        sign = 1
        if pos < stop and data[pos & PLACE] in (43, 45):
            sign = 44 - int(data[pos & PLACE])
            pos += 1
        begin = pos
        while pos < stop and 48 <= data[pos & PLACE] <= 57:
            if exponent < _EXPONENT_MAX:
                exponent = exponent * 10 + int(data[pos & PLACE]) - 48
            pos += 1
        if pos == begin:
            return -1, 0, 0, 0, 0, 0
        exponent *= sign
    return pos, negative, digits, count, last, exponent + zeros - fraction


@inlined
def integer(negative: int, digits: int, count: int, last: int, exponent: int) -> tuple[int, int]:
    """A number as int64, and a fault."""
    if count == 0:
        return 0, 0
    if exponent < 0:
        return 0, WRONG_TYPE
    size = count + exponent
    if size > DIGITS + 1:
        return 0, UNFIT
    for _ in range(min(size, DIGITS) - min(count, DIGITS)):
        digits *= 10
    if size <= DIGITS:
        return (-digits if negative else digits), 0
    if digits > _INT64_TENTH or (digits == _INT64_TENTH and last > 7 + negative):
        return 0, UNFIT
    return (-(digits * 10) - last if negative else digits * 10 + last), 0


_DAY_S: Final = 86400
_ZONE_MINUTES_MAX: Final = 18 * 60
_UINT32: Final = 2**32 - 1
_INT31: Final = 2**31


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
