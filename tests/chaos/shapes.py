"""Messages taken apart along their declarations, so that any part of one can be told otherwise."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.primitives import (
    UNSIGNED_VARINT,
    AnyType,
    Array,
    Bool,
    Buffer,
    Bytes,
    Int,
    String,
    Uuid,
)
from spark_kafkawire.protocol.schema import Struct
from spark_kafkawire.protocol.v07 import Rest, RestArray, Sized
from tests.support.log_server import HOST, Sent
from tests.support.memory_log import split

from .exchanges import OTHER_RECORDS, OTHER_TOPIC
from .operation import SECRET

#: Elements of one array that are told apart: all that an honest response of the tests has.
_ELEMENTS_MAX: Final = 50
#: The way to a part of a message: names of fields, and places of elements.
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes that stand for a value, whatever its type."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Spot:
    """A part of a message: where it is, its type in the message's version, and its value there."""

    path: Path
    type: AnyType
    value: Any

    @property
    def name(self) -> str:
        """The name of the field that it is or belongs to."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), "")


def spots(wire_type: AnyType, value: Any, path: Path = ()) -> Iterator[Spot]:
    """All parts that are no message themselves: fields, arrays, and their elements."""
    match wire_type:
        case Struct():
            for name, field, _ in wire_type.members():
                yield from spots(field, getattr(value, name), (*path, name))
        case Array() | RestArray():
            yield Spot(path, wire_type, value)
            for index, element in enumerate((value or ())[:_ELEMENTS_MAX]):
                yield from spots(wire_type.element, element, (*path, index))
        case Sized():
            yield from spots(wire_type.element, value, path)
        case _:
            yield Spot(path, wire_type, value)


def contradicted(message: Any, path: Path, value: Any) -> Any:
    """The message with another value at the end of the path."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return replace(message, **{step: contradicted(getattr(message, step), rest, value)})
    return (*message[:step], contradicted(message[step], rest, value), *message[step + 1 :])


def write(wire_type: AnyType, value: Any, out: list[Buffer]) -> None:
    """Append a value's bytes as its codec does, and those of a ``Raw`` one as they are."""
    match wire_type:
        case _ if isinstance(value, Raw):
            out.append(value.data)
        case Struct() if value is not None:
            if getattr(wire_type, "nullable", False):
                out.append(b"\x01")
            _write_struct(wire_type, value, out)
        case Array() if value is not None:
            wire_type.count.write(len(value), out)
            for element in value:
                write(wire_type.element, element, out)
        case RestArray():
            for element in value:
                write(wire_type.element, element, out)
        case Sized():
            inner: list[Buffer] = []
            write(wire_type.element, value, inner)
            out.append(sum(map(len, inner)).to_bytes(4, "big"))
            out += inner
        case _:
            wire_type.write(value, out)


def _write_struct(struct: Struct[Any], value: Any, out: list[Buffer]) -> None:
    tagged: list[tuple[int, list[Buffer]]] = []
    defaults = {name: field.default for name, field in struct.message.__dataclass_fields__.items()}
    for name, field, tag in struct.members():
        content = getattr(value, name)
        if tag is None:
            write(field, content, out)
        elif content != defaults[name]:
            tagged.append((tag, []))
            write(field, content, tagged[-1][1])
    if struct.is_flexible:
        UNSIGNED_VARINT.write(len(tagged), out)
        for tag, parts in tagged:
            UNSIGNED_VARINT.write(tag, out)
            UNSIGNED_VARINT.write(sum(map(len, parts)), out)
            out += parts


# --- Replacements of a part of a response, by the kind of lie: of a field, of two numbers, of a frame ---

#: Elements of an array that is meant to cost time.
_MANY: Final = 100_000
_CODES: Final = (*ErrorCode, -2, 999, 32_767)
_HOSTILE: Final = "a\nb\x1b[31m\x00\u202e"
#: What is said in place of a value, by the kind of lie; it may be what it was.
Kinds = Mapping[str, Callable[[Any, Any], Any]]


def bounded(value: int, size: int) -> int:
    """The number of so many bytes that is as near to a value as there is one."""
    limit = 1 << 8 * size - 1
    return max(-limit, min(value, limit - 1))


def _near(kind: Callable[[int], int]) -> Callable[[Any, int], int]:
    return lambda wire_type, value: bounded(kind(value), wire_type.size)


def _length(size: int) -> Callable[[Any, Any], Raw]:
    """A length, or a count, that nothing follows."""

    def lie(wire_type: Any, _value: Any) -> Raw:
        out: list[Any] = []
        (wire_type.count if isinstance(wire_type, Array) else wire_type.length).write(size, out)
        return Raw(b"".join(out))

    return lie


