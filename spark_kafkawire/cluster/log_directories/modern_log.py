"""The log of a partition of Kafka 0.8 to 4.x in log directories, from the disks of one broker or of several.

``ModernLog`` chooses among replicas. ``ReplicaLog`` is the log on one broker's disks: its end, open
transactions, timestamps. A broker that starts again finds the same: the end after the last whole batch,
segments in place of those whose rename was interrupted (LogLoader), and open transactions from the last
snapshot on (ProducerStateManager). Segment files are walked by the headers of their batches.

From several brokers' directories, a replica is chosen for each range::

    replica      log                         high watermark   leader epochs
    /b1          [0 ............ 120)        100              3 from 0
    /b2               [40 .... 105)          90               3 from 0, 4 from 95
    read         [0, 40) of /b1, [40, 90) of /b2

The longest log is not the right one: its last records may never have been committed, or an election may have
replaced them. So two facts decide, which brokers write down:

* The leader epochs. The log with the latest epoch is the authority. Another log agrees with it up to the
  offset where their epochs part, as a follower finds the offset to which it truncates its log (KIP-101).
* The high watermark of ``replication-offset-checkpoint``. Records below it are committed.

A read of several replicas ends at the highest high watermark of a log, where it agrees with the authority. A
single replica is read to its end: no other one contradicts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from spark_kafkawire.directories import LogName
from spark_kafkawire.directories.file_systems import FileInfo
from spark_kafkawire.directories.files import Files, LogSlice, SegmentSlice, only_zeros, windows
from spark_kafkawire.directories.scanner import (
    BATCH_BYTES_MAX,
    OFFSET_MAX,
    Damaged,
    SegmentFile,
    Sound,
    scan_segment,
)
from spark_kafkawire.directories.scanning import LogDirectory, Segment
from spark_kafkawire.directories.side_files import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    EpochStart,
    OffsetIndex,
    epoch_end,
    offset_index,
    open_transactions,
    time_index,
)
from spark_kafkawire.errors import LOG, CorruptDataError, DataLossError, OptionError, counted
from spark_kafkawire.model import Generation, PartitionBounds, TopicPartition
from spark_kafkawire.records.batch.decoding import check_crcs
from spark_kafkawire.records.damaged_batches import walk_batches
from spark_kafkawire.records.log_index import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL_BIT,
    COUNT,
    MAGIC,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    PRODUCER_ID,
    TRANSACTIONAL_BIT,
    BatchIndex,
    whole_batches,
)
from spark_kafkawire.records.record_log import decode_batches

from . import SlicePart


@dataclass(frozen=True, slots=True)
class Replica:
    """One broker's log of a partition: ``[start, end)`` on its disks. ``high_watermark`` is None if no
    checkpoint has it, ``epochs`` are empty before Kafka 0.11. ``log_start`` is the checkpointed start, 0
    without one."""

    start: int
    end: int
    high_watermark: int | None = None
    epochs: tuple[EpochStart, ...] = ()
    log_start: int = 0

    @property
    def last_epoch(self) -> int:
        """The latest leader epoch, -1 without any."""
        return self.epochs[-1].epoch if self.epochs else -1


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets ``[start, stop)`` that are read from a replica, given by its place in the list."""

    start: int
    stop: int
    replica: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The ranges to read, ascending and without a gap. ``start`` and ``end`` are the bounds of the partition.

    ``authority`` is the replica with the latest epoch. ``agreed`` are the offsets up to which each replica
    agrees with it."""

    pieces: tuple[Piece, ...]
    start: int
    end: int
    authority: int
    agreed: tuple[int, ...]


def choose(replicas: Sequence[Replica]) -> Choice:
    """Choose the replica of each range. There is at least one replica."""
    authority = max(range(len(replicas)), key=lambda index: _rank(replicas[index]))
    agreed = tuple(
        item.end if index == authority else _find_agreement(item, replicas[authority])
        for index, item in enumerate(replicas)
    )
    end = replicas[0].end if len(replicas) == 1 else _find_committed_end(replicas, authority, agreed)
    log_start = max(item.log_start for item in replicas)
    start = min(max(log_start, min(item.start for item in replicas)), end)
    pieces: list[Piece] = []
    stop = end
    while stop > start:
        held = [index for index, item in enumerate(replicas) if item.start < stop <= agreed[index]]
        if not held:
            break
        best = authority if authority in held else min(held, key=lambda index: replicas[index].start)
        pieces.append(Piece(max(start, replicas[best].start), stop, best))
        stop = pieces[-1].start
    return Choice(tuple(reversed(pieces)), stop, end, authority, agreed)


def contradiction(replicas: Sequence[Replica]) -> tuple[int, int, str] | None:
    """The places of two replicas whose leader epochs contradict each other, and the reason; None without any.

    An epoch has one leader, so it begins at one offset. Brokers raise the first epoch's offset with the start
    of the log, so it proves nothing.
    """
    for first in range(len(replicas)):
        for second in range(first + 1, len(replicas)):
            a, b = replicas[first].epochs[1:], replicas[second].epochs[1:]
            starts = {item.epoch: item.start_offset for item in a}
            for item in b:
                if starts.get(item.epoch, item.start_offset) != item.start_offset:
                    reason = f"leader epoch {item.epoch} begins at offset {starts[item.epoch]} in the first"
                    return first, second, f"{reason} and at {item.start_offset} in the second"
    return None


def _rank(replica: Replica) -> tuple[int, int, int]:
    high_watermark = -1 if replica.high_watermark is None else replica.high_watermark
    return replica.last_epoch, high_watermark, replica.end


def _find_agreement(replica: Replica, authority: Replica) -> int:
    """The offset up to which a log agrees with that of the latest epoch."""
    end = min(replica.end, authority.end)
    if not replica.epochs or not authority.epochs:
        # Before leader epochs only what is committed is the same everywhere.
        return end if replica.high_watermark is None else min(replica.end, replica.high_watermark)
    if replica.last_epoch == authority.last_epoch:
        return end
    epoch, stop = epoch_end(authority.epochs, replica.last_epoch, authority.end)
    if epoch < 0:
        return min(replica.end, authority.epochs[0].start_offset)
    _, own_stop = epoch_end(replica.epochs, epoch, replica.end)
    if own_stop < 0:
        return min(replica.end, replica.epochs[0].start_offset)
    return min(stop, own_stop, replica.end)


def _find_committed_end(replicas: Sequence[Replica], authority: int, agreed: Sequence[int]) -> int:
    """The end of the records that are committed."""
    known = [
        min(item.high_watermark, agreed[index])
        for index, item in enumerate(replicas)
        if item.high_watermark is not None
    ]
    if known:
        return max(known)
    last = replicas[authority].last_epoch
    return min(agreed[index] for index, item in enumerate(replicas) if item.last_epoch == last)


class ModernLog:
    """Implements ``PartitionLog``. ``is_committed`` is True for reads of committed records."""

    def __init__(
        self,
        partition: TopicPartition,
        logs: Sequence[ReplicaLog],
        *,
        is_committed: bool,
        fail_on_data_loss: bool,
    ) -> None:
        self._partition = partition
        self._logs = logs
        self._is_committed = is_committed
        self._fail_on_data_loss = fail_on_data_loss

    @cached_property
    def _choice(self) -> Choice:
        """The replica of each range. Raises ``OptionError`` (fatal) for replicas that contradict each other,
        ``DataLossError`` for one without records that its checkpoint calls committed."""
        replicas = [item.replica for item in self._logs]
        self._check_same_topic()
        self._check_brokers()
        if result := contradiction(replicas):
            *both, reason = result
            files = [self._file(self._logs[location], LEADER_EPOCHS) for location in both]
            raise self._describe_contradiction(files, reason)
        choice = choose(replicas)
        self._check_contents(choice)
        self._check_high_watermarks(choice)
        return choice

    def _check_same_topic(self) -> None:
        first = self._logs[0]
        for other in self._logs[1:]:
            for name, key, what in ((None, "cluster.id", "cluster"), (first.name, "topic_id", "topic")):
                ids = [item.directory.properties(name).get(key) for item in (first, other)]
                if None not in ids and ids[0] != ids[1]:
                    file = META_PROPERTIES if name is None else PARTITION_METADATA
                    raise self._describe_contradiction(
                        [self._file(item, file) for item in (first, other)],
                        f"they are of two {what}s, {ids[0]} and {ids[1]}",
                    )

    def _check_brokers(self) -> None:
        """Compare the ids of brokers. The ``log.dirs`` of one broker never hold the same partition."""
        of_ids: dict[int, ReplicaLog] = {}
        for log in self._logs:
            broker_id = log.directory.broker_id
            if broker_id is None:
                continue
            other = of_ids.setdefault(broker_id, log)
            if other is not log:
                raise OptionError(
                    f"{self._partition}: {self._file(other, META_PROPERTIES)} and "
                    f"{self._file(log, META_PROPERTIES)} contradict each other: both are of broker "
                    f"{broker_id}, which has one log of a partition; one is likely a copy, leave it out"
                )

    def _check_contents(self, choice: Choice) -> None:
        """Compare the last batch that each replica shares with the authority."""
        authority = self._logs[choice.authority]
        for location, log in enumerate(self._logs):
            shared = min(choice.agreed[location], choice.end) - 1
            if log is authority or shared < max(log.replica.start, authority.replica.start):
                continue
            if files := same_batch(authority, log, shared):
                raise self._describe_contradiction(
                    [item.shown(file) for item, file in zip((authority, log), files, strict=True)],
                    f"their batches at offset {shared} differ",
                )

    def _check_high_watermarks(self, choice: Choice) -> None:
        """Report records that a checkpoint calls committed and no file holds, and records above it."""
        replicas = [item.replica for item in self._logs]
        marks = [item.high_watermark for item in replicas if item.high_watermark is not None]
        if len(self._logs) == 1 and marks and marks[0] > choice.end:
            message = (
                f"{self._partition}: offsets [{choice.end}, {marks[0]}) are gone: "
                f"{self._logs[0].shown(self._logs[0].segments[-1].file)} ends at offset {choice.end}, and "
                f"replication-offset-checkpoint says that {marks[0]} is committed"
            )
            if self._fail_on_data_loss:
                raise DataLossError(f"{message}; to read what is left, set failOnDataLoss=false")
            LOG.warning("%s; reading on because failOnDataLoss=false", message)
        beyond = max(item.end for item in replicas) - choice.end
        if len(self._logs) > 1 and beyond > 0:
            LOG.warning(
                "%s: %s after offset %d are left out: no high watermark of a broker says that they are "
                "committed; to read them, give the directory of the broker that led the partition alone",
                self._partition,
                counted(beyond, "offset"),
                choice.end,
            )
        for location, item in enumerate(replicas):
            if item.high_watermark is not None and choice.agreed[location] < min(
                item.high_watermark, item.end
            ):
                LOG.warning(
                    "%s: offsets [%d, %d) of %s are left out: a later leader epoch of %s replaced them",
                    self._partition,
                    choice.agreed[location],
                    item.end,
                    self._file(self._logs[location]),
                    self._file(self._logs[choice.authority]),
                )

    def _file(self, log: ReplicaLog, name: str = "") -> str:
        root = log.directory.files.root
        is_of_log = name != META_PROPERTIES
        parts = [root, *([str(log.name)] if is_of_log else []), *([name] if name else [])]
        return log.directory.files.shown("/".join(parts))

    def _describe_contradiction(self, files: Sequence[str], reason: str) -> OptionError:
        return OptionError(
            f"{self._partition}: {' and '.join(files)} contradict each other: {reason}; give the paths "
            "of the brokers of one cluster"
        )

    @cached_property
    def bounds(self) -> PartitionBounds:
        latest = self.high_watermark
        if self._is_committed and self._choice.pieces:
            last = self._choice.pieces[-1]
            latest = max(self._logs[last.replica].last_stable_offset(latest), self._choice.start)
        return PartitionBounds(self._partition, self._choice.start, latest)

    @property
    def high_watermark(self) -> int:
        return self._choice.end

    def start_offset(self, time_ms: int) -> int | None:
        for piece in self._choice.pieces:
            result = self._logs[piece.replica].first_at(time_ms, piece.start, piece.stop)
            if result is not None:
                return result
        return None

    stop_offset = start_offset

    def slices(self, start_offset: int, stop_offset: int) -> Sequence[SlicePart]:
        return [
            SlicePart(
                piece.start,
                piece.stop,
                self._logs[piece.replica].slice(piece.start, piece.stop, is_committed=self._is_committed),
                self._logs[piece.replica].place,
            )
            for piece in self._pieces(start_offset, stop_offset)
        ]

    def cut_points(self, start_offset: int, stop_offset: int, bytes_max: int) -> Sequence[int]:
        cuts: list[int] = []
        for piece in self._pieces(start_offset, stop_offset):
            last_pos, candidate = 0, None
            for offset, pos in self._logs[piece.replica].positions(piece.start, piece.stop):
                if pos - last_pos > bytes_max and candidate is not None:
                    cuts.append(candidate[0])
                    last_pos = candidate[1]
                candidate = offset, pos
        return cuts

    def _pieces(self, start_offset: int, stop_offset: int) -> list[Piece]:
        return [
            Piece(max(item.start, start_offset), min(item.stop, stop_offset), item.replica)
            for item in self._choice.pieces
            if item.start < stop_offset and item.stop > start_offset
        ]


#: The columns that find a record by its timestamp.
_OF_TIMES = frozenset(("offset", "timestamp"))


class ReplicaLog:
    """One broker's log of a partition. ``place`` is the number of the directory among the paths of the
    read. Without ``fail_on_damage`` damage is passed, as the tasks do."""

    def __init__(
        self, directory: LogDirectory, name: LogName, place: int, *, fail_on_damage: bool = True
    ) -> None:
        self.directory = directory
        self.name = name
        self.place = place
        self.fail_on_damage = fail_on_damage
        #: The base offsets of segments in which damage was passed.
        self._damaged: set[int] = set()
        self._folder = directory.log(name)
        self._offset_indexes: dict[int, OffsetIndex] = {}

    def shown(self, file: FileInfo) -> str:
        """The path of a file, for messages."""
        return self.directory.files.shown(file.path)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments that a broker would load, ascending; at least one.

        A segment whose rename was interrupted replaces those of its offsets."""
        live = list(self._folder.segments)
        for swap in self._folder.swapped:
            stop = self._end_of(swap, None)
            live = [item for item in live if not swap.base_offset <= item.base_offset < max(stop, 1)]
            live.append(swap)
        return tuple(sorted(live, key=lambda item: item.base_offset))

    @cached_property
    def replica(self) -> Replica:
        """The facts that choose among replicas."""
        log_start = self.directory.offsets(LOG_STARTS).get(self.name, 0)
        start = max(self.segments[0].base_offset, log_start)
        return Replica(
            min(start, self.end),
            self.end,
            self._checkpointed_high_watermark,
            self.directory.epochs(self.name),
            log_start,
        )

    @cached_property
    def _checkpointed_high_watermark(self) -> int | None:
        return self.directory.offsets(HIGH_WATERMARKS).get(self.name)

    @cached_property
    def end(self) -> int:
        """The offset after the last whole batch.

        Raises ``CorruptDataError`` (fatal) for damage that is no torn end, unless a checkpoint says that the
        log goes on: then the read of the damage is the error."""
        return self._end_of(self.segments[-1], self._checkpointed_high_watermark)

    def _end_of(self, segment: Segment, high_watermark: int | None) -> int:
        index = self._offset_index(segment)
        pos = index.last_position(segment.size)
        end, last, after = segment.base_offset, None, pos
        try:
            for item in self._batches(segment, pos):
                end, last, after = (int(item.table[-1, NEXT_OFFSET]), item, after + item.size)
        except CorruptDataError as error:
            is_empty = self._is_empty(segment, after)
            # One of the batches before it, whose headers are in order, may be the damaged one.
            result = self._first_damage(segment, pos)
            is_inside = result is not None and result < after
            if is_inside or (not is_empty and high_watermark is None):
                raise
            if not is_empty and high_watermark is not None:
                if high_watermark <= end:
                    LOG.warning(
                        "%s: %s; it is after the high watermark", self.shown(segment.file), error.__cause__
                    )
                return max(high_watermark, end)
        if pos and last is None:  # the index is wrong
            return self._end_of(replace(segment, offset_index=None), high_watermark)
        if high_watermark is not None and segment.base_offset in self._damaged and high_watermark > end:
            return high_watermark  # the damage may have them
        return end if last is None else self._without_torn(last, end, high_watermark)

    def _without_torn(self, last: BatchIndex, end: int, high_watermark: int | None) -> int:
        """The end without a last batch of which the disk has not all bytes: a machine lost its power."""
        row = last.count - 1
        base_offset = int(last.table[row, BASE_OFFSET])
        if last.table[row, MAGIC] == 2 and base_offset >= (high_watermark or 0):
            try:
                check_crcs(last, np.array([row]))
            except CorruptDataError:
                return base_offset
        return end

    def _is_empty(self, segment: Segment, pos: int) -> bool:
        """True if zeros alone follow a position: room for batches that were never written."""
        return only_zeros(self.directory.files, segment.file.path, pos, segment.size)

    def _batches(self, segment: Segment, pos: int = 0) -> Iterator[BatchIndex]:
        """The batches of a segment from a position on. Raises ``CorruptDataError`` (fatal) for damage, or
        passes it."""
        begin, floor = pos, max(segment.base_offset, self._offset_index(segment).floor_of(pos))
        try:
            for index in batches(
                self.directory.files,
                segment.file.path,
                pos,
                segment.size,
                yields_before_damage=self.fail_on_damage,
            ):
                yield index
                pos, floor = pos + index.size, int(index.table[-1, NEXT_OFFSET])
            self._check_torn(segment, pos, floor)
        except CorruptDataError as error:
            if self.fail_on_damage:
                named, damage = error.locate(self.shown(segment.file)), self._first_damage(segment, begin)
                raise (
                    named if damage is None else named.advise(f"it begins at byte {damage} of the file")
                ) from error
            is_empty = self._is_empty(segment, pos + (error.pos or 0))
            if not is_empty and segment.base_offset not in self._damaged:
                self._damaged.add(segment.base_offset)
                LOG.warning("%s: %s; planning continues after it", self.shown(segment.file), error)
            yield from self._sound_batches(segment, pos, floor)

    def _check_torn(self, segment: Segment, pos: int, floor: int) -> None:
        """Raise ``CorruptDataError`` if sound batches follow the cut one at ``pos``: its size is damaged."""
        if pos < segment.size and any(True for _ in self._sound_batches(segment, pos, floor)):
            raise CorruptDataError(
                f"the batch at offset {floor} is damaged: its size cannot be; copy the file again from the "
                "broker",
                floor,
                pos=0,
            )

    def _scan_segment(self, segment: Segment, pos: int, floor: int) -> Iterator[Sound | Damaged]:
        """The parts of a segment with all checks, from a position on after which no offset is below
        ``floor``."""
        later = [item.base_offset for item in self._folder.segments if item.base_offset > segment.base_offset]
        file = SegmentFile(
            segment.file.path,
            segment.size,
            segment.base_offset,
            min(later, default=OFFSET_MAX),
            Generation.MODERN,
        )
        return scan_segment(
            self.directory.files,
            file,
            lambda: self._offset_index(segment),
            pos=pos,
            floor=floor,
            window_bytes=_WINDOW_BYTES,
        )

    def _first_damage(self, segment: Segment, pos: int) -> int | None:
        """The position of the first damage from that of an index entry on; None without any."""
        parts = self._scan_segment(segment, pos, self._offset_index(segment).floor_of(pos))
        return next((part.pos for part in parts if isinstance(part, Damaged)), None)

    def _sound_batches(self, segment: Segment, pos: int, floor: int) -> Iterator[BatchIndex]:
        for part in self._scan_segment(segment, pos, floor):
            if isinstance(part, Sound) and isinstance(part.index, BatchIndex):
                yield replace(part.index, buf=part.buf.copy())  # its user keeps it

    def _offset_index(self, segment: Segment) -> OffsetIndex:
        """The offset index of a segment; an empty one without the file."""
        if segment.offset_index is None:
            return offset_index(b"", segment.base_offset)
        if segment.base_offset not in self._offset_indexes:
            data = self._content(segment.offset_index)
            self._offset_indexes[segment.base_offset] = offset_index(data, segment.base_offset)
        return self._offset_indexes[segment.base_offset]

    def _content(self, file: FileInfo | None) -> bytes:
        return self.directory.files.read_entries(file.path if file else None)

    def last_stable_offset(self, end: int) -> int:
        """The first offset of the first transaction that is open at ``end``, or ``end``."""
        opened_at, walk_from = self._snapshot(end)
        for segment, stop in self._between(walk_from, end):
            pos = self._offset_index(segment).position_of(walk_from)
            for index in self._batches(segment, pos):
                _follow(index, walk_from, min(end, stop), opened_at)
                if index.table[-1, NEXT_OFFSET] >= end:
                    break
        return min([end, *opened_at.values()])

    def _snapshot(self, end: int) -> tuple[dict[int, int], int]:
        """The open transactions of the last sound snapshot, and its offset; the start of the log without
        any."""
        for offset in sorted(self._folder.snapshots, reverse=True):
            if self.segments[0].base_offset <= offset <= end:
                try:
                    return open_transactions(self._content(self._folder.snapshots[offset])), offset
                except CorruptDataError:
                    continue
        return {}, self.segments[0].base_offset

    def _between(self, start_offset: int, stop_offset: int) -> list[tuple[Segment, int]]:
        """Segments with offsets of the range, each with the offset where the next one begins."""
        nexts = [item.base_offset for item in self.segments[1:]] + [2**63 - 1]
        return [
            (segment, next_base)
            for segment, next_base in zip(self.segments, nexts, strict=True)
            if segment.base_offset < stop_offset and next_base > start_offset
        ]

    def first_at(self, time_ms: int, start_offset: int, stop_offset: int) -> int | None:
        """The first offset of the range whose record has the timestamp or a later one; None without any."""
        for segment, _ in self._between(start_offset, stop_offset):
            times = time_index(self._content(segment.time_index), segment.base_offset)
            if times.is_trimmed and times.count and times.times_ms[-1] < time_ms:
                continue
            begin = max(times.offset_before(time_ms) or 0, start_offset)
            pos = self._offset_index(segment).position_of(begin)
            for index in self._batches(segment, pos):
                is_due = (index.column(MAX_TIMESTAMP) >= time_ms) & (index.column(NEXT_OFFSET) > start_offset)
                for row in np.flatnonzero(is_due).tolist():
                    try:
                        result = _first_record_at(index, row, time_ms, start_offset)
                    except CorruptDataError as error:
                        if self.fail_on_damage:
                            raise error.locate(self.shown(segment.file)) from error
                        continue  # its timestamps are not known
                    if result is not None:
                        return result if result < stop_offset else None
        return None

    def slice(self, start_offset: int, stop_offset: int, *, is_committed: bool) -> LogSlice:
        """The files of a range."""
        held = self._between(start_offset, stop_offset)
        first = held[0][0].base_offset if held else 0
        return LogSlice(
            self.directory.files.uri,
            self.directory.settings,
            Generation.MODERN,
            self._folder.path,
            tuple(
                SegmentSlice(
                    segment.file.name,
                    segment.base_offset,
                    segment.size,
                    None if next_base == 2**63 - 1 else next_base,
                    segment.offset_index.name if segment.offset_index else None,
                )
                for segment, next_base in held
            ),
            is_log_end=stop_offset == self.end,
            txn_indexes=tuple(
                segment.txn_index.name
                for segment in self.segments
                if is_committed and segment.txn_index is not None and segment.base_offset >= first
            ),
            is_compacted=self.name in self.directory.offsets(CLEANER_OFFSETS),
        )

    def positions(self, start_offset: int, stop_offset: int) -> list[tuple[int, int]]:
        """Offsets of a range with the bytes of the log before them, ascending, as the indexes have them."""
        result, before = [], 0
        for segment, next_base in self._between(start_offset, stop_offset):
            index = self._offset_index(segment)
            # An entry has the last offset of an append, which ends at the next entry's position.
            ends = [*index.positions.tolist()[1:], segment.size]
            result += [
                (offset + 1, before + pos)
                for offset, pos in zip(index.offsets.tolist(), ends, strict=False)
                if offset + 1 < next_base and pos <= segment.size
            ]
            before += segment.size
            result.append((next_base, before))
        return [item for item in result if start_offset < item[0] < stop_offset]

    def batch_at(self, offset: int) -> tuple[FileInfo, BatchIndex, int] | None:
        """The batch that holds an offset, with its file; None without any."""
        for segment, _ in self._between(offset, offset + 1):
            pos = self._offset_index(segment).position_of(offset)
            for index in self._batches(segment, pos):
                rows = np.flatnonzero(index.column(NEXT_OFFSET) > offset)
                if len(rows):
                    return segment.file, index, int(rows[0])
        return None


