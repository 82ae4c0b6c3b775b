"""Looks for a pattern in a name, in a time that both their sizes bound.

The pattern becomes a program whose instructions name what comes next:

=======================  =================================================================
``(ONE, test, next)``    take a character that passes the test
``(PLACE, test, next)``  go on where the place passes the test
``(SPLIT, nexts)``       try these, in that order
``(CALL, index, next)``  a part with a program of its own: ``Look`` or ``Atomic``
``(END,)``               the part has matched
=======================  =================================================================
"""

from __future__ import annotations

from typing import Any, Final

from .characters import at_end, at_start, at_very_end
from .nodes import Atomic, Choice, Look, Node, One, Place, Repeat, Sequence, widths
from .parser import parse
from .signs import PatternError

#: Longest name that is looked into: the longest that any broker takes. Source: Kafka's Topic.java, 0.8.
NAME_SIZE_MAX: Final = 255
#: Parts of a pattern, with repetitions written out.
PROGRAM_SIZE_MAX: Final = 5_000
#: Instructions that are run for one name at most: some 1 s. Patterns in use take a few thousand.
STEPS_MAX: Final = 1_000_000

#: What an automaton remembers at most.
_KNOWN_COUNT_MAX: Final = 10_000
_AT_ENDS: Final = (at_start, at_end, at_very_end)

_ONE, _PLACE, _SPLIT, _CALL, _END = range(5)


class JavaPattern:
    """A pattern, ready to be looked for. Raises ``PatternError`` where it is not read here."""

    def __init__(self, text: str) -> None:
        self._code: list[Any] = []
        self._emitted = 0
        self._parts: list[tuple[Look | Atomic, int]] = []
        self._start = self._program(parse(text))
        self._automaton = _Automaton(self._code, self._start) if self._is_plain() else None

    def is_found_in(self, name: str) -> bool:
        """Whether the pattern matches anywhere in a name of at most ``NAME_SIZE_MAX`` characters.

        Raises ``PatternError`` for a longer one, and where it takes more than ``STEPS_MAX`` steps.
        """
        if len(name) > NAME_SIZE_MAX:
            raise PatternError(f"no name has {len(name)} characters")
        if self._automaton:
            return self._automaton.is_found_in(name)
        return _Search(self._code, self._parts, name).is_found(self._start)

    def _is_plain(self) -> bool:
        places = [instruction[1] for instruction in self._code if instruction[0] == _PLACE]
        return not self._parts and all(test in _AT_ENDS for test in places)

    def _program(self, node: Node) -> int:
        return self._emit(node, self._add((_END,)))

    def _add(self, instruction: tuple[Any, ...]) -> int:
        self._code.append(instruction)
        return len(self._code) - 1

    def _emit(self, node: Node, following: int) -> int:
        """Write the node's instructions, from the last one to the first; where they begin."""
        self._emitted += 1  # what is empty has no instructions, and may be repeated, too
        if self._emitted > PROGRAM_SIZE_MAX:
            raise PatternError("it repeats too much: its repetitions together are too large")
        match node:
            case One(test):
                return self._add((_ONE, test, following))
            case Place(test):
                return self._add((_PLACE, test, following))
            case Sequence(parts):
                for part in reversed(parts):
                    following = self._emit(part, following)
                return following
            case Choice(parts):
                return self._add((_SPLIT, tuple(self._emit(part, following) for part in parts)))
            case Repeat():
                return self._emit_repeat(node, following)
            case Look() | Atomic():
                self._parts.append((node, self._program(node.part)))
                return self._add((_CALL, len(self._parts) - 1, following))

    def _emit_repeat(self, node: Repeat, following: int) -> int:
        def once_or_not(once: int) -> tuple[Any, ...]:
            return _SPLIT, (following, once) if node.is_lazy else (once, following)

        if node.high is None:
            begin = self._add((_END,))
            self._code[begin] = once_or_not(self._emit(node.part, begin))
        else:
            begin = following
            for _ in range(node.high - node.low):
                begin = self._add(once_or_not(self._emit(node.part, begin)))
        for _ in range(node.low):
            begin = self._emit(node.part, begin)
        return begin


