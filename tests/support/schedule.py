"""The order of tests for several test processes: each process begins with a part of the long ones.

Else one process would be alone with a long test at the end, or with several in a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def schedule(items: Sequence[T], is_long: Callable[[T], bool], processes: int) -> list[T]:
    """The items so that each of the equal parts that ``worksteal`` cuts them in begins with long ones.

    xdist takes a part's end away from who is late with it; all else stays in its order.
    """
    long = [item for item in items if is_long(item)]
    others = iter([item for item in items if not is_long(item)])
    ordered: list[T] = []
    for number in range(processes):
        size = (len(items) - len(ordered)) // (processes - number)
        first = long[number::processes]
        ordered += first
        ordered += itertools.islice(others, max(0, size - len(first)))
    return [*ordered, *others]
