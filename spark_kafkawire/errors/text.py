"""Foreign text in messages: cut, and printable, so that the rest of the line can still be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Final, TypeVar

from ..secrecy import beginning_without_secrets, hide_long_secrets, without_secrets

T = TypeVar("T")

#: Characters of one foreign text (a host, a topic, a peer's message, an option's value) that are shown.
TEXT_SIZE_MAX: Final = 200
#: Most characters of a message, and of its end, which says what to do.
MESSAGE_SIZE_MAX: Final = 4000
_END_SIZE: Final = 1000
#: Characters (or bytes) of a foreign text that are searched for secrets.
PROSE_SIZE_MAX: Final = 10_000
#: Names that ``close_matches`` compares, and their characters: at worst some 0.2 s.
_COMPARED_COUNT_MAX: Final = 500
_COMPARED_SIZE_MAX: Final = 64


def printable(text: object) -> str:
    """A foreign text as part of one line: unprintable characters are escaped, and a long text is cut to
    ``TEXT_SIZE_MAX`` characters.

    Printable text stays as it is, whatever its script. ``bytes`` are taken for UTF-8. Secrets are hidden
    before the text is cut, so that no part of a secret is left.
    """
    if isinstance(text, bytes | bytearray | memoryview):
        size, unit = len(text), "bytes"
        text = bytes(text[:PROSE_SIZE_MAX]).decode("utf-8", "backslashreplace")
    else:
        text = str(text)
        size, unit = len(text), "characters"
    is_whole = size <= PROSE_SIZE_MAX
    plain = without_secrets(text) if is_whole else beginning_without_secrets(text[:PROSE_SIZE_MAX])
    line = _printable(plain[: TEXT_SIZE_MAX + 1])
    return line if is_whole and len(line) <= TEXT_SIZE_MAX else f"{line[:TEXT_SIZE_MAX]}… ({size} {unit})"


def quoted(text: object) -> str:
    """A foreign text as ``printable``, in quotation marks, because it may be empty or end in a blank."""
    return f"'{printable(text)}'"


def plural(count: int, one: str, many: str | None = None) -> str:
    """The form of a word that goes with a count; ``many`` is ``one`` and an s unless it is given."""
    return one if count == 1 else many or f"{one}s"


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 partition``, ``2 partitions``"""
    return f"{count} {plural(count, one, many)}"


def listed_some(names: Collection[T], count_max: int, show: Callable[[T], str] = str) -> str:
    """``a, b and 3 more``: the first ``count_max`` names as ``show`` prints them, and the count of others."""
    more = len(names) - count_max
    return ", ".join(map(show, islice(names, count_max))) + (f" and {more} more" if more > 0 else "")


def peer_text(prose: str | bytes) -> str:
    """Quote a peer's own words, without secrets of ours. Do not use it during a login: there no words of a
    peer are shown."""
    return quoted(prose)


def one_line(message: str) -> str:
    """A whole message as one printable line of at most ``MESSAGE_SIZE_MAX`` characters, its beginning and
    its end. Other lines are unchanged."""
    message = hide_long_secrets(message)
    if len(message) <= MESSAGE_SIZE_MAX and message.isprintable():
        return message
    line = _printable(message[:MESSAGE_SIZE_MAX])
    if len(message) <= MESSAGE_SIZE_MAX and len(line) <= MESSAGE_SIZE_MAX:
        return line
    left_out = f"… ({len(message)} characters) …"
    end = _printable(message[-_END_SIZE:])[-_END_SIZE:]
    return line[: MESSAGE_SIZE_MAX - len(left_out) - len(end)] + left_out + end


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")


def close_matches(name: str, known: Iterable[str], count: int = 3, likeness: float = 0.6) -> list[str]:
    """Known names that resemble an unknown one, the best match first.

    The time of a comparison grows at least with the square of the names' length: long names have no match,
    and of many known names only the first ones are compared.
    """
    if len(name) > _COMPARED_SIZE_MAX:
        return []
    compared = list(islice((each for each in known if len(each) <= _COMPARED_SIZE_MAX), _COMPARED_COUNT_MAX))
    import difflib  # where something is wrong alone

    return difflib.get_close_matches(name, compared, count, likeness)
