"""The interface of sources of bearer tokens, and the cache of their tokens in this process.

    @dataclass(frozen=True, slots=True)
    class FixedToken:
        def fetch(self, host: str, deadline: Deadline) -> Token: ...

A source is plain data that travels to the tasks, which ask it where they connect.

Two sources need no other server: a file, such as one that Kubernetes projects into a container and renews,
and a function of the user.

Source: KIP-768 (``file:`` URLs of the token endpoint).
"""

from __future__ import annotations

import importlib
import inspect
import math
import random
import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from spark_kafkawire.bounded import NotEnded, call_bounded
from spark_kafkawire.errors import AuthenticationError, OptionError, RequestTimedOut, printable, quote
from spark_kafkawire.kept import Kept
from spark_kafkawire.net.transport import IF_SLOW, Deadline
from spark_kafkawire.regular_files import Unreadable, read_regular
from spark_kafkawire.secrecy import Credentials, keep_secret

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
class FixedToken(Credentials):
    """A token that the user provides."""

    value: str = field(repr=False)

    def fetch(self, _host: str, _deadline: Deadline) -> Token:
        """The token."""
        return Token(self.value)


_TOKENS: Final = Kept[TokenSource, Token]()


def current_token(source: TokenSource, host: str, deadline: Deadline, renewal: Renewal = RENEWAL) -> Token:
    """A valid token, from the cache or from its source. Raises as ``TokenSource.fetch`` does."""
    keep_secret(*source.secrets)
    if (kept := _TOKENS.get(source)) is not None:
        return kept
    token = source.fetch(host, deadline)
    if token.lifetime_s > 0:
        _TOKENS.keep(source, token, renewal.used_s(token.lifetime_s, random.random()))
    return token


def is_token(value: object) -> bool:
    """True for one word of ASCII, which cannot add a field to a message."""
    return isinstance(value, str) and re.fullmatch(r"[!-~]+", value) is not None


T = TypeVar("T")


def within(deadline: Deadline, what: str, call: Callable[[], T], advice: str = IF_SLOW) -> T:
    """The result of a call, or its error. Raises ``RequestTimedOut`` (retriable) after the deadline."""
    try:
        return call_bounded(call, deadline.remaining_s(), "kafkawire-login")
    except NotEnded:
        raise RequestTimedOut(f"{what}: no answer within {deadline}; {advice}") from None


#: Longest file with a token, bytes.
FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TokenFile(Credentials):
    """A file with a token and nothing else, on the machine that connects. Each connection reads it, because
    the file changes when the token is renewed. ``option`` names it, for errors."""

    path: str
    option: str = "kafka.sasl.oauthbearer.token.endpoint.url"

    def fetch(self, _host: str, _deadline: Deadline) -> Token:
        """The token. Raises ``AuthenticationError`` (fatal) if the file has none."""
        return Token(word_in(self.path, self.option))


def word_in(path: str, option: str) -> str:
    """The word that a file holds, with white space around it.

    Raises ``AuthenticationError`` (fatal), which shows nothing of the file.
    """
    text = read_text(path, option).strip()
    if not is_token(text):
        raise AuthenticationError(
            f"option {option}: {quote(path)} does not hold a token, one word of ASCII (it is not shown); "
            "write the token alone into it"
        )
    return text


def read_text(path: str, option: str) -> str:
    """The text of a small regular file; bytes that are not text are replaced.

    Raises ``AuthenticationError`` (fatal). Never blocks.
    """
    advice = "put it on the driver and on each executor", "is it a token?"
    try:
        data = read_regular(path, FILE_BYTES_MAX, "where the client connects", *advice)
    except Unreadable as error:
        raise AuthenticationError(f"option {option}: {quote(path)} {error}") from error
    return data.decode("utf-8", "replace")


OPTION: Final = "saslTokenProvider"
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_FORM: Final = "(token, expires_at_seconds[, principal, extensions])"
#: Times after this one are in milliseconds: as seconds they are in the year 5138.
_SECONDS_MAX: Final = 1e11


