"""Shares of partitions in a limit of a stream's batch (``maxOffsetsPerTrigger``; bytes in 0.7). Pure.

Source of the proportions: Spark's KafkaMicroBatchStream.rateLimit.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..model import OffsetRange, PartitionBounds, TopicPartition


def limited(
    ranges: Sequence[OffsetRange], size_max: int, bounds: Mapping[TopicPartition, PartitionBounds]
) -> tuple[OffsetRange, ...]:
    """The first ``size_max`` offsets of the ranges, in proportion to the size of each range.

    Each partition gets at least one offset, so that small partitions are not starved; so the total may be
    larger. In 0.7 a range can only end where a segment ends: at the last segment end within its share, or at
    the first one after its share, so that each partition makes progress.
    """
    total = sum(each.size for each in ranges)
    # The order of the operations is that of Spark, so that both round alike.
    return tuple(
        _first(each, size_max * (each.size / total), bounds[each.topic_partition]) if each.size else each
        for each in ranges
    )


def _first(whole: OffsetRange, share: float, bounds: PartitionBounds) -> OffsetRange:
    size = math.ceil(share) if share < 1 else math.floor(share)
    stop_offset = min(whole.start_offset + size, whole.stop_offset)
    if bounds.segment_starts is not None:
        starts = (start for start in bounds.segment_starts if whole.start_offset < start < whole.stop_offset)
        places = [*starts, whole.stop_offset]
        stop_offset = places[max(bisect_right(places, stop_offset) - 1, 0)]
    return replace(whole, stop_offset=stop_offset)
