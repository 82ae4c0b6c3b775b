"""Batches of aborted transactions, for readers with ``isolation.level=read_committed``.

A Fetch response names for each aborted transaction its producer and first offset. From there on the
producer's transactional batches do not count, until its abort marker: a control batch. No checksum covers the
list in the response, but the markers in the log have checksums. So both must agree.
Source: Apache Kafka's CompletedFetch.java and ControlRecordType.java; KIP-98.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from .. import log_kernels
from ..arrays import Int64s
from ..log_index import BatchIndex
from ..log_layout import BATCH_OVERHEAD, CONTROL_BIT, TRANSACTIONAL_BIT
from .decoding import check_crcs
from .varints import varint, varlong

#: The types in the key of a control record, ``version int16 | type int16``.
_ABORT: Final = 0
_COMMIT: Final = 1
_KEY_SIZE_MIN: Final = 4
#: Position after the type in a control batch whose varints have one byte each, as brokers write it.
_TYPE_POS: Final = BATCH_OVERHEAD + 8


class AbortedEntry(Protocol):
    """A transaction that a Fetch response names as aborted."""

    @property
    def producer_id(self) -> int:
        """Producer of the transaction."""
        ...

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        ...


class AbortedTransactions:
    """The transactions of one read, whose batches and markers come in several responses, in order."""

    def __init__(self) -> None:
        #: Producers whose records were returned, and those whose records were skipped, since their last
        #: marker.
        self._given: set[int] = set()
        self._left_out: set[int] = set()

    def left_out(self, index: BatchIndex, aborted: Sequence[AbortedEntry]) -> npt.NDArray[np.bool_] | None:
        """Mark each batch of the index that belongs to an aborted transaction; None if there is none.

        Raises ``CorruptDataError`` (fatal) for a marker whose CRC is wrong or that cannot be read, and where
        a marker contradicts what responses call aborted, or responses contradict each other.
        """
        attributes = index.column(log_kernels.ATTRIBUTES)
        is_ours = (attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0
        rows = np.flatnonzero(is_ours & (index.column(log_kernels.PRODUCER_ID) >= 0))
        if not (aborted or self._left_out or _may_abort(index, rows[attributes[rows] & CONTROL_BIT != 0])):
            self._take_committed(index, rows)
            return None
        found = np.zeros(index.count, np.bool_)
        waiting = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
        open_producers: set[int] = set()
        for row in rows.tolist():
            while waiting and waiting[-1][0] < index.table[row, log_kernels.NEXT_OFFSET]:
                open_producers.add(self._opened(index, row, *waiting.pop()))
            if attributes[row] & CONTROL_BIT:
                self._take_marker(index, row, open_producers)
            else:
                found[row] = self._take_batch(index, row, open_producers)
        return found

    def _take_committed(self, index: BatchIndex, rows: Int64s) -> None:
        """Record the producers whose transactions continue after these batches; none of the batches is
        aborted."""
        is_marker = index.column(log_kernels.ATTRIBUTES)[rows] & CONTROL_BIT != 0
        counts = is_marker | (index.column(log_kernels.COUNT)[rows] > 0)
        rows, is_marker = rows[counts][::-1], is_marker[counts][::-1]
        producers, last = np.unique(index.column(log_kernels.PRODUCER_ID)[rows], return_index=True)
        is_marker = is_marker[last]
        self._given.update(producers[~is_marker].tolist())
        self._given.difference_update(producers[is_marker].tolist())

    def _opened(self, index: BatchIndex, row: int, first_offset: int, producer_id: int) -> int:
        """The producer of a transaction that is called aborted, from its first record on."""
        if producer_id in self._given:
            raise index.disagreement(
                row,
                f"the response calls the transaction of producer {producer_id} aborted from offset "
                f"{first_offset} on, and it began before that",
            )
        return producer_id

    def _take_marker(self, index: BatchIndex, row: int, open_producers: set[int]) -> None:
        producer_id = int(index.table[row, log_kernels.PRODUCER_ID])
        is_left_out = producer_id in open_producers or producer_id in self._left_out
        kind = _kind(index, row) if is_left_out or producer_id in self._given else None
        if kind == _COMMIT and is_left_out:
            reason = f"it commits the transaction of producer {producer_id}, which the response calls aborted"
            raise index.disagreement(row, reason)
        if kind == _ABORT and producer_id in self._given:
            reason = f"it aborts the transaction of producer {producer_id}, which no response calls aborted"
            raise index.disagreement(row, reason)
        if kind == _ABORT:
            open_producers.discard(producer_id)
        self._given.discard(producer_id)
        self._left_out.discard(producer_id)

    def _take_batch(self, index: BatchIndex, row: int, open_producers: set[int]) -> bool:
        producer_id = int(index.table[row, log_kernels.PRODUCER_ID])
        is_aborted = producer_id in open_producers
        if producer_id in self._left_out and not is_aborted:
            reason = f"an earlier response called its transaction, of producer {producer_id}, aborted"
            raise index.disagreement(row, reason)
        # A batch that compaction has emptied belongs to no known transaction.
        if index.table[row, log_kernels.COUNT]:
            (self._left_out if is_aborted else self._given).add(producer_id)
        return is_aborted


def _may_abort(index: BatchIndex, markers: Int64s) -> bool:
    """True if a marker may be other than a commit. The check is fast, because transactions may be small and
    most of them commit."""
    positions, sizes = index.column(log_kernels.POS)[markers], index.column(log_kernels.SIZE)[markers]
    if (sizes <= _TYPE_POS).any():
        return True
    return bool((index.buf[positions + _TYPE_POS] != _COMMIT).any())


def _kind(index: BatchIndex, row: int) -> int | None:
    """Type of the marker in a control batch; None if its record was compacted away."""
    check_crcs(index, np.array([row]))
    if not index.table[row, log_kernels.COUNT]:
        return None
    records = index.batch(row)[BATCH_OVERHEAD:]
    stop = len(records)
    _, pos = varint(records, 0, stop)
    _, pos = varlong(records, pos + 1, stop)
    _, pos = varint(records, pos, stop)
    key_size, pos = varint(records, pos, stop)
    if not _KEY_SIZE_MIN <= key_size <= stop - pos:
        raise index.damage(row, "it is a control batch without a type")
    return int.from_bytes(records[pos + 2 : pos + 4], "big")
