"""Topics, bounds and timestamps of partitions, from log directories alone; and the log of a partition of
Kafka 0.7, which one broker has: others have no copy.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NoReturn

from spark_kafkawire.directories import INTERNAL_TOPICS, LogName
from spark_kafkawire.directories.files import LogSlice, SegmentSlice, only_zeros, windows
from spark_kafkawire.directories.scanning import LogDirectory, Segment, each_of, scan
from spark_kafkawire.errors import (
    NAMES_COUNT_MAX,
    CorruptDataError,
    OptionError,
    UnknownTopicError,
    list_some,
    meant_topics,
    names_of,
    printable,
)
from spark_kafkawire.model import (
    Broker,
    Generation,
    Leader,
    PartitionBounds,
    RecordTimes,
    SizeSample,
    TopicPartition,
)
from spark_kafkawire.options import Directories
from spark_kafkawire.records.damage import Whole
from spark_kafkawire.records.message_set.index import Stop, index_messages, walk_messages

from ..v07 import segments
from . import PartitionLog, SlicePart
from .modern_log import ModernLog, ReplicaLog

#: A broker that stopped in order leaves this file.
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
_SOUND: Final = frozenset((Stop.END, Stop.CUT))
#: Largest message, bytes: a damaged length must not take all memory.
_MESSAGE_BYTES_MAX: Final = 64 << 20


class V07Log:
    """Implements ``PartitionLog``. The time of a segment is that of the last change of its file. Without
    ``fail_on_damage`` a segment may end before the next one begins: the tasks say which bytes are missing."""

    def __init__(
        self,
        partition: TopicPartition,
        directory: LogDirectory,
        name: LogName,
        place: int,
        *,
        fail_on_damage: bool = True,
    ) -> None:
        self._partition = partition
        self._directory = directory
        self._folder = directory.log(name)
        self._place = place
        self._fail_on_damage = fail_on_damage

    @cached_property
    def _segments(self) -> tuple[Segment, ...]:
        """All segments. Each begins where the one before it ends."""
        result = self._folder.segments
        for before, after in pairwise(result):
            end = before.base_offset + before.size
            if end > after.base_offset or (end < after.base_offset and self._fail_on_damage):
                shown = self._directory.files.shown
                raise CorruptDataError(
                    f"{self._partition}: {shown(before.file.path)} ends at offset "
                    f"{before.base_offset + before.size}, and {shown(after.file.path)} begins at "
                    f"{after.base_offset}: a segment is missing, or was cut; move the files before the "
                    "gap, or after it, to another directory, or set badRecords=null or drop"
                )
        return result

    @cached_property
    def bounds(self) -> PartitionBounds:
        first, last = self._segments[0], self._segments[-1]
        latest = last.base_offset + self._whole_size(last)
        starts = tuple(item.base_offset for item in self._segments if item.base_offset < latest)
        return PartitionBounds(self._partition, first.base_offset, latest, starts)

    def _whole_size(self, last: Segment) -> int:
        """The size of the whole messages of the last segment: its broker runs, or was killed, unless it left
        a file that says otherwise. Damage that is no cut message counts: the read of it is the error."""
        if CLEAN_SHUTDOWN in self._directory.others:
            return last.size
        files, path = self._directory.files, last.file.path
        pos, tail = 0, b""
        for frame, start in windows(files, path, 0, last.size):
            chunk = tail + bytes(frame[start:])
            index = index_messages(chunk)
            pos, tail = pos + index.size, chunk[index.size :]
            if index.stop not in _SOUND:
                return pos if only_zeros(files, path, pos, last.size) else last.size
            if len(tail) > _MESSAGE_BYTES_MAX:
                return last.size
        # A cut message is the end, unless sound ones follow: then its length is damaged.
        walk = walk_messages(tail, last.base_offset + pos, is_end=True)
        return last.size if any(isinstance(part, Whole) for part in walk.parts) else pos

    @property
    def high_watermark(self) -> int:
        return self.bounds.latest

    def start_offset(self, time_ms: int) -> int | None:
        # As with a broker: the time of a file may be cut to whole seconds.
        return segments.start_offset(self.bounds, self._before(time_ms // 1000 * 1000))

    def stop_offset(self, time_ms: int) -> int | None:
        return segments.stop_offset(self.bounds, self._before(time_ms))

    def _before(self, time_ms: int) -> list[int]:
        """Starts of the segments that are older than the timestamp, as OFFSETS returns them."""
        older = [location for location, item in enumerate(self._segments) if item.file.modified_ms < time_ms]
        return [item.base_offset for item in self._segments[: older[-1] + 1]] if older else []

    def slices(self, start_offset: int, stop_offset: int) -> Sequence[SlicePart]:
        last = self._segments[-1]
        nexts = (*(item.base_offset for item in self._segments[1:]), last.base_offset + last.size)
        held = [
            SegmentSlice(item.file.name, item.base_offset, item.size, next_base)
            for item, next_base in zip(self._segments, nexts, strict=True)
            if item.base_offset < stop_offset and next_base > start_offset
        ]
        files = LogSlice(
            self._directory.files.uri,
            self._directory.settings,
            Generation.V07,
            self._folder.path,
            tuple(held),
            is_log_end=stop_offset == self.bounds.latest,
        )
        return (SlicePart(start_offset, stop_offset, files, self._place),)

    def cut_points(self, *_: int) -> Sequence[int]:
        """None: the planner splits ranges of bytes itself, at the starts of segments."""
        return ()


#: The logs of one name, each with the number of its directory.
_Found = Sequence[tuple[int, LogDirectory]]


class DirectoryCluster:
    """Implements the protocol ``cluster.Cluster``. Nothing is read before the first call; what a method has
    read is the same for later ones: a read is a snapshot."""

    def __init__(
        self,
        directories: Directories,
        *,
        is_committed: bool,
        fail_on_data_loss: bool,
        fail_on_damage: bool = True,
    ) -> None:
        self._options = directories
        self._is_committed = is_committed
        self._fail_on_data_loss = fail_on_data_loss
        self._fail_on_damage = fail_on_damage
        self._logs: dict[TopicPartition, PartitionLog] = {}

    @cached_property
    def directories(self) -> list[LogDirectory]:
        """The directories, in the order of their paths."""
        return each_of(lambda path: scan(path, self._options.settings), self._options.paths)

    def brokers(self) -> tuple[Broker, ...]:
        """The directories, as brokers with their paths for addresses."""
        ids: Sequence[int] = self._options.broker_ids
        if not self._options.generation.has_partitions_of_brokers:  # a file of each has it from 0.8.2 on
            known = [item.broker_id for item in self.directories]
            ids = [given if id_ is None else id_ for given, id_ in zip(ids, known, strict=True)]
        return tuple(Broker(id, path, 0) for id, path in zip(ids, self._options.paths, strict=True))

    def racks(self) -> frozenset[str]:
        """Return no racks: these brokers have none."""
        return frozenset()

    def topics(self) -> tuple[str, ...]:
        result = {topic for item in self.directories for topic in item.topics}
        return tuple(sorted(result - INTERNAL_TOPICS))

    def partitions_of(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        known = {topic for item in self.directories for topic in item.topics}
        if missing := sorted(set(topics) - known):
            raise UnknownTopicError(
                f"no log directory holds the topic {names_of(missing)}"
                f"{meant_topics(missing, sorted(known)) or '; correct its name, or give another path'}"
            )
        for directory in self.directories:
            directory.list_logs([name for name in directory.logs if name.topic in topics])
        result: dict[TopicPartition, PartitionLog] = {}
        for topic in topics:
            names = {name for item in self.directories for name in item.logs if name.topic == topic}
            for name in sorted(names):
                held = [
                    (location, item)
                    for location, item in enumerate(self.directories)
                    if name in item.logs and self._is_of_generation(item, name)
                ]
                result |= self._logs_of(name, held)
        self._logs.update(result)
        return tuple(sorted(result, key=lambda tp: (topics.index(tp.topic), tp.partition, tp.broker or 0)))

    listed_partitions = partitions_of

    def _is_of_generation(self, directory: LogDirectory, name: LogName) -> bool:
        """True for a log with segments. Raises ``OptionError`` (fatal) if they are of the other
        generation."""
        result = directory.log(name).generation
        expected = {None, self._options.generation}
        if result not in expected:
            raise OptionError(
                f"path {printable(directory.files.uri)} holds logs of {self._options.generation.title}, and "
                f"{printable(str(name))} is of another kind: select topics of one with subscribe"
            )
        return result is not None

    def _logs_of(self, name: LogName, held: _Found) -> dict[TopicPartition, PartitionLog]:
        """The logs of a name: of 0.7 a partition for each broker, from 0.8 on the same one in all
        directories."""
        fail, ids = self._fail_on_damage, self._options.broker_ids
        if self._options.generation.has_partitions_of_brokers:
            partitions = [TopicPartition(name.topic, name.partition, ids[place]) for place, _ in held]
            return {
                tp: V07Log(tp, directory, name, place, fail_on_damage=fail)
                for tp, (place, directory) in zip(partitions, held, strict=True)
            }
        replicas = [ReplicaLog(directory, name, place, fail_on_damage=fail) for place, directory in held]
        partition = TopicPartition(name.topic, name.partition)
        log = ModernLog(
            partition, replicas, is_committed=self._is_committed, fail_on_data_loss=self._fail_on_data_loss
        )
        return {partition: log} if held else {}

    def log_of(self, partition: TopicPartition) -> PartitionLog:
        """The log of a partition, whose topic is looked up where no method was asked for it before."""
        if partition not in self._logs:
            self.partitions_of([partition.topic])
        if partition not in self._logs:
            raise UnknownTopicError(f"no log directory holds {partition}; give the paths of all brokers")
        return self._logs[partition]

    def topic_ids(self, topics: Collection[str]) -> dict[str, uuid.UUID]:  # noqa: ARG002  # nothing recreates a log
        return {}

    def assigned(self, partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        there = self.partitions_of(sorted({tp.topic for tp in partitions}))
        if missing := [tp for tp in partitions if tp not in there]:
            raise UnknownTopicError(
                f"option assign: no log directory holds {list_some(missing, NAMES_COUNT_MAX, str)}; "
                "correct the numbers, or give the paths of all brokers"
            )
        return tuple(partitions)

    def await_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Do nothing: no directory comes later."""

    def leaders_of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        brokers = self.brokers()
        of_ids = {broker.id: broker for broker in brokers}
        return {tp: Leader(brokers[0] if tp.broker is None else of_ids[tp.broker]) for tp in partitions}

    known_leaders = leaders_of

    def forget(self, partition: TopicPartition) -> None:
        """Do nothing: a read is a snapshot."""

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionBounds]:
        logs = [self.log_of(tp) for tp in partitions]
        is_local = all(item.files.is_local for item in self.directories)
        # Several at once where files are far away.
        result = [log.bounds for log in logs] if is_local else each_of(lambda log: log.bounds, logs)
        return dict(zip(partitions, result, strict=True))

    def follow_bounds(self, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, PartitionBounds]:
        """Bounds as ``bounds``: a read of directories is a snapshot, and no stream follows one."""
        return self.bounds(partitions)

    def cut_points(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, ...]] | None:
        starts = {tp: item.segment_starts for tp, item in self.bounds(partitions).items()}
        result = {tp: points for tp, points in starts.items() if points is not None}
        return result or None

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.log_of(tp).high_watermark for tp in partitions}

    def local_starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: item.earliest for tp, item in self.bounds(partitions).items()}

    def sample_sizes(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, SizeSample]:  # noqa: ARG002
        return {}  # no stream reads them

    def cleanup_policy(self, topic: str) -> NoReturn:
        raise OptionError(
            f"log directories do not hold the cleanup.policy of {printable(topic)}: read it from a cluster, "
            "with kafka.bootstrap.servers"
        )

    def record_times(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, RecordTimes]:
        return dict.fromkeys(partitions, RecordTimes())

    def start_offsets(
        self,
        times_ms: Mapping[TopicPartition, int],
        bounds: Mapping[TopicPartition, PartitionBounds],  # noqa: ARG002  # the logs have them
    ) -> dict[TopicPartition, int | None]:
        result = each_of(lambda tp: self.log_of(tp).start_offset(times_ms[tp]), list(times_ms))
        return dict(zip(times_ms, result, strict=True))

    def stop_offsets(
        self,
        times_ms: Mapping[TopicPartition, int],
        bounds: Mapping[TopicPartition, PartitionBounds],  # noqa: ARG002  # the logs have them
    ) -> dict[TopicPartition, int | None]:
        result = each_of(lambda tp: self.log_of(tp).stop_offset(times_ms[tp]), list(times_ms))
        return dict(zip(times_ms, result, strict=True))

    def committed_offsets(self, partitions: Sequence[TopicPartition]) -> NoReturn:
        raise OptionError(
            f"option startingOffsets: 'committed' needs a cluster, and {partitions[0]} is read from log "
            "directories: give the offsets as JSON"
        )

    @property
    def groups(self) -> NoReturn:
        raise OptionError("option path: groups need a cluster: set kafka.bootstrap.servers in its place")