def _follow(index: BatchIndex, start_offset: int, stop_offset: int, opened_at: dict[int, int]) -> None:
    """Follow transactions over batches: ``opened_at`` has the first offset of each producer's open one."""
    attributes = index.column(ATTRIBUTES)
    is_due = (index.column(BASE_OFFSET) >= start_offset) & (index.column(BASE_OFFSET) < stop_offset)
    rows = np.flatnonzero(is_due & (attributes & TRANSACTIONAL_BIT != 0) & (index.column(MAGIC) == 2))
    for row in rows.tolist():
        producer_id = int(index.table[row, PRODUCER_ID])
        if attributes[row] & CONTROL_BIT:
            opened_at.pop(producer_id, None)
        elif index.table[row, COUNT]:
            opened_at.setdefault(producer_id, int(index.table[row, BASE_OFFSET]))


def _first_record_at(index: BatchIndex, row: int, time_ms: int, start_offset: int) -> int | None:
    """The first offset of a batch whose record has the timestamp or a later one."""
    one = replace(index, table=index.table[row : row + 1])
    if index.table[row, MAGIC] == 2 and index.table[row, ATTRIBUTES] & CONTROL_BIT:
        # A marker has a timestamp, too, and brokers find it.
        return max(int(index.table[row, BASE_OFFSET]), start_offset)
    for columns in decode_batches(one, start_offset, wanted=_OF_TIMES):
        if columns.timestamps_ms is not None:
            result = np.flatnonzero(columns.timestamps_ms >= time_ms)
            if len(result):
                return int(columns.offset[result[0]])
    return None


