"""SASL logins: SaslHandshake names the mechanism, then both sides exchange tokens.

A mechanism is a generator: it yields the client's tokens and receives the broker's. It never waits.
Errors show no text of the broker, which may repeat the secret: the error code names the cause.

Source: KIP-43, KIP-152 (tokens in requests), KIP-368 (how long a login lasts); RFC 4616 (PLAIN),
RFC 7628 (OAUTHBEARER); SCRAM is in ``scram``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Final

from ..errors import AuthenticationError, ConnectionLost, KafkaWireError, counted
from ..protocol.modern.error_codes import ErrorCode, broker_error
from ..protocol.modern.sasl import SASL_HANDSHAKE, SaslAuthenticateRequest, SaslHandshakeRequest
from ..secrecy import keep_secret
from .channel import Channel
from .oauth import ClientCredentials
from .scram import HASHES, scram
from .transport import Deadline

#: Generator of the client's tokens that receives the broker's.
Tokens = Generator[bytes, bytes, None]

#: First version of SaslHandshake with which tokens travel in SaslAuthenticate requests.
_TOKENS_IN_REQUESTS: Final = 1
#: Mechanisms that only brokers support.
_OTHER_MECHANISMS: Final = ("GSSAPI", "AWS_MSK_IAM")


@dataclass(frozen=True, slots=True)
class Password:
    """A user name with its password."""

    username: str
    password: str = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a broker repeats them."""
        return (self.password,)


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that the user provides, with extensions for the broker."""

    token: str = field(repr=False)
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a broker repeats them."""
        return (self.token,)


@dataclass(frozen=True, slots=True)
class Sasl:
    """A mechanism with its credentials. Plain data; secrets are in no repr."""

    mechanism: str
    credentials: Password | Token | ClientCredentials


def log_in(channel: Channel, sasl: Sasl, deadline: Deadline) -> float | None:
    """Log in on a new connection. Returns the lifetime of the login, seconds; None if it is unlimited.

    Raises ``AuthenticationError`` (fatal) if one side rejects the other, ``TransportError``
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
    known = [name for name in (*MECHANISMS, *_OTHER_MECHANISMS) if name in found]
    unknown = len(found) - len(known)
    return ", ".join(known + [counted(unknown, "unknown one")] * (unknown > 0)) or "none"


def _plain(credentials: Password) -> Tokens:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _scram(mechanism: str) -> Callable[[Password], Tokens]:
    return lambda credentials: scram(mechanism, credentials.username, credentials.password)


def _oauthbearer(credentials: Token) -> Tokens:
    pairs = {"auth": f"Bearer {credentials.token}", **dict(credentials.extensions)}
    text = "".join(f"{key}={value}\x01" for key, value in pairs.items())
    refusal = yield f"n,,\x01{text}\x01".encode()
    if refusal:
        # The broker sends its reason, waits for this byte, and then closes the exchange (RFC 7628, 3.2.3).
        yield b"\x01"
        size = counted(len(refusal), "byte")
        raise AuthenticationError(f"SASL OAUTHBEARER: the broker refuses the token, in an answer of {size}")


#: The generator of tokens of each mechanism.
MECHANISMS: Final[dict[str, Callable[..., Tokens]]] = {
    "PLAIN": _plain,
    **{mechanism: _scram(mechanism) for mechanism in HASHES},
    "OAUTHBEARER": _oauthbearer,
}