def _most(wire_type: Any) -> int:
    """So many elements that they cost time, where the type of the count has as many."""
    count = getattr(wire_type, "count", None)
    return min(_MANY, (1 << 8 * count.size - 1) - 1) if isinstance(count, Int) else _MANY


def _constant(value: Any) -> Callable[[Any, Any], Any]:
    return lambda _, __: value


def _not_utf8(wire_type: Any, _value: Any) -> Raw:
    out: list[Any] = []
    wire_type.length.write(2, out)
    return Raw(b"".join(out) + b"\xff\xfe")


_MADE_UP: Final[Mapping[type[Any], Any]] = {
    String: "made up",
    Bytes: b"made up",
    Rest: b"made up",
    Uuid: uuid.UUID(int=7),
    Bool: True,
    Int: 1,
}


def _made_up(wire_type: AnyType) -> Any:
    """A value of a type, where the honest response has none to change."""
    match wire_type:
        case Struct():
            return wire_type.message(**{name: _made_up(item) for name, item, _ in wire_type.members()})
        case Array() | RestArray():
            return (_made_up(wire_type.element),)
        case Sized():
            return _made_up(wire_type.element)
    return _MADE_UP[type(wire_type)]


def _batches(value: Any) -> list[bytes]:
    """The batches of a records field; whatever it is where it has none."""
    data = bytes(value or b"")
    return [bytes(item) for item in split(data)] if len(data) > 61 else [data]


