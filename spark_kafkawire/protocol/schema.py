"""Declarations of requests and responses, for all Kafka versions.

A message is declared once, as a dataclass; reading and writing are derived from its fields::

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetsRequest:
        topic: str = wire(STRING)
        partition: int = wire(INT32)
        leader_epoch: int = wire(INT32, since=4, default=-1)
        time: int = wire(INT64)

    Struct(OffsetsRequest).write(request, out)                 # a message that has no versions
    codec(OffsetsRequest, version=4, flexible=False).write(request, out)

The order of the fields is the order on the wire. A field outside its versions is not sent, and is
read as its default.

In a *flexible* version all lengths are compact and every struct, nested ones too, ends with tagged
fields: ``count varint | (tag varint | size varint | value) ...``, the tags in ascending order. A
tagged field that holds its default is not sent; a tag that is not declared is skipped.
Source: KIP-482.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Generic, TypeVar

from ..errors import ProtocolError, UnsupportedVersionError
from .primitives import (
    CHECK_PEER,
    COMPACT_LENGTH,
    INT8,
    NULL,
    UNSIGNED_VARINT,
    AnyType,
    Array,
    Buffer,
    Bytes,
    Int,
    String,
    take,
)

T = TypeVar("T")

#: Tagged fields of one struct that are read, known ones and others. Kafka's own messages have up to five.
TAGGED_COUNT_MAX: Final = 1000
#: The default of a field that has none. None itself is a value.
REQUIRED: Final = dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class Wire:
    """Settings of a field that travels: the arguments of ``wire``."""

    type: AnyType
    since: int | None
    until: int | None
    nullable_since: int | None
    null_before: Any
    tag: int | None
    ignorable: bool
    compact: bool

    def is_in(self, version: int) -> bool:
        """True if messages of this version hold the field."""
        return (self.since is None or version >= self.since) and (self.until is None or version <= self.until)

    def type_in(self, version: int, flexible: bool) -> AnyType:
        """The field's type in one version."""
        nullable = self.nullable_since is not None and version >= self.nullable_since
        return _fix_version(self.type, version, flexible and self.compact, nullable)


def wire(
    wire_type: AnyType,
    *,
    since: int | None = None,
    until: int | None = None,
    nullable_since: int | None = None,
    null_before: Any = REQUIRED,
    tag: int | None = None,
    default: Any = REQUIRED,
    ignorable: bool = False,
    compact: bool = True,
    shown: bool = True,
) -> Any:
    """A dataclass field that travels as ``wire_type``.

    ``since`` and ``until`` are the first and last versions that have the field, both included.
    A field that some versions lack needs a ``default``. From version ``nullable_since`` on the
    field may be None; ``null_before`` is sent for None in earlier versions. ``tag`` makes it a
    tagged field. ``ignorable`` lets a version without the field drop a value that is not the
    default. ``compact=False`` keeps the plain length in flexible versions. ``shown=False`` keeps
    secrets and payloads out of the message's repr.
    """
    settings = Wire(wire_type, since, until, nullable_since, null_before, tag, ignorable, compact)
    return dataclasses.field(default=default, repr=shown, metadata={"wire": settings})


@dataclass(frozen=True, slots=True)
class _Member:
    """Field of a message in one version."""

    name: str
    type: AnyType
    default: Any
    null_before: Any

    @property
    def nullable(self) -> bool:
        return getattr(self.type, "nullable", False)


class _Run:
    """Fields that follow each other and are read together: integers only, in one step, or one other
    field."""

    __slots__ = ("_fields", "_ints", "_names")

    def __init__(self, fields: Sequence[_Member]) -> None:
        self._fields = fields
        self._names = [field.name for field in fields]
        letters = [field.type.letter for field in fields if isinstance(field.type, Int)]
        self._ints = struct.Struct(f">{''.join(letters)}") if letters else None

    def read(self, buf: memoryview, pos: int, values: dict[str, Any]) -> int:
        """Add the values of the fields at ``pos``; the position after them."""
        if self._ints is not None and len(buf) - pos >= self._ints.size:
            values.update(zip(self._names, self._ints.unpack_from(buf, pos), strict=True))
            return pos + self._ints.size
        for field in self._fields:
            values[field.name], pos = field.type.read(buf, pos)
        return pos


