r"""Regular expressions of ``subscribePattern``, with their meaning in Java, as in Spark's own connector.

    JavaPattern(r"^orders-[a-z]+\.v\d(?<!-dev)$").is_found_in("orders-eu.v2")

==============  ===================================================================
characters      ``a  .  \.  \Qa.b\E  [a-z_]  [^a-z]  \d  \w  \s  \D  \W  \S``
places          ``^  $  \A  \z  \Z  \b  \B``
groups          ``(a|b)  (?:a|b)  (?i:a)``, and ``(?i)`` up to the end of one
lookaround      ``(?=a)  (?!a)  (?<=a)  (?<!a)``
repetitions     ``*  +  ?  {n}  {n,}  {n,m}``, and the lazy ones (``*?``)
==============  ===================================================================

Everything else is refused by name, so that no pattern picks other topics than in Java. None of these
constructs remembers its match, so the order in which Java tries alternatives does not affect the result.
Therefore this module needs no backtracking. A set of places in a name is a number, whose bit ``i`` is the
place before character ``i``; each part of a pattern turns all places where it may begin into all where it may
end.

Topic names of Kafka 0.7 may have characters that are not ASCII. They are supported, except with ``\b``, and
except characters beyond U+FFFF, which Java splits into halves.

Source: java.util.regex.Pattern's documentation; the judge of the tests is the class itself.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

#: Longest name that is searched: the longest that any broker takes. Source: Kafka's Topic.java, 0.8.
NAME_SIZE_MAX: Final = 255
#: Longest pattern, characters; how deep its groups may be nested; most repetitions that it may count.
PATTERN_SIZE_MAX: Final = 10_000
DEPTH_MAX: Final = 50
COUNT_MAX: Final = 1000
#: Most parts that are tried in one name: at most some 50 ms. Patterns in use take a few hundred.
STEPS_MAX: Final = 100_000

#: Ends of a line. Names that follow the brokers' rules contain none of them.
_LINE_ENDS: Final = frozenset("\n\r\x85\u2028\u2029")
#: Stands for all other characters: no supported pattern distinguishes them.
_OTHER: Final = "\uffff"
_ALL: Final = frozenset({*map(chr, range(128)), *_LINE_ENDS, _OTHER})
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_SETS: Final = {"d": frozenset(string.digits), "w": _WORD, "s": frozenset(" \t\n\x0b\f\r")}
_ESCAPED_SETS: Final = _SETS | {sign.upper(): _ALL - signs for sign, signs in _SETS.items()}
#: Replacements for unsupported escapes.
_INSTEAD: Final = {
    **dict.fromkeys("k123456789", "back references are not read"),
    **dict.fromkeys("pP", "write a class, as [A-Za-z]"),
    "E": r"it has no \Q before it",
}
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_REPETITION: Final = re.compile(r"[*+?]|\{([0-9]{1,6})(?:(,)([0-9]{1,6})?)?\}")
_RANGE_END: Final = r"(\\[^a-zA-Z0-9]|[^][\\&^-])"
_RANGE: Final = re.compile(f"{_RANGE_END}-{_RANGE_END}", re.DOTALL)


class PatternError(ValueError):
    """A pattern is wrong or not supported. The message says what to write instead."""


class JavaPattern:
    """A pattern, ready to search names. Raises ``PatternError`` if it is wrong or not supported."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_SIZE_MAX:
            raise PatternError(
                f"it has {len(text)} characters, at most {PATTERN_SIZE_MAX} are read; shorten it"
            )
        if not text.isascii():
            raise PatternError("it has a character that is not ASCII, as no topic of Kafka has; write .")
        self._part = _Reader(text).pattern()

    def is_found_in(self, name: str) -> bool:
        """True if the pattern matches anywhere in a name of at most ``NAME_SIZE_MAX`` characters. Raises
        ``PatternError`` for a longer one, and where it takes more than ``STEPS_MAX`` steps."""
        if len(name) > NAME_SIZE_MAX:
            raise PatternError(
                f"a name of {len(name)} characters is longer than {NAME_SIZE_MAX}; use subscribe"
            )
        if max(name, default="") > "\uffff":
            raise PatternError(
                "a name has a character beyond U+FFFF, of which Java sees the halves; use subscribe"
            )
        looked_into = _Name(name)
        return self._part.ends(looked_into, looked_into.everywhere) != 0


class _Name:
    """A name, and the steps that are left for looking into it."""

    def __init__(self, text: str) -> None:
        self._is_ascii = text.isascii()
        self._signs = [sign if sign in _ALL else _OTHER for sign in text]
        self._known: dict[frozenset[str], int] = {}
        self._steps_left = STEPS_MAX
        self.everywhere = (2 << len(text)) - 1
        self.end = 1 << len(text)

    def before(self, signs: frozenset[str]) -> int:
        """The places before the characters of a set."""
        if signs not in self._known:
            self._known[signs] = sum(1 << pos for pos, sign in enumerate(self._signs) if sign in signs)
        return self._known[signs]

    def read_before_line_end(self) -> int:
        """The end, and the place before the line end that the name ends with."""
        if self._signs[-2:] == ["\r", "\n"]:
            return self.end | self.end >> 2
        return self.end | (self.before(_LINE_ENDS) & self.end >> 1)

    def word_edges(self) -> int:
        if not self._is_ascii:
            raise PatternError(
                r"\b and \B are supported only for ASCII names, because Java versions differ; remove them"
            )
        return (words := self.before(_WORD)) ^ words << 1

    def count_step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise PatternError(f"it takes more than {STEPS_MAX} steps to look into one name; simplify it")