@dataclass(frozen=True, slots=True)
class TokenProvider(Credentials):
    """A function, by its module and its name in there: settings travel, functions do not."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise OptionError(
                f"option {OPTION}: {quote(self.name)} is not of the form package.module:function; "
                "name a function in Python, such as my_company.tokens:kafka_token"
            )

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token of the function.

        Raises ``AuthenticationError`` (fatal), which shows no text of the function: that may hold a secret.
        ``RequestTimedOut`` (retriable) if the function does not end in time.
        """
        return within(deadline, self._describe_problem(""), self._call)

    def _call(self) -> Token:
        function = self._function()
        try:
            inspect.signature(function).bind()
            arguments: tuple[str, ...] = ()
        except (TypeError, ValueError):  # oauth_cb has an argument: the property sasl.oauthbearer.config
            arguments = ("",)
        try:
            result = function(*arguments)
        except BaseException as error:  # also SystemExit: it would end a thread of ours alone
            failure = _describe_error(error)
        else:
            return self._token_in(result)
        # Outside of the handler, so that the error with its text is not the context of this one.
        raise self._failed(f"raised {failure}; correct the function")

    def _function(self) -> Any:
        module, _, path = self.name.partition(":")
        try:
            result: Any = importlib.import_module(module)
            for part in path.split("."):
                result = getattr(result, part)
        except BaseException as error:
            failure = _describe_error(error)
        else:
            if callable(result):
                return result
            raise self._failed("is not a function; name one as package.module:function")
        raise self._failed(
            f"cannot be imported: {failure}; the module must be importable on the driver and on the "
            "executors: send it with --py-files"
        )

    def _token_in(self, result: object) -> Token:
        if not isinstance(result, tuple | list) or len(result) not in (2, 3, 4):
            raise self._failed(f"returned something else than {_FORM}; correct its return")
        token, expires_at_s, *more = result
        extensions = more[1] if len(more) > 1 else None
        if not isinstance(token, str) or not is_token(token):
            raise self._failed(f"returned a token that is not one word of ASCII; it returns {_FORM}")
        if isinstance(expires_at_s, bool) or not isinstance(expires_at_s, int | float):
            raise self._failed(f"returned a time that is not a number of seconds; it returns {_FORM}")
        if not -_SECONDS_MAX < expires_at_s < _SECONDS_MAX or math.isnan(expires_at_s):
            raise self._failed(
                "returned a time that is not in seconds since 1970: divide milliseconds by 1000"
            )
        lifetime_s = expires_at_s - time.time()
        if lifetime_s <= 0:
            raise self._failed("returned a token that has expired; the time is in seconds since 1970, UTC")
        return Token(token, lifetime_s, self._extensions_in(extensions))

    def _extensions_in(self, result: object) -> tuple[tuple[str, str], ...]:
        pairs = tuple(result.items()) if isinstance(result, Mapping) else () if result is None else None
        if pairs is None or not all(is_extension(name, value) for name, value in pairs):
            raise self._failed(
                "returned extensions that are not a dict of names, letters only, and texts; correct them"
            )
        return pairs

    def _failed(self, problem: str) -> AuthenticationError:
        return AuthenticationError(self._describe_problem(problem))

    def _describe_problem(self, problem: str) -> str:
        return f"option {OPTION}: {printable(self.name)} {problem}".rstrip()


def is_extension(name: object, value: object) -> bool:
    """True for a SASL extension: a name of letters, and a text that ends no field (KIP-342)."""
    return (
        isinstance(name, str)
        and re.fullmatch(r"[A-Za-z]+", name) is not None
        and name != "auth"
        and isinstance(value, str)
        and re.fullmatch(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*", value) is not None
    )


def _describe_error(error: BaseException) -> str:
    """The class of an error, and the line that raised it. Its text may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return (
        f"{printable(type(error).__name__)}{printable(place)} (its text is not shown: it may hold a secret)"
    )
