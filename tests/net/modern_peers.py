"""The server's side of the modern protocol, for peers that play a script."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.metadata import MetadataResponse
from spark_kafkawire.protocol.modern.negotiation import ApiVersion, ApiVersionsResponse

from .peers import Script, read_frame

#: What these brokers offer unless a test says otherwise: all that this package knows.
OFFERED: Final = {api.key: api.versions for api in modern.DIALECT.apis}
METADATA_RESPONSE: Final = MetadataResponse(brokers=(), topics=())


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the broker sees it."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    request: Any


def asked(connection: socket.socket) -> Asked | None:
    """The next request; None when the client has closed."""
    body = read_frame(connection)
    return read(memoryview(body)) if body else None


def read(body: memoryview) -> Asked:
    """The request in a frame."""
    api, header, pos = modern.DIALECT.read_request_header(body)
    request = api.request_codec(header.api_version).read(body, pos)[0]
    return Asked(api, header.api_version, header.correlation_id, header.client_id, request)


def answer(connection: socket.socket, question: Asked, response: object, version: int | None = None) -> None:
    """Send the response to a request."""
    version = question.version if version is None else version
    parts = modern.DIALECT.write_response(question.api, response, version, question.correlation_id)
    connection.sendall(b"".join(parts))


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Some bytes with a few of them changed, taken out, or doubled."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        pos = draw.randrange(len(changed) + 1)
        match draw.randrange(3):
            case 0:
                changed[pos : pos + 1] = draw.randbytes(1)
            case 1:
                del changed[pos : pos + draw.randint(1, 8)]
            case _:
                changed[pos:pos] = changed[pos : pos + draw.randint(1, 8)]
    return bytes(changed)


def api_versions(
    offered: dict[int, VersionRange] = OFFERED, code: int = 0, throttle_time_ms: int = 0
) -> ApiVersionsResponse:
    """The response of a broker that offers these versions."""
    keys = tuple(
        ApiVersion(api_key=key, min_version=versions.min, max_version=versions.max)
        for key, versions in offered.items()
    )
    return ApiVersionsResponse(error_code=code, api_keys=keys, throttle_time_ms=throttle_time_ms)


def broker(
    responses: dict[str, Callable[[Asked], Any]] | None = None,
    *,
    offered: dict[int, VersionRange] = OFFERED,
    seen: list[Asked] | None = None,
) -> Script:
    """Answers ApiVersions as brokers do, Metadata with an empty cluster, and what ``responses`` has by API
    name; closes on anything else. ``seen`` gets all requests."""

    def script(connection: socket.socket) -> None:
        while (question := asked(connection)) is not None:
            if seen is not None:
                seen.append(question)
            name, known = question.api.name, offered.get(question.api.key, VersionRange(0, -1))
            if responses and name in responses:
                answer(connection, question, responses[name](question))
            elif name == "ApiVersions" and question.version not in known:
                refusal = api_versions(offered, ErrorCode.UNSUPPORTED_VERSION)
                answer(connection, question, refusal, version=0)
            elif name == "ApiVersions":
                answer(connection, question, api_versions(offered))
            elif name == "Metadata":
                answer(connection, question, METADATA_RESPONSE)
            else:
                return

    return script