class _Automaton:
    """Follows all ways through a program at once, and remembers where each character leads: a tenth of a
    microsecond for each. For programs without parts of their own, and with no places but at the ends."""

    def __init__(self, code: list[Any], start: int) -> None:
        self._code, self._start = code, start
        self._known: dict[tuple[frozenset[int], str], frozenset[int] | None] = {}

    def is_found_in(self, name: str) -> bool:
        states = self._closed((self._start,), name, 0)
        for pos, sign in enumerate(name, 1):
            if states is None:
                return True
            if pos >= len(name) - 2:  # here it matters how much is left
                states = self._after(states, sign, name, pos)
                continue
            if (states, sign) not in self._known:
                if len(self._known) >= _KNOWN_COUNT_MAX:
                    self._known.clear()
                self._known[states, sign] = self._after(states, sign, name, pos)
            states = self._known[states, sign]
        return states is None

    def _after(self, states: frozenset[int], sign: str, name: str, pos: int) -> frozenset[int] | None:
        nexts = [self._code[at][2] for at in states if self._code[at][1](sign)]
        return self._closed((*nexts, self._start), name, pos)

    def _closed(self, starts: tuple[int, ...], name: str, pos: int) -> frozenset[int] | None:
        """The instructions that wait for a character; None where the pattern is found."""
        stack, seen, waiting = list(starts), set(starts), []
        while stack:
            instruction = self._code[at := stack.pop()]
            kind = instruction[0]
            if kind == _END:
                return None
            if kind == _ONE:
                waiting.append(at)
                continue
            nexts = instruction[1] if kind == _SPLIT else instruction[2:] if instruction[1](name, pos) else ()
            stack += [each for each in nexts if each not in seen]
            seen.update(nexts)
        return frozenset(waiting)


class _Search:
    """One look into one name. What failed at a place is not tried there again."""

    def __init__(self, code: list[Any], parts: list[tuple[Look | Atomic, int]], name: str) -> None:
        self._code, self._parts, self._name = code, parts, name
        self._steps_left = STEPS_MAX
        self._told: dict[tuple[int, int], int | None] = {}

    def is_found(self, start: int) -> bool:
        failed: set[tuple[int, int]] = set()
        return any(self._run(start, pos, failed) is not None for pos in range(len(self._name) + 1))

    def _run(self, start: int, begin: int, tried: set[tuple[int, int]], end: int | None = None) -> int | None:
        """Where the first match that begins here ends, or None; at ``end`` where that is given."""
        code, name = self._code, self._name
        stack = [(start, begin)]
        while stack:
            state = stack.pop()
            if state in tried:
                continue
            tried.add(state)
            self._count_step()
            (at, pos) = state
            instruction = code[at]
            match instruction[0]:
                case 0:  # _ONE
                    if pos < len(name) and instruction[1](name[pos]):
                        stack.append((instruction[2], pos + 1))
                case 1:  # _PLACE
                    if instruction[1](name, pos):
                        stack.append((instruction[2], pos))
                case 2:  # _SPLIT
                    stack.extend((each, pos) for each in reversed(instruction[1]))
                case 3:  # _CALL
                    after = self._call(instruction[1], pos)
                    if after is not None:
                        stack.append((instruction[2], after))
                case _:
                    if end in (None, pos):
                        return pos
        return None

    def _count_step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise PatternError(f"it takes more than {STEPS_MAX} steps to look into one name; simplify it")

    def _call(self, index: int, pos: int) -> int | None:
        """Where to go on after a part with a program of its own; None where it does not match."""
        key = index, pos
        if key not in self._told:
            self._told[key] = self._answer(*self._parts[index], pos)
        return self._told[key]

    def _answer(self, part: Look | Atomic, start: int, pos: int) -> int | None:
        if isinstance(part, Atomic):
            return self._run(start, pos, set())
        if part.is_behind:
            fewest, most = widths(part.part)
            assert most is not None
            tried: set[tuple[int, int]] = set()
            begins = range(max(pos - most, 0), pos - fewest + 1)
            found = any(self._run(start, begin, tried, pos) is not None for begin in begins)
        else:
            found = self._run(start, pos, set()) is not None
        return pos if found != part.is_negative else None
