"""Bearer tokens from an authorization server: the client credentials grant over HTTPS.

Source: RFC 6749, 4.4; KIP-768.
"""

from __future__ import annotations

import base64
import io
import json
import re
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from urllib.parse import urlencode, urlsplit

from ..errors import AuthenticationError, ConnectFailed, KafkaWireError, OptionError, shown
from ..model import Broker
from ..secrecy import holds_secret, keep_secret
from .tls import Tls, TlsTransport
from .transport import Deadline, Transport

#: Longest answer of an authorization server, bytes.
ANSWER_BYTES_MAX: Final = 1 << 20
#: The part of a token's life after which another one is asked for, as in Java's client.
LIFETIME_USED: Final = 0.8
#: No token is used for longer, seconds, whatever its server says.
LIFETIME_MAX_S: Final = 86_400.0
#: A status from here on is the server's own trouble, and so are these.
_SERVER_ERROR: Final = 500
_TRY_LATER: Final = (408, 429)
_OK: Final = 200
#: What a server says that refuses (RFC 6749, 5.2); prose is not shown.
_ERROR_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_HTTPS_PORT: Final = 443


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Who asks which server for tokens. Plain data; secrets are in no repr.

    ``tls`` tells whom to trust besides the system's authorities.
    """

    endpoint_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    tls: Tls = Tls()

    def __post_init__(self) -> None:
        try:
            url = urlsplit(self.endpoint_url)
            is_usable = url.scheme == "https" and bool(url.hostname) and url.port != 0
        except ValueError:
            is_usable = False
        if not is_usable or not re.fullmatch(r"[!-~]+", self.endpoint_url) or "@" in url.netloc:
            raise OptionError(
                "option kafka.sasl.oauthbearer.token.endpoint.url: not of the form https://host:port/path; "
                "secrets are sent there, so plain http is refused"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere, not even where a server sends it back."""
        return (self.client_secret,)

    def token(self, deadline: Deadline) -> str:
        """A token that is still good, asked for where none is kept.

        Raises ``AuthenticationError`` (fatal) where the server refuses, ``TransportError`` (retriable).
        """
        keep_secret(*self.secrets)
        with _lock:
            kept = _kept.get(self)
        if kept is not None and time.monotonic() < kept[1]:
            return kept[0]
        try:
            token, lifetime_s = self._ask(deadline)
        except KafkaWireError as error:
            raise error.located(f"token endpoint {shown(urlsplit(self.endpoint_url).hostname)}") from error
        with _lock:
            _kept[self] = token, time.monotonic() + LIFETIME_USED * lifetime_s
        return token

    def _ask(self, deadline: Deadline) -> tuple[str, float]:
        url = urlsplit(self.endpoint_url)
        server = Broker(-1, url.hostname or "", url.port or _HTTPS_PORT)
        trust = replace(self.tls, adds_system_trust=True, checks_host_name=True)
        transport = TlsTransport.over(Transport.connect(server, deadline), trust, server.host, deadline)
        try:
            transport.send([self._request()], deadline)
            answer = _received(transport, deadline)
        finally:
            transport.close()
        return _token_in(*_parsed(answer))

    def _request(self) -> bytes:
        url = urlsplit(self.endpoint_url)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        login = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        body = urlencode(
            {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        ).encode()
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Basic {login}\r\n"
            "Accept: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode("ascii") + body


#: Tokens that this process got, and until when (monotonic clock) they are used.
_kept: Final[dict[ClientCredentials, tuple[str, float]]] = {}
_lock: Final = threading.Lock()


def _received(transport: Transport, deadline: Deadline) -> bytes:
    """All that the server sends until it closes."""
    data, buffer = bytearray(), memoryview(bytearray(1 << 16))
    while size := transport.receive_into(buffer, deadline):
        data += buffer[:size]
        if len(data) > ANSWER_BYTES_MAX:
            raise AuthenticationError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    return bytes(data)


class _Received:
    """What ``http.client`` reads an answer from, in place of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _parsed(answer: bytes) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of an HTTP answer; an empty object where the body is none."""
    import http.client  # hardly any process asks for a token, and it brings the parsers of mail

    try:
        response = http.client.HTTPResponse(cast(Any, _Received(answer)), method="POST")
        response.begin()
        body = response.read()
    except (http.client.HTTPException, ValueError, OverflowError) as error:
        raise ConnectFailed(f"the answer is not HTTP, or ends early ({type(error).__name__})") from error
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    return response.status, found if isinstance(found, dict) else {}


def _token_in(status: int, found: dict[str, Any]) -> tuple[str, float]:
    """The token and how long it is good, seconds; 0 where the server does not say."""
    if status >= _SERVER_ERROR or status in _TRY_LATER:
        raise ConnectFailed(f"it answers with HTTP status {status}")
    if status != _OK:
        code = found.get("error")
        is_code = isinstance(code, str) and _ERROR_CODE.fullmatch(code) and not holds_secret(code)
        told = f" {code}" if is_code else ""
        raise AuthenticationError(
            f"it refuses clientId and clientSecret of kafka.sasl.jaas.config: HTTP status {status}{told}"
        )
    token, lifetime_s = found.get("access_token"), found.get("expires_in")
    if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
        raise AuthenticationError("its answer has no access_token")
    is_time = isinstance(lifetime_s, int | float) and not isinstance(lifetime_s, bool)
    return token, max(min(cast(float, lifetime_s), LIFETIME_MAX_S), 0.0) if is_time else 0.0
