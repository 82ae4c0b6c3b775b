"""Topic names in error messages, for both generations: unknown topics, and suggestions of similar names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..errors import UnknownTopicError, close_matches, list_some, printable

#: Most topics in one error message, which is one line.
NAMES_COUNT_MAX: Final = 10


def unknown_topics(missing: Sequence[str], known: Sequence[str]) -> UnknownTopicError:
    """The error for unknown topics, which suggests similar names."""
    meant = meant_topics(missing, known) or "; create it, or correct its name"
    return UnknownTopicError(f"no broker holds the topic {names_of(missing)}{meant}")


def meant_topics(missing: Sequence[str], known: Iterable[str]) -> str:
    """A suggestion of known topics with similar names, as the end of an error; empty if none is similar."""
    known = tuple(known)
    close = [name for topic in missing[:NAMES_COUNT_MAX] for name in close_matches(topic, known)]
    *others, last = list(dict.fromkeys(close))[:NAMES_COUNT_MAX] or [""]
    named = f"{', '.join(map(printable, others))} or {printable(last)}" if others else printable(last)
    return f"; did you mean {named}?" if last else ""


def names_of(names: Sequence[str]) -> str:
    """Topic names as an error lists them."""
    return list_some(names, NAMES_COUNT_MAX, printable)
