"""Topics as errors name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..errors import UnknownTopicError, lookalikes, shown

#: Topics that an error names, so that its one line can be read.
NAMES_COUNT_MAX: Final = 10


def unknown_topics(missing: Sequence[str], known: Sequence[str]) -> UnknownTopicError:
    """The error for topics that are not among the known ones; it names those that look alike."""
    close = [name for topic in missing[:NAMES_COUNT_MAX] for name in lookalikes(topic, known)]
    names = list(dict.fromkeys([*close, *known]))
    there_are = f"; there are {names_of(names)}" if names else ""
    return UnknownTopicError(f"no broker holds the topic {names_of(missing)}{there_are}")


def names_of(names: Sequence[str]) -> str:
    """Topics as an error names them."""
    more = len(names) - NAMES_COUNT_MAX
    return ", ".join(map(shown, names[:NAMES_COUNT_MAX])) + (f" and {more} more" if more > 0 else "")