_INTS: Final[Kinds] = {
    "-1": _constant(-1),
    "0": _constant(0),
    "1": _constant(1),
    "min": _near(lambda _: -(1 << 63)),
    "max": _near(lambda _: 1 << 63),
    "one more": _near(lambda value: value + 1),
    "one less": _near(lambda value: value - 1),
    "another": _near(lambda value: value ^ 0x55),
}
_ERROR_CODES: Final[Kinds] = {f"code {int(code)}": _constant(int(code)) for code in _CODES}
_STRINGS: Final[Kinds] = {
    "empty": _constant(""),
    "null": _length(-1),
    "another topic": _constant(OTHER_TOPIC),
    "long": _constant("x" * 32_767),
    "hostile": _constant(_HOSTILE),
    "not UTF-8": _not_utf8,
    "no end": _length(32_767),
}
#: What a broker may say of what it was told.
_MESSAGES: Final[Kinds] = {**_STRINGS, "the secret": _constant(f"you said {SECRET}")}
_UUIDS: Final[Kinds] = {
    "zero": _constant(uuid.UUID(int=0)),
    "another": lambda _, value: uuid.UUID(int=value.int ^ 1),
    "max": _constant(uuid.UUID(int=(1 << 128) - 1)),
}
_BOOLS: Final[Kinds] = {"the contrary": lambda _, value: not value}
_BYTES: Final[Kinds] = {
    "empty": _constant(b""),
    "null": _length(-1),
    "another log's": _constant(OTHER_RECORDS),
    "cut": lambda _, value: bytes(value or b"")[:-1],
    "half": lambda _, value: bytes(value or b"")[: len(value or b"") // 2],
    "twice": lambda _, value: bytes(value or b"") * 2,
    "first batch": lambda _, value: _batches(value)[0],
    "last batch": lambda _, value: _batches(value)[-1],
    "batches reversed": lambda _, value: b"".join(reversed(_batches(value))),
    "first batch twice": lambda _, value: b"".join([_batches(value)[0], *_batches(value)]),
    "a bit flipped": lambda _, value: bytes(value or b"")[:-1] + bytes([value[-1] ^ 1]) if value else value,
    "no end": _length(1 << 30),
}
_ARRAYS: Final[Kinds] = {
    "empty": _constant(()),
    "null": _length(-1),
    "first twice": lambda _, value: (*value[:1], *value) if value else value,
    "reversed": lambda _, value: value and value[::-1],
    "without first": lambda _, value: value and value[1:],
    "without last": lambda _, value: value and value[:-1],
    "one more": lambda wire_type, value: (*(value or ()), _made_up(wire_type.element)),
    "many": lambda wire_type, value: (value or (_made_up(wire_type.element),))[:1] * _most(wire_type),
    "no end": lambda wire_type, value: _length(_most(wire_type))(wire_type, value),
}
#: Kinds that are about a length or a count, where a type has one.
_LENGTHS: Final = ("null", "no end")


def kinds_of(wire_type: AnyType, name: str) -> Kinds:
    """The lies that can be told of a field, by its type and what it is."""
    match wire_type:
        case Int(signed=False):
            return {kind: _INTS[kind] for kind in ("0", "1", "another")}
        case Int():
            return _ERROR_CODES if name.endswith("error_code") else _INTS
        case String():
            return _MESSAGES if name == "error_message" else _STRINGS
        case Bytes():
            return _BYTES
        case Rest():  # as long as the frame is
            return {kind: lie for kind, lie in _BYTES.items() if kind not in _LENGTHS}
        case Uuid():
            return _UUIDS
        case Bool():
            return _BOOLS
        case Array():
            return _ARRAYS
        case RestArray():
            return {kind: lie for kind, lie in _ARRAYS.items() if kind not in _LENGTHS}
    raise AssertionError(f"no lie is known of {wire_type}: a new type needs some")


# --- two numbers ---


#: What becomes of two numbers of one response.
Pair = Callable[[int, int], tuple[int, int]]


def _more(first_more: int, second_more: int) -> Pair:
    return lambda first, second: (first + first_more, second + second_more)


def _bit(bit: int) -> Pair:
    return lambda first, second: (first ^ 1 << bit, second)


PAIRS: Final[Mapping[str, Pair]] = {
    "the second twice": lambda _, second: (second, second),
    "one above the second": lambda _, second: (second + 1, second),
    "one below the second": lambda _, second: (second - 1, second),
    "exchanged": lambda first, second: (second, first),
    **{f"bit {bit}": _bit(bit) for bit in (0, 1, 2, 3, 10, 40, 62)},
    "2^40 more": _more(1 << 40, 0),
    "both one more": _more(1, 1),
    "both one less": _more(-1, -1),
    "both 2^40 more": _more(1 << 40, 1 << 40),
    "2^40 more, and 2^41": _more(1 << 40, 1 << 41),
    "one more, and one less": _more(1, -1),
    "seven more, and -1": lambda first, _: (first + 7, -1),
    "both 0": lambda _, __: (0, 0),
}


# --- frames ---


def _with_length(size: int) -> Callable[[bytes], Sent]:
    return lambda frame: Sent(size.to_bytes(4, "big", signed=True) + frame[4:], "close")


#: Lengths that no response has: none at all, less than its header, negative, and more than fits anywhere.
_FRAME_LENGTHS: Final = (0, 3, -1, -(1 << 31), (1 << 31) - 1, 1 << 30)
#: What is done to the whole frame of a response, its length included.
FRAMES: Final[Mapping[str, Callable[[bytes], Sent]]] = {
    "response to the next request": lambda frame: Sent(frame[:4] + _added(frame[4:8], 1) + frame[8:]),
    "response to the last request": lambda frame: Sent(frame[:4] + _added(frame[4:8], -1) + frame[8:]),
    "sent twice": lambda frame: Sent(frame * 2),
    "one byte more": lambda frame: Sent(_added(frame[:4], 1) + frame[4:] + b"\0"),
    "length one more": lambda frame: Sent(_added(frame[:4], 1) + frame[4:], "close"),
    "length one less": lambda frame: Sent(_added(frame[:4], -1) + frame[4:], "close"),
    **{f"length {size}": _with_length(size) for size in _FRAME_LENGTHS},
}
#: What is done to a frame at one of its bytes.
FRAMES_AT: Final[Mapping[str, Callable[[bytes, int], Sent]]] = {
    "cut": lambda frame, pos: Sent(frame[:pos], "close"),
    "silent": lambda frame, pos: Sent(frame[:pos], "be silent"),
    "short": lambda frame, pos: Sent(framed(frame[4 : max(pos, 4)])),
    "changed": lambda frame, pos: Sent(_changed(frame, random.Random(pos))),
}


def framed(body: bytes) -> bytes:
    """The frame of a body."""
    return len(body).to_bytes(4, "big") + body


def lie_of_frame(kind: str, frame: bytes) -> Sent:
    """Replacement of a frame; ``cut 7`` is about its byte 7, or one as far behind its end."""
    if kind in FRAMES:
        return FRAMES[kind](frame)
    name, pos = kind.split()
    return FRAMES_AT[name](frame, int(pos) % len(frame))


def _added(number: bytes, addend: int) -> bytes:
    return ((int.from_bytes(number, "big") + addend) & 0xFFFFFFFF).to_bytes(4, "big")


def _changed(frame: bytes, draw: random.Random) -> bytes:
    """A frame with a few bytes of its body changed, taken out or doubled; its length is right."""
    while True:
        body = bytearray(frame[4:])
        for _ in range(draw.randint(1, 3)):
            pos = draw.randrange(len(body) + 1)
            match draw.randrange(3):
                case 0:
                    body[pos : pos + 1] = draw.randbytes(1)
                case 1:
                    del body[pos : pos + draw.randint(1, 8)]
                case _:
                    body[pos:pos] = body[pos : pos + draw.randint(1, 8)]
        # Nobody else is connected to, and no name is looked up.
        if body.count(HOST.encode()) == frame.count(HOST.encode()):
            return framed(bytes(body))