class _Part(NamedTuple):
    """``ends`` turns places where the part may begin into those where it may end; in a look-ahead the other
    way round."""

    ends: Callable[[_Name, int], int]
    may_be_empty: bool


_PLACES: Final[Mapping[str, Callable[[_Name], int]]] = {
    "^": lambda _: 1,
    "$": _Name.read_before_line_end,
    r"\A": lambda _: 1,
    r"\z": lambda name: name.end,
    r"\Z": _Name.read_before_line_end,
    r"\b": _Name.word_edges,
    r"\B": lambda name: name.everywhere ^ name.word_edges(),
}


def _place(find: Callable[[_Name], int]) -> _Part:
    return _Part(lambda name, places: places & find(name), may_be_empty=True)


def _one(signs: frozenset[str], is_backward: bool) -> _Part:
    if is_backward:
        return _Part(lambda name, places: places >> 1 & name.before(signs), may_be_empty=False)
    return _Part(lambda name, places: (places & name.before(signs)) << 1, may_be_empty=False)


def _sequence(parts: Sequence[_Part]) -> _Part:
    def ends(name: _Name, places: int) -> int:
        for part in parts:
            name.count_step()
            places = part.ends(name, places)
            if not places:
                break
        return places

    return _Part(ends, all(part.may_be_empty for part in parts))


def _choice(parts: Sequence[_Part]) -> _Part:
    def ends(name: _Name, places: int) -> int:
        result = 0
        for part in parts:
            result |= part.ends(name, places)
        return result

    return parts[0] if len(parts) == 1 else _Part(ends, any(part.may_be_empty for part in parts))


def _repeat_part(part: _Part, low: int, high: int | None) -> _Part:
    def ends(name: _Name, places: int) -> int:
        for _ in range(low):
            name.count_step()
            places = part.ends(name, places)
        result, count = places, low
        while places and count != high:
            name.count_step()
            places = part.ends(name, places) & ~result
            result, count = result | places, count + 1
        return result

    return _Part(ends, low == 0 or part.may_be_empty)


