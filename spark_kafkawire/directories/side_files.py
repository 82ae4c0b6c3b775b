"""The small files of a log directory: checkpoints and properties, indexes, and snapshots of producers.
Pure.

In ``log.dirs``: replication-offset-checkpoint, recovery-point-offset-checkpoint,
log-start-offset-checkpoint, cleaner-offset-checkpoint. In the folder of a log: leader-epoch-checkpoint.

    0                   version                             0                   version
    2                   count                               1                   count
    topic 0 1234        topic, partition, offset            3 1200              epoch, its first offset
    topic 1 1230

A broker replaces these files as a whole, so a file that is cut is damage. Source: Apache Kafka's
CheckpointFile.java, OffsetCheckpointFile.java, LeaderEpochCheckpointFile.java.

Beside a segment, the sparse indexes by offset, by timestamp, and of aborted transactions, and the open
transactions at an offset:

    .index       relative offset int32 | position int32                                    8 bytes
    .timeindex   timestamp int64 | relative offset int32                                  12 bytes
    .txnindex    version int16 | producer id int64 | first offset int64 | last offset int64
                 | last stable offset int64                                               34 bytes
    .snapshot    version int16 = 1 | crc uint32 | count int32 | entries
                 entry: producer id int64 | producer epoch int16 | last sequence int32 | last offset int64
                        | offset delta int32 | timestamp int64 | coordinator epoch int32 | first offset of
                        its open transaction int64, -1 without one

An offset index says that the batch at a position holds the offset or a later one, a time index that no
record before the offset is younger than the timestamp. A broker maps both into memory at their full
size and cuts them when it closes the segment. So the index of the active segment, and every index of a
broker that was killed, ends in zeros. Entries rise, which tells them from zeros. ``crc`` of a snapshot
is the CRC-32C of all bytes after it, and the number in its name is the offset up to which the log was
read. Source: Apache Kafka's OffsetIndex.java, TimeIndex.java, TransactionIndex.java, AbortedTxn.java,
ProducerStateManager.java, ProducerSnapshot.json.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import crc32c
import numpy as np

from ..errors import CorruptDataError, quote
from ..records.arrays import Int64s
from . import LogName


def damaged_file(problem: str) -> CorruptDataError:
    """The error with the failed check and what to do. Its caller adds the path."""
    return CorruptDataError(f"the file is damaged: {problem}; copy it again from the broker")


HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
#: Files with these names.
NAMES: Final = frozenset(
    (
        HIGH_WATERMARKS,
        LOG_STARTS,
        RECOVERY_POINTS,
        CLEANER_OFFSETS,
        LEADER_EPOCHS,
        META_PROPERTIES,
        PARTITION_METADATA,
    )
)
#: Longest of them, bytes: 59,000 partitions of topics with the longest names (249 characters, so lines of
#: 282), 300,000 with names of 30.
BYTES_MAX: Final = 16 << 20
_INT: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_CHECKPOINT_VERSION: Final = "0"


@dataclass(frozen=True, slots=True, order=True)
class EpochStart:
    """A leader epoch, and the first offset that its leader wrote."""

    epoch: int
    start_offset: int


def offsets_of(data: bytes) -> dict[LogName, int]:
    """Offsets by log. Raises ``CorruptDataError`` (fatal) for a file that is cut, or of another version."""
    result: dict[LogName, int] = {}
    for line in _lines(data):
        # A topic of 0.8 may hold blanks.
        topic, partition, offset = [*line.rsplit(" ", 2), "", ""][:3]
        log = LogName(topic, _number(partition, line))
        if not topic or log in result:
            problem = "names a partition again" if log in result else "is not 'topic partition offset'"
            raise damaged_file(f"line {quote(line)} {problem}")
        result[log] = _number(offset, line)
    return result


def epochs_of(data: bytes) -> tuple[EpochStart, ...]:
    """Leader epochs in their order. Raises ``CorruptDataError`` (fatal) for a file that is cut, of another
    version, or whose epochs or offsets fall."""
    result = []
    for line in _lines(data):
        epoch, _, offset = line.partition(" ")
        result.append(EpochStart(_number(epoch, line), _number(offset, line)))
    if any(a.epoch >= b.epoch or a.start_offset > b.start_offset for a, b in pairwise(result)):
        raise damaged_file("leader epochs or their first offsets do not rise")
    return tuple(result)


def epoch_end(epochs: Sequence[EpochStart], epoch: int, log_end: int) -> tuple[int, int]:
    """The largest epoch of a log that is not above ``epoch``, and the offset after its last record; (-1, -1)
    if there is none. It is Kafka's OffsetsForLeaderEpoch."""
    result = -1, -1
    for index, item in enumerate(epochs):
        if item.epoch <= epoch:
            is_last = index + 1 == len(epochs)
            result = item.epoch, log_end if is_last else epochs[index + 1].start_offset
    return result


