"""Check of a Fetch response of modern Kafka (0.8 to 4.x): its batches must agree with its own offsets.

No checksum covers the base offset of a batch or the offsets beside the records. A wrong one would move
records, or prove that existing records are gone. So a batch is valid only below the end of the log in its own
response: the high watermark, or the last stable offset with READ_COMMITTED. And a batch proves that the
offsets before it are gone only if all of it is below that end.

Brokers read their offsets before the records, and records may be appended in between. So batches at or above
the end are not corrupt: they are fetched again. Aborted transactions may also begin at or above the end,
because brokers list them up to the next entry of an index. Source: Apache Kafka's Partition.scala
(``readRecords``), LocalLog.scala (``addAbortedTransactions``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_kafkawire.protocol.modern.fetch import FetchPartitionResponse
from spark_kafkawire.records.arrays import Int64s
from spark_kafkawire.records.log_index import BatchIndex
from spark_kafkawire.records.log_kernels import ATTRIBUTES, BASE_OFFSET, MAGIC, NEXT_OFFSET
from spark_kafkawire.records.log_layout import CODEC_MASK

from ..task import COMPARE_LOGS, Contradiction, Gaps


def confirmed(
    index: BatchIndex, found: FetchPartitionResponse, offset: int, stop_offset: int, is_committed: bool
) -> tuple[BatchIndex, Gaps | None]:
    """The batches that the response to a fetch at ``offset`` confirms, and their gaps in the range that ends
    at ``stop_offset``.

    The other batches are fetched again. Raises ``Contradiction`` if the first batch with new offsets is not
    confirmed although offsets are missing before it, or if the log starts after the batch.
    """
    end = log_end(found, is_committed)
    firsts, expected = _firsts(index, offset)
    is_gap = firsts > expected
    nexts, bases = index.column(NEXT_OFFSET), index.column(BASE_OFFSET)
    is_beyond = (bases >= end) | (is_gap & (nexts > end)) if end >= 0 else is_gap
    count = int(is_beyond.argmax()) if is_beyond.any() else index.count
    if count < index.count:
        brings_any = count > 0 and nexts[count - 1] > offset
        if is_gap[count] and not brings_any:
            raise _contradiction(int(bases[count]), int(nexts[count]), end, offset)
        index = replace(index, table=index.table[:count])
    if index.count and found.log_start_offset > offset >= firsts[0]:
        raise Contradiction(
            f"Fetch: the log starts at offset {found.log_start_offset} by the response that contains "
            f"the batch at offset {bases[0]}; {COMPARE_LOGS}",
            offset,
        )
    rows = np.flatnonzero(is_gap[:count] & (expected[:count] < stop_offset))
    if not len(rows):
        return index, None
    spans = np.stack((expected[rows], np.minimum(firsts[rows], stop_offset)), axis=1)
    return index, Gaps(offset, int(nexts[count - 1]), spans)


def log_end(found: FetchPartitionResponse, is_committed: bool) -> int:
    """The end of the log by the response; -1 if it has none."""
    if is_committed and found.last_stable_offset >= 0:
        # Brokers read the last stable offset after the high watermark, so it may be above it.
        return min(found.last_stable_offset, found.high_watermark)
    return found.high_watermark


def _firsts(index: BatchIndex, offset: int) -> tuple[Int64s, Int64s]:
    """The first offset of each batch, and the one that follows the batch before it.

    A compressed message has the offset of its last inner message, so it counts as a message without a gap.
    """
    before = np.concatenate((np.array([offset]), index.column(NEXT_OFFSET)[:-1]))
    expected: Int64s = np.maximum(before, offset)
    is_opaque = (index.column(MAGIC) < 2) & (index.column(ATTRIBUTES) & CODEC_MASK != 0)
    return np.where(is_opaque, expected, index.column(BASE_OFFSET)), expected


def _contradiction(base_offset: int, next_offset: int, end: int, offset: int) -> Contradiction:
    bound = f"the log ends at offset {end}" if end >= 0 else "the end of the log is not known"
    return Contradiction(
        f"Fetch returned nothing at offset {offset}, but a batch of offsets {base_offset} to "
        f"{next_offset - 1}, and by the same response {bound}; {COMPARE_LOGS}",
        offset,
    )
