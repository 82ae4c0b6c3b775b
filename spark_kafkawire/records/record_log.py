"""Records of a modern log: the bytes of a Fetch reply to columns.

    index = index_batches(records)          # cheap: the next fetch can be sent from
    ...                                     # index.next_offset before anything is decoded
    for columns in decode_batches(index, start_offset, stop_offset, wanted=schema.names):
        ...

Batches of magic 2 and messages of magic 0 and 1 may alternate. Columns come in log order, each
of one kind. Control batches are left out, and those of aborted transactions where they are given.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from . import batch_kernels as kernels
from .aborted import AbortedTransaction, is_aborted
from .batch_index import BatchIndex, index_batches
from .columns import Columns, Int64s
from .legacy_records import decode_messages
from .limits import DEFAULT_LIMITS, DecodeLimits
from .record_batch import check_crcs, decode_record_batches
from .regions import CONTROL_BIT
from .spans import DecodeBuffers

__all__ = [
    "AbortedTransaction",
    "BatchIndex",
    "Columns",
    "DecodeBuffers",
    "DecodeLimits",
    "decode_batches",
    "index_batches",
]

OFFSET_MAX: Final = 2**63 - 1
#: Names of all columns that records have, as the source's schema calls them.
COLUMNS: Final = frozenset(("key", "value", "headers", "offset", "timestamp", "timestampType"))


def decode_batches(
    index: BatchIndex,
    start_offset: int = 0,
    stop_offset: int = OFFSET_MAX,
    *,
    wanted: Container[str] = COLUMNS,
    aborted: Sequence[AbortedTransaction] = (),
    limits: DecodeLimits = DEFAULT_LIMITS,
    buffers: DecodeBuffers | None = None,
) -> Iterator[Columns]:
    """The records of the index whose offsets are in ``[start_offset, stop_offset)``.

    Columns that are not ``wanted`` are not built. ``aborted`` are the transactions that the same
    reply names; their records are left out up to the producer's next abort marker. All checksums
    of batches in the range are checked, also of those that are left out: a wrong bit would do that
    to any batch. The values' memory is one of ``buffers``, used again once
    nobody looks at them.

    Raises ``CorruptDataError`` with the batch's offset for a wrong CRC, an unknown codec,
    damaged compressed data, or records that do not fit their batch; ``LimitError`` for a
    batch that decompresses to too much. All fatal.
    """
    rows = _in_range(index, start_offset, stop_offset)
    left_out = _is_control(index)
    if aborted:
        left_out |= is_aborted(index, aborted)
    check_crcs(index, rows[left_out[rows]])
    rows = rows[~left_out[rows]]
    buffers = buffers or DecodeBuffers()
    for run in _runs(index, rows):
        decode = decode_record_batches if index.table[run[0], kernels.MAGIC] == 2 else decode_messages
        for columns in decode(index, run, start_offset, stop_offset, wanted, limits, buffers):
            if columns.count:
                yield columns


def _in_range(index: BatchIndex, start_offset: int, stop_offset: int) -> Int64s:
    """Rows of the batches that may hold records of the range."""
    is_modern = index.column(kernels.MAGIC) == 2
    first_offsets, next_offsets = index.column(kernels.BASE_OFFSET), index.column(kernels.NEXT_OFFSET)
    # A compressed message has the offset of the last one it holds, and begins after the one before it.
    first_offsets = np.where(is_modern, first_offsets, np.append(0, next_offsets[:-1]))
    return np.flatnonzero((next_offsets > start_offset) & (first_offsets < stop_offset))


def _is_control(index: BatchIndex) -> npt.NDArray[np.bool_]:
    is_modern = index.column(kernels.MAGIC) == 2
    is_control: npt.NDArray[np.bool_] = is_modern & (index.column(kernels.ATTRIBUTES) & CONTROL_BIT != 0)
    return is_control


def _runs(index: BatchIndex, rows: Int64s) -> list[Int64s]:
    """The rows, cut where the format changes."""
    is_modern = index.table[rows, kernels.MAGIC] == 2
    return [run for run in np.split(rows, np.flatnonzero(np.diff(is_modern)) + 1) if len(run)]