def properties_of(data: bytes) -> Mapping[str, str]:
    """Names and values of ``meta.properties`` and of ``partition.metadata``; lines of other forms are left
    out."""
    result = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, separator, value = line.partition("=" if "=" in line else ":")
        if separator and not line.startswith("#"):
            result[name.strip()] = value.strip()
    return result


def _lines(data: bytes) -> Iterator[str]:
    """The lines of a checkpoint after its version and count, which are checked. A new file is empty."""
    if not data:
        return iter(())
    try:
        version, count, *lines = data.decode("utf-8").splitlines()
    except ValueError:
        raise damaged_file("it is no checkpoint: it begins with no version and count") from None
    if version != _CHECKPOINT_VERSION:
        raise damaged_file(f"it has version {quote(version)}; {_CHECKPOINT_VERSION} is supported")
    if _number(count, count) != len(lines):
        raise damaged_file(f"it says that it has {quote(count)} entries, and has {len(lines)}")
    return iter(lines)


def _number(text: str, line: str) -> int:
    if not _INT.fullmatch(text):
        raise damaged_file(f"line {quote(line)} has {quote(text)} where a number is due")
    return int(text)


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


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """Entries of an offset index, int64. ``is_trimmed`` is True if no zeros follow them: its broker has
    closed it."""

    offsets: Int64s
    positions: Int64s
    is_trimmed: bool = True

    @property
    def count(self) -> int:
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
    offsets, positions = entries["offset"].astype(np.int64), entries["pos"].astype(np.int64)
    rises = (np.diff(offsets, prepend=-1) > 0) & (np.diff(positions, prepend=0) > 0)
    count = _count_leading(rises)
    return OffsetIndex(offsets[:count] + base_offset, positions[:count], count == len(entries))


def time_index(data: bytes, base_offset: int) -> TimeIndex:
    """The entries of a time index of the segment at ``base_offset``, up to the first one that does not
    rise."""
    entries = np.frombuffer(data, _TIME_ENTRY, len(data) // _TIME_ENTRY.itemsize)
    times_ms, offsets = entries["time_ms"].astype(np.int64), entries["offset"].astype(np.int64)
    # A clock may have been before 1970 only in theory: a timestamp of zero or less is no entry.
    rises = (times_ms > 0) & (np.diff(times_ms, prepend=0) > 0) & (np.diff(offsets, prepend=-1) > 0)
    count = _count_leading(rises)
    return TimeIndex(times_ms[:count], offsets[:count] + base_offset, count == len(entries))


def aborted_transactions(data: bytes) -> tuple[AbortedTransaction, ...]:
    """The entries of an index of aborted transactions. An entry that is cut at the end is left out: the
    broker is writing it. Raises ``CorruptDataError`` (fatal) for entries of another version, or that cannot
    be: a transaction has a record before its marker, and markers rise."""
    entries = np.frombuffer(data, _TXN_ENTRY, len(data) // _TXN_ENTRY.itemsize)
    result: list[AbortedTransaction] = []
    for version, *numbers in entries.tolist():
        item = AbortedTransaction(*numbers)
        if version != 0:
            raise damaged_file(f"an entry has version {version}; 0 is supported")
        floor = result[-1].last_offset if result else 0
        if not 0 <= item.first_offset < item.last_offset > floor or item.producer_id < 0:
            raise damaged_file(
                f"an entry says that producer {item.producer_id} aborted [{item.first_offset}, "
                f"{item.last_offset}], after one that ends at {floor}"
            )
        result.append(item)
    return tuple(result)


def _count_leading(is_entry: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """Number of entries before the first False."""
    return len(is_entry) if is_entry.all() else int(is_entry.argmin())


_SNAPSHOT_HEAD: Final = struct.Struct(">hIi")
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_END: Final = 6
_SNAPSHOT_VERSION: Final = 1


def open_transactions(data: bytes) -> dict[int, int]:
    """The first offset of the open transaction of each producer that has one.

    Raises ``CorruptDataError`` (fatal) for a wrong CRC, size or version.
    """
    if len(data) < _SNAPSHOT_HEAD.size:
        raise damaged_file(f"it has {len(data)} bytes, fewer than its header")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise damaged_file(f"it has version {version}; {_SNAPSHOT_VERSION} is supported")
    if crc32c.crc32c(data[_CRC_END:]) != crc:
        raise damaged_file("its CRC is wrong")
    if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise damaged_file(f"it has {len(data)} bytes, which are not {count} entries")
    entries = (
        _SNAPSHOT_ENTRY.unpack_from(data, _SNAPSHOT_HEAD.size + index * _SNAPSHOT_ENTRY.size)
        for index in range(count)
    )
    return {entry[0]: entry[-1] for entry in entries if entry[-1] >= 0}
