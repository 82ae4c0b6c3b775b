"""The classes of a pattern: what is between ``[`` and ``]``."""

from __future__ import annotations

from typing import Final

from . import characters as chars
from .escapes import Escapes
from .nodes import CharTest, Place
from .signs import PatternError

#: How deep groups, and classes, may be nested.
DEPTH_MAX: Final = 50


class Classes(Escapes):
    """Reads the classes of a pattern."""

    def _class(self, depth: int) -> CharTest:
        """What is between ``[`` and ``]``: sets, all of which a character must be in (``&&``)."""
        if depth > DEPTH_MAX:
            raise PatternError(f"its classes are nested deeper than {DEPTH_MAX} levels")
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
