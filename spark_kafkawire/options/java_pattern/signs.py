"""The characters of a pattern, read one after the other."""

from __future__ import annotations

from dataclasses import dataclass


class PatternError(ValueError):
    """A pattern is wrong, or is not read here. The message tells what to write instead."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """A character of the pattern; ``is_plain`` where it stands for itself (between ``\\Q`` and ``\\E``)."""

    text: str
    is_plain: bool = False


class Signs:
    """Reads from the first sign of a pattern to the last, each once."""

    def __init__(self, text: str) -> None:
        self._signs = _signs(text)
        self._pos = 0

    @property
    def is_done(self) -> bool:
        return self._pos == len(self._signs)

    @property
    def _seen(self) -> str:
        return self._signs[self._pos].text

    def _sees(self, sign: str, ahead: int = 0) -> bool:
        pos = self._pos + ahead
        return pos < len(self._signs) and self._signs[pos] == _Sign(sign)

    def _took(self, sign: str) -> bool:
        seen = self._sees(sign)
        self._pos += seen
        return seen

    def _next(self) -> str:
        if self.is_done:
            raise PatternError("it ends where something must follow")
        self._pos += 1
        return self._signs[self._pos - 1].text

    def _next_is(self, sign: str) -> None:
        if not self._took(sign):
            raise PatternError(f"a {sign} is missing")

    def _up_to(self, sign: str) -> str:
        found = ""
        while not self._took(sign):
            found += self._next()
        return found


def _signs(text: str) -> list[_Sign]:
    """The characters, those between ``\\Q`` and ``\\E`` marked, without these signs themselves."""
    found, pos, plain = [], 0, False
    while pos < len(text):
        pair = text[pos : pos + 2]
        if pair == ("\\E" if plain else "\\Q"):
            plain, pos = not plain, pos + 2
        elif not plain and len(pair) == 2 and pair[0] == "\\":
            found += [_Sign(pair[0]), _Sign(pair[1])]
            pos += 2
        else:
            found.append(_Sign(text[pos], plain))
            pos += 1
    return found
