"""Defaults of fields: JSON becomes values of their types."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.errors import OptionError, printable

from .types import AvroField, AvroType

#: Values in one default: records that are defaults of records double them with each level.
_VALUES_MAX: Final = 10_000
#: Bytes of all strings in one default, for the same reason.
_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Branch:
    """A value of a union: the branch that it belongs to, counted from 0."""

    index: int
    value: Any


def default_of(default: Any, avro: AvroType, path: str) -> Any:
    """The value that a default has: a number, a str, bytes, a list, a dict, a ``Branch`` of a union.

    A record has a value for each of its fields. Of a union's branches the first one that the default fits
    has it. Raises ``OptionError`` (fatal) for a default that does not fit its type.
    """
    try:
        return _Defaults().of(default, avro)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error):
        raise OptionError(
            f"the default of the Avro field {printable(path)} does not fit its type: correct it"
        ) from None
    except (RecursionError, MemoryError):
        raise OptionError(
            f"the default of the Avro field {printable(path)} is too large: shorten it"
        ) from None


@dataclass(slots=True)
class _Defaults:
    count: int = 0
    size: int = 0

    def of(self, default: Any, avro: AvroType) -> Any:
        self.count += 1
        if self.count > _VALUES_MAX or self.size > _BYTES_MAX:
            raise MemoryError
        if avro.kind == "union":
            return self._branch(default, avro)
        if avro.kind == "record":
            given = {**default}
            return {each.name: self.of(_given(each, given), each.type) for each in avro.fields}
        if avro.kind == "array":
            if type(default) is not list:
                raise TypeError
            return [self.of(each, avro.item_type) for each in default]
        if avro.kind == "map":
            self.size += sum(len(key.encode()) for key in default)
            return {key: self.of(each, avro.item_type) for key, each in default.items()}
        value = _leaf(default, avro)
        self.size += len(value) if isinstance(value, str | bytes) else 0
        return value

    def _branch(self, default: Any, avro: AvroType) -> Branch:
        for index, branch in enumerate(avro.branches):
            try:
                return Branch(index, self.of(default, branch))
            except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error):
                continue
        raise TypeError


def _given(field: AvroField, given: dict[str, Any]) -> Any:
    if field.name not in given and not field.has_default:
        raise KeyError(field.name)
    return given.get(field.name, field.default)


def _leaf(default: Any, avro: AvroType) -> Any:
    of = type(default)
    if avro.kind == "null" and default is None:
        return None
    if avro.kind == "boolean" and of is bool:
        return default
    if avro.kind in ("int", "long") and of is int:
        bits = 31 if avro.kind == "int" else 63
        if -(2**bits) <= default < 2**bits:
            return default
    if avro.kind in ("float", "double") and of in (int, float):
        return struct.unpack("<f" if avro.kind == "float" else "<d", _packed(default, avro))[0]
    if avro.kind in ("string", "enum") and of is str:
        default.encode()
        if avro.kind == "string" or default in avro.symbols:
            return default
    if avro.kind in ("bytes", "fixed") and of is str:
        content = default.encode("latin-1")
        if avro.kind == "bytes" or len(content) == avro.size:
            return content
    raise TypeError


def _packed(number: float, avro: AvroType) -> bytes:
    return struct.pack("<f" if avro.kind == "float" else "<d", number)


def encoded(value: Any, avro: AvroType) -> bytes:
    """The value that ``default_of`` gave, as Avro."""
    if isinstance(value, Branch):
        return encoded_integer(value.index) + encoded(value.value, avro.branches[value.index])
    if avro.kind == "record":
        return b"".join(encoded(value[each.name], each.type) for each in avro.fields)
    if avro.kind in ("array", "map"):
        items = [
            (encoded_bytes(each.encode()) + encoded(value[each], avro.item_type))
            if avro.kind == "map"
            else encoded(each, avro.item_type)
            for each in value
        ]
        return (encoded_integer(len(items)) + b"".join(items) if items else b"") + b"\0"
    if avro.kind == "enum":
        return encoded_integer(avro.symbols.index(value))
    if avro.kind in ("int", "long"):
        return encoded_integer(value)
    if avro.kind in ("float", "double"):
        return _packed(value, avro)
    if avro.kind == "fixed":
        return bytes(value)
    if avro.kind in ("bytes", "string"):
        return encoded_bytes(value if isinstance(value, bytes) else value.encode())
    return b"" if value is None else bytes([value])


def encoded_integer(value: int) -> bytes:
    """A zigzag integer of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encoded_bytes(content: bytes) -> bytes:
    """Bytes or a string with its size before it."""
    return encoded_integer(len(content)) + content
