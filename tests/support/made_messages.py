"""Messages of the protocol from their content: what a test does not name is 0, empty or the default."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from spark_kafkawire.protocol.primitives import (
    AnyType,
    Array,
    Bool,
    Bytes,
    Int,
    String,
    Uuid,
)
from spark_kafkawire.protocol.schema import REQUIRED, Struct

_EMPTY: Final[Mapping[type[Any], Any]] = {
    Array: (),
    Bool: False,
    Bytes: b"",
    Int: 0,
    String: "",
    Uuid: uuid.UUID(int=0),
}
#: What a message holds, by the names of its fields; messages in it are given in the same way.
Content = Mapping[str, Any]


def made(message: type[Any], content: Content) -> Any:
    """The message with that content; other fields that have no default hold 0, nothing or what is empty."""
    result = {}
    for field in fields(message):
        if field.name in content:
            result[field.name] = _given(field.metadata["wire"].type, content[field.name])
        elif field.default is REQUIRED:
            result[field.name] = _nothing(field.metadata["wire"].type)
    return message(**result)


def _given(wire_type: AnyType, value: Any) -> Any:
    if isinstance(wire_type, Array) and value is not None:
        return tuple(_given(wire_type.element, item) for item in value)
    if isinstance(wire_type, Struct) and isinstance(value, dict):
        return made(wire_type.message, value)
    return value


def _nothing(wire_type: AnyType) -> Any:
    return made(wire_type.message, {}) if isinstance(wire_type, Struct) else _EMPTY[type(wire_type)]
