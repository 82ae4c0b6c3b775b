"""Wire types of all Kafka versions: integers, strings, byte fields and arrays; and reuse of receive buffers.

A wire type reads ``(buf, pos) -> (value, next_pos)`` and writes buffers to a list.
All integers are big-endian. Reading never copies: ``Bytes`` gives views of the frame, which own no memory
and keep the frame alive. A value that does not fit in the frame raises ``ProtocolError`` (fatal for the
connection).

Strings, byte fields and arrays start with a length, and each declares the type of its length. The length
-1 is null, and an error if the type is not ``nullable``.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from ..errors import OptionError, ProtocolError, quote

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

#: Longest string, bytes: the maximum of an int16 length, and Kafka's limit for compact lengths, too.
STRING_SIZE_MAX: Final = 32_767
#: Elements of one array that are read: enough for a million partitions. Each becomes an object that takes
#: up to a hundred times its bytes.
ARRAY_COUNT_MAX: Final = 1 << 20
#: What to look at where bytes are not those of a broker.
CHECK_PEER: Final = (
    "check that this is the port of a Kafka broker, and the proxy in front of it, if there is one"
)
#: The value of all empty byte fields: a response may hold thousands of them.
EMPTY: Final = memoryview(b"")


class Type(Protocol[T]):
    """A wire type."""

    def read(self, buf: memoryview, pos: int) -> tuple[T, int]:
        """The value at ``pos`` and the position after it."""
        ...

    def write(self, value: T, out: list[Buffer]) -> None:
        """Append the value's bytes to ``out``, large values without a copy."""
        ...


def take(buf: memoryview, pos: int, size: int, what: str) -> memoryview:
    """``buf[pos:pos + size]``. Raises ``ProtocolError`` if the frame ends before."""
    if size < 0 or size > len(buf) - pos:
        raise _does_not_fit(buf, pos, size, what)
    return buf[pos : pos + size]


def _does_not_fit(buf: memoryview, pos: int, size: int, what: str) -> ProtocolError:
    return ProtocolError(
        f"{what} of {size} bytes at {pos} does not fit in a frame of {len(buf)} bytes; {CHECK_PEER}"
    )


@dataclass(frozen=True, slots=True)
class Int:
    """A big-endian integer of ``size`` bytes, signed as almost all of Kafka's are."""

    size: int
    signed: bool = True

    @property
    def letter(self) -> str:
        """Its format in the module ``struct``."""
        letter = {1: "b", 2: "h", 4: "i", 8: "q"}[self.size]
        return letter if self.signed else letter.upper()

    def read(self, buf: memoryview, pos: int) -> tuple[int, int]:
        stop = pos + self.size
        if stop > len(buf):
            raise _does_not_fit(buf, pos, self.size, f"int{8 * self.size}")
        return int.from_bytes(buf[pos:stop], "big", signed=self.signed), stop

    def write(self, value: int, out: list[Buffer]) -> None:
        out.append(value.to_bytes(self.size, "big", signed=self.signed))


INT8: Final = Int(1)
INT16: Final = Int(2)
UINT16: Final = Int(2, signed=False)
INT32: Final = Int(4)
INT64: Final = Int(8)


#: Length of a null string, byte field or array.
NULL: Final = -1


@dataclass(frozen=True, slots=True)
class Bool:
    """Boolean in one byte, 0 or 1; all values except 0 are read as true."""

    def read(self, buf: memoryview, pos: int) -> tuple[bool, int]:
        value, pos = INT8.read(buf, pos)
        return value != 0, pos

    def write(self, value: bool, out: list[Buffer]) -> None:
        INT8.write(int(value), out)


@dataclass(frozen=True, slots=True)
class Uuid:
    """16 bytes."""

    def read(self, buf: memoryview, pos: int) -> tuple[uuid.UUID, int]:
        return uuid.UUID(bytes=bytes(take(buf, pos, 16, "uuid"))), pos + 16

    def write(self, value: uuid.UUID, out: list[Buffer]) -> None:
        out.append(value.bytes)


BOOL: Final = Bool()
UUID: Final = Uuid()


@dataclass(frozen=True, slots=True)
class String:
    """``length | UTF-8 bytes``.

    ``errors`` is Python's decoding policy. The JVM replaces bytes that are not UTF-8 by U+FFFD.
    """

    errors: str = "strict"
    length: Type[int] = INT16
    nullable: bool = False

    def read(self, buf: memoryview, pos: int) -> tuple[str | None, int]:
        size, pos = self.length.read(buf, pos)
        if size == NULL and self.nullable:
            return None, pos
        data = take(buf, pos, size, "string")
        try:
            return str(data, "utf-8", self.errors), pos + size
        except UnicodeDecodeError as error:
            raise ProtocolError(f"string at {pos} is not UTF-8: {error.reason}; {CHECK_PEER}") from error

    def write(self, value: str | None, out: list[Buffer]) -> None:
        """Raises ``OptionError`` (fatal) for a text that cannot be sent."""
        if value is None:
            assert self.nullable
            self.length.write(NULL, out)
            return
        try:
            data = value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise OptionError(
                f"the name {quote(value)} contains half of a surrogate pair, which is no character: remove it"
            ) from error
        if len(data) > STRING_SIZE_MAX:
            raise OptionError(
                f"a name of {len(data)} bytes is too long, the maximum is {STRING_SIZE_MAX}: shorten it"
            )
        self.length.write(len(data), out)
        out.append(data)


