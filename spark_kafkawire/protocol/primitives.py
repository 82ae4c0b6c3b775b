"""The wire's types: each reads ``(buf, pos) -> (value, next_pos)`` and writes buffers to a list.

All integers are big-endian. Reading never copies: ``Bytes`` and ``Rest`` give views of the
frame, which own no memory and keep the frame alive. Whatever does not fit in the frame raises
``ProtocolError`` (fatal for the connection).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from ..errors import ProtocolError

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class Type(Protocol[T]):
    """A wire type."""

    def read(self, buf: memoryview, pos: int) -> tuple[T, int]:
        """The value at ``pos`` and the position after it."""
        ...

    def write(self, value: T, out: list[Buffer]) -> None:
        """Append the value's bytes to ``out``; large values are appended, not copied."""
        ...


def take(buf: memoryview, pos: int, size: int, what: str) -> memoryview:
    """``buf[pos:pos + size]``, or ``ProtocolError`` when the frame ends before."""
    if size < 0 or size > len(buf) - pos:
        raise ProtocolError(f"{what} of {size} bytes at {pos} does not fit in a frame of {len(buf)} bytes")
    return buf[pos : pos + size]


@dataclass(frozen=True, slots=True)
class Int:
    """A signed big-endian integer of ``size`` bytes."""

    size: int

    def read(self, buf: memoryview, pos: int) -> tuple[int, int]:
        return int.from_bytes(
            take(buf, pos, self.size, f"int{8 * self.size}"), "big", signed=True
        ), pos + self.size

    def write(self, value: int, out: list[Buffer]) -> None:
        out.append(value.to_bytes(self.size, "big", signed=True))


INT8: Final = Int(1)
INT16: Final = Int(2)
INT32: Final = Int(4)
INT64: Final = Int(8)


@dataclass(frozen=True, slots=True)
class String:
    """``length int16 | UTF-8 bytes``.

    ``errors`` is Python's decoding policy. The JVM replaces bytes that are not UTF-8 by U+FFFD.
    """

    errors: str = "strict"

    def read(self, buf: memoryview, pos: int) -> tuple[str, int]:
        size, pos = INT16.read(buf, pos)
        data = take(buf, pos, size, "string")
        try:
            return str(data, "utf-8", self.errors), pos + size
        except UnicodeDecodeError as error:
            raise ProtocolError(f"string at {pos} is not UTF-8: {error.reason}") from error

    def write(self, value: str, out: list[Buffer]) -> None:
        data = value.encode("utf-8")
        INT16.write(len(data), out)
        out.append(data)


@dataclass(frozen=True, slots=True)
class Bytes:
    """``length int32 | bytes``; read as a view of the frame."""

    def read(self, buf: memoryview, pos: int) -> tuple[Buffer, int]:
        size, pos = INT32.read(buf, pos)
        return take(buf, pos, size, "byte field"), pos + size

    def write(self, value: Buffer, out: list[Buffer]) -> None:
        INT32.write(len(value), out)
        out.append(value)


@dataclass(frozen=True, slots=True)
class Rest:
    """Everything up to the end of the frame; read as a view of it."""

    def read(self, buf: memoryview, pos: int) -> tuple[Buffer, int]:
        return buf[pos:], len(buf)

    def write(self, value: Buffer, out: list[Buffer]) -> None:
        out.append(value)


BYTES: Final = Bytes()
REST: Final = Rest()


@dataclass(frozen=True, slots=True)
class Array(Generic[T]):
    """``count | elements``, the count being an ``Int``.

    An element takes at least one byte, so a count above the bytes that are left is a lie and is
    refused before anything is built.
    """

    element: Type[T]
    count: Int = INT32

    def read(self, buf: memoryview, pos: int) -> tuple[tuple[T, ...], int]:
        count, pos = self.count.read(buf, pos)
        if not 0 <= count <= len(buf) - pos:
            raise ProtocolError(
                f"array of {count} elements at {pos} does not fit in a frame of {len(buf)} bytes"
            )
        elements = []
        for _ in range(count):
            element, pos = self.element.read(buf, pos)
            elements.append(element)
        return tuple(elements), pos

    def write(self, value: Sequence[T], out: list[Buffer]) -> None:
        self.count.write(len(value), out)
        for element in value:
            self.element.write(element, out)


@dataclass(frozen=True, slots=True)
class Sequel(Generic[T]):
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
            raise ProtocolError(f"block of {size} bytes at {pos} holds a value of {end} bytes")
        return value, pos + size

    def write(self, value: T, out: list[Buffer]) -> None:
        inner: list[Buffer] = []
        self.element.write(value, inner)
        INT32.write(sum(map(len, inner)), out)
        out += inner


def join(parts: list[Buffer]) -> bytes:
    """One bytes object of all parts: for tests and small messages, not for the hot path."""
    return b"".join(parts)


def read_int32(buf: Buffer, pos: int = 0) -> int:
    """The signed big-endian int32 at ``pos``."""
    value: int = struct.unpack_from(">i", buf, pos)[0]
    return value


AnyType = Type[Any]
