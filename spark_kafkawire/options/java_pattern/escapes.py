"""What a backslash and the signs after it mean in Java, and the flags that change the meaning."""

from __future__ import annotations

import re
from typing import Final

from . import characters as chars
from .nodes import CharTest, Place
from .signs import PatternError, Signs

_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
#: What to write instead of an escape that is not read here.
_INSTEAD: Final = {
    "G": "write ^", "R": r"write \v", "X": "write .", "N": r"write \x{...}",
    "k": "back references are not read", "E": r"it has no \Q before it",
}  # fmt: skip
#: Unicode's general categories, but for what no version of it has assigned yet (``Cn``).
_CATEGORY: Final = re.compile("L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfso]?")
#: How the number of a character is written.
_CODES: Final = {
    "0": re.compile(r"([0-3][0-7]{2}|[0-7]{1,2})"),
    "x": re.compile(r"(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\})"),
    "u": re.compile(r"([0-9a-fA-F]{4})"),
    "c": re.compile(r"([@-_])"),
}


class Escapes(Signs):
    """Reads the escapes of a pattern."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._flags: frozenset[str] = frozenset()

    def _escaped(self) -> str | CharTest | Place:
        """What a backslash and the signs after it mean: a character, a set, or a place."""
        sign = self._next()
        if not (sign.isascii() and sign.isalnum()):
            return sign
        if (small := sign.lower()) in chars.SHORTHANDS:
            test = chars.one_of(chars.SHORTHANDS[small])
            return test if sign == small else chars.none_of(test)
        if sign in chars.PLACES and not (sign == "b" and self._sees("{")):
            return Place(chars.PLACES[sign])
        if sign in "pP":
            test = self._property(sign)
            return test if sign == "p" else chars.none_of(test)
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign in "0xuc":
            return self._coded(sign)
        advice = _INSTEAD.get(sign, "back references are not read" if sign.isdigit() else "Java has none")
        raise PatternError(f"\\{sign} is not read; {advice}")

    def _property(self, sign: str) -> CharTest:
        """``\\p{Alpha}``, ``\\p{Lu}``, ``\\p{IsLu}`` and ``\\pL``; ``\\p{IsGreek}`` and ``\\p{InGreek}``."""
        name = self._up_to("}") if self._took("{") else self._next()
        key, equals, value = name.partition("=")
        if equals and key.lower() not in ("gc", "general_category"):
            return _of_unicode(name, {"sc": "script", "blk": "block"}.get(key.lower(), key.lower()), value)
        if name.startswith("In"):
            return _of_unicode(name, "block", name[2:])
        category = value if equals else name.removeprefix("Is")
        has_case = name in ("Lower", "Upper") or category in ("Lu", "Ll", "Lt")
        if not ("i" in self._flags and has_case):
            if name in chars.POSIX:
                return chars.one_of(chars.POSIX[name])
            if _CATEGORY.fullmatch(category):
                return chars.of_category(category)
            if name.startswith("Is"):
                return _of_unicode(name, "script", category)
        raise PatternError(
            f"\\{sign}{{...}} is read for POSIX (as Alpha), general categories (as Lu), scripts (as IsGreek) "
            "and blocks (as InGreek) alone, for cases of letters without the flag i; write a class, as "
            "[A-Za-z]"
        )

    def _coded(self, sign: str) -> str:
        """A character by its number: ``\\0377 \\xff \\x{1f600} \\uffff \\cA``."""
        rest = "".join(each.text for each in self._signs[self._pos : self._pos + 16] if not each.is_plain)
        match = _CODES[sign].match(rest)
        if match is None:
            raise PatternError(f"\\{sign} is not followed by the number of a character")
        self._pos += match.end()
        digits = next(filter(None, match.groups()))
        code = ord(digits) ^ 64 if sign == "c" else int(digits, 8 if sign == "0" else 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise PatternError(f"\\{sign} is followed by a number that is no character's; write \\x{{...}}")
        return chr(code)


def _of_unicode(name: str, kind: str, value: str) -> CharTest:
    """The characters of a script or a block; ``name`` is what the pattern has."""
    from .unicode_names import of_block, of_script  # long lists, which few patterns ask for

    test = of_script(value) if kind == "script" else of_block(value) if kind == "block" else None
    if test is None:
        raise PatternError(
            f"\\p{{{name[:40]}}} is no script or block of Unicode that Java knows, and of its other "
            "properties only general categories (as Lu) are read; write a class, as [A-Za-z]"
        )
    return test
