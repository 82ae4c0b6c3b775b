"""SASL logins: SaslHandshake names the mechanism, then both sides exchange tokens.

The mechanisms are in ``logins``, and their table is here. Errors show no text of the broker, which may repeat
the secret: the error code names the cause.

Source: KIP-43, KIP-152 (tokens in requests), KIP-368 (how long a login lasts).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import AuthenticationError, ConnectionLost, KafkaWireError, counted
from ..protocol.modern.error_codes import ErrorCode, broker_error
from ..protocol.modern.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from ..secrecy import Credentials, keep_secret
from .channel import Channel
from .logins import Mechanism
from .logins.aws import AWS_MSK_IAM
from .logins.kerberos import GSSAPI
from .logins.oauthbearer import OAUTHBEARER
from .logins.passwords import PLAIN, SCRAM, DelegationToken
from .transport import Deadline

MECHANISMS: Final[Mapping[str, Mechanism]] = {
    item.name: item for item in (PLAIN, *SCRAM, OAUTHBEARER, AWS_MSK_IAM, GSSAPI)
}


#: First version of SaslHandshake with which tokens travel in SaslAuthenticate requests.
_TOKENS_IN_REQUESTS: Final = 1
#: First version of SaslAuthenticate that tells the lifetime of a login.
_LIFETIMES_SINCE: Final = 1


#: The part of a login's lifetime after which the client logs in again. The broker closes the connection on
#: the first request after the whole lifetime (KIP-368).
LIFETIME_USED: Final = 0.85
_NEW_TOKEN: Final = "with delegationTokens=true, load or write again: a new DataFrame has a new token"


class HandshakeRefused(AuthenticationError):
    """The broker accepts no login on this connection, before any credentials: its listener has no logins, or
    the last login on the connection was made again less than a second ago (KIP-368)."""


class TokenRefused(AuthenticationError):
    """The broker refuses a delegation token. It may be too new for this broker."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """A mechanism with its credentials. Plain data; secrets are in no repr."""

    mechanism: str
    credentials: Credentials


def log_in(channel: Channel, sasl: Sasl, host: str, deadline: Deadline) -> None:
    """Log in on a connection to the broker of that advertised host name: on a new one, or again before the
    lifetime of its login ends, with no request in flight (KIP-368). The channel notes the lifetime.

    Raises ``AuthenticationError`` (fatal) if one side rejects the other, ``TransportError``
    (retriable), ``ProtocolError`` (fatal).
    """
    keep_secret(*sasl.credentials.secrets)
    tokens = MECHANISMS[sasl.mechanism].tokens(sasl.credentials, host, deadline)
    token = next(tokens)
    channel.mechanisms = _shake_hands(channel, sasl.mechanism, deadline)
    exchange = _Exchange(channel, sasl, deadline)
    try:
        while True:
            token = tokens.send(exchange.carry(token))
    except StopIteration:
        exchange.check_lifetime()
        used_s = math.inf if exchange.lifetime_s is None else exchange.lifetime_s * LIFETIME_USED
        channel.login_due_s = time.monotonic() + used_s


def _shake_hands(channel: Channel, mechanism: str, deadline: Deadline) -> frozenset[str]:
    """Choose the mechanism. Returns all that the broker has."""
    response = channel.ask(SaslHandshakeRequest(mechanism=mechanism), deadline)
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationError(
            f"the broker does not support kafka.sasl.mechanism={mechanism}; "
            f"it supports {_list(response.mechanisms)}; set one that it supports, or add this one to its "
            "sasl.enabled.mechanisms"
        )
    if response.error_code != ErrorCode.NONE:
        error = broker_error(response.error_code, "SaslHandshake")
        raise error if error.retriable else HandshakeRefused(str(error))
    return frozenset(response.mechanisms)


class _Exchange:
    """Exchange of tokens, in requests or bare, as both sides support it."""

    def __init__(self, channel: Channel, sasl: Sasl, deadline: Deadline) -> None:
        self._channel, self._mechanism, self._credentials = channel, sasl.mechanism, sasl.credentials
        self._deadline = deadline
        self._in_requests = channel.connection.version_of(SASL_HANDSHAKE) >= _TOKENS_IN_REQUESTS
        self.carry: Callable[[bytes], bytes] = self._send_in_request if self._in_requests else self._bare
        self.lifetime_s: float | None = None

    def check_lifetime(self) -> None:
        """Raise ``TokenRefused`` for a token that has expired: until a broker forgets it, which may take an
        hour, a login with it succeeds, for no time at all."""
        says_lifetime = (
            self._in_requests and self._channel.connection.version_of(SASL_AUTHENTICATE) >= _LIFETIMES_SINCE
        )
        if isinstance(self._credentials, DelegationToken) and says_lifetime and self.lifetime_s is None:
            raise TokenRefused(f"SASL {self._mechanism}: the delegation token has expired; {_NEW_TOKEN}")

    def _send_in_request(self, token: bytes) -> bytes:
        response = self._channel.ask(SaslAuthenticateRequest(auth_bytes=token), self._deadline)
        if response.error_code != ErrorCode.NONE:
            raise self._refusal(response.error_code)
        if response.session_lifetime_ms > 0:
            self.lifetime_s = response.session_lifetime_ms / 1000
        return bytes(response.auth_bytes)

    def _bare(self, token: bytes) -> bytes:
        try:
            return self._channel.exchange_token(token, self._deadline)
        except ConnectionLost as error:
            # Before KIP-152 a broker rejects credentials only by closing. It may also be shutting down.
            raise ConnectionLost(
                f"SASL {self._mechanism}: {error}; a broker of this age rejects credentials by closing, so "
                "check them"
            ) from error

    def _refusal(self, code: int) -> KafkaWireError:
        is_token = isinstance(self._credentials, DelegationToken)
        if is_token and code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            return TokenRefused(
                f"SASL {self._mechanism}: the broker refuses the delegation token (error 58 "
                "SASL_AUTHENTICATION_FAILED): it has expired, or it is not one of this cluster; "
                f"{_NEW_TOKEN}"
            )
        error = broker_error(code, f"SASL {self._mechanism}")
        return error if error.retriable else AuthenticationError(str(error))


def _list(mechanisms: Iterable[str]) -> str:
    result = set(mechanisms)
    known = [name for name in MECHANISMS if name in result]
    unknown = len(result) - len(known)
    return ", ".join(known + [counted(unknown, "unknown one")] * (unknown > 0)) or "none"