def _look(part: _Part, is_negative: bool) -> _Part:
    def ends(name: _Name, places: int) -> int:
        result = part.ends(name, name.everywhere)
        return places & (~result if is_negative else result)

    return _Part(ends, may_be_empty=True)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._pos, self._depth = _QUOTED.sub(_unquote, text), 0, 0
        self._ignores_case = self._is_backward = self._is_behind = False

    def pattern(self) -> _Part:
        part = self._alternatives()
        if self._pos < len(self._text):
            raise PatternError("a closing ) has no opening one; write \\)")
        return part

    def _sees(self, *tokens: str) -> bool:
        return self._text.startswith(tokens, self._pos)

    def _took(self, token: str) -> bool:
        result = self._sees(token)
        self._pos += len(token) * result
        return result

    def _next(self) -> str:
        if self._pos == len(self._text):
            raise PatternError("it is incomplete; add what must follow its end")
        self._pos += 1
        return self._text[self._pos - 1]

    def _alternatives(self) -> _Part:
        """Up to the end of the group. ``(?i)`` inside holds up to there, too."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise PatternError(f"its groups are nested deeper than {DEPTH_MAX} levels; simplify it")
        outer, parts = self._ignores_case, [self._parts()]
        while self._took("|"):
            parts.append(self._parts())
        self._ignores_case = outer
        self._depth -= 1
        return _choice(parts)

    def _parts(self) -> _Part:
        parts: list[_Part] = []
        while self._pos < len(self._text) and not self._sees("|", ")"):
            if self._took("(?i)"):
                self._ignores_case = True
            else:
                parts.append(self._place_or_look() or self._repetition(self._group_or_one()))
        return _sequence(parts[::-1] if self._is_backward else parts)

    def _place_or_look(self) -> _Part | None:
        """A part that takes no character; None if another kind of part follows."""
        if look := next((token for token in ("(?=", "(?!", "(?<=", "(?<!") if self._took(token)), None):
            part = self._look(is_behind="<" in look, is_negative="!" in look)
        elif location := next((token for token in _PLACES if self._took(token)), None):
            part = _place(_PLACES[location])
        else:
            return None
        if self._sees("*", "+", "?", "{"):
            raise PatternError("an anchor such as ^ or \\b cannot be repeated; remove the repetition")
        return part

    def _look(self, *, is_behind: bool, is_negative: bool) -> _Part:
        outer = self._is_backward, self._is_behind
        # A lookahead is followed back from all places where it may end to those where it begins.
        self._is_backward = not is_behind
        self._is_behind |= is_behind
        part = self._closed()
        self._is_backward, self._is_behind = outer
        return _look(part, is_negative)

    def _group_or_one(self) -> _Part:
        if self._sees("("):
            return self._group()
        if self._sees("*", "+", "?", "{"):
            raise PatternError(f"nothing is before a {self._next()} that it could repeat; write \\ before it")
        if self._took("["):
            signs = self._class()
        elif self._took("."):
            signs = _ALL - _LINE_ENDS
        else:
            signs = self._escaped() if self._took("\\") else frozenset(self._next())
        return _one(self._fold_cases(signs), self._is_backward)

    def _group(self) -> _Part:
        outer = self._ignores_case
        if self._took("(?i:"):
            self._ignores_case = True
        elif not self._took("(?:"):
            self._next()
            if self._sees("?"):
                raise PatternError(
                    f"({self._text[self._pos : self._pos + 10]} is not read; groups are (...), (?:...), "
                    "(?i:...), (?=...), (?!...), (?<=...) and (?<!...), and the only flag is (?i)"
                )
        part = self._closed()
        self._ignores_case = outer
        return part

    def _closed(self) -> _Part:
        part = self._alternatives()
        if not self._took(")"):
            raise PatternError("a ( is not closed; close it with ), or write \\( for the character")
        return part

    def _repetition(self, part: _Part) -> _Part:
        match = _REPETITION.match(self._text, self._pos)
        if match is None:
            if self._sees("{"):
                raise PatternError(
                    f"a repetition is not {{n}}, {{n,}} or {{n,m}} with numbers up to {COUNT_MAX}; correct "
                    "it, or write \\{ for the character"
                )
            return part
        self._pos = match.end()
        low, high = _counts(match)
        if self._is_behind:  # Java takes some of those that have a maximum
            raise PatternError(
                "a repetition in a (?<=...) or (?<!...) is not read; write it out, as (?<=a|aa)"
            )
        if not self._took("?") and self._sees("+"):
            raise PatternError("a possessive repetition (as a*+) is not read; leave its last + out")
        if self._sees("*", "+", "?", "{"):
            raise PatternError("two repetitions follow each other; put the first one into (?:...)")
        if low > 1 and part.may_be_empty:  # Java ends the repetition after a round that is empty
            raise PatternError("what may be empty is repeated at least twice; write * or + for the count")
        return _repeat_part(part, low, high)

    def _class(self) -> frozenset[str]:
        is_negative, begin = self._took("^"), self._pos
        signs: set[str] = set()
        if self._sees("]"):
            raise PatternError("a class begins with ]; write \\] for the character")
        while not self._took("]"):
            if match := _RANGE.match(self._text, self._pos):
                first, last = match[1][-1], match[2][-1]
                if last < first:
                    raise PatternError("a range in a class runs backwards; write \\- for the character")
                signs.update(map(chr, range(ord(first), ord(last) + 1)))
                self._pos = match.end()
            elif self._took("\\"):
                signs |= self._escaped()
            else:
                signs.add(self._plain_in_class(begin))
        result = self._fold_cases(frozenset(signs))
        return _ALL - result if is_negative else result

    def _plain_in_class(self, begin: int) -> str:
        is_first, sign = self._pos == begin, self._next()
        if sign in "[&^":
            raise PatternError(f"{sign} in a class is not read; write \\{sign} for the character")
        if sign == "-" and not self._sees("]") and (not is_first or self._sees("-")):
            raise PatternError("a - in a class is neither of a range nor at an end; write \\-")
        return sign

    def _escaped(self) -> frozenset[str]:
        sign = self._next()
        if not sign.isalnum():
            return frozenset(sign)
        if sign not in _ESCAPED_SETS:
            advice = _INSTEAD.get(sign, "write the character itself, or a class, as [A-Za-z]")
            raise PatternError(f"\\{sign} is not read; {advice}")
        return _ESCAPED_SETS[sign]

    def _fold_cases(self, signs: frozenset[str]) -> frozenset[str]:
        if not self._ignores_case:
            return signs
        return frozenset(case for sign in signs for case in (sign.lower(), sign.upper()))


def _unquote(match: re.Match[str]) -> str:
    r"""The text between ``\Q`` and ``\E``, without these; another escape is unchanged."""
    if match[1] is None:
        return match[0]
    return "".join(f"[{sign}]" if sign.isalnum() else f"\\{sign}" for sign in match[1])


def _counts(match: re.Match[str]) -> tuple[int, int | None]:
    """Lowest and highest number of a repetition; None if unlimited."""
    fewest, comma, most = match.groups()
    if fewest is None:
        return int(match[0] == "+"), 1 if match[0] == "?" else None
    low = int(fewest)
    high = int(most) if most else None if comma else low
    if max(low, high or 0) > COUNT_MAX or (high is not None and high < low):
        raise PatternError(
            f"a repetition runs backwards, or counts more than {COUNT_MAX}; correct its numbers"
        )
    return low, high
