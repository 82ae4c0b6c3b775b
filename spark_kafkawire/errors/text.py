"""Foreign text in messages: cut, and printable, so that the rest of the line can still be read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from ..secrecy import HIDDEN, holds_secret, without_secrets

#: Characters of one foreign text (a host, a topic, a peer's message, an option's value) that are shown.
SHOWN_SIZE_MAX: Final = 200
#: Characters of a whole message, and of its end: what to do stands there.
MESSAGE_SIZE_MAX: Final = 4000
_END_SIZE: Final = 1000
#: Names that are looked through for one that may be meant, and their characters: at worst some 0.2 s.
_COMPARED_COUNT_MAX: Final = 500
_COMPARED_SIZE_MAX: Final = 64


def shown(text: object) -> str:
    """A foreign text as part of one line: what does not print is escaped, and what is long is cut to
    ``SHOWN_SIZE_MAX`` characters.

    Printable text stays as it is, whatever its script. ``bytes`` are taken for UTF-8.
    """
    if isinstance(text, bytes | bytearray | memoryview):
        size, unit = len(text), "bytes"
        text = bytes(text[: 4 * SHOWN_SIZE_MAX + 4]).decode("utf-8", "backslashreplace")
    else:
        text = str(text)
        size, unit = len(text), "characters"
    line = _printable(text[: SHOWN_SIZE_MAX + 1])
    return line if len(line) <= SHOWN_SIZE_MAX else f"{line[:SHOWN_SIZE_MAX]}… ({size} {unit})"


def quoted(text: object) -> str:
    """A foreign text as ``shown``, in quotation marks: for one that may be empty, or end in a blank."""
    return f"'{shown(text)}'"


def said(prose: str | bytes) -> str:
    """What a peer tells in its own words, quoted; not shown where it may hold a secret of ours."""
    text = prose.decode("utf-8", "backslashreplace") if isinstance(prose, bytes) else prose
    return HIDDEN if holds_secret(text) else quoted(text)


def one_line(message: str) -> str:
    """A whole message as one printable line of at most ``MESSAGE_SIZE_MAX`` characters, its beginning and
    its end. A line that is so already stays as it is."""
    message = without_secrets(message)
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


def lookalikes(name: str, known: Iterable[str], count: int = 3, likeness: float = 0.6) -> list[str]:
    """Those of the known names that may be meant by one that is not among them; the best one first.

    Comparing takes a time that grows with the square of the names and more: a long name is like none,
    and of many known ones only some are looked at.
    """
    if len(name) > _COMPARED_SIZE_MAX:
        return []
    compared = list(islice((each for each in known if len(each) <= _COMPARED_SIZE_MAX), _COMPARED_COUNT_MAX))
    import difflib  # where something is wrong alone

    return difflib.get_close_matches(name, compared, count, likeness)
