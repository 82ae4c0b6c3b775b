"""The interface of sources of bearer tokens, and the cache of their tokens in this process.

    @dataclass(frozen=True, slots=True)
    class FixedToken:
        def fetch(self, host: str, deadline: Deadline) -> Token: ...

A source is plain data that travels to the tasks, which ask it where they connect.
"""

from __future__ import annotations

import random
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Final, Protocol

from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.secrecy import keep_secret

#: Longest use of a token, seconds, even if its server allows more.
LIFETIME_MAX_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token.

    ``lifetime_s`` are the seconds for which it is valid from now on; 0 if they are unknown: then the source
    is asked again for each connection.
    """

    value: str = field(repr=False)
    lifetime_s: float = 0.0
    extensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Renewal:
    """The time at which a new token is requested, by the names of Java's client: after ``factor`` of the
    lifetime and a random part of it up to ``jitter``, but ``buffer_s`` before its end, and not before
    ``period_min_s``. The last two do not apply to tokens that live shorter than both together."""

    factor: float = 0.8
    jitter: float = 0.0
    period_min_s: float = 0.0
    buffer_s: float = 0.0

    def used_s(self, lifetime_s: float, draw: float) -> float:
        """Seconds for which a token is used; ``draw`` is a random number from 0 to 1."""
        lifetime_s = min(lifetime_s, LIFETIME_MAX_S)
        used_s = lifetime_s * (self.factor + self.jitter * draw)
        if self.period_min_s + self.buffer_s > lifetime_s:
            return min(used_s, lifetime_s)
        return max(min(used_s, lifetime_s - self.buffer_s), self.period_min_s)


RENEWAL: Final = Renewal()


class TokenSource(Protocol):
    """A source of bearer tokens. Plain data, hashable; secrets are in no repr."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a server repeats them."""

    def fetch(self, host: str, deadline: Deadline) -> Token:
        """A new token for the broker of that advertised host name.

        Raises ``AuthenticationError`` (fatal) if there is none, ``TransportError`` (retriable).
        """


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token that the user provides."""

    value: str = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a broker repeats them."""
        return (self.value,)

    def fetch(self, _host: str, _deadline: Deadline) -> Token:
        """The token."""
        return Token(self.value)


#: Tokens of this process, each with the end of its use on the monotonic clock.
_kept: Final[dict[TokenSource, tuple[Token, float]]] = {}
_lock: Final = threading.Lock()


def current_token(source: TokenSource, host: str, deadline: Deadline, renewal: Renewal = RENEWAL) -> Token:
    """A valid token, from the cache or from its source. Raises as ``TokenSource.fetch`` does."""
    keep_secret(*source.secrets)
    with _lock:
        kept = _kept.get(source)
    if kept is not None and time.monotonic() < kept[1]:
        return kept[0]
    token = source.fetch(host, deadline)
    if token.lifetime_s > 0:
        used_s = renewal.used_s(token.lifetime_s, random.random())
        with _lock:
            _kept[source] = token, time.monotonic() + used_s
    return token


def forget_tokens() -> None:
    """Forget all tokens of this process."""
    with _lock:
        _kept.clear()


def is_token(value: object) -> bool:
    """True for one word of ASCII, which cannot add a field to a message."""
    return isinstance(value, str) and re.fullmatch(r"[!-~]+", value) is not None
