"""Declare a message once as a dataclass; reading and writing are derived from its fields.

    @dataclass(frozen=True, slots=True)
    class OffsetsRequest:
        topic: str = wire(STRING)
        partition: int = wire(INT32)
        time: int = wire(INT64)
        max_offsets: int = wire(INT32)

    Struct(OffsetsRequest).write(request, out)

The order of the fields is the order on the wire.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar, cast

from .primitives import AnyType, Buffer, Type

T = TypeVar("T")


def wire(wire_type: AnyType) -> Any:
    """A dataclass field that travels as ``wire_type``."""
    return dataclasses.field(metadata={"wire": wire_type})


class Struct(Generic[T]):
    """The wire type of a message: its fields, one after the other."""

    __slots__ = ("_fields", "_message")

    def __init__(self, message: type[T]) -> None:
        self._message = message
        self._fields: tuple[tuple[str, AnyType], ...] = tuple(
            (field.name, cast(Type[Any], field.metadata["wire"]))
            for field in dataclasses.fields(message)  # type: ignore[arg-type]  # T is a dataclass
        )

    def read(self, buf: memoryview, pos: int) -> tuple[T, int]:
        """The message at ``pos`` and the position after it."""
        values = []
        for _, wire_type in self._fields:
            value, pos = wire_type.read(buf, pos)
            values.append(value)
        return self._message(*values), pos

    def write(self, value: T, out: list[Buffer]) -> None:
        """Append the message's fields to ``out``."""
        for name, wire_type in self._fields:
            wire_type.write(getattr(value, name), out)
