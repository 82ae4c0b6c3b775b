"""The records of several batches of magic 2 in one buffer, decompressed where they were compressed.

Plain batches stay where they are. With a compressed one among them, the records of all are joined
in a new buffer, so that they are still indexed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..errors import CorruptDataError
from ..protocol.buffers import Buffers
from ..protocol.primitives import Buffer
from . import batch_kernels as kernels
from .batch_codecs import CODECS
from .batch_index import BatchIndex
from .batch_kernels import TIMESTAMP_TYPE_BIT
from .columns import Int32s, Int64s, Uint8s
from .compression import TooLarge
from .entries import byte_array
from .limits import MESSAGE_BYTES_MIN, DecodeLimits

#: Bytes of a batch before its records.
HEADER_BYTES: Final = 61
#: Bits of a batch's attributes.
CODEC_MASK: Final = 7
TRANSACTIONAL_BIT: Final = 16
CONTROL_BIT: Final = 32
#: Decompressed bytes of one part: rows enough for a batch in Spark, and few enough to stay in caches.
_STAGE_BYTES: Final = 4 << 20
#: Room for the batch that ends a part; brokers take batches of up to about a megabyte.
_LAST_BATCH_BYTES: Final = 1 << 20
#: Smallest record: seven numbers of one byte.
_RECORD_BYTES_MIN: Final = 7


@dataclass(frozen=True, slots=True)
class Regions:
    """Records in ``buf``: one row of ``table`` for each batch, whose row in the index is in ``rows``.

    ``table`` is that of the index, but position and size are those of the records in ``buf``,
    which may be overwritten once the next regions are asked for.
    """

    index: BatchIndex
    rows: Int64s
    buf: Uint8s
    table: Int64s

    @property
    def count(self) -> int:
        """Number of records, whether they are in the range of offsets or not."""
        return int(self.table[:, kernels.COUNT].sum())

    def timestamp_types(self) -> Int32s:
        """The timestamp type of each record that was kept."""
        types = (self.table[:, kernels.ATTRIBUTES] & TIMESTAMP_TYPE_BIT != 0).astype(np.int32)
        return np.repeat(types, self.table[:, kernels.KEPT])

    def region_of(self, row: int) -> int:
        """The region of a record that was kept."""
        return int(np.searchsorted(np.cumsum(self.table[:, kernels.KEPT]), row, "right"))

    def damage(self, region: int, reason: str) -> CorruptDataError:
        """The error for a damaged record in a region."""
        return self.index.damage(int(self.rows[region]), reason)


def regions_of(index: BatchIndex, rows: Int64s, limits: DecodeLimits, buffers: Buffers) -> Iterator[Regions]:
    """The records of those batches of the index, in parts of about ``batch_bytes_max``.

    What is decompressed is in memory of ``buffers``.

    Raises ``CorruptDataError`` for an unknown codec, damaged compressed data or a count that the
    bytes cannot hold, ``LimitError`` for a batch that decompresses to too much. All fatal.
    """
    if (index.table[rows, kernels.ATTRIBUTES] & CODEC_MASK).any():
        yield from _decompressed(index, rows, limits, buffers)
    else:
        yield from _plain(index, rows, limits)


def _plain(index: BatchIndex, rows: Int64s, limits: DecodeLimits) -> Iterator[Regions]:
    table = index.table[rows]
    sizes = table[:, kernels.SIZE] - HEADER_BYTES
    _check_counts(index, rows, sizes, limits)
    taken = np.cumsum(np.maximum(table[:, kernels.SIZE], MESSAGE_BYTES_MIN * table[:, kernels.COUNT]))
    first, done = 0, 0
    while first < len(rows):
        last = min(int(np.searchsorted(taken, done + limits.batch_bytes_max)) + 1, len(rows))
        part = slice(first, last)
        starts = table[part, kernels.POS] + HEADER_BYTES
        begin, end = int(starts[0]), int(starts[-1] + sizes[last - 1])
        buf = index.buf[begin:end]
        yield Regions(index, rows[part], buf, _located(table[part], starts - begin, sizes[part]))
        first, done = last, int(taken[last - 1])


def _decompressed(
    index: BatchIndex, rows: Int64s, limits: DecodeLimits, buffers: Buffers
) -> Iterator[Regions]:
    stage, sizes = _Stage(buffers), list[int]()
    part_bytes_max = min(limits.batch_bytes_max, _STAGE_BYTES)
    first, taken, view = 0, 0, index.buf.data
    columns = (kernels.POS, kernels.SIZE, kernels.ATTRIBUTES, kernels.COUNT)
    for i, (pos, size, attributes, count) in enumerate(index.table[rows][:, columns].tolist()):
        payload = view[pos + HEADER_BYTES : pos + size]
        try:
            sizes.append(stage.append(_content(payload, attributes & CODEC_MASK, limits)))
        except CorruptDataError as error:
            raise index.damage(int(rows[i]), str(error)) from error
        except TooLarge as error:
            raise index.too_large(int(rows[i]), str(error), limits) from error
        taken += max(sizes[-1], MESSAGE_BYTES_MIN * count)
        if taken >= part_bytes_max or i + 1 == len(rows):
            yield _staged(index, rows[first : i + 1], stage.take(), np.array(sizes), limits)
            sizes, first, taken = [], i + 1, 0


def _content(payload: memoryview, number: int, limits: DecodeLimits) -> list[Buffer]:
    """The records of a batch, in parts."""
    if not number or not payload:
        return [payload]
    codec = CODECS[2].get(number)
    if codec is None:
        raise CorruptDataError(f"its compression codec {number} is unknown")
    return codec.decompress(payload, limits.decompressed_bytes_max)


class _Stage:
    """Where the records of one part after the other are joined, in the same memory."""

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


def _staged(index: BatchIndex, rows: Int64s, stage: Uint8s, sizes: Int64s, limits: DecodeLimits) -> Regions:
    _check_counts(index, rows, sizes, limits)
    table = _located(index.table[rows], np.cumsum(sizes) - sizes, sizes)
    return Regions(index, rows, stage, table)


def _check_counts(index: BatchIndex, rows: Int64s, sizes: Int64s, limits: DecodeLimits) -> None:
    """Refuse counts before memory is taken for them."""
    counts = index.table[rows, kernels.COUNT]
    count_max = limits.decompressed_bytes_max // MESSAGE_BYTES_MIN
    wrong = np.flatnonzero((counts < 0) | (counts > np.minimum(sizes // _RECORD_BYTES_MIN, count_max)))
    if not len(wrong):
        return
    row, count, size = (int(column[wrong[0]]) for column in (rows, counts, sizes))
    if 0 <= count <= size // _RECORD_BYTES_MIN:
        raise index.too_large(row, f"it holds {count} records, and each counts as 64 bytes", limits)
    raise index.damage(row, f"it claims {count} records in {size} bytes")


def _located(table: Int64s, starts: Int64s, sizes: Int64s) -> Int64s:
    """The table with the places of the records in place of the batches'; the rows are overwritten."""
    table[:, kernels.POS], table[:, kernels.SIZE] = starts, sizes
    return table
