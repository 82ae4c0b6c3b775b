"""The records of several batches of magic 2 in one buffer, decompressed where they were compressed.

Plain batches stay where they are. With a compressed one among them, the records of all are joined
in a new buffer, so that they are still indexed at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_kafkawire.errors import CorruptDataError, KafkaWireError, counted
from spark_kafkawire.protocol.buffers import Buffers
from spark_kafkawire.protocol.primitives import Buffer

from .. import log_kernels
from ..arrays import Int64s, Uint8s, byte_array, joined
from ..compression.codec import Format, TooLarge
from ..compression.table import decompress
from ..limits import MESSAGE_BYTES_MIN, DecodeLimits
from ..log_index import BatchIndex, table_room
from ..log_layout import BATCH_OVERHEAD, CODEC_MASK, RECORD_BYTES_MIN
from .read_kernels import place_records

#: For batches without compression the sizes of the records follow from those of the batches.
_PLAIN: Final = np.empty(0, np.int64)
#: Decompressed bytes of one part: rows enough for a batch in Spark, and few enough to stay in caches.
_STAGE_BYTES: Final = 4 << 20
#: Room for the batch that ends a part; brokers take batches of up to about a megabyte.
_LAST_BATCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Regions:
    """Records in ``buf``: one row of ``table`` for each batch, whose row in the index is in ``rows``.

    ``table`` is that of the index, but position and size are those of the records in ``buf``,
    which may be overwritten when the next regions are requested. There are ``count`` records,
    whether they are in the range of offsets or not.
    """

    index: BatchIndex
    rows: Int64s
    buf: Uint8s
    table: Int64s
    count: int

    def region_of(self, row: int) -> int:
        """The region of a record that was kept."""
        return int(np.searchsorted(np.cumsum(self.table[:, log_kernels.KEPT]), row, "right"))

    def damage(self, region: int, reason: str) -> CorruptDataError:
        """The error for a damaged record in a region."""
        return self.index.damage(int(self.rows[region]), reason)


def regions_of(index: BatchIndex, rows: Int64s, limits: DecodeLimits, buffers: Buffers) -> Iterator[Regions]:
    """The records of those batches of the index, in parts of about ``batch_bytes_max``.

    Decompressed bytes are in memory of ``buffers``.

    Raises ``CorruptDataError`` for an unknown codec, damaged compressed data or a count that the
    bytes cannot hold, ``LimitError`` for a batch that decompresses to too much. All fatal.
    """
    if (index.table[rows, log_kernels.ATTRIBUTES] & CODEC_MASK).any():
        yield from _decompressed(index, rows, limits, buffers)
    else:
        yield from _plain(index, rows, limits)


def _plain(index: BatchIndex, rows: Int64s, limits: DecodeLimits) -> Iterator[Regions]:
    first = 0
    while first < len(rows):
        found = _placed(index, rows[first:], limits)
        yield found
        first += len(found.rows)


def _decompressed(
    index: BatchIndex, rows: Int64s, limits: DecodeLimits, buffers: Buffers
) -> Iterator[Regions]:
    stage, sizes = _JoinedRecords(buffers), list[int]()
    part_bytes_max = min(limits.batch_bytes_max, _STAGE_BYTES)
    first, taken, view = 0, 0, index.buf.data
    columns = (log_kernels.POS, log_kernels.SIZE, log_kernels.ATTRIBUTES, log_kernels.COUNT)
    for i, (pos, size, attributes, count) in enumerate(index.table[rows][:, columns].tolist()):
        payload = view[pos + BATCH_OVERHEAD : pos + size]
        parts = _records(index, int(rows[i]), payload, attributes & CODEC_MASK, limits)
        size = sum(map(len, parts))
        if size >= part_bytes_max:
            # Large enough for a part of its own, and too large to copy.
            if sizes:
                yield _placed(index, rows[first:i], limits, stage.take(), np.array(sizes))
            yield _placed(index, rows[i : i + 1], limits, joined(parts), np.array([size]))
            sizes, first, taken = [], i + 1, 0
            continue
        sizes.append(stage.append(parts))
        taken += max(size, MESSAGE_BYTES_MIN * count)
        if taken >= part_bytes_max:
            yield _placed(index, rows[first : i + 1], limits, stage.take(), np.array(sizes))
            sizes, first, taken = [], i + 1, 0
    if sizes:
        yield _placed(index, rows[first:], limits, stage.take(), np.array(sizes))


def _records(
    index: BatchIndex, row: int, payload: memoryview, number: int, limits: DecodeLimits
) -> list[Buffer]:
    """The records of the batch at that row, in parts."""
    if not number or not payload:
        return [payload]
    try:
        return decompress(number, Format.MAGIC_2, payload, limits.decompressed_bytes_max)
    except CorruptDataError as error:
        raise index.damage(row, error.reason) from error
    except TooLarge as error:
        raise index.too_large(row, error.reason, limits) from error


class _JoinedRecords:
    """Buffer in which the records of one part are joined; each part uses the same memory."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._view = buffers.take(_STAGE_BYTES + _LAST_BATCH_BYTES)
        self._size = 0

    def append(self, parts: list[Buffer]) -> int:
        """Add the bytes of all parts; their number."""
        start = self._size
        for part in parts:
            stop = self._size + len(part)
            if stop > len(self._view):
                self._grow(stop)
            self._view[self._size : stop] = part
            self._size = stop
        return self._size - start

    def _grow(self, size_min: int) -> None:
        grown = self._buffers.take(max(size_min, 2 * len(self._view)))
        grown[: self._size] = self._view[: self._size]
        self._view = grown

    def take(self) -> Uint8s:
        """All that was added; the memory is written again by the next ``append``."""
        taken, self._size = self._view[: self._size], 0
        return byte_array(taken)


def _placed(
    index: BatchIndex, rows: Int64s, limits: DecodeLimits, stage: Uint8s | None = None, sizes: Int64s = _PLAIN
) -> Regions:
    """The records of the first of these batches, as many as one part may have.

    They are in the index's buffer, or all of them in the stage, one after the other, with these sizes.
    """
    part = table_room(len(rows))
    code, stop, begin, end, count = place_records(
        index.table,
        rows,
        sizes,
        limits.batch_bytes_max if stage is None else sys.maxsize,
        limits.decompressed_bytes_max // MESSAGE_BYTES_MIN,
        MESSAGE_BYTES_MIN,
        part,
    )
    if code == log_kernels.BAD_COUNT:
        # Refused before memory is taken for them.
        size = sizes[stop] if len(sizes) else index.table[rows[stop], log_kernels.SIZE] - BATCH_OVERHEAD
        raise _bad_count(index, int(rows[stop]), int(size), limits)
    buf = index.buf if stage is None else stage
    return Regions(index, rows[:stop], buf[begin:end], part[:stop], count)


def _bad_count(index: BatchIndex, row: int, size: int, limits: DecodeLimits) -> KafkaWireError:
    count = int(index.table[row, log_kernels.COUNT])
    if 0 <= count <= size // RECORD_BYTES_MIN:
        return index.too_large(
            row, f"it holds {counted(count, 'record')}, and each counts as {MESSAGE_BYTES_MIN} bytes", limits
        )
    return index.damage(row, f"it claims {counted(count, 'record')} in {size} bytes")
