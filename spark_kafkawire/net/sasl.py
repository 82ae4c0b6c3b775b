"""Logging in: SaslHandshake names the mechanism, then both sides send tokens until each is sure of the other.

A mechanism is a generator: it yields the client's tokens and is sent the broker's. It never waits.

Source: KIP-43, KIP-152 (tokens in requests), KIP-368 (how long a login lasts); RFC 4616 (PLAIN),
RFC 7628 (OAUTHBEARER); SCRAM is in ``scram``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Final

from ..errors import AuthenticationError, ConnectionLost, KafkaWireError, said
from ..protocol.modern.error_codes import ErrorCode, broker_error
from ..protocol.modern.sasl import SASL_HANDSHAKE, SaslAuthenticateRequest, SaslHandshakeRequest
from ..secrecy import holds_secret, keep_secret
from .channel import Channel
from .oauth import ClientCredentials
from .scram import HASHES, scram
from .transport import Deadline

#: The client's tokens, for each of which the broker's answer is sent in.
Tokens = Generator[bytes, bytes, None]

#: From this version of SaslHandshake on, tokens travel in SaslAuthenticate requests.
_TOKENS_IN_REQUESTS: Final = 1
#: Mechanisms that an error lists.
_LISTED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Password:
    """Who the client is, and how it proves that."""

    username: str
    password: str = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere, not even where a broker sends it back."""
        return (self.password,)


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that somebody else got, and extensions that a broker may want."""

    token: str = field(repr=False)
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere, not even where a broker sends it back."""
        return (self.token,)


@dataclass(frozen=True, slots=True)
class Sasl:
    """The mechanism, and what it needs. Plain data; secrets are in no repr."""

    mechanism: str
    credentials: Password | Token | ClientCredentials


def log_in(channel: Channel, sasl: Sasl, deadline: Deadline) -> float | None:
    """Log in on a fresh connection; for how many seconds the login lasts, None where it does not end.

    Raises ``AuthenticationError`` (fatal) where one side refuses the other, ``TransportError``
    (retriable), ``ProtocolError`` (fatal).
    """
    credentials = sasl.credentials
    if isinstance(credentials, ClientCredentials):
        credentials = Token(credentials.token(deadline), credentials.extensions)
    keep_secret(*credentials.secrets)
    _shake_hands(channel, sasl.mechanism, deadline)
    exchange = _Exchange(channel, sasl.mechanism, deadline)
    tokens = MECHANISMS[sasl.mechanism](credentials)
    try:
        token = next(tokens)
        while True:
            token = tokens.send(exchange.carry(token))
    except StopIteration:
        return exchange.lifetime_s


def _shake_hands(channel: Channel, mechanism: str, deadline: Deadline) -> None:
    reply = channel.ask(SaslHandshakeRequest(mechanism=mechanism), deadline)
    if reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationError(
            f"the broker does not have kafka.sasl.mechanism={mechanism}; it has {_listed(reply.mechanisms)}"
        )
    if reply.error_code != ErrorCode.NONE:
        raise _refusal(reply.error_code, "SaslHandshake", None)


class _Exchange:
    """Carries tokens in the way that both sides know."""

    def __init__(self, channel: Channel, mechanism: str, deadline: Deadline) -> None:
        self._channel, self._mechanism = channel, mechanism
        self._deadline = deadline
        in_requests = channel.version_of(SASL_HANDSHAKE) >= _TOKENS_IN_REQUESTS
        self.carry: Callable[[bytes], bytes] = self._in_request if in_requests else self._bare
        self.lifetime_s: float | None = None

    def _in_request(self, token: bytes) -> bytes:
        reply = self._channel.ask(SaslAuthenticateRequest(auth_bytes=token), self._deadline)
        if reply.error_code != ErrorCode.NONE:
            raise _refusal(reply.error_code, f"SASL {self._mechanism}", reply.error_message)
        if reply.session_lifetime_ms > 0:
            self.lifetime_s = reply.session_lifetime_ms / 1000
        return bytes(reply.auth_bytes)

    def _bare(self, token: bytes) -> bytes:
        try:
            return self._channel.exchange_token(token, self._deadline)
        except ConnectionLost as error:
            # Nothing else tells a refusal before KIP-152; but it may also be going down.
            raise ConnectionLost(
                f"SASL {self._mechanism}: {error}; so old a broker refuses credentials like that"
            ) from error


def _refusal(code: int, place: str, detail: str | None) -> KafkaWireError:
    error = broker_error(code, place, detail)
    return error if error.retriable else AuthenticationError(str(error))


def _listed(mechanisms: Iterable[str]) -> str:
    names = list(mechanisms)
    more = len(names) - _LISTED_MAX
    return ", ".join(map(_named, names[:_LISTED_MAX])) + (f" and {more} more" if more > 0 else "") or "none"


def _named(mechanism: str) -> str:
    known = re.fullmatch(r"[\w-]{1,40}", mechanism, re.ASCII) and not holds_secret(mechanism)
    return mechanism if known else said(mechanism)


def _plain(credentials: Password) -> Tokens:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _scram(mechanism: str) -> Callable[[Password], Tokens]:
    return lambda credentials: scram(mechanism, credentials.username, credentials.password)


def _oauthbearer(credentials: Token) -> Tokens:
    pairs = {"auth": f"Bearer {credentials.token}", **dict(credentials.extensions)}
    text = "".join(f"{key}={value}\x01" for key, value in pairs.items())
    refusal = yield f"n,,\x01{text}\x01".encode()
    if refusal:
        # The broker tells why, waits for this, and only then says that it refuses (RFC 7628, 3.2.3).
        yield b"\x01"
        raise AuthenticationError(f"SASL OAUTHBEARER: the broker refuses the token: {said(refusal)}")


#: What each mechanism does with its credentials.
MECHANISMS: Final[dict[str, Callable[..., Tokens]]] = {
    "PLAIN": _plain,
    **{mechanism: _scram(mechanism) for mechanism in HASHES},
    "OAUTHBEARER": _oauthbearer,
}