class Struct(Generic[T]):
    """The wire type of a message in one version: its fields, one after the other."""

    __slots__ = ("_fields", "_flexible", "_lacking", "_runs", "_tagged", "_version", "message")

    def __init__(self, message: type[T], version: int = 0, flexible: bool = False) -> None:
        self.message = message
        self._version = version
        self._flexible = flexible
        self._fields: list[_Member] = []
        self._tagged: dict[int, _Member] = {}
        self._lacking: list[_Member] = []
        for name, default, settings in _list_fields(message):
            member = _Member(name, settings.type_in(version, flexible), default, settings.null_before)
            if not settings.is_in(version):
                assert default is not REQUIRED, f"{message.__name__}.{name} needs a default"
                if not settings.ignorable:
                    self._lacking.append(member)
            elif settings.tag is None:
                self._fields.append(member)
            else:
                self._tagged[settings.tag] = member
        runs = groupby(self._fields, lambda field: isinstance(field.type, Int))
        self._runs = [_Run(item) for are_ints, run in runs for item in _together(run, are_ints)]

    @property
    def is_flexible(self) -> bool:
        """True if the message ends with tagged fields."""
        return self._flexible

    def members(self) -> Iterator[tuple[str, AnyType, int | None]]:
        """Name, type and tag of each field that travels, those without a tag first, as they follow."""
        for field in self._fields:
            yield field.name, field.type, None
        for tag, field in sorted(self._tagged.items()):
            yield field.name, field.type, tag

    def read(self, buf: memoryview, pos: int) -> tuple[T, int]:
        """The message at ``pos`` and the position after it."""
        values: dict[str, Any] = {}
        for run in self._runs:
            pos = run.read(buf, pos, values)
        if self._flexible:
            pos = self._read_tagged(buf, pos, values)
        return self.message(**values), pos

    def write(self, value: T, out: list[Buffer]) -> None:
        """Append the message's fields to ``out``. Raises ``UnsupportedVersionError`` (fatal) for a value that
        this version cannot carry."""
        for field in self._lacking:
            if getattr(value, field.name) != field.default:
                raise self._cannot_carry(field)
        for field in self._fields:
            content = getattr(value, field.name)
            if content is None and not field.nullable:
                content = field.null_before
                if content is REQUIRED:
                    raise self._cannot_carry(field)
            field.type.write(content, out)
        if self._flexible:
            self._write_tagged(value, out)

    def _read_tagged(self, buf: memoryview, pos: int, values: dict[str, Any]) -> int:
        if pos < len(buf) and buf[pos] == 0:  # as in almost all messages
            return pos + 1
        count, pos = UNSIGNED_VARINT.read(buf, pos)
        if count > TAGGED_COUNT_MAX:
            raise ProtocolError(
                f"{count} tagged fields at {pos}: at most {TAGGED_COUNT_MAX} are read; {CHECK_PEER}"
            )
        for _ in range(count):
            tag, pos = UNSIGNED_VARINT.read(buf, pos)
            size, pos = UNSIGNED_VARINT.read(buf, pos)
            content = take(buf, pos, size, "tagged field")
            if tag in self._tagged:
                field = self._tagged[tag]
                values[field.name], end = field.type.read(content, 0)
                if end != size:
                    raise ProtocolError(
                        f"tagged field {tag} of {size} bytes at {pos} ends after {end}; {CHECK_PEER}"
                    )
            pos += size
        return pos

    def _write_tagged(self, value: T, out: list[Buffer]) -> None:
        changed = [
            (tag, field)
            for tag, field in sorted(self._tagged.items())
            if getattr(value, field.name) != field.default
        ]
        UNSIGNED_VARINT.write(len(changed), out)
        for tag, field in changed:
            content: list[Buffer] = []
            field.type.write(getattr(value, field.name), content)
            UNSIGNED_VARINT.write(tag, out)
            UNSIGNED_VARINT.write(sum(map(len, content)), out)
            out += content

    def _cannot_carry(self, field: _Member) -> UnsupportedVersionError:
        return UnsupportedVersionError(
            f"{self.message.__name__} version {self._version} cannot carry this {field.name}: "
            "the broker is too old for it, upgrade it"
        )


class _NullableStruct(Struct[T]):
    """The wire type of a message that may be None: -1 in a byte, or another number and then its fields."""

    __slots__ = ()
    nullable: Final = True

    def read(self, buf: memoryview, pos: int) -> tuple[Any, int]:
        """The message at ``pos``, or None, and the position after it."""
        mark, pos = INT8.read(buf, pos)
        return (None, pos) if mark == NULL else super().read(buf, pos)

    def write(self, value: T | None, out: list[Buffer]) -> None:
        """Append the message's fields, or null, to ``out``. Raises as ``Struct.write`` does."""
        INT8.write(NULL if value is None else 1, out)
        if value is not None:
            super().write(value, out)


def _together(fields: Iterable[_Member], are_ints: bool) -> Iterable[Sequence[_Member]]:
    """Group fields: neighbouring integers are read together, all others alone."""
    return [tuple(fields)] if are_ints else [(field,) for field in fields]


_CODECS: Final[dict[tuple[type[Any], int, bool], Struct[Any]]] = {}


def codec(message: type[T], version: int, flexible: bool) -> Struct[T]:
    """The wire type of a message in one version, derived once."""
    key = (message, version, flexible)
    if key not in _CODECS:
        _CODECS[key] = Struct(message, version, flexible)
    return _CODECS[key]


def _list_fields(message: type[Any]) -> Iterator[tuple[str, Any, Wire]]:
    """Name, default and settings of each field that travels."""
    for field in dataclasses.fields(message):
        if "wire" in field.metadata:
            yield field.name, field.default, field.metadata["wire"]


def _fix_version(wire_type: AnyType, version: int, flexible: bool, nullable: bool) -> AnyType:
    """A declared type as it is in one version: its lengths, its null, and its elements."""
    match wire_type:
        case String() | Bytes():
            length = COMPACT_LENGTH if flexible else wire_type.length
            return replace(wire_type, length=length, nullable=nullable)
        case Array():
            element = _fix_version(wire_type.element, version, flexible, nullable=False)
            count = COMPACT_LENGTH if flexible else wire_type.count
            return replace(wire_type, element=element, count=count, nullable=nullable)
        case Struct():
            if nullable:
                return _NullableStruct(wire_type.message, version, flexible)
            return codec(wire_type.message, version, flexible)
        case _:
            return wire_type
