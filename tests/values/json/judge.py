"""Decoding of one JSON message by Python's json, as the judge of the kernels, and messages to judge."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

#: 400 years, in which the calendar repeats: Python's begins in the year 1.
_CYCLE_DAYS: Final = 146_097
_DATE: Final = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_TIME: Final = r"[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?(Z|z|[+-]\d\d(?::?\d\d)?)?"
_DECIMAL: Final = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_SPECIAL: Final = {
    text: float(text) for text in ("NaN", "Infinity", "-Infinity", "+Infinity", "+INF", "-INF")
}


class BadValue(Exception):
    """The message has no value of the type."""


class Number(str):
    """The text of a number."""


class Json:
    """A value of which a column has the JSON."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        text = other if isinstance(other, str) else ""
        return bool(_loads(text) == self.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Json({self.value!r})"


def _loads(text: str, **more: Any) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number, **more)


def judged(message: bytes, of: pa.DataType) -> tuple[Any, bool]:
    """The value of a message, and whether it may be a fault all the same. Raises ``BadValue``.

    A field that is there twice has its last value; one of the others may be bad.
    """
    try:
        pairs = _loads(message.decode(), object_pairs_hook=lambda pairs: tuple(pairs))
    except ValueError as error:
        raise BadValue(error) from error
    value = _converted(pairs, of)
    try:
        _converted(pairs, of, with_all=True)
    except BadValue:
        return value, True
    return value, False


def _converted(value: Any, of: pa.DataType, *, with_all: bool = False) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(of):
        given: dict[str, list[Any]] = {}
        for name, item in _pairs(value):
            given.setdefault(name, []).append(item)
        for item in of:
            for other in given.get(item.name, [])[:-1] if with_all else ():
                _converted(other, item.type, with_all=True)
        return {
            item.name: _converted(given.get(item.name, [None])[-1], item.type, with_all=with_all)
            for item in of
        }
    if pa.types.is_map(of):
        if with_all:
            for _, item in _pairs(value):
                _converted(item, of.item_type, with_all=True)
        return [(_text(key), _converted(item, of.item_type)) for key, item in dict(_pairs(value)).items()]
    if pa.types.is_list(of):
        if not isinstance(value, list):
            raise BadValue
        return [_converted(item, of.value_type, with_all=with_all) for item in value]
    if pa.types.is_string(of):
        is_text = isinstance(value, str) and not isinstance(value, Number)
        return _text(value) if is_text else Json(_last(value))
    if isinstance(value, (tuple, list)):
        raise BadValue
    return _leaf(value, of)


