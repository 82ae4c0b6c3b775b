"""One HTTP request over a connection of its own: bounded answers, a deadline, no redirects.

Token endpoints and schema registries speak HTTP. A process asks each of them few times, so a connection
carries one request, and its answer ends where the peer says or closes.

Source: RFC 9112.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from ..errors import ConnectFailed, KafkaWireError
from ..model import Broker
from .transport import Deadline, Transport

if TYPE_CHECKING:
    from .tls import Tls

#: Longest answer, its head included, bytes.
ANSWER_BYTES_MAX: Final = 1 << 20
#: Bytes that one receive takes.
_RECEIVED_BYTES: Final = 1 << 16
_PORTS: Final = {"http": 80, "https": 443}
#: Statuses of temporary failures: these, and all from the first one of servers on.
_SERVER_ERROR: Final = 500
_TRY_LATER: Final = (408, 429)


@dataclass(frozen=True, slots=True)
class Url:
    """Address of an HTTP server. ``target`` is the path with its query; it begins with a slash."""

    scheme: str
    host: str
    port: int
    target: str
    #: Host and port as the user spelled them, for the header Host.
    netloc: str

    @classmethod
    def parse(cls, text: str) -> Url | None:
        """Read ``http://host:port/path`` or ``https://…``; None for any other text, as one with a login."""
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError:
            return None
        if url.scheme not in _PORTS or not url.hostname or port == 0 or url.fragment:
            return None
        if not re.fullmatch(r"[!-~]+", text) or "@" in url.netloc:
            return None
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        return cls(url.scheme, url.hostname, port or _PORTS[url.scheme], target, url.netloc)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an HTTP response."""

    status: int
    body: bytes

    @property
    def is_temporary(self) -> bool:
        """True if the server has a problem that time may cure."""
        return self.status >= _SERVER_ERROR or self.status in _TRY_LATER


def object_in(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a body; None for anything else: a proxy's page, or half of an answer."""
    try:
        result = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return result if isinstance(result, dict) else None


def ask(
    url: Url,
    method: str,
    headers: Mapping[str, str],
    body: bytes | None,
    tls: Tls | None,
    deadline: Deadline,
    answer_bytes_max: int = ANSWER_BYTES_MAX,
) -> Answer:
    """Send one request and receive its answer. A redirect is an answer like any other: headers with secrets
    go to one server only.

    ``tls`` is needed for https. Raises ``AuthenticationError`` (fatal) if one side rejects the other's
    certificate, ``TransportError`` (retriable), also for an answer that is not HTTP or longer than
    ``answer_bytes_max``.
    """
    server = Broker(-1, url.host, url.port)
    transport = Transport.connect(server, deadline)
    if url.scheme == "https":
        from .tls import TlsTransport  # most processes encrypt nothing

        assert tls is not None
        transport = TlsTransport.over(transport, tls, url.host, deadline)
    try:
        transport.send([_head(url, method, headers, body), body or b""], deadline)
        return answer_in(_Received(transport, deadline, answer_bytes_max), method, answer_bytes_max)
    finally:
        transport.close()


def _head(url: Url, method: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    size = {} if body is None else {"Content-Length": str(len(body))}
    lines = {"Host": url.netloc, **headers, **size, "Connection": "close"}
    # A header that came from an option cannot add another one.
    assert not any(re.search(r"[\r\n\0]", value) for value in lines.values())
    fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {url.target} HTTP/1.1\r\n{fields}\r\n".encode("ascii")


class _Received(io.RawIOBase):
    """The bytes that a peer sends, up to a limit."""

    def __init__(self, transport: Transport, deadline: Deadline, bytes_max: int) -> None:
        self._transport, self._deadline = transport, deadline
        self._bytes_max = self._bytes_left = bytes_max

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._transport.receive_into(memoryview(buffer)[:_RECEIVED_BYTES], self._deadline)
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise ConnectFailed(
                f"the answer is longer than {self._bytes_max} bytes, the most that is read; is this "
                "the address of another service?"
            )
        return size


class _Bounded(io.BufferedReader):
    """A buffer that does not allocate what a peer only announces, the length of a body or of a chunk, and
    that does not take the end of the bytes for the end of a head, as ``http.client`` does."""

    def __init__(self, received: io.RawIOBase, bytes_max: int) -> None:
        super().__init__(received)
        self._bytes_max = bytes_max

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(-1 if size is None else min(size, self._bytes_max + 1))

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line:
            raise ConnectFailed("the answer ends early; see the log of the server, or of a proxy before it")
        return line


def answer_in(received: io.RawIOBase, method: str, bytes_max: int = ANSWER_BYTES_MAX) -> Answer:
    """The response that the received bytes begin with.

    Raises ``ConnectFailed`` (retriable) if the bytes are not HTTP or end early.
    """
    import http.client  # few processes speak HTTP, and this import loads the mail parsers

    try:
        stream = _Bounded(received, bytes_max)
        socket = cast(Any, SimpleNamespace(makefile=lambda _: stream))
        # Closed at once: from Python 3.13 on the collection of an open response may report a closed stream.
        with contextlib.closing(http.client.HTTPResponse(socket, method=method)) as response:
            response.begin()
            return Answer(response.status, response.read())
    except KafkaWireError:  # some are a ValueError, too
        raise
    except (http.client.HTTPException, ValueError, OverflowError) as error:
        raise ConnectFailed(
            f"the answer is not HTTP, or ends early ({type(error).__name__}); check host, port and path"
        ) from error
