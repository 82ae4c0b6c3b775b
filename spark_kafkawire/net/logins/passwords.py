"""PLAIN and SCRAM: logins by a name and a password, or by a delegation token.

PLAIN sends the name and the password as they are, which only TLS protects.

Source: RFC 4616.

SCRAM, the client's side: both sides prove that they know the password, and neither sends it.

::

    client  n,,n=<user>,r=<nonce>
    broker  r=<nonce and more>,s=<salt>,i=<iterations>
    client  c=biws,r=<nonce and more>,p=<proof>
    broker  v=<signature>

The client's first message ends with ``,tokenauth=true`` where a delegation token logs in.

Names and passwords are sent unchanged, in UTF-8. RFC 5802 requires SASLprep normalization, which Kafka omits
on both sides: a client that normalizes is rejected if a password contains an unusual space, for example.

Source: RFC 5802, RFC 7677; Apache Kafka's ScramFormatter.java and ScramSaslClient.java.

Delegation tokens: the id of a token, and its HMAC in place of a password. Source: KIP-48.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import operator
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from spark_kafkawire.errors import AuthenticationError, counted

from ..transport import Deadline
from . import Mechanism, Password, Tokens

#: Time after the creation of a token in which some brokers may not know it yet, seconds. They learn of it as
#: of topics.
UNKNOWN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class DelegationToken(Password):
    """A token: its id is the user name, and its HMAC in base 64 the password. ``created_s`` is when this
    package created it, seconds since 1970; None if the user provides it."""

    created_s: float | None = None

    def may_be_unknown(self, now_s: float) -> bool:
        """True if brokers may refuse the token because it is too new. The clock of a task may differ from
        that of the driver."""
        return self.created_s is not None and abs(now_s - self.created_s) < UNKNOWN_S


def _tokens(credentials: Password, _host: str, _deadline: Deadline) -> Tokens:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


PLAIN: Final = Mechanism("PLAIN", "PlainLoginModule", _tokens)


#: The hash of each mechanism.
HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: Bounds of the hash iterations. With fewer, an impostor could guess passwords too fast; Kafka's clients have
#: the same minimum. Kafka's brokers use 4096 by default and 16,384 at most (KIP-554). The maximum takes 60
#: ms, in one call of hashlib that no deadline can interrupt.
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 1 << 17
#: The extension of a login with a delegation token.
_TOKEN_AUTH: Final = ",tokenauth=true"
#: No channel binding, as the second message encodes it ("n,," in base 64).
_NO_BINDING: Final = "c=biws"
_FIRST: Final = re.compile(
    r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9/+=]+),i=([1-9][0-9]{0,17})(?:,.*)?", re.S
)
_FINAL: Final = re.compile(r"v=([A-Za-z0-9/+=]+)(?:,.*)?", re.S)
#: Source: server-error-value in section 7 of RFC 5802.
_ERRORS: Final = (
    "invalid-encoding", "extensions-not-supported", "invalid-proof", "channel-bindings-dont-match",
    "server-does-support-channel-binding", "channel-binding-not-supported",
    "unsupported-channel-binding-type", "unknown-user", "invalid-username-encoding", "no-resources",
    "other-error",
)  # fmt: skip
_REFUSAL: Final = re.compile(r"e=([a-z-]{1,60})(?:,.*)?", re.S)


def scram(mechanism: str, username: str, password: str, extensions: str = "") -> Tokens:
    """Yield the client's messages and receive the broker's. Ends when the broker has proved that it knows the
    password. Raises ``AuthenticationError`` (fatal)."""
    nonce, hash_name = secrets.token_hex(), HASHES[mechanism]
    opening = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extensions}"
    try:
        challenge = (yield f"n,,{opening}".encode()).decode()
        salt, iterations, whole_nonce = _challenge(challenge, nonce)
        response = f"{_NO_BINDING},r={whole_nonce}"
        auth_message = ",".join((opening, challenge, response)).encode()
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        client, server = (hmac.digest(salted, name, hash_name) for name in (b"Client Key", b"Server Key"))
        signed = hmac.digest(hashlib.new(hash_name, client).digest(), auth_message, hash_name)
        proof = base64.b64encode(bytes(map(operator.xor, client, signed))).decode()
        _check_proof(
            (yield f"{response},p={proof}".encode()).decode(), hmac.digest(server, auth_message, hash_name)
        )
    except UnicodeDecodeError as error:
        raise _unproven(mechanism, "its message is not text") from error
    except _Distrust as reason:
        raise _unproven(mechanism, str(reason)) from None


class _Distrust(Exception):
    """The reason why the broker is not trusted. Never leaves the module."""


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
            f"it requires {counted(iterations, 'hash iteration')}; "
            f"{ITERATIONS_MIN} to {ITERATIONS_MAX} are supported"
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
    return f"the broker says {match[1] if match[1] in _ERRORS else 'an unknown error'}" if match else None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _Distrust("its message is not in base 64") from None


def _unproven(mechanism: str, why: str) -> AuthenticationError:
    return AuthenticationError(
        f"SASL {mechanism}: login failed ({why}): the password is wrong, or the peer is not who it claims "
        "to be; check the password in kafka.sasl.jaas.config, and the address"
    )


def _scram(name: str, credentials: Password, _host: str, _deadline: Deadline) -> Tokens:
    extensions = _TOKEN_AUTH if isinstance(credentials, DelegationToken) else ""
    return scram(name, credentials.username, credentials.password, extensions)


SCRAM: Final = [Mechanism(name, "ScramLoginModule", partial(_scram, name)) for name in HASHES]
