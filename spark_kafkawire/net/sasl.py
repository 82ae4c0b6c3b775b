"""SASL logins: SaslHandshake names the mechanism, then both sides exchange tokens.

The mechanisms are in ``logins``. Errors show no text of the broker, which may repeat the secret: the error
code names the cause.

Source: KIP-43, KIP-152 (tokens in requests), KIP-368 (how long a login lasts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ..errors import AuthenticationError, ConnectionLost, KafkaWireError, counted
from ..protocol.modern.error_codes import ErrorCode, broker_error
from ..protocol.modern.sasl import SASL_HANDSHAKE, SaslAuthenticateRequest, SaslHandshakeRequest
from ..secrecy import keep_secret
from .channel import Channel
from .logins.mechanism import Credentials
from .logins.table import MECHANISMS
from .transport import Deadline

#: First version of SaslHandshake with which tokens travel in SaslAuthenticate requests.
_TOKENS_IN_REQUESTS: Final = 1


@dataclass(frozen=True, slots=True)
class Sasl:
    """A mechanism with its credentials. Plain data; secrets are in no repr."""

    mechanism: str
    credentials: Credentials


def log_in(channel: Channel, sasl: Sasl, host: str, deadline: Deadline) -> float | None:
    """Log in on a new connection to the broker of that advertised host name. Returns the lifetime of the
    login, seconds; None if it is unlimited.

    Raises ``AuthenticationError`` (fatal) if one side rejects the other, ``TransportError``
    (retriable), ``ProtocolError`` (fatal).
    """
    keep_secret(*sasl.credentials.secrets)
    tokens = MECHANISMS[sasl.mechanism].tokens(sasl.credentials, host, deadline)
    token = next(tokens)
    _shake_hands(channel, sasl.mechanism, deadline)
    exchange = _Exchange(channel, sasl.mechanism, deadline)
    try:
        while True:
            token = tokens.send(exchange.carry(token))
    except StopIteration:
        return exchange.lifetime_s


def _shake_hands(channel: Channel, mechanism: str, deadline: Deadline) -> None:
    response = channel.ask(SaslHandshakeRequest(mechanism=mechanism), deadline)
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationError(
            f"the broker does not support kafka.sasl.mechanism={mechanism}; "
            f"it supports {_listed(response.mechanisms)}"
        )
    if response.error_code != ErrorCode.NONE:
        raise _refusal(response.error_code, "SaslHandshake")


class _Exchange:
    """Exchange of tokens, in requests or bare, as both sides support it."""

    def __init__(self, channel: Channel, mechanism: str, deadline: Deadline) -> None:
        self._channel, self._mechanism = channel, mechanism
        self._deadline = deadline
        in_requests = channel.version_of(SASL_HANDSHAKE) >= _TOKENS_IN_REQUESTS
        self.carry: Callable[[bytes], bytes] = self._in_request if in_requests else self._bare
        self.lifetime_s: float | None = None

    def _in_request(self, token: bytes) -> bytes:
        response = self._channel.ask(SaslAuthenticateRequest(auth_bytes=token), self._deadline)
        if response.error_code != ErrorCode.NONE:
            raise _refusal(response.error_code, f"SASL {self._mechanism}")
        if response.session_lifetime_ms > 0:
            self.lifetime_s = response.session_lifetime_ms / 1000
        return bytes(response.auth_bytes)

    def _bare(self, token: bytes) -> bytes:
        try:
            return self._channel.exchange_token(token, self._deadline)
        except ConnectionLost as error:
            # Before KIP-152 a broker rejects credentials only by closing. It may also be shutting down.
            raise ConnectionLost(
                f"SASL {self._mechanism}: {error}; a broker of this age rejects credentials by closing"
            ) from error


def _refusal(code: int, place: str) -> KafkaWireError:
    error = broker_error(code, place)
    return error if error.retriable else AuthenticationError(str(error))


def _listed(mechanisms: Iterable[str]) -> str:
    found = set(mechanisms)
    known = [name for name in MECHANISMS if name in found]
    unknown = len(found) - len(known)
    return ", ".join(known + [counted(unknown, "unknown one")] * (unknown > 0)) or "none"
