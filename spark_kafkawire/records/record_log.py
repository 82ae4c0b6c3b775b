"""Records of a modern log: the bytes of a Fetch response to columns, and rows to those of a Produce request.

    index = index_batches(records)          # cheap: the next fetch can be sent from
    ...                                     # index.next_offset before anything is decoded
    for columns in decode_batches(index, start_offset, stop_offset, wanted=schema.names):
        ...

Batches of magic 2 and messages of magic 0 and 1 may alternate. Columns come in log order, each
of one kind. Control batches are left out, and those of aborted transactions where they are given.

The magic determines the format of records: batches are in ``batch``, messages in ``legacy``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from . import log_index
from .arrays import Int64s, room
from .batch.decoding import AbortedEntry, AbortedTransactions, check_crcs, decode_records
from .batch.encoding import encode_records
from .columns import Columns
from .compression import Format, codec_named
from .encoded_batch import EncodedBatch, Packing
from .legacy import decode_messages, encode_messages
from .limits import DEFAULT_LIMITS, DecodeLimits
from .log_index import BatchIndex
from .rows import Records
from .spans import DecodeBuffers

OFFSET_MAX: Final = 2**63 - 1
#: Largest batch to write: its size is an int32, also where compression makes it a little larger.
_SIZE_MAX: Final = 2_000_000_000
_NONE: Final = np.empty(0, np.uint8)
#: Names of all columns that records have, as the source's schema calls them.
COLUMNS: Final = frozenset(("key", "value", "headers", "offset", "timestamp", "timestampType"))


def decode_batches(
    index: BatchIndex,
    start_offset: int = 0,
    stop_offset: int = OFFSET_MAX,
    *,
    wanted: Container[str] = COLUMNS,
    aborted: Sequence[AbortedEntry] = (),
    transactions: AbortedTransactions | None = None,
    limits: DecodeLimits = DEFAULT_LIMITS,
    buffers: DecodeBuffers | None = None,
) -> Iterator[Columns]:
    """The records of the index whose offsets are in ``[start_offset, stop_offset)``.

    Columns that are not ``wanted`` are not built. ``aborted`` are the transactions that the same
    response names; their records are left out up to the producer's next abort marker. ``transactions`` are
    those of all responses of a read of committed records, with which the response must agree. All checksums
    of batches in the range are checked, also of those that are left out, because a damaged header can cause
    that. The values' memory is one of ``buffers``, and is reused when no array refers to it.

    Raises ``CorruptDataError`` with the batch's offset for a wrong CRC, an unknown codec,
    damaged compressed data, or records that do not fit their batch; ``LimitError`` for a
    batch that decompresses to too much. All fatal.
    """
    buffers = buffers or DecodeBuffers()
    if transactions is None and aborted:
        transactions = AbortedTransactions()
    is_left_out = None if transactions is None else transactions.left_out(index, aborted)
    for run in _runs(index, start_offset, stop_offset, is_left_out):
        decode = decode_records if index.table[run[0], log_index.MAGIC] == 2 else decode_messages
        for columns in decode(index, run, start_offset, stop_offset, wanted, limits, buffers):
            if columns.count:
                yield columns


def _runs(
    index: BatchIndex, start_offset: int, stop_offset: int, is_left_out: npt.NDArray[np.bool_] | None
) -> Iterator[Int64s]:
    """Rows of the batches that may hold records of the range, each run of one format.

    A run may be overwritten when the next one is requested.
    """
    aborted = _NONE if is_left_out is None else is_left_out.view(np.uint8)
    chosen, left_out = room(index.count, np.int64), room(index.count, np.int64)
    row = 0
    while row < index.count:
        chosen_count, left_out_count, row = log_index.select_batches(
            index.table, row, start_offset, stop_offset, aborted, chosen, left_out
        )
        check_crcs(index, left_out[:left_out_count])
        if chosen_count:
            yield chosen[:chosen_count]


def encode_batches(
    records: Records,
    *following: Records,
    magic: int = 2,
    compression: str = "none",
    level: int | None = None,
    batch_bytes_max: int,
    request_bytes_max: int,
    now_ms: int,
) -> Iterator[EncodedBatch]:
    """Batches of all records, in order; each fits one partition of a Produce request.

    Those of ``following`` come after the first ones, and are not copied into one batch with them.
    ``magic`` 2 needs Produce 3 (Kafka 0.11), 1 needs Produce 2 (0.10); before those it is 0, which
    has no timestamps. A batch has at most ``batch_bytes_max`` bytes before compression, or one
    record. Records without a timestamp have ``now_ms``.

    Raises ``RowError`` naming the row for a record whose batch would be larger than
    ``request_bytes_max``, a timestamp below 0, or headers where the magic has none; ``OptionError``
    for a wrong type, compression or level. All fatal.
    """
    encode = encode_records if magic == 2 else encode_messages
    codec = codec_named(compression, Format(magic))
    packing = Packing(magic, codec, level, min(batch_bytes_max, _SIZE_MAX), min(request_bytes_max, _SIZE_MAX))
    return encode([part for part in (records, *following) if part.count] or [records], packing, now_ms)
