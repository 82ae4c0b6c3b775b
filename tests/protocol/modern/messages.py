"""Messages in every version, with values for each, drawn along their declarations."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import io
import re
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Final, Literal

from hypothesis import strategies as st

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID
from spark_kafkawire.protocol.modern.metadata import NOT_ASKED
from spark_kafkawire.protocol.modern.negotiation import ApiVersionsResponse
from spark_kafkawire.protocol.primitives import (
    AnyType,
    Array,
    Bool,
    Bytes,
    Int,
    String,
    Uuid,
)
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
    result: st.SearchStrategy[Any]
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
            result = st.text(max_size=6)
        case Bytes():
            result = st.binary(max_size=6)
        case Array():
            result = st.lists(_values_of(wire_type.element, version, flexible), max_size=2).map(tuple)
        case Struct():
            result = values(wire_type.message, version, flexible)
        case _:
            raise AssertionError(f"no values for {wire_type}")
    return st.none() | result if getattr(wire_type, "nullable", False) else result


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


# --- Codecs that others wrote, asked about ours: kio, and kafka-python ---

with warnings.catch_warnings():
    # It reads its schemas with a function that Python deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import IncompatibleBrokerVersion
    from kafka.protocol import admin, consumer, metadata, producer, sasl, schemas
    from kafka.protocol.broker_version_data import (
        BROKER_API_VERSIONS,
        BrokerVersionData,
    )
if HAS_KIO:
    import kio.index
    from kio.serial import entity_reader, entity_writer
KAFKA_PYTHON: Final = (admin, consumer, metadata, producer, sasl)
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
#: What each broker release offers, by API key, as kafka-python has collected it.
BROKERS: Final[dict[tuple[int, ...], dict[int, tuple[int, int]]]] = BROKER_API_VERSIONS
MILLISECOND: Final = datetime.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A frame as a judge reads it, and the same as it would have written it itself."""

    api_key: int | None
    version: int | None
    correlation_id: int
    client_id: str | None
    body: Any
    frame: bytes


Judge = Callable[[Case, bytes], Verdict]


def judges_of(case: Case) -> list[Judge]:
    """The judges that know the message in its version."""
    judges: list[tuple[Judge, bool]] = [
        (
            kafka_python,
            kafka_python_knows(case.api) and case.version <= _kafka_python_class(case).max_version,
        ),
        (kio_codec, HAS_KIO and _kio_knows(case)),
    ]
    return [judge for judge, knows in judges if knows]


def kafka_python(case: Case, frame: bytes) -> Verdict:
    """A frame by kafka-python."""
    message = _kafka_python_class(case)
    body = message.decode(frame, version=case.version, header=True, framed=True)
    header = body.header
    if case.kind == "request":
        reported = (
            header.request_api_key,
            header.request_api_version,
            header.correlation_id,
            header.client_id,
        )
        body.with_header(header.correlation_id, header.client_id)
    else:
        reported = (None, None, header.correlation_id, None)
        body.with_header(header.correlation_id)
    written = bytes(body.encode(header=True, framed=True))
    return Verdict(*reported, body, written)


def kafka_python_knows(api: Api) -> bool:
    """True if kafka-python has the messages of an API."""
    return any(hasattr(module, f"{api.name}Request") for module in KAFKA_PYTHON)


def throttles_since(api: Api) -> int | None:
    """From which version on brokers answer before they throttle, as far as Kafka's description of the
    response says so, which kafka-python carries."""
    description = Path(schemas.__path__[0], "resources", f"{api.name}Response.json")
    if not description.is_file():
        return None
    prose = re.sub(r"\s*//\s*", " ", description.read_text("utf-8"))
    match = re.search(r"tarting in version (\d+), on quota violation", prose)
    return None if match is None else int(match[1])


def _kafka_python_class(case: Case) -> Any:
    name = case.api.name + ("Request" if case.kind == "request" else "Response")
    [result] = {getattr(module, name) for module in KAFKA_PYTHON if hasattr(module, name)}
    return result


def kafka_python_choice(api: Api, broker: tuple[int, ...]) -> int | None:
    """The version that kafka-python chooses from ours for a broker release, None where there is none."""
    request = _kafka_python_class(Case(api, api.versions.max, "request"))
    try:
        chosen: int = BrokerVersionData(broker).api_version(
            request, min_version=api.versions.min, max_version=api.versions.max
        )
    except IncompatibleBrokerVersion:
        return None
    return chosen


def kio_codec(case: Case, frame: bytes) -> Verdict:
    """A frame by kio."""
    entity = _kio_class(case)
    header, header_size = entity_reader(entity.__header_schema__)(frame, 4)
    body, body_size = entity_reader(entity)(frame, 4 + header_size)
    assert 4 + header_size + body_size == len(frame)
    written = io.BytesIO()
    entity_writer(entity.__header_schema__)(written, header)
    entity_writer(entity)(written, body)
    data = written.getvalue()
    return Verdict(
        getattr(header, "request_api_key", None),
        getattr(header, "request_api_version", None),
        header.correlation_id,
        getattr(header, "client_id", None),
        body,
        len(data).to_bytes(4, "big") + data,
    )


def _kio_knows(case: Case) -> bool:
    try:
        _kio_class(case)
    except kio.index.UnknownEntity:
        return False
    return True


def _kio_class(case: Case) -> Any:
    if case.kind == "request":
        return kio.index.load_request_schema(case.api.key, case.version)
    return kio.index.load_response_schema(case.api.key, case.version)


def differences(ours: Any, theirs: Any, version: int, place: str = "") -> Iterator[str]:
    """Places at which a judge's message differs from ours, in the fields of the version."""
    if is_dataclass(ours):
        for name, _ in wired(type(ours), version):
            [their_name] = [known for known in _names(name) if hasattr(theirs, known)]
            yield from differences(
                getattr(ours, name), getattr(theirs, their_name), version, f"{place}.{name}"
            )
    elif isinstance(ours, tuple) and theirs is not None:
        if len(ours) != len(theirs):
            yield f"{place}: {len(ours)} elements, not {len(theirs)}"
        for index, (our_item, their_item) in enumerate(zip(ours, theirs, strict=False)):
            yield from differences(our_item, their_item, version, f"{place}[{index}]")
    elif ours != _plain(theirs, ours):
        yield f"{place}: {ours!r}, not {theirs!r}"


def _names(name: str) -> Iterator[str]:
    """Names that a judge may have for a field: kio leaves out units, kafka-python renames two of Metadata's,
    both part words before capital letters alone."""
    yield name.replace("enable_2pc", "enable2_pc")
    if name == "generation_id_or_member_epoch":  # of TxnOffsetCommit, before Kafka 4.4
        yield "generation_id"
    if name.endswith("_ms"):
        yield name.removesuffix("_ms")
    if name.endswith("_authorized_operations"):
        yield "authorized_operations"


def _plain(theirs: Any, ours: Any) -> Any:
    """A judge's value in our terms: they have dates, intervals, bits, and None for what is not there."""
    match theirs:
        case set():
            bits = sum(1 << bit for bit in theirs)
            return bits - (1 << 32) if bits >> 31 else bits
        case None if ours == NOT_ASKED:
            return NOT_ASKED
        case datetime.datetime():
            return (theirs - EPOCH) // MILLISECOND
        case datetime.timedelta():
            return theirs // MILLISECOND
        case None if isinstance(ours, uuid.UUID):
            return NO_TOPIC_ID
        case None if isinstance(ours, int):
            return -1
        case _:
            return theirs
