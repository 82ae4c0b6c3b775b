"""Options of views of SQL, which are of both sides: for SELECT and for INSERT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .stream_table import STREAM_OPTIONS
from .table import OPTIONS

#: Where a write goes to, and what a read selects, in lower case.
_TOPIC: Final = "topic"
_SELECTIONS: Final = frozenset({"subscribe", "subscribepattern", "assign"})


def of_side(raw: Mapping[str, str], *, read: bool) -> dict[str, str]:
    """The options without those of the other side, where they name both what to read and where to write."""
    names = {name.lower() for name in raw}
    if _TOPIC not in names or _SELECTIONS.isdisjoint(names):
        return dict(raw)
    both = (*OPTIONS, *STREAM_OPTIONS)
    others = {option.name.lower() for option in both if not (option.read if read else option.write)}
    return {name: value for name, value in raw.items() if name.lower() not in others}