@dataclass(frozen=True, slots=True)
class Bytes:
    """``length | bytes``; read as a view of the frame, or as ``EMPTY`` if the length is 0."""

    length: Type[int] = INT32
    nullable: bool = False

    def read(self, buf: memoryview, pos: int) -> tuple[Buffer | None, int]:
        size, pos = self.length.read(buf, pos)
        if size == NULL and self.nullable:
            return None, pos
        if size == 0:
            return EMPTY, pos
        return take(buf, pos, size, "byte field"), pos + size

    def write(self, value: Buffer | None, out: list[Buffer]) -> None:
        if value is None:
            assert self.nullable
            self.length.write(NULL, out)
            return
        self.length.write(len(value), out)
        out.append(value)


BYTES: Final = Bytes()


@dataclass(frozen=True, slots=True)
class Array(Generic[T]):
    """``count | elements``.

    An element takes at least one byte. A count above the number of remaining bytes or above
    ``ARRAY_COUNT_MAX`` is refused before any element is read.
    """

    element: Type[T]
    count: Type[int] = INT32
    nullable: bool = False

    def read(self, buf: memoryview, pos: int) -> tuple[tuple[T, ...] | None, int]:
        count, pos = self.count.read(buf, pos)
        if count == NULL and self.nullable:
            return None, pos
        if not 0 <= count <= len(buf) - pos:
            raise ProtocolError(
                f"array of {count} elements at {pos} does not fit in a frame of {len(buf)} bytes; "
                f"{CHECK_PEER}"
            )
        if count > ARRAY_COUNT_MAX:
            raise ProtocolError(
                f"array of {count} elements at {pos}: at most {ARRAY_COUNT_MAX} are read; {CHECK_PEER}"
            )
        if isinstance(self.element, Int) and count * self.element.size <= len(buf) - pos:
            ints = struct.unpack_from(f">{count}{self.element.letter}", buf, pos)
            return cast("tuple[T, ...]", ints), pos + count * self.element.size
        elements = []
        for _ in range(count):
            element, pos = self.element.read(buf, pos)
            elements.append(element)
        return tuple(elements), pos

    def write(self, value: Sequence[T] | None, out: list[Buffer]) -> None:
        if value is None:
            assert self.nullable
            self.count.write(NULL, out)
            return
        self.count.write(len(value), out)
        for element in value:
            self.element.write(element, out)


def read_int32(buf: Buffer, pos: int = 0) -> int:
    """The signed big-endian int32 at ``pos``."""
    value: int = struct.unpack_from(">i", buf, pos)[0]
    return value


AnyType = Type[Any]


#: Bytes of the longest unsigned varint: 32 bits, seven a byte.
VARINT_BYTES_MAX: Final = 5
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


@dataclass(frozen=True, slots=True)
class UnsignedVarint:
    """Up to 32 bits, seven per byte, the lowest first; a set high bit means that more follow.

    Source: KIP-482.
    """

    def read(self, buf: memoryview, pos: int) -> tuple[int, int]:
        if pos < len(buf) and buf[pos] < 0x80:  # most are
            return buf[pos], pos + 1
        value = 0
        for index, byte in enumerate(buf[pos : pos + VARINT_BYTES_MAX]):
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                break
        else:
            raise ProtocolError(
                f"varint at {pos} has no end within {VARINT_BYTES_MAX} bytes and the frame; {CHECK_PEER}"
            )
        if value >> 32:
            raise ProtocolError(f"varint at {pos} has more than 32 bits; {CHECK_PEER}")
        return value, pos + index + 1

    def write(self, value: int, out: list[Buffer]) -> None:
        if value < 0x80:  # most are
            out.append(_ONE_BYTE[value])
            return
        data = bytearray()
        while value >= 0x80:
            data.append(value & 0x7F | 0x80)
            value >>= 7
        data.append(value)
        out.append(data)


UNSIGNED_VARINT: Final = UnsignedVarint()


@dataclass(frozen=True, slots=True)
class CompactLength:
    """Length plus one as an unsigned varint, so that null takes one byte, too."""

    def read(self, buf: memoryview, pos: int) -> tuple[int, int]:
        value, pos = UNSIGNED_VARINT.read(buf, pos)
        return value - 1, pos

    def write(self, value: int, out: list[Buffer]) -> None:
        UNSIGNED_VARINT.write(value + 1, out)


COMPACT_LENGTH: Final = CompactLength()


#: Buffers that are kept: one to fill while another one is read.
KEPT_COUNT_MAX: Final = 2


class Buffers:
    """A pool that gives out views of buffers, and reuses a buffer when no view of it is alive."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """``size`` bytes to write to. Their content is arbitrary."""
        for buffer in self._kept:
            if len(buffer) > size and _is_free(buffer):
                return memoryview(buffer)[:size]
        # An eighth more, because the next request seldom has the same size; untouched memory costs
        # nothing. One more byte is for _is_free.
        buffer = bytearray(size + size // 8 + 1)
        self._kept = [*self._kept, buffer][-KEPT_COUNT_MAX:]
        return memoryview(buffer)[:size]


def _is_free(buffer: bytearray) -> bool:
    try:
        # Python refuses to change the size of a buffer while a view of it is alive.
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True


def join_tail(tail: bytes | bytearray, frame: memoryview, start: int) -> memoryview:
    """The bytes of ``frame[start:]`` after the tail of those before them; in place if the tail fits there."""
    if len(tail) > start:
        return memoryview(bytes(tail) + frame[start:])
    frame[start - len(tail) : start] = tail
    return frame[start - len(tail) :]
