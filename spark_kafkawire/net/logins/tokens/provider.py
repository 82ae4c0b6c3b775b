"""Bearer tokens from a function of the user, which has the shape of confluent-kafka's ``oauth_cb``::

    def token(config: str = "") -> tuple[str, float] | tuple[str, float, str, dict[str, str]]:
        return "eyJ…", expires_at_seconds

It is called where connections are made, on the driver and on the executors, and its token is used for 0.8 of
its life in that process.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spark_kafkawire.errors import AuthenticationError, OptionError, printable, quoted
from spark_kafkawire.net.transport import Deadline

from .bounded import within
from .token import Token, is_token

OPTION: Final = "saslTokenProvider"
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_FORM: Final = "(token, expires_at_seconds[, principal, extensions])"
#: Times after this one are in milliseconds: as seconds they are in the year 5138.
_SECONDS_MAX: Final = 1e11


@dataclass(frozen=True, slots=True)
class TokenProvider:
    """A function, by its module and its name in there: settings travel, functions do not."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise OptionError(
                f"option {OPTION}: {quoted(self.name)} is not of the form package.module:function; "
                "name a function in Python, such as my_company.tokens:kafka_token"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """No secrets: a name is not one."""
        return ()

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token of the function.

        Raises ``AuthenticationError`` (fatal), which shows no text of the function: that may hold a secret.
        ``RequestTimedOut`` (retriable) if the function does not end in time.
        """
        return within(deadline, self._said(""), self._called)

    def _called(self) -> Token:
        function = self._function()
        try:
            inspect.signature(function).bind()
            arguments: tuple[str, ...] = ()
        except (TypeError, ValueError):  # oauth_cb has an argument: the property sasl.oauthbearer.config
            arguments = ("",)
        try:
            found = function(*arguments)
        except BaseException as error:  # also SystemExit: it would end a thread of ours alone
            failure = _described(error)
        else:
            return self._token_in(found)
        # Outside of the handler, so that the error with its text is not the context of this one.
        raise self._failed(f"raised {failure}; correct the function")

    def _function(self) -> Any:
        module, _, path = self.name.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except BaseException as error:
            failure = _described(error)
        else:
            if callable(found):
                return found
            raise self._failed("is not a function; name one as package.module:function")
        raise self._failed(
            f"cannot be imported: {failure}; the module must be importable on the driver and on the "
            "executors: send it with --py-files"
        )

    def _token_in(self, found: object) -> Token:
        if not isinstance(found, tuple | list) or len(found) not in (2, 3, 4):
            raise self._failed(f"returned something else than {_FORM}; correct its return")
        token, expires_at_s, *more = found
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

    def _extensions_in(self, found: object) -> tuple[tuple[str, str], ...]:
        pairs = tuple(found.items()) if isinstance(found, Mapping) else () if found is None else None
        if pairs is None or not all(is_extension(name, value) for name, value in pairs):
            raise self._failed(
                "returned extensions that are not a dict of names, letters only, and texts; correct them"
            )
        return pairs

    def _failed(self, problem: str) -> AuthenticationError:
        return AuthenticationError(self._said(problem))

    def _said(self, problem: str) -> str:
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


def _described(error: BaseException) -> str:
    """The class of an error, and the line that raised it. Its text may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return (
        f"{printable(type(error).__name__)}{printable(place)} (its text is not shown: it may hold a secret)"
    )
