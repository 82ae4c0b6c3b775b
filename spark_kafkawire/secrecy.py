"""Secrets that this process uses, and their removal from messages and logs.

Errors show no text of a peer while the client logs in, because a peer can spell a secret in any way. Besides,
no message contains a secret as it is or escaped:

- A secret of ``REPLACED_SIZE_MIN`` characters or more is replaced wherever it occurs (``hide_long_secrets``).
- A foreign text that contains a shorter one is withheld completely (``without_secrets``). A replacement would
  garble names that contain the secret by accident, and would reveal it by the gaps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Final
from urllib.parse import quote

#: The replacement of a long secret.
HIDDEN: Final = "[hidden]"
#: The replacement of a foreign text that contains a short secret.
WITHHELD: Final = "(text withheld: it contains a secret)"
#: Secrets that are remembered. A process logs in to few clusters, but renews its tokens many times.
KEPT_COUNT_MAX: Final = 64
#: Length from which on a secret is replaced instead of the text around it, characters.
REPLACED_SIZE_MIN: Final = 8

#: Each secret with the spellings that messages may contain, the oldest first.
_kept: Final[dict[str, tuple[str, ...]]] = {}


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a client. Plain data, hashable: it travels to the executors. Secrets are in no
    repr."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a peer repeats them: those that are in no repr, and
        those of credentials in a field."""
        result: list[str] = []
        for item in fields(self):
            value = getattr(self, item.name)
            result += getattr(value, "secrets", ()) if item.repr else filter(None, [value])
        return tuple(result)


def keep_secret(*secrets: str | None) -> None:
    """Hide these secrets in all later messages of this process."""
    # Each step is a single operation of Python's, so threads need no lock.
    for secret in filter(None, secrets):
        _kept.pop(secret, None)
        _kept[secret] = _spellings(secret)
    for oldest in list(_kept)[:-KEPT_COUNT_MAX]:
        _kept.pop(oldest, None)


def forget_secrets() -> None:
    """Forget all secrets: the connections that used them are closed."""
    _kept.clear()


def without_secrets(text: str) -> str:
    """A foreign text without secrets: long ones are replaced by ``HIDDEN``, and a text with a short one by
    ``WITHHELD``."""
    for secret, spellings in list(_kept.items()):
        if len(secret) < REPLACED_SIZE_MIN and any(spelling in text for spelling in spellings):
            return WITHHELD
    return hide_long_secrets(text)


def beginning_without_secrets(beginning: str) -> str:
    """The beginning of a longer foreign text, without secrets.

    Its end may be a part of a secret, so it is left out as far as the longest secret reaches.
    """
    longest = max((len(item) for spellings in list(_kept.values()) for item in spellings), default=0)
    result = without_secrets(beginning)
    return result[: max(len(result) - longest, 0)]


def hide_long_secrets(message: str) -> str:
    """A whole message with each long secret replaced by ``HIDDEN``.

    The words of this package in a message may contain a short secret, such as ``kafka``, by accident. So only
    the foreign texts of a message are searched for short secrets.
    """
    for secret, spellings in list(_kept.items()):
        if len(secret) >= REPLACED_SIZE_MIN:
            for spelling in spellings:
                if spelling in message:
                    message = message.replace(spelling, HIDDEN)
    return message


def _spellings(secret: str) -> tuple[str, ...]:
    """The spellings of a secret in messages, the longest first."""
    result = {
        spelling
        for item in (secret, secret.lower(), secret.upper())  # words of options are shown without their case
        for spelling in (
            item,
            repr(item)[1:-1],
            ascii(item)[1:-1],
            json.dumps(item)[1:-1],
            quote(item, safe="", errors="replace"),
        )
    }
    return tuple(sorted(result, key=len, reverse=True))
