"""Examination of a Fetch response after damage was seen: its sound batches, the damage, the next offset.

The damaged path of a read. It runs before a response is used, so that the next fetch begins at a proven
offset: that of a sound batch, or the end of the log. Source: ``records.damaged_batches``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_kafkawire.model import OffsetRange
from spark_kafkawire.protocol.modern.fetch import FetchPartitionResponse
from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.records.damage import Walk, Whole
from spark_kafkawire.records.damaged_batches import OFFSET_MAX, Undecodable, index_of, walk_batches
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import BatchIndex

from ..damaged_records import DamagedBytes
from ..task import Gaps
from .agreement import confirmed, log_end


@dataclass(frozen=True, slots=True)
class Examined:
    """The parts of a response in order, and the offset after them. ``gaps`` are those without damage."""

    parts: tuple[BatchIndex | DamagedBytes, ...]
    next_offset: int
    gaps: Gaps | None


def walk_of(
    found: FetchPartitionResponse,
    offset: int,
    limits: DecodeLimits,
    *,
    size_max: int,
    is_committed: bool,
    undecodable: Undecodable,
) -> Walk:
    """The walk over the response to a fetch at ``offset``."""
    end = log_end(found, is_committed)
    return walk_batches(
        found.records or b"",
        offset,
        end if end >= 0 else OFFSET_MAX,
        size_max=size_max,
        limits=limits,
        undecodable=undecodable,
    )


def examined(
    walk: Walk, found: FetchPartitionResponse, offset_range: OffsetRange, offset: int, is_committed: bool
) -> Examined:
    """The parts of a walk over the response to a fetch at ``offset``.

    In a read of committed records the parts end at the first damage: it may hold the marker that ends a
    transaction, so the next fetch asks which transactions after it are aborted. Raises ``Contradiction``
    as ``agreement.confirmed``.
    """
    buf: Buffer = found.records or b""
    parts: list[BatchIndex | DamagedBytes] = []
    spans, next_offset = [], offset
    for part in walk.parts:
        if isinstance(part, Whole):
            index, gaps = confirmed(
                index_of(buf, part), found, next_offset, offset_range.stop_offset, is_committed
            )
            parts.append(index)
            spans += [] if gaps is None else [gaps.spans]
            next_offset = max(next_offset, index.next_offset or next_offset)
            continue
        parts.append(DamagedBytes.of(part, buf))
        next_offset = part.stop_offset
        if is_committed:
            break
    gaps = Gaps(offset, next_offset, np.concatenate(spans)) if spans else None
    return Examined(tuple(parts), next_offset, gaps)
