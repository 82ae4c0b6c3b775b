"""Which segments of a log a timestamp selects. Pure.

0.7 knows the age of a segment file, not of a message: its modification time is that of its last
message. So a start by timestamp is the start of the first segment that may hold a message that
young, and an end by timestamp is the end of the first segment that certainly holds one. No message
of the asked range is missed; more may come.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model import LogBounds


def start_offset(bounds: LogBounds, older: Sequence[int]) -> int | None:
    """The first segment that is not among the ``older`` ones (ascending starts); None for the end."""
    offset = _boundary_after(bounds, older[-1]) if older else bounds.earliest
    return offset if offset < bounds.latest else None


def stop_offset(bounds: LogBounds, older: Sequence[int]) -> int | None:
    """The end of the first segment that is not among the ``older`` ones; None for the log's."""
    reaching = _boundary_after(bounds, older[-1]) if older else bounds.earliest
    offset = _boundary_after(bounds, reaching)
    return offset if offset < bounds.latest else None


def _boundary_after(bounds: LogBounds, offset: int) -> int:
    """The first segment start after ``offset``, or the end of the log."""
    return next((start for start in bounds.segment_starts or () if start > offset), bounds.latest)