def _pairs(value: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(value, tuple):
        raise BadValue
    return value


def _last(value: Any) -> Any:
    if isinstance(value, tuple):
        return {key: _last(item) for key, item in value}
    return [_last(item) for item in value] if isinstance(value, list) else value


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValue from error
    return value


def _leaf(value: Any, of: pa.DataType) -> Any:
    if isinstance(value, bool) or pa.types.is_boolean(of):
        if not isinstance(value, bool) or not pa.types.is_boolean(of):
            raise BadValue
        return value
    if isinstance(value, Number):
        return _number(value, of)
    if pa.types.is_decimal(of) and re.fullmatch(_DECIMAL, value, re.ASCII):
        return _decimal(value, of)
    if pa.types.is_floating(of) and value in _SPECIAL:
        return _SPECIAL[value]
    if pa.types.is_date(of) and (match := re.fullmatch(_DATE + "(?s:[T ].*)?", value, re.ASCII)):
        return _days(match)
    if pa.types.is_timestamp(of):
        return _timestamp(value, of.tz is not None)
    if pa.types.is_binary(of) and len(value) % 4 == 0 and re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", value):
        return base64.b64decode(value)
    raise BadValue


def _number(value: Number, of: pa.DataType) -> Any:
    if pa.types.is_floating(of):
        if value in _SPECIAL:
            return float(value)
        with np.errstate(over="ignore"):
            number = float(np.float32(float(value)) if of == pa.float32() else float(value))
        if np.isinf(number):
            raise BadValue
        return number
    if value in _SPECIAL:
        raise BadValue
    if pa.types.is_decimal(of):
        return _decimal(value, of)
    if pa.types.is_integer(of):
        return _integer(value, of.bit_width)
    if pa.types.is_timestamp(of) and of.tz is not None:
        seconds = _integer(value, 64)
        if abs(seconds) > (2**63 - 1) // 10**6:
            raise BadValue
        return seconds * 10**6
    raise BadValue


def _integer(value: str, bits: int) -> int:
    number = decimal.Decimal(value)
    if number and number.adjusted() > 30:
        raise BadValue
    whole = int(number)
    if whole != number or not -(2 ** (bits - 1)) <= whole < 2 ** (bits - 1):
        raise BadValue
    return whole


def _decimal(value: str, of: pa.DataType) -> decimal.Decimal:
    number = decimal.Decimal(value)
    if number and number.adjusted() > 40:
        raise BadValue
    with decimal.localcontext(decimal.Context(prec=500, Emin=-(10**6))):
        rounded = number.quantize(decimal.Decimal(1).scaleb(-of.scale), decimal.ROUND_HALF_UP)
    if len(rounded.as_tuple().digits) > of.precision:
        raise BadValue
    return rounded


def _days(result: re.Match[str]) -> int:
    year, month, day = (int(result[index]) for index in (1, 2, 3))
    try:
        # Years beyond Python's are the same 400 years before.
        moved = dt.date(year + 400 if year < 5000 else year - 400, month, day)
    except ValueError as error:
        raise BadValue from error
    days = moved.toordinal() - dt.date(1970, 1, 1).toordinal()
    return days - _CYCLE_DAYS if year < 5000 else days + _CYCLE_DAYS


def _timestamp(value: str, has_zone: bool) -> int:
    match = re.fullmatch(f"{_DATE}(?:{_TIME})?", value, re.ASCII)
    if not match or (match[8] and not has_zone):
        raise BadValue
    hour, minute, second = (int(match[index] or 0) for index in (4, 5, 6))
    zone = match[8] or "Z"
    minutes = 0
    if zone not in ("Z", "z"):
        minutes = int(zone[1:3]) * 60 + int(zone[3:].removeprefix(":") or 0)
        if minutes > 18 * 60 or int(zone[3:].removeprefix(":") or 0) > 59:
            raise BadValue
        minutes *= -1 if zone[0] == "-" else 1
    if hour > 23 or minute > 59 or second > 59:
        raise BadValue
    seconds = _days(match) * 86400 + hour * 3600 + (minute - minutes) * 60 + second
    return seconds * 10**6 + int((match[7] or "").ljust(6, "0")[:6])


def plain(scalar: pa.Scalar) -> Any:
    """A value of Arrow as the judge has it: dates and times are integers."""
    if not scalar.is_valid:
        return None
    of = scalar.type
    if pa.types.is_struct(of):
        return {item.name: plain(scalar[item.name]) for item in of}
    if pa.types.is_map(of):
        return [(plain(pair["key"]), plain(pair["value"])) for pair in scalar.values]
    if pa.types.is_list(of):
        return [plain(item) for item in scalar.values]
    return scalar.value if pa.types.is_temporal(of) else scalar.as_py()


def same(one: Any, other: Any) -> bool:
    """Equal, NaN to NaN and 0 to -0 not."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


TYPES: Final = st.recursive(
    st.sampled_from(
        [
            pa.int8(),
            pa.int32(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.bool_(),
            pa.string(),
            pa.binary(),
            pa.date32(),
            pa.timestamp("us", tz="UTC"),
            pa.timestamp("us"),
            pa.decimal128(5, 2),
            pa.decimal128(18, 0),
            pa.decimal128(38, 10),
            pa.null(),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda of: pa.map_(pa.string(), of)),
        st.lists(inner, min_size=1, max_size=4).map(
            lambda types: pa.struct(list(zip(["a", 'b"\n', "é", ""], types, strict=False)))
        ),
    ),
    max_leaves=6,
)
_DIGITS: Final = st.text("0123456789", min_size=1, max_size=25)
_ODD_NUMBERS: Final = (
    "-0 0.0 -0.0 1.0 1e2 1.5E+1 12e-1 1e400 -1e400 1e-400 4.9e-324 2e-324 1.7976931348623157e308"
    " 01 -01 1. .5 + - 1.7976931348623159e308 3.4028235e38 3.4028236e38 NaN Infinity -Infinity -NaN 1e"
    " 0x1 1_0 999.995 999.994"
    " 99999999999999999999999999999.99999999999 9999999999999999999999999999.99999999995"
    " 0.00000000000000000000000000000000000000000001 100000000000000000000000000e-20"
)
_NUMBERS: Final = st.one_of(
    st.integers(-130, 130).map(str),
    st.sampled_from([2**63 - 1, -(2**63), 2**63, 2**31, -(2**31) - 1, 2**24 + 1, 10**18, 10**19]).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(0, 1).map(repr),
    st.builds("{}{}.{}e{}".format, st.sampled_from(["", "-"]), _DIGITS, _DIGITS, st.integers(-340, 340)),
    st.builds("{}.{}".format, st.integers(-999, 999), _DIGITS),
    st.sampled_from(_ODD_NUMBERS.split()),
)
_TEXTS: Final = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            "NaN",
            "+INF",
            "INF",
            "-Infinity",
            "1.50",
            "-1e2",
            "+.5",
            "1.",
            "",
            " 1",
            "QUI=",
            "QQ==",
            "QU+/",
            "Q",
            "Q===",
        ]
    ),
    st.sampled_from(
        [
            "2024-02-29",
            "2023-02-29",
            "2023-2-3",
            "1969-12-31T23:59:59.999999Z",
            "2026-01-02 03:04",
            "0000-01-01",
            "9999-12-31T23:59:60Z",
            "2026-01-02T03:04:05.1234567+02:00",
            "2026-01-02T3:4:5-0230",
            "2026-01-02T03",
            "2026-01-02T03:04:05+19:00",
            "2026-01-02T03:04:05+05",
            "2026-13-01",
            "2026-01-02Tx",
            "1900-02-29",
        ]
    ),
    st.dates().map(str),
    st.datetimes().map(lambda time: time.isoformat()),
    st.binary(max_size=5).map(lambda content: base64.b64encode(content).decode()),
)
_SPACE: Final = st.sampled_from(["", "", "", " ", "\n\t", "\r"])


@st.composite
def _quoted(draw: st.DrawFn, texts: st.SearchStrategy[str] = _TEXTS) -> str:
    """A string in one of its forms."""
    form = draw(st.integers(0, 7))
    if form == 7:
        return draw(
            st.sampled_from(['"\\ud800"', '"\\udc00\\ud800"', '"\\/"', '"\\x"', '"\\u00e"', '"\x01"', '"a'])
        )
    text = draw(texts)
    if form == 0:
        return (
            '"' + "".join(f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le")).cast("H")) + '"'
        )
    return json.dumps(text, ensure_ascii=form < 3)


@st.composite
def texts_of(draw: st.DrawFn, of: pa.DataType | None, depth: int = 3) -> str:
    """The JSON of a value that mostly has this type."""
    chance = draw(st.integers(0, 19))
    if chance == 0:
        word: str = draw(st.sampled_from(["null", "true", "false", "nul", "", "True"]))
        return word
    if of is None or chance == 1:
        kinds = [pa.list_(pa.null()), pa.struct([]), pa.int64(), pa.string()]
        return "null" if depth == 0 else draw(texts_of(draw(st.sampled_from(kinds)), depth - 1))
    comma = st.builds("{},{}".format, _SPACE, _SPACE)
    if pa.types.is_list(of):
        items = draw(
            st.lists(texts_of(None if pa.types.is_null(of.value_type) else of.value_type, depth), max_size=3)
        )
        return f"[{draw(_SPACE)}{draw(comma).join(items)}{draw(_SPACE)}]"
    if pa.types.is_struct(of) or pa.types.is_map(of):
        fields = [(item.name, item.type) for item in of] if pa.types.is_struct(of) else [("k", of.item_type)]
        fields += [("other", None), ("", None)] if pa.types.is_struct(of) else [("l", of.item_type)]
        pairs = []
        for name, inner in draw(st.permutations(fields))[: draw(st.integers(0, len(fields)))]:
            for _ in range(draw(st.sampled_from([1] * 15 + [2, 3]))):
                value = draw(texts_of(inner, depth))
                pairs.append(f"{draw(_quoted(st.just(name)))}{draw(_SPACE)}:{draw(_SPACE)}{value}")
        return f"{{{draw(_SPACE)}{draw(comma).join(pairs)}{draw(_SPACE)}}}"
    if pa.types.is_boolean(of):
        return str(draw(st.sampled_from(["true", "false", "1"])))
    is_number = pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of)
    text: str = draw(_NUMBERS if is_number == (chance > 3) else _quoted())
    return text
