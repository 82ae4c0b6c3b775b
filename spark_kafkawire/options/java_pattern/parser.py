"""From the text of a pattern to its parts, as Java reads it or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from . import characters as chars
from .nodes import Atomic, CharTest, Choice, Look, Node, One, Place, Repeat, Sequence, may_idle, widths

#: Longest pattern, characters, and how deep its groups may be nested.
PATTERN_SIZE_MAX: Final = 10_000
_DEPTH_MAX: Final = 50
#: Most repetitions that a pattern may count.
_COUNT_MAX: Final = 1000
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_FLAGS: Final = "is"
#: What to write instead of an escape that is not read here.
_INSTEAD: Final = {
    "G": "write ^", "R": r"write \v", "X": "write .", "N": r"write \x{...}",
    "k": "back references are not read", "E": r"it has no \Q before it",
}  # fmt: skip


class PatternError(ValueError):
    """A pattern is wrong, or is not read here. The message tells what to write instead."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """A character of the pattern; ``is_plain`` where it stands for itself (between ``\\Q`` and ``\\E``)."""

    text: str
    is_plain: bool = False


def parse(text: str) -> Node:
    """Read a pattern. Raises ``PatternError``."""
    if len(text) > PATTERN_SIZE_MAX:
        raise PatternError(f"it has {len(text)} characters, at most {PATTERN_SIZE_MAX} are read")
    parser = _Parser(_signs(text))
    node = parser.alternatives(0)
    if not parser.is_done:
        raise PatternError("a closing ) has no opening one; write \\)")
    return node


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


class _Parser:
    """Reads from the first sign to the last, each once."""

    def __init__(self, signs: list[_Sign]) -> None:
        self._signs = signs
        self._pos = 0
        self._flags: frozenset[str] = frozenset()
        self._names: set[str] = set()

    @property
    def is_done(self) -> bool:
        return self._pos == len(self._signs)

    def alternatives(self, depth: int) -> Node:
        """Up to the end of the group. Flags that are set inside hold up to there, too."""
        if depth > _DEPTH_MAX:
            raise PatternError(f"its groups are nested deeper than {_DEPTH_MAX} levels")
        flags, parts = self._flags, [self._sequence(depth)]
        while self._took("|"):
            parts.append(self._sequence(depth))
        self._flags = flags
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self, depth: int) -> Node:
        parts = []
        while not self.is_done and not self._sees("|") and not self._sees(")"):
            part = self._atom(depth)
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self, depth: int) -> Node | None:
        """One part; None for flags alone."""
        if self._took("("):
            return self._group(depth)
        if self._took("["):
            return One(self._class(depth))
        if self._took("."):
            return One((lambda _: True) if "s" in self._flags else chars.any_but_line_ends)
        if self._took("^"):
            return Place(chars.at_start)
        if self._took("$"):
            return Place(chars.at_end)
        if self._took("\\"):
            return self._escape()
        if any(map(self._sees, "*+?")):
            raise PatternError(f"nothing is before a {self._seen} that it could repeat")
        if self._sees("{"):
            raise PatternError("{ begins a repetition; write \\{")
        return One(chars.single(self._next(), "i" in self._flags))

    def _group(self, depth: int) -> Node | None:
        if not self._took("?"):
            return self._closed(depth)
        if self._took(":"):
            return self._closed(depth)
        if self._took(">"):
            return self._atomic(self._closed(depth))
        if self._took("="):
            return Look(self._closed(depth), is_behind=False, is_negative=False)
        if self._took("!"):
            return Look(self._closed(depth), is_behind=False, is_negative=True)
        if self._took("<"):
            return self._behind_or_named(depth)
        return self._flag_group(depth)

    def _closed(self, depth: int) -> Node:
        node = self.alternatives(depth + 1)
        if not self._took(")"):
            raise PatternError("a ( is not closed; write \\( for the character")
        return node

    def _atomic(self, node: Node) -> Atomic:
        if may_idle(node):
            raise PatternError("what can be empty is repeated in (?>...); leave the ?> out")
        return Atomic(node)

    def _behind_or_named(self, depth: int) -> Node:
        if (negative := self._took("!")) or self._took("="):
            node = self._closed(depth)
            if widths(node)[1] is None:
                raise PatternError("a (?<...) looks behind without an end; give its repetitions a maximum")
            return Look(node, is_behind=True, is_negative=negative)
        name = self._up_to(">")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name) or name in self._names:
            raise PatternError("the name of a group is not letters and digits, or is there twice")
        self._names.add(name)
        return self._closed(depth)

    def _flag_group(self, depth: int) -> Node | None:
        """``(?i)`` up to the end of the group around it, ``(?i:...)`` for one of its own."""
        found = ""
        while not self.is_done and not self._sees(")") and not self._sees(":"):
            found += self._next()
        match = re.fullmatch(rf"([{_FLAGS}]*)(?:-([{_FLAGS}]+))?", found)
        if match is None:
            advice = "write (?<name>...)" if found.startswith("P") else f"only the flags {_FLAGS} are read"
            raise PatternError(f"(?{found[:20]} is not read; {advice}")
        outer = self._flags
        self._flags = (outer | set(match[1])) - set(match[2] or "")
        if self._took(")"):
            return None
        self._next_is(":")
        node = self._closed(depth)
        self._flags = outer
        return node

    def _repeated(self, part: Node) -> Node:
        low, high = 1, 1
        if self._took("*"):
            low, high = 0, -1
        elif self._took("+"):
            low, high = 1, -1
        elif self._took("?"):
            low, high = 0, 1
        elif self._took("{"):
            low, high = self._counts(self._up_to("}"))
        else:
            return part
        if isinstance(part, Place | Look):
            raise PatternError("a place (as ^ or \\b) is repeated; leave the repetition out")
        is_lazy = self._took("?")
        is_possessive = not is_lazy and self._took("+")
        if any(map(self._sees, "*+?{")):
            raise PatternError("two repetitions follow each other; put the first one into (?:...)")
        if is_possessive and not isinstance(part, One):  # in Java each round of its own is atomic there
            raise PatternError("a group is repeated possessively; write (?>...) around it and its repetition")
        repeat = Repeat(part, low, None if high < 0 else high, is_lazy)
        return Atomic(repeat) if is_possessive else repeat

    def _counts(self, text: str) -> tuple[int, int]:
        match = re.fullmatch(r"([0-9]{1,6})(?:(,)([0-9]{1,6})?)?", text)
        if match is None:
            raise PatternError("a repetition is not {n}, {n,} or {n,m}; write \\{ for the character")
        low = int(match[1])
        high = int(match[3]) if match[3] else -1 if match[2] else low
        if max(low, high) > _COUNT_MAX or 0 <= high < low:
            raise PatternError(f"a repetition runs backwards, or counts more than {_COUNT_MAX}")
        return low, high

    def _class(self, depth: int) -> CharTest:
        """What is between ``[`` and ``]``: sets, all of which a character must be in (``&&``)."""
        if depth > _DEPTH_MAX:
            raise PatternError(f"its classes are nested deeper than {_DEPTH_MAX} levels")
        negative, operands = self._took("^"), [self._operand(depth, first=True)]
        while self._took("&"):
            self._next_is("&")
            operands.append(self._operand(depth, first=False))
        self._next_is("]")
        test = chars.all_of(operands)
        return chars.none_of(test) if negative else test

    def _operand(self, depth: int, *, first: bool) -> CharTest:
        if any(map(self._sees, "]&^")):
            raise PatternError(f"a class, or a part of it, begins with {self._seen}; escape it")
        if not first and self._took("["):
            nested = self._class(depth + 1)
            if not self._sees("]") and not self._sees("&"):
                raise PatternError("[...] after && is followed by more; put both into one [...]")
            return nested
        tests: list[CharTest] = []
        while not self._sees("]") and not (self._sees("&") and self._sees("&", 1)):
            tests.append(
                self._class(depth + 1) if self._took("[") else self._item(is_first=first and not tests)
            )
        return chars.any_of(tests)

    def _item(self, *, is_first: bool) -> CharTest:
        """One character, a range, or a set by its name."""
        if self._sees("-") and not (is_first or self._sees("]", 1)):
            raise PatternError("a - in a class is neither of a range nor at an end; write \\-")
        start = self._class_sign()
        ignores_case = "i" in self._flags
        if not self._sees("-") or self._sees("]", 1):
            return start if callable(start) else chars.single(start, ignores_case)
        self._next()
        if any(map(self._sees, "[&-")):
            raise PatternError("a range in a class ends with [, & or -; escape it")
        stop = self._class_sign()
        if callable(start) or callable(stop) or stop < start:
            raise PatternError(
                "a range in a class runs backwards, or from or to a set; write \\- for the character"
            )
        return chars.between(start, stop, ignores_case)

    def _class_sign(self) -> str | CharTest:
        if not self._took("\\"):
            return self._next()
        found = self._escaped()
        if isinstance(found, Place):
            raise PatternError("a place (as \\b) is in a class")
        return found

    def _escape(self) -> Node:
        found = self._escaped()
        if isinstance(found, Place):
            return found
        return One(found if callable(found) else chars.single(found, "i" in self._flags))

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
            return self._posix(sign)
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign in "0xuc":
            return self._coded(sign)
        advice = _INSTEAD.get(sign, "back references are not read" if sign.isdigit() else "Java has none")
        raise PatternError(f"\\{sign} is not read; {advice}")

    def _posix(self, sign: str) -> CharTest:
        name = self._up_to("}") if self._took("{") else ""
        if name not in chars.POSIX or ("i" in self._flags and name in ("Lower", "Upper")):
            raise PatternError(
                f"\\{sign}{{...}} is read for {', '.join(chars.POSIX)} alone (without the flag i); write a "
                "class, as [A-Za-z]"
            )
        test = chars.one_of(chars.POSIX[name])
        return test if sign == "p" else chars.none_of(test)

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


_CODES: Final = {
    "0": re.compile(r"([0-3][0-7]{2}|[0-7]{1,2})"),
    "x": re.compile(r"(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\})"),
    "u": re.compile(r"([0-9a-fA-F]{4})"),
    "c": re.compile(r"([@-_])"),
}
