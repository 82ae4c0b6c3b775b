"""Wire types that only Kafka 0.7 has: values that fill the rest of the frame, and values after their length.

They have the interface of the types in ``protocol.primitives``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from spark_kafkawire.errors import ProtocolError

from ..primitives import CHECK_PEER, INT32, Buffer, Type, take

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rest:
    """Everything up to the end of the frame; read as a view of it."""

    def read(self, buf: memoryview, pos: int) -> tuple[Buffer, int]:
        return buf[pos:], len(buf)

    def write(self, value: Buffer, out: list[Buffer]) -> None:
        out.append(value)


@dataclass(frozen=True, slots=True)
class RestArray(Generic[T]):
    """Elements without a count, up to the end of the frame."""

    element: Type[T]

    def read(self, buf: memoryview, pos: int) -> tuple[tuple[T, ...], int]:
        elements = []
        while pos < len(buf):
            element, pos = self.element.read(buf, pos)
            elements.append(element)
        return tuple(elements), pos

    def write(self, value: Sequence[T], out: list[Buffer]) -> None:
        for element in value:
            self.element.write(element, out)


@dataclass(frozen=True, slots=True)
class Sized(Generic[T]):
    """``length int32 | value``, the value filling exactly that length."""

    element: Type[T]

    def read(self, buf: memoryview, pos: int) -> tuple[T, int]:
        size, pos = INT32.read(buf, pos)
        inner = take(buf, pos, size, "block")
        value, end = self.element.read(inner, 0)
        if end != size:
            raise ProtocolError(f"block of {size} bytes at {pos} holds a value of {end} bytes; {CHECK_PEER}")
        return value, pos + size

    def write(self, value: T, out: list[Buffer]) -> None:
        inner: list[Buffer] = []
        self.element.write(value, inner)
        INT32.write(sum(map(len, inner)), out)
        out += inner


REST: Final = Rest()