def same_batch(first: ReplicaLog, second: ReplicaLog, offset: int) -> Sequence[FileInfo]:
    """Two files whose batches at an offset contradict each other; empty if they do not.

    Replicas have the same bytes, unless the log cleaner has written a batch again: then it has other records
    or another base timestamp.
    """
    a, b = first.batch_at(offset), second.batch_at(offset)
    if a is None or b is None:
        return ()
    rows = [index.table[row].tolist() for _, index, row in (a, b)]
    is_same = all(rows[0][name] == rows[1][name] for name in (BASE_OFFSET, NEXT_OFFSET, COUNT, MAGIC))
    bytes_a, bytes_b = (bytes(index.batch(row)) for _, index, row in (a, b))
    is_rewritten = any(log.name in log.directory.offsets(CLEANER_OFFSETS) for log in (first, second))
    if is_rewritten or (is_same and bytes_a == bytes_b):
        return ()
    if not first.fail_on_damage and not (_is_sound(bytes_a, rows[0]) and _is_sound(bytes_b, rows[1])):
        return ()  # the tasks find the damage of the replica that they read
    return a[0], b[0]


def _is_sound(data: bytes, row: list[int]) -> bool:
    return walk_batches(data, row[BASE_OFFSET], is_end=True).first is None


#: Size of a window, bytes: most walks are over the few kilobytes after the last entry of an index.
_WINDOW_BYTES: Final = 1 << 20


def batches(
    files: Files, path: str, pos: int, stop_pos: int, *, yields_before_damage: bool = True
) -> Iterator[BatchIndex]:
    """The whole batches of the bytes ``[pos, stop_pos)`` of a segment, in order. A cut one at the end is left
    out.

    Raises ``CorruptDataError`` with its offset after the batches before it, and as ``windows`` does. Without
    ``yields_before_damage`` those of the same window are not given: the offset of the last one may be what is
    wrong.
    """
    tail = b""
    for frame, start in windows(files, path, pos, stop_pos, window_bytes=_WINDOW_BYTES):
        index, damage = whole_batches(tail + bytes(frame[start:]))  # a copy, which its user keeps
        if index.count and (damage is None or yields_before_damage):
            yield index
        if damage is not None:
            raise damage
        tail = index.buf[index.size :].tobytes()
        if len(tail) > BATCH_BYTES_MAX:
            raise CorruptDataError(
                f"a batch has more than {BATCH_BYTES_MAX} bytes, so it is damaged; copy the file again",
                int.from_bytes(tail[:8], "big", signed=True),
            )
