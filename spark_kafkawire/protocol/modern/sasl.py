"""SaslHandshake and SaslAuthenticate (Kafka 0.10 and later): the login of the client.

After a handshake in version 0 the tokens follow in frames without any header; from version 1 on
they travel in SaslAuthenticate requests.

Versions of SaslHandshake::

    0       tokens follow without headers (KIP-43)
    1       tokens follow in SaslAuthenticate (KIP-152)

Versions of SaslAuthenticate::

    0       tokens, and the text of a refusal (KIP-152)
    1       lifetime of the login (KIP-368)
    2       flexible (KIP-482)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..primitives import BYTES, INT16, INT64, Array, Buffer, String
from ..responses import Faults, below, nothing_to_compare
from ..schema import wire
from . import declare
from .limits import small_response_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest:
    """Choose a mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER."""

    mechanism: str = wire(String())


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse:
    """The mechanisms that the broker has; an error if the chosen one is not among them."""

    error_code: int = wire(INT16)
    mechanisms: tuple[str, ...] = wire(Array(String()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateRequest:
    """The client's next token. It may hold a password, so it is not shown."""

    auth_bytes: Buffer = wire(BYTES, shown=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """The broker's next token, and the lifetime of the login, ms (0: the lifetime of the connection)."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    auth_bytes: Buffer = wire(BYTES, shown=False)
    session_lifetime_ms: int = wire(INT64, since=1, default=0)


def _faults(_request: SaslAuthenticateRequest, response: SaslAuthenticateResponse, _version: int) -> Faults:
    return below(0, "session lifetime", response.session_lifetime_ms)


# A broker may list any mechanisms besides the chosen one.
SASL_HANDSHAKE: Final = declare(
    SaslHandshakeRequest, SaslHandshakeResponse, small_response_bytes_max, nothing_to_compare
)

SASL_AUTHENTICATE: Final = declare(
    SaslAuthenticateRequest, SaslAuthenticateResponse, small_response_bytes_max, _faults
)
