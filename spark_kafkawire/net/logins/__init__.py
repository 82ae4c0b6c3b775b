"""The interface of a login: credentials, and a generator of the client's tokens.

    def _tokens(credentials: Password, host: str, deadline: Deadline) -> Tokens:
        answer = yield b"the first token"

    EXAMPLE: Final = Mechanism("EXAMPLE", "ExampleLoginModule", _tokens)

The generator yields the client's tokens and receives the broker's. It ends when the client is logged in. It
does not see the connection. A mechanism that asks another server, for a bearer token or a ticket, does so
before it yields, and ends within the deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from spark_kafkawire.secrecy import Credentials

from ..transport import Deadline

#: Generator of the client's tokens that receives the broker's.
Tokens = Generator[bytes, bytes, None]


@dataclass(frozen=True, slots=True)
class Password(Credentials):
    """A user name with its password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A SASL mechanism.

    ``module`` is the simple name of the login module that ``kafka.sasl.jaas.config`` has for it in Java.
    ``tokens`` gets the credentials, the broker's advertised host name and a deadline. It raises
    ``AuthenticationError`` (fatal) if one side rejects the other, and ``TransportError`` (retriable) for
    another server that it asks.
    """

    name: str
    module: str
    tokens: Callable[[Any, str, Deadline], Tokens]
