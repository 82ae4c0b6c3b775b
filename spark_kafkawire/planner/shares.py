"""How far each log is read where a limit holds for all of them together. Pure.

Source of the proportions: Spark's KafkaMicroBatchStream.rateLimit.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..model import LogBounds, OffsetRange, TopicPartition


def limited(
    ranges: Sequence[OffsetRange], size_max: int, bounds: Mapping[TopicPartition, LogBounds]
) -> tuple[OffsetRange, ...]:
    """The first ``size_max`` offsets of the ranges, each log in proportion to what is left of it.

    Small logs are not starved: each gets one offset at least, so all together may be more. In 0.7 a
    range can only end where a segment does: it ends at the last such place within its share, or at the
    first one after it, so that each log gets on.
    """
    total = sum(each.size for each in ranges)
    # The order of the operations is Spark's: what is rounded here is rounded there.
    return tuple(
        _first(each, size_max * (each.size / total), bounds[each.log]) if each.size else each
        for each in ranges
    )


def _first(whole: OffsetRange, share: float, bounds: LogBounds) -> OffsetRange:
    size = math.ceil(share) if share < 1 else math.floor(share)
    stop_offset = min(whole.start_offset + size, whole.stop_offset)
    if bounds.segment_starts is not None:
        starts = (start for start in bounds.segment_starts if whole.start_offset < start < whole.stop_offset)
        places = [*starts, whole.stop_offset]
        stop_offset = places[max(bisect_right(places, stop_offset) - 1, 0)]
    return replace(whole, stop_offset=stop_offset)
