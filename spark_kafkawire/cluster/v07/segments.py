"""Start and end offsets by timestamp for Kafka 0.7: the choice of segments. Pure.

0.7 knows the age of a segment file, not of a message: the modification time of the file is the time of its
last message. So a start by timestamp is the start of the first segment that may hold a message at or after
the timestamp, and an end by timestamp is the end of the first segment that certainly holds such a message. No
message of the requested range is missed; the range may contain other messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_kafkawire.model import PartitionBounds


def start_offset(bounds: PartitionBounds, older: Sequence[int]) -> int | None:
    """The start of the first segment that is not ``older`` (ascending starts); None for the end."""
    offset = _boundary_after(bounds, older[-1]) if older else bounds.earliest
    return offset if offset < bounds.latest else None


def stop_offset(bounds: PartitionBounds, older: Sequence[int]) -> int | None:
    """The end of the first segment that is not ``older``; None for the end of the partition."""
    reaching = _boundary_after(bounds, older[-1]) if older else bounds.earliest
    offset = _boundary_after(bounds, reaching)
    return offset if offset < bounds.latest else None


def _boundary_after(bounds: PartitionBounds, offset: int) -> int:
    """The first segment start after ``offset``, or the end of the partition."""
    return next((start for start in bounds.segment_starts or () if start > offset), bounds.latest)
