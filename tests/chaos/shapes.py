"""Messages taken apart along their declarations, so that any part of one can be told otherwise.

for spot in spots(codec, response):            # every field, element and array that the version has
    ...
lie = contradicted(response, spot.path, value)
write(codec, lie, out)                      # also where ``value`` is what no codec writes: ``Raw``
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_kafkawire.protocol.primitives import AnyType, Array, Buffer
from spark_kafkawire.protocol.schema import Struct
from spark_kafkawire.protocol.v07.primitives import RestArray, Sized
from spark_kafkawire.protocol.varint import UNSIGNED_VARINT

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
