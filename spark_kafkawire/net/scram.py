"""SCRAM, the client's side: both sides prove that they know the password, and neither tells it.

::

    client  n,,n=<user>,r=<nonce>
    broker  r=<nonce and more>,s=<salt>,i=<iterations>
    client  c=biws,r=<nonce and more>,p=<proof>
    broker  v=<signature>

Names and passwords go as they are, in UTF-8. RFC 5802 wants them normalised (SASLprep); Kafka leaves
that out on both sides, so that who normalises is refused where a password has an unusual space, say.

Source: RFC 5802, RFC 7677; Apache Kafka's ScramFormatter.java and ScramSaslClient.java.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..errors import AuthenticationError
from ..secrecy import HIDDEN, holds_secret

#: The hash of each mechanism.
HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: Rounds of the hash, fewest and most: with fewer a false broker would guess passwords too fast, as
#: Kafka's clients say, too. Kafka's brokers take 4096 by default and 16,384 at most (KIP-554). These are
#: done in 60 ms, within any time limit, and no deadline can end them: hashlib makes them in one call.
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 1 << 17
#: No channel binding, as it stands in the second message ("n,," in base 64).
_NO_BINDING: Final = "c=biws"
_FIRST: Final = re.compile(
    r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9/+=]+),i=([1-9][0-9]{0,17})(?:,.*)?", re.S
)
_FINAL: Final = re.compile(r"v=([A-Za-z0-9/+=]+)(?:,.*)?", re.S)
_REFUSAL: Final = re.compile(r"e=([a-z-]{1,60})(?:,.*)?", re.S)


def scram(mechanism: str, username: str, password: str) -> Generator[bytes, bytes, None]:
    """The client's messages, for each of which the broker's is sent in; ends where the broker proved
    itself. Raises ``AuthenticationError`` (fatal)."""
    nonce = secrets.token_hex()
    opening = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    try:
        challenge = (yield f"n,,{opening}".encode()).decode()
        salt, iterations, whole_nonce = _challenge(challenge, nonce)
        reply = f"{_NO_BINDING},r={whole_nonce}"
        auth_message = ",".join((opening, challenge, reply)).encode()
        keys = _Keys.of(HASHES[mechanism], password, salt, iterations)
        _check_proof(
            (yield f"{reply},p={_base64(keys.proof(auth_message))}".encode()).decode(),
            keys.signature(auth_message),
        )
    except UnicodeDecodeError as error:
        raise _unproven(mechanism, "its message is no text") from error
    except _Distrust as reason:
        raise _unproven(mechanism, str(reason)) from None


class _Distrust(Exception):
    """Why the broker is not believed. Never leaves the module."""


@dataclass(frozen=True, slots=True)
class _Keys:
    """What is derived from the password, which is not kept."""

    hash: str
    client: bytes = field(repr=False)
    server: bytes = field(repr=False)

    @classmethod
    def of(cls, hash_name: str, password: str, salt: bytes, iterations: int) -> _Keys:
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        keys = (hmac.digest(salted, name, hash_name) for name in (b"Client Key", b"Server Key"))
        return cls(hash_name, *keys)

    def proof(self, auth_message: bytes) -> bytes:
        """That the client knows the password; only who knows its hash can tell."""
        stored = hashlib.new(self.hash, self.client).digest()
        pairs = zip(self.client, hmac.digest(stored, auth_message, self.hash), strict=True)
        return bytes(own ^ signed for own, signed in pairs)

    def signature(self, auth_message: bytes) -> bytes:
        """What only who knows the password, or what the broker stores of it, can send."""
        return hmac.digest(self.server, auth_message, self.hash)


def _challenge(text: str, nonce: str) -> tuple[bytes, int, str]:
    """Salt, iterations, and the nonce of both sides."""
    match = _FIRST.fullmatch(text)
    if match is None:
        raise _Distrust(_refusal(text) or "its first message is malformed")
    if not match[1].startswith(nonce) or len(match[1]) == len(nonce):
        raise _Distrust("it answers another client's message")
    iterations = int(match[3])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise _Distrust(
            f"it asks for {iterations} rounds of hashing, and {ITERATIONS_MIN} to {ITERATIONS_MAX} are made"
        )
    return _bytes(match[2]), iterations, match[1]


def _check_proof(text: str, signature: bytes) -> None:
    match = _FINAL.fullmatch(text)
    if match is None:
        raise _Distrust(_refusal(text) or "its last message is malformed")
    if not hmac.compare_digest(_bytes(match[1]), signature):
        raise _Distrust("its signature is not that of the password")


def _refusal(text: str) -> str | None:
    match = _REFUSAL.fullmatch(text)
    return f"the broker says {HIDDEN if holds_secret(match[1]) else match[1]}" if match else None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _Distrust("its message is not in base 64") from None


def _unproven(mechanism: str, why: str) -> AuthenticationError:
    return AuthenticationError(
        f"SASL {mechanism}: no login, because one side does not know the password or is another than it "
        f"should be: {why}"
    )
