"""What a pattern is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Whether a character belongs to a set.
CharTest = Callable[[str], bool]
#: Whether a place of a text is of some kind: the text, and the place.
PlaceTest = Callable[[str, int], bool]


@dataclass(frozen=True, slots=True)
class One:
    """One character of a set."""

    test: CharTest


@dataclass(frozen=True, slots=True)
class Place:
    """No character, at a place of some kind."""

    test: PlaceTest


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first of several that leads to a match."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``low`` to ``high`` times, without end where that is None: as often as possible first, or last."""

    part: Node
    low: int
    high: int | None
    is_lazy: bool


@dataclass(frozen=True, slots=True)
class Atomic:
    """What matches first, and nothing else afterwards: ``(?>...)`` and possessive quantifiers."""

    part: Node


@dataclass(frozen=True, slots=True)
class Look:
    """No character, where the part matches from here on (or up to here), or does not."""

    part: Node
    is_behind: bool
    is_negative: bool


Node = One | Place | Sequence | Choice | Repeat | Atomic | Look


def widths(node: Node) -> tuple[int, int | None]:
    """The fewest and the most characters that a node matches; None for any number."""
    match node:
        case One():
            return 1, 1
        case Place() | Look():
            return 0, 0
        case Atomic(part):
            return widths(part)
        case Repeat(part, low, high):
            fewest, most = widths(part)
            if most == 0:
                return 0, 0
            return fewest * low, None if high is None or most is None else most * high
        case Sequence(parts):
            found = [widths(part) for part in parts]
            tops = [most for _, most in found if most is not None]
            return sum(fewest for fewest, _ in found), sum(tops) if len(tops) == len(found) else None
        case Choice(parts):
            found = [widths(part) for part in parts]
            tops = [most for _, most in found if most is not None]
            return min(fewest for fewest, _ in found), max(tops) if len(tops) == len(found) else None


def may_repeat_empty(node: Node) -> bool:
    """Whether something is repeated that can be empty: Java's order of tries is special there."""
    match node:
        case Repeat(part, _, _):
            return widths(part)[0] == 0 or may_repeat_empty(part)
        case Sequence(parts) | Choice(parts):
            return any(map(may_repeat_empty, parts))
        case Atomic(part) | Look(part):
            return may_repeat_empty(part)
        case _:
            return False
