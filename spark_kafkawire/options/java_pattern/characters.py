"""Sets of characters as Java has them, where no flag says Unicode."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from .nodes import CharTest, PlaceTest
from .signs import PatternError

#: What ends a line. Names hold none of them where brokers keep their own rules.
LINE_ENDS: Final = frozenset("\n\r\x85\u2028\u2029")
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_SPACE: Final = frozenset(" \t\n\x0b\f\r")
_HORIZONTAL: Final = frozenset(
    " \t\xa0\u1680\u180e\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
_VERTICAL: Final = frozenset("\n\x0b\f\r\x85\u2028\u2029")
_ASCII: Final = frozenset(map(chr, range(128)))
_PRINTED: Final = frozenset(map(chr, range(0x21, 0x7F)))

#: ``\d`` and the like; in capitals they mean all others.
SHORTHANDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"d": frozenset(string.digits), "w": _WORD, "s": _SPACE, "h": _HORIZONTAL, "v": _VERTICAL}
)
#: ``\p{Alpha}`` and the like: POSIX, ASCII alone.
POSIX: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "Lower": frozenset(string.ascii_lowercase),
        "Upper": frozenset(string.ascii_uppercase),
        "ASCII": _ASCII,
        "Alpha": frozenset(string.ascii_letters),
        "Digit": frozenset(string.digits),
        "Alnum": frozenset(string.ascii_letters + string.digits),
        "Punct": frozenset(string.punctuation),
        "Graph": _PRINTED,
        "Print": _PRINTED | {" "},
        "Blank": frozenset(" \t"),
        "Cntrl": frozenset(map(chr, [*range(0x20), 0x7F])),
        "XDigit": frozenset(string.hexdigits),
        "Space": _SPACE,
    }
)


def one_of(signs: frozenset[str]) -> CharTest:
    """The characters of a set."""
    return signs.__contains__


def single(sign: str, ignores_case: bool) -> CharTest:
    """One character; of ASCII's letters both cases where case is ignored."""
    if ignores_case and sign.isascii():
        return one_of(frozenset((sign.lower(), sign.upper())))
    return one_of(frozenset((sign,)))


def between(first: str, last: str, ignores_case: bool) -> CharTest:
    """A range, both ends included."""
    if not ignores_case:
        return lambda sign: first <= sign <= last
    return lambda sign: (
        first <= sign <= last
        or (sign.isascii() and (first <= sign.upper() <= last or first <= sign.lower() <= last))
    )


def of_category(name: str) -> CharTest:
    """The characters of a general category, or of all that begin with its letter.

    The test raises ``PatternError`` for one that Python's Unicode does not assign: Java's may be newer.
    """

    def test(sign: str) -> bool:
        found = unicodedata.category(sign)
        if found == "Cn":
            raise PatternError(
                f"Unicode {unicodedata.unidata_version} has no U+{ord(sign):04X}, which is in the name"
            )
        return found.startswith(name)

    return test


def none_of(test: CharTest) -> CharTest:
    """All others."""
    return lambda sign: not test(sign)


def any_of(tests: Iterable[CharTest]) -> CharTest:
    """What is in one of the sets."""
    found = tuple(tests)
    return found[0] if len(found) == 1 else lambda sign: any(test(sign) for test in found)


def all_of(tests: Iterable[CharTest]) -> CharTest:
    """What is in each of the sets."""
    found = tuple(tests)
    return found[0] if len(found) == 1 else lambda sign: all(test(sign) for test in found)


def any_but_line_ends(sign: str) -> bool:
    """What ``.`` means unless the flag s is set."""
    return sign not in LINE_ENDS


def at_start(_text: str, pos: int) -> bool:
    """``^`` and ``\\A``"""
    return pos == 0


def at_very_end(text: str, pos: int) -> bool:
    """``\\z``"""
    return pos == len(text)


def at_end(text: str, pos: int) -> bool:
    """``$`` and ``\\Z``: at the end, or before the line end that the text ends with."""
    rest = text[pos : pos + 3]
    return rest in ("", "\r\n") or (
        len(rest) == 1 and rest in LINE_ENDS and not (rest == "\n" and text[:pos].endswith("\r"))
    )


def at_word_edge(text: str, pos: int) -> bool:
    """``\\b``"""
    return (pos > 0 and text[pos - 1] in _WORD) != (pos < len(text) and text[pos] in _WORD)


def not_at_word_edge(text: str, pos: int) -> bool:
    """``\\B``"""
    return not at_word_edge(text, pos)


#: Escapes that are places.
PLACES: Final[Mapping[str, PlaceTest]] = MappingProxyType(
    {"A": at_start, "z": at_very_end, "Z": at_end, "b": at_word_edge, "B": not_at_word_edge}
)
