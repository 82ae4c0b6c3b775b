"""The secrets that this process uses, so that no text of a peer carries one of them into an error.

A peer that was sent a secret may send it back, as it is or spelled otherwise: quoted, escaped for JSON, Java,
HTML or a URL, in base 64 or in hexadecimal digits, with blanks or line ends inside, or a piece of it.
So a peer's prose is looked through in all these readings, and is not shown at all where it holds a secret
(``holds_secret``); and no message holds one as it is, wherever it came from (``without_secrets``).

What remains: a peer that means to can spell a secret in a way of its own. It has the secret anyway.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_plus

#: What stands for what is not shown.
HIDDEN: Final = "[hidden]"
#: Secrets that are remembered; one process logs in to few clusters, but gets tokens again and again.
KEPT_COUNT_MAX: Final = 64
#: Characters of a prose that are looked through; more are shown nowhere.
PROSE_SIZE_MAX: Final = 1000
#: A piece of a secret of so many characters gives it away.
PIECE_SIZE: Final = 8
#: Shorter secrets stand in names by accident: there they are not replaced.
REPLACED_SIZE_MIN: Final = 8
#: How deep spellings may be nested.
_DEPTH: Final = 2


@dataclass(frozen=True, slots=True)
class _Traces:
    """What gives a secret away: how it stands in messages, and its pieces, all of one size."""

    spellings: tuple[str, ...]
    pieces: frozenset[str]
    piece_size: int

    @classmethod
    def of(cls, secret: str) -> _Traces:
        plain = _plain(secret)
        size = min(PIECE_SIZE, len(plain))
        pieces = frozenset(plain[pos : pos + size] for pos in range(len(plain) - size + 1))
        return cls(_spellings(secret), pieces, size)

    def are_in(self, reading: str) -> bool:
        """Whether a text holds one of the pieces."""
        size, pieces = self.piece_size, self.pieces
        return any(reading[pos : pos + size] in pieces for pos in range(len(reading) - size + 1))


#: Secrets by age.
_kept: Final[dict[str, _Traces]] = {}


def keep_secret(*secrets: str | None) -> None:
    """From now on these are shown nowhere, in this process."""
    # Each step is one of Python's, so that threads need no lock.
    for secret in filter(None, secrets):
        _kept.pop(secret, None)
        _kept[secret] = _Traces.of(secret)
    for oldest in list(_kept)[:-KEPT_COUNT_MAX]:
        _kept.pop(oldest, None)


def forget_secrets() -> None:
    """Nothing is a secret any more: what used them is over."""
    _kept.clear()


def holds_secret(prose: str) -> bool:
    """Whether a peer's text may tell a secret, or a piece of one, in some spelling."""
    kept = list(_kept.values())
    if not kept:
        return False
    readings = {
        each for reading in _readings(prose[:PROSE_SIZE_MAX]) for each in (reading, _letters(reading))
    }
    return any(traces.are_in(reading) for traces in kept for reading in readings)


def without_secrets(message: str) -> str:
    """The message with each secret that stands in it, as it is or escaped, replaced by ``HIDDEN``."""
    for traces in list(_kept.values()):
        for spelling in traces.spellings:
            if spelling in message:
                message = message.replace(spelling, HIDDEN)
    return message


def _spellings(secret: str) -> tuple[str, ...]:
    """How a secret stands in messages, the longest first; nothing for a short one."""
    if len(secret) < REPLACED_SIZE_MIN:
        return ()
    found = {
        secret,
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        json.dumps(secret)[1:-1],
        quote(secret, safe="", errors="replace"),
    }
    return tuple(sorted(found, key=len, reverse=True))


def _plain(text: str) -> str:
    """Letters and digits alone; all of a text that has too few of them to be known by."""
    letters = _letters(text)
    return letters if len(letters) >= PIECE_SIZE // 2 else text


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _readings(text: str, depth: int = _DEPTH) -> Iterator[str]:
    """The text, and what it says where it is read as one spelling or another."""
    yield text
    if depth:
        for read in _READERS:
            if (reading := read(text)) != text:
                yield from _readings(reading, depth - 1)


_ESCAPED: Final = (
    r"(?:u([0-9a-fA-F]{4})|[ux]\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-7]{3})|(.))"
)
_ESCAPE: Final = re.compile(rf"\\{_ESCAPED}", re.DOTALL)
#: Of what was escaped several times.
_ESCAPES: Final = re.compile(rf"\\+{_ESCAPED}", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{4,}")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2}[\s:,-]?){4,}")


def _unescaped(text: str) -> str:
    return _read_escapes(_ESCAPE, text)


def _unescaped_at_all(text: str) -> str:
    return _read_escapes(_ESCAPES, text)


def _read_escapes(escape: re.Pattern[str], text: str) -> str:
    # Java and JSON escape halves of surrogate pairs, C and Python's bytes the bytes of UTF-8.
    plain = escape.sub(_sign, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        of_bytes = plain.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return plain
    # Nobody says which of the two is meant.
    return plain if of_bytes == plain else f"{plain} {of_bytes}"


def _sign(match: re.Match[str]) -> str:
    *hexadecimal, octal, other = match.groups()
    if other:
        return _CONTROLS.get(other, other)
    code = int(octal, 8) if octal else int(next(filter(None, hexadecimal)), 16)
    return chr(code) if code < 0x110000 else ""


def _of_base64(text: str) -> str:
    """What all words say in base 64, wherever in a word it begins."""
    words = "".join(text.split())
    return " ".join(
        _bytes_of(run[start:]) for run in _BASE64.findall(words) for start in range(4) if len(run) > start + 3
    )


def _bytes_of(run: str) -> str:
    whole = run[: len(run) - len(run) % 4].replace("-", "+").replace("_", "/")
    ending = run[len(whole) :].replace("-", "+").replace("_", "/")
    ending = f"{ending:=<4}" if len(ending) > 1 else ""
    return base64.b64decode(whole + ending).decode("utf-8", "replace")


def _of_hex(text: str) -> str:
    runs = ("".join(filter(str.isalnum, run)) for run in _HEX.findall(text))
    return " ".join(binascii.unhexlify(run).decode("utf-8", "replace") for run in runs)


def _of_html(text: str) -> str:
    import html  # has a table of two thousand names, and few processes hold secrets

    return html.unescape(text)


_READERS: Final[tuple[Callable[[str], str], ...]] = (
    _unescaped,
    _unescaped_at_all,
    unquote_plus,
    _of_html,
    _of_base64,
    _of_hex,
)
