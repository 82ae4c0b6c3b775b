"""Messages in every version, with values for each, drawn along their declarations."""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from hypothesis import strategies as st

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.api_versions import ApiVersionsResponse
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.primitives import AnyType, Array, Bool, Bytes, Int, String, Uuid
from spark_kafkawire.protocol.schema import Struct, Wire
from tests.support.kio_library import HAS_KIO

Kind = Literal["request", "response"]

#: Milliseconds up to the year 2096: further away, the fractions of floats are no milliseconds.
MS_MAX: Final = 4 * 10**12
#: The values of each message, version and flexibility that were asked for: declaring them anew costs more
#: than drawing some.
_DECLARED: Final[dict[tuple[type[Any], int, bool], st.SearchStrategy[Any]]] = {}


@dataclass(frozen=True, slots=True)
class Case:
    """One message in one version."""

    api: Api
    version: int
    kind: Kind

    def __str__(self) -> str:
        return f"{self.api.name} {self.kind} {self.version}"

    @property
    def message(self) -> type[Any]:
        message = self.api.request if self.kind == "request" else self.api.response
        assert message is not None
        return message

    @property
    def codec(self) -> Struct[Any]:
        if self.kind == "request":
            return self.api.request_codec(self.version)
        return self.api.response_codec(self.version)

    def values(self) -> st.SearchStrategy[Any]:
        """Messages whose fields outside the version hold their defaults."""
        return values(self.message, self.version, self.api.is_flexible(self.version))

    def full(self) -> Any:
        """One message in which everything that the version has is there."""
        return _full(self.message, self.version, self.api.is_flexible(self.version))


def cases(*kinds: Kind) -> list[Case]:
    """All messages of these kinds in all their versions."""
    return [
        Case(api, version, kind)
        for api in modern.DIALECT.apis
        for version in range(api.versions.min, api.versions.max + 1)
        for kind in kinds
    ]


@functools.cache
def judged_codes() -> list[int]:
    """The error codes that the judges read: one that is newer than kio is one that it does not."""
    if HAS_KIO:
        from kio.schema.errors import ErrorCode as JudgedErrorCode

        return [int(code) for code in JudgedErrorCode]
    return [int(code) for code in ErrorCode]


def wired(message: type[Any], version: int) -> Iterator[tuple[str, Wire]]:
    """The fields of a message that travel in one version."""
    for field in dataclasses.fields(message):
        if "wire" in field.metadata and field.metadata["wire"].is_in(version):
            yield field.name, field.metadata["wire"]


def values(message: type[Any], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    """Messages of one type whose fields outside the version hold their defaults."""
    key = (message, version, flexible)
    if key not in _DECLARED:
        fields = {
            name: _field_values(message, name, settings.type_in(version, flexible), version, flexible)
            for name, settings in wired(message, version)
        }
        _DECLARED[key] = st.builds(message, **fields)
    return _DECLARED[key]


def _field_values(
    message: type[Any], name: str, wire_type: AnyType, version: int, flexible: bool
) -> st.SearchStrategy[Any]:
    if name in ("error_code", "partition_error_code"):
        # A refused ApiVersions request is answered in version 0; it has a test of its own.
        known = [0] if message is ApiVersionsResponse else judged_codes()
        return st.sampled_from(known)
    if name == "transaction_start_time_ms" or name.endswith("_timestamp_ms"):
        return st.integers(0, MS_MAX)  # kio has a date there, and none for -1
    if name.endswith("_ms") and wire_type == Int(8):
        return st.integers(-1, MS_MAX)
    return _values_of(wire_type, version, flexible)


def _values_of(wire_type: AnyType, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    found: st.SearchStrategy[Any]
    match wire_type:
        case Int():
            if not wire_type.signed:
                return st.integers(0, (1 << 8 * wire_type.size) - 1)
            bits = 8 * wire_type.size - 1
            return st.integers(-(1 << bits), (1 << bits) - 1) | st.sampled_from([-1, 0, 1])
        case Bool():
            return st.booleans()
        case Uuid():
            return st.uuids()
        case String():
            found = st.text(max_size=6)
        case Bytes():
            found = st.binary(max_size=6)
        case Array():
            found = st.lists(_values_of(wire_type.element, version, flexible), max_size=2).map(tuple)
        case Struct():
            found = values(wire_type.message, version, flexible)
        case _:
            raise AssertionError(f"no values for {wire_type}")
    return st.none() | found if getattr(wire_type, "nullable", False) else found


def _full(message: type[Any], version: int, flexible: bool) -> Any:
    fields = {
        name: _full_value(settings.type_in(version, flexible), version, flexible)
        for name, settings in wired(message, version)
    }
    if message is ApiVersionsResponse:
        fields["error_code"] = 0  # a refusal is written in version 0, whatever was asked
    return message(**fields)


def _full_value(wire_type: AnyType, version: int, flexible: bool) -> Any:
    match wire_type:
        case Int():
            return 3
        case Bool():
            return True
        case Uuid():
            return uuid.UUID(int=7)
        case String():
            return "n\u00f6"
        case Bytes():
            return b"bytes"
        case Array():
            return (_full_value(wire_type.element, version, flexible),) * 2
        case Struct():
            return _full(wire_type.message, version, flexible)
        case _:
            raise AssertionError(f"no value for {wire_type}")
