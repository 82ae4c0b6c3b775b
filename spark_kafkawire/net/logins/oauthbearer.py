"""OAUTHBEARER: a bearer token of another server, with extensions for the broker.

Source: RFC 7628; KIP-255, KIP-342 (extensions).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_kafkawire.errors import AuthenticationError, counted
from spark_kafkawire.secrecy import Credentials, keep_secret

from ..transport import Deadline
from . import Mechanism, Tokens
from .tokens.token import RENEWAL, Renewal, TokenSource, current_token


@dataclass(frozen=True, slots=True)
class Bearer(Credentials):
    """A source of tokens, extensions that go to the broker with each, and when tokens are renewed."""

    source: TokenSource
    extensions: tuple[tuple[str, str], ...] = ()
    renewal: Renewal = RENEWAL


def _tokens(credentials: Bearer, host: str, deadline: Deadline) -> Tokens:
    token = current_token(credentials.source, host, deadline, credentials.renewal)
    keep_secret(token.value)
    pairs = {"auth": f"Bearer {token.value}", **dict(credentials.extensions), **dict(token.extensions)}
    text = "".join(f"{key}={value}\x01" for key, value in pairs.items())
    refusal = yield f"n,,\x01{text}\x01".encode()
    if refusal:
        # The broker sends its reason, waits for this byte, and then closes the exchange (RFC 7628, 3.2.3).
        yield b"\x01"
        size = counted(len(refusal), "byte")
        raise AuthenticationError(
            f"SASL OAUTHBEARER: the broker refuses the token, in an answer of {size}; check that the token "
            "is meant for this broker, and that it has not expired"
        )


OAUTHBEARER: Final = Mechanism("OAUTHBEARER", "OAuthBearerLoginModule", _tokens)
