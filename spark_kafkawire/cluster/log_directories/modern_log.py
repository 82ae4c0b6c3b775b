"""The log of a partition of Kafka 0.8 to 4.x, from the disks of one broker or of several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from spark_kafkawire.directories.checkpoints import LEADER_EPOCHS, META_PROPERTIES, PARTITION_METADATA
from spark_kafkawire.directories.replicas import Choice, Piece, choose, contradiction
from spark_kafkawire.errors import LOG, DataLossError, OptionError, counted
from spark_kafkawire.model import PartitionBounds, TopicPartition

from .partition_log import SlicePart
from .replica_log import ReplicaLog, same_batch


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
        replicas = [each.replica for each in self._logs]
        self._check_same_topic()
        self._check_brokers()
        if found := contradiction(replicas):
            files = [self._file(self._logs[place], LEADER_EPOCHS) for place in (found.first, found.second)]
            raise self._contradicting(files, found.reason)
        choice = choose(replicas)
        self._check_contents(choice)
        self._check_high_watermarks(choice)
        return choice

    def _check_same_topic(self) -> None:
        first = self._logs[0]
        for other in self._logs[1:]:
            for name, key, what in ((None, "cluster.id", "cluster"), (first.name, "topic_id", "topic")):
                ids = [each.directory.properties(name).get(key) for each in (first, other)]
                if None not in ids and ids[0] != ids[1]:
                    file = META_PROPERTIES if name is None else PARTITION_METADATA
                    raise self._contradicting(
                        [self._file(each, file) for each in (first, other)],
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
        for place, log in enumerate(self._logs):
            shared = min(choice.agreed[place], choice.end) - 1
            if log is authority or shared < max(log.replica.start, authority.replica.start):
                continue
            if files := same_batch(authority, log, shared):
                raise self._contradicting(
                    [each.shown(file) for each, file in zip((authority, log), files, strict=True)],
                    f"their batches at offset {shared} differ",
                )

    def _check_high_watermarks(self, choice: Choice) -> None:
        """Report records that a checkpoint calls committed and no file holds, and records above it."""
        replicas = [each.replica for each in self._logs]
        marks = [each.high_watermark for each in replicas if each.high_watermark is not None]
        if len(self._logs) == 1 and marks and marks[0] > choice.end:
            message = (
                f"{self._partition}: offsets [{choice.end}, {marks[0]}) are gone: "
                f"{self._logs[0].shown(self._logs[0].segments[-1].file)} ends at offset {choice.end}, and "
                f"replication-offset-checkpoint says that {marks[0]} is committed"
            )
            if self._fail_on_data_loss:
                raise DataLossError(f"{message}; to read what is left, set failOnDataLoss=false")
            LOG.warning("%s; reading on because failOnDataLoss=false", message)
        beyond = max(each.end for each in replicas) - choice.end
        if len(self._logs) > 1 and beyond > 0:
            LOG.warning(
                "%s: %s after offset %d are left out: no high watermark of a broker says that they are "
                "committed; to read them, give the directory of the broker that led the partition alone",
                self._partition,
                counted(beyond, "offset"),
                choice.end,
            )
        for place, each in enumerate(replicas):
            if each.high_watermark is not None and choice.agreed[place] < min(each.high_watermark, each.end):
                LOG.warning(
                    "%s: offsets [%d, %d) of %s are left out: a later leader epoch of %s replaced them",
                    self._partition,
                    choice.agreed[place],
                    each.end,
                    self._file(self._logs[place]),
                    self._file(self._logs[choice.authority]),
                )

    def _file(self, log: ReplicaLog, name: str = "") -> str:
        root = log.directory.files.root
        is_of_log = name != META_PROPERTIES
        parts = [root, *([str(log.name)] if is_of_log else []), *([name] if name else [])]
        return log.directory.files.shown("/".join(parts))

    def _contradicting(self, files: Sequence[str], reason: str) -> OptionError:
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
            found = self._logs[piece.replica].first_at(time_ms, piece.start, piece.stop)
            if found is not None:
                return found
        return None

    def stop_offset(self, time_ms: int) -> int | None:
        return self.start_offset(time_ms)

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
        """The pieces of a range."""
        return [
            Piece(max(each.start, start_offset), min(each.stop, stop_offset), each.replica)
            for each in self._choice.pieces
            if each.start < stop_offset and each.stop > start_offset
        ]
