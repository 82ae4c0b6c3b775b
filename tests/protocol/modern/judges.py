"""Codecs that others wrote, asked about ours: kio, and kafka-python.

Both come from Apache Kafka's own message descriptions. kio knows what a Kafka 4 broker speaks,
kafka-python all versions from 0 on.
"""

from __future__ import annotations

import datetime
import io
import re
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID
from spark_kafkawire.protocol.modern.metadata import NOT_ASKED
from tests.support.kio_library import HAS_KIO

from .messages import Case, wired

with warnings.catch_warnings():
    # It reads its schemas with a function that Python deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import IncompatibleBrokerVersion
    from kafka.protocol import admin, consumer, metadata, producer, sasl, schemas
    from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData

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
    [found] = {getattr(module, name) for module in KAFKA_PYTHON if hasattr(module, name)}
    return found


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
        if theirs is None and ours == _nothing_of(type(ours)):
            return
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


def _nothing_of(message: type[Any]) -> Any:
    """A tagged struct that is not there, for which kafka-python has None; None for one that must be there."""
    has_defaults = all(field.default is not MISSING for field in fields(message))
    return message() if has_defaults else None


def _names(name: str) -> Iterator[str]:
    """Names that a judge may have for a field: kio leaves out units, kafka-python renames two of Metadata's,
    both part words before capital letters alone."""
    yield name.replace("enable_2pc", "enable2_pc")
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
