"""Which batches belong to aborted transactions, for readers with ``isolation.level=read_committed``.

A Fetch reply names for each aborted transaction its producer and first offset. From there on the
producer's transactional batches do not count, until its abort marker: a control batch.
Source: Apache Kafka's CompletedFetch.java and ControlRecordType.java; KIP-98.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from .. import log_kernels
from ..log_index import BatchIndex
from ..log_layout import BATCH_OVERHEAD, CONTROL_BIT, TRANSACTIONAL_BIT
from .decoding import check_crcs
from .varints import varint, varlong

#: The types in the key of a control record, ``version int16 | type int16``.
_ABORT: Final = 0
_COMMIT: Final = 1
_KEY_SIZE_MIN: Final = 4


class AbortedTransaction(Protocol):
    """A transaction that a Fetch reply names as aborted."""

    @property
    def producer_id(self) -> int:
        """Whose it is."""
        ...

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        ...


def is_aborted(index: BatchIndex, aborted: Sequence[AbortedTransaction]) -> npt.NDArray[np.bool_]:
    """For each batch of the index whether it belongs to one of these transactions.

    Raises ``CorruptDataError`` (fatal) for a marker whose CRC is wrong or that cannot be read, and for one
    that commits what the reply calls aborted.
    """
    waiting = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
    open_producers: set[int] = set()
    found = np.zeros(index.count, np.bool_)
    producer_ids, next_offsets = index.column(log_kernels.PRODUCER_ID), index.column(log_kernels.NEXT_OFFSET)
    for row in np.flatnonzero(producer_ids >= 0).tolist():
        while waiting and waiting[-1][0] < next_offsets[row]:
            open_producers.add(waiting.pop()[1])
        producer_id, attributes = int(producer_ids[row]), int(index.table[row, log_kernels.ATTRIBUTES])
        if attributes & CONTROL_BIT:
            kind = _kind(index, row) if producer_id in open_producers else None
            if kind == _COMMIT:
                reason = (
                    f"it commits the transaction of producer {producer_id}, which the reply calls aborted"
                )
                raise index.damage(row, reason)
            if kind == _ABORT:
                open_producers.remove(producer_id)
        elif attributes & TRANSACTIONAL_BIT:
            found[row] = producer_id in open_producers
    return found


def _kind(index: BatchIndex, row: int) -> int | None:
    """What the control batch says of its transaction; None where its record was compacted away."""
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
