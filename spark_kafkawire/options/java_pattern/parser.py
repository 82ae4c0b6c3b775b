"""From the text of a pattern to its parts, as Java reads it or not at all."""

from __future__ import annotations

import re
from typing import Final

from . import characters as chars
from .classes import DEPTH_MAX, Classes
from .nodes import Atomic, Choice, Look, Node, One, Place, Repeat, Sequence, may_repeat_empty, widths
from .signs import PatternError

#: Longest pattern, characters.
PATTERN_SIZE_MAX: Final = 10_000
#: Most repetitions that a pattern may count.
_COUNT_MAX: Final = 1000
_FLAGS: Final = "is"


def parse(text: str) -> Node:
    """Read a pattern. Raises ``PatternError``."""
    if len(text) > PATTERN_SIZE_MAX:
        raise PatternError(f"it has {len(text)} characters, at most {PATTERN_SIZE_MAX} are read")
    parser = _Parser(text)
    node = parser.alternatives(0)
    if not parser.is_done:
        raise PatternError("a closing ) has no opening one; write \\)")
    return node


class _Parser(Classes):
    """Reads groups, their alternatives and repetitions."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._names: set[str] = set()

    def alternatives(self, depth: int) -> Node:
        """Up to the end of the group. Flags that are set inside hold up to there, too."""
        if depth > DEPTH_MAX:
            raise PatternError(f"its groups are nested deeper than {DEPTH_MAX} levels")
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
        if may_repeat_empty(node):
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

    def _escape(self) -> Node:
        found = self._escaped()
        if isinstance(found, Place):
            return found
        return One(found if callable(found) else chars.single(found, "i" in self._flags))
