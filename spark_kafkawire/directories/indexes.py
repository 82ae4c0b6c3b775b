"""The sparse indexes beside a segment: by offset, by timestamp, and of aborted transactions. Pure.

    .index       relative offset int32 | position int32                                    8 bytes
    .timeindex   timestamp int64 | relative offset int32                                  12 bytes
    .txnindex    version int16 | producer id int64 | first offset int64 | last offset int64
                 | last stable offset int64                                               34 bytes

An offset index says that the batch at a position holds the offset or a later one, a time index that no record
before the offset is younger than the timestamp. A broker maps both into memory at their full size and cuts
them when it closes the segment. So the index of the active segment, and every index of a broker that was
killed, ends in zeros. Entries rise, which tells them from zeros. Source: Apache Kafka's OffsetIndex.java,
TimeIndex.java, TransactionIndex.java, AbortedTxn.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..records.arrays import Int64s
from .file_damage import damaged_file

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("pos", ">i4")])
_TIME_ENTRY: Final = np.dtype([("time_ms", ">i8"), ("offset", ">i4")])
_TXN_ENTRY: Final = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
TXN_ENTRY_BYTES: Final = _TXN_ENTRY.itemsize


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """Entries of an offset index, int64. ``is_trimmed`` is True if no zeros follow them: its broker has
    closed it."""

    offsets: Int64s
    positions: Int64s
    is_trimmed: bool = True

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.offsets)

    def position_of(self, offset: int) -> int:
        """A position at or before the batch that holds the offset: that of the last entry at or before it, 0
        without any."""
        row = int(np.searchsorted(self.offsets, offset, "right")) - 1
        return int(self.positions[row]) if row >= 0 else 0

    def floor_of(self, pos: int) -> int:
        """The smallest offset that a batch at the position of an entry can have, 0 without one before it."""
        row = int(np.searchsorted(self.positions, pos, "left")) - 1
        return int(self.offsets[row]) + 1 if row >= 0 else 0

    def stop_position(self, stop_offset: int, size: int) -> int:
        """A position after all batches with offsets below ``stop_offset``, ``size`` if none is known.

        An entry has the last offset of an append, and the position where the append begins. So the append is
        before the next entry."""
        row = int(np.searchsorted(self.offsets, stop_offset - 1, "left")) + 1
        return min(int(self.positions[row]), size) if row < self.count else size

    def last_position(self, size: int) -> int:
        """The last position that is below ``size``, 0 without any."""
        row = int(np.searchsorted(self.positions, size, "left")) - 1
        return int(self.positions[row]) if row >= 0 else 0


@dataclass(frozen=True, slots=True)
class TimeIndex:
    """Entries of a time index, int64: no record before ``offsets[i]`` is younger than ``times_ms[i]``.

    ``is_trimmed`` is True if no zeros follow them; then the last entry has the largest timestamp of the
    segment."""

    times_ms: Int64s
    offsets: Int64s
    is_trimmed: bool = True

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.offsets)

    def offset_before(self, time_ms: int) -> int | None:
        """An offset before which no record has the timestamp or a later one; None without any."""
        row = int(np.searchsorted(self.times_ms, time_ms, "left")) - 1
        return int(self.offsets[row]) if row >= 0 else None


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A transaction whose abort marker is in the segment, at ``last_offset``."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def offset_index(data: bytes, base_offset: int) -> OffsetIndex:
    """The entries of an offset index of the segment at ``base_offset``, up to the first one that does not
    rise."""
    entries = np.frombuffer(data, _OFFSET_ENTRY, len(data) // _OFFSET_ENTRY.itemsize)
    offsets, positions = (
        entries["offset"].astype(np.int64),
        entries["pos"].astype(np.int64),
    )
    rises = (np.diff(offsets, prepend=-1) > 0) & (np.diff(positions, prepend=0) > 0)
    count = _leading(rises)
    return OffsetIndex(offsets[:count] + base_offset, positions[:count], count == len(entries))


def time_index(data: bytes, base_offset: int) -> TimeIndex:
    """The entries of a time index of the segment at ``base_offset``, up to the first one that does not
    rise."""
    entries = np.frombuffer(data, _TIME_ENTRY, len(data) // _TIME_ENTRY.itemsize)
    times_ms, offsets = (
        entries["time_ms"].astype(np.int64),
        entries["offset"].astype(np.int64),
    )
    # A clock may have been before 1970 only in theory: a timestamp of zero or less is no entry.
    rises = (times_ms > 0) & (np.diff(times_ms, prepend=0) > 0) & (np.diff(offsets, prepend=-1) > 0)
    count = _leading(rises)
    return TimeIndex(times_ms[:count], offsets[:count] + base_offset, count == len(entries))


def aborted_transactions(data: bytes) -> tuple[AbortedTransaction, ...]:
    """The entries of an index of aborted transactions. An entry that is cut at the end is left out: the
    broker is writing it. Raises ``CorruptDataError`` (fatal) for entries of another version, or that cannot
    be: a transaction has a record before its marker, and markers rise."""
    entries = np.frombuffer(data, _TXN_ENTRY, len(data) // TXN_ENTRY_BYTES)
    found: list[AbortedTransaction] = []
    for version, *numbers in entries.tolist():
        each = AbortedTransaction(*numbers)
        if version != 0:
            raise damaged_file(f"an entry has version {version}; 0 is supported")
        floor = found[-1].last_offset if found else 0
        if not 0 <= each.first_offset < each.last_offset > floor or each.producer_id < 0:
            raise damaged_file(
                f"an entry says that producer {each.producer_id} aborted [{each.first_offset}, "
                f"{each.last_offset}], after one that ends at {floor}"
            )
        found.append(each)
    return tuple(found)


def _leading(is_entry: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """Number of entries before the first False."""
    return len(is_entry) if is_entry.all() else int(is_entry.argmin())
