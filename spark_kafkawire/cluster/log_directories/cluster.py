"""Topics, bounds and timestamps of partitions, from log directories alone."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NoReturn

from spark_kafkawire.directories.names import INTERNAL_TOPICS, LogName
from spark_kafkawire.directories.scanning import LogDirectory, each_of, scan
from spark_kafkawire.errors import OptionError, UnknownTopicError, list_some, printable
from spark_kafkawire.model import Broker, Leader, PartitionBounds, RecordTimes, SizeSample, TopicPartition
from spark_kafkawire.options import Directories

from ..topic_names import NAMES_COUNT_MAX, meant_topics, names_of
from . import PartitionLog
from .modern_log import ModernLog, ReplicaLog
from .v07_log import V07Log

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
