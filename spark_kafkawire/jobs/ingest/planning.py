"""Decides which offsets a run reads: from the position of each partition to its end now. Asks the brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_kafkawire.cluster.cluster import Cluster
from spark_kafkawire.errors import DataLossError, quoted
from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.planner.batch import led, select, starts_of
from spark_kafkawire.planner.limits import check_names

from ..shell.progress import Progress
from ..state.expected_partitions import ExpectedPartitions, missing_lines, missing_text
from ..state.positions import Positions
from .options import IngestOptions
from .plan import Plan, limited, next_plan, ranges_to_read

#: Finds the schema of the JSON in ranges; None where values are not decoded.
SchemaOf = Callable[[Sequence[OffsetRange]], str | None]


@dataclass(frozen=True, slots=True)
class _Found:
    """The partitions to read, as the brokers report them. ``given_up`` are logs that earlier runs or the
    group have read, and that the user declares gone."""

    bounds: Mapping[TopicPartition, PartitionBounds]
    topic_ids: Mapping[str, str]
    given_up: Sequence[TopicPartition]


class Planning:
    """The planning of one run. ``losses`` and ``moved`` are lines for its summary: lost messages that the
    plan does not name, and offsets of the group that another program moved."""

    def __init__(self, options: IngestOptions, cluster: Cluster, progress: Progress) -> None:
        self._options = options
        self._cluster = cluster
        self._progress = progress
        self.losses: list[str] = []
        self.moved: list[str] = []

    @property
    def _is_loss_fatal(self) -> bool:
        return self._options.read.fetch.fail_on_data_loss

    def next(self, last: Plan | None, schema_of: SchemaOf) -> Plan | None:
        """The plan after ``last``; None without new messages.

        Raises ``DataLossError`` (fatal) for lost messages, unless the options accept data loss.
        """
        self._progress.step("asking the brokers where the partitions end")
        found = self._look(last)
        recreated = last.recreated(found.topic_ids) if last else set()
        remade = [
            f"{topic} was created again since it was read: its old messages are gone" for topic in recreated
        ]
        self.check_borne(remade)
        starts = self._starts(last, found.bounds, recreated)
        if self._options.group is not None:
            # A missing right to commit to the group is an error before anything is read.
            self._cluster.groups.commit(self._options.group, starts)
        ranges, lost = self._ranges(found.bounds, starts)
        # The start of a topic is recorded even while it has no messages to read.
        gone = {*(last.gone if last else ()), *found.given_up} - {*found.bounds}
        is_known = last is not None and starts.keys() <= last.positions.keys() and gone == last.gone
        if not ranges and not remade and is_known:
            return None
        schema = schema_of(ranges) if ranges else None
        losses = [*remade, *lost, *missing_lines(found.given_up, last.positions if last else {})]
        return next_plan(last, ranges, starts, schema, losses, found.topic_ids, gone)

    def _look(self, last: Plan | None) -> _Found:
        known = self._known(last)
        known.await_brokers(self._cluster)
        partitions = select(self._options.read.selection, self._cluster)
        partitions = led(
            partitions, self._cluster.leaders_of(partitions), fail_on_data_loss=self._is_loss_fatal
        )
        given_up = self._given_up(known.missing(partitions), known, last)
        bounds = self._cluster.bounds(partitions)
        return _Found(bounds, self.topic_ids({tp.topic for tp in bounds}), given_up)

    def _known(self, last: Plan | None) -> ExpectedPartitions:
        """Partitions that earlier runs, and in 0.7 the group, have read; without those that were given up and
        reported then."""
        known = set(last.positions if last else ())
        if (
            self._options.group is not None
            and self._options.read.discovery.generation.has_partitions_of_brokers
        ):
            known.update(self._cluster.groups.partitions(self._options.group))
        known -= last.gone if last else frozenset()
        return ExpectedPartitions(self._options.read, known, self._options.gone_brokers)

    def _given_up(
        self, missing: Sequence[TopicPartition], known: ExpectedPartitions, last: Plan | None
    ) -> list[TopicPartition]:
        """Missing partitions to report once: those that the user has given up, and those of deleted topics.

        Other missing partitions are an error, unless the options accept data loss. One of 0.7 is then
        reported in each run, because it returns with its broker.
        """
        others = [tp for tp in missing if not known.is_given_up(tp)]
        self.check_borne([missing_text(others)] if others else [])
        away = [tp for tp in others if tp.broker is not None]
        self.losses += missing_lines(away, last.positions if last else {})
        return [tp for tp in missing if tp not in away]

    def _starts(
        self, last: Plan | None, bounds: Mapping[TopicPartition, PartitionBounds], recreated: Collection[str]
    ) -> dict[TopicPartition, int]:
        """The start of each partition: see the head of the package."""
        known_topics = {tp.topic for tp in last.positions} if last else set()
        recorded = {tp: at for tp, at in last.positions.items() if tp.topic not in recreated} if last else {}
        committed = {tp: at for tp, at in self._committed(bounds).items() if tp.topic not in recreated}
        self._warn_of_moves(recorded, committed)
        known = {**committed, **recorded}
        starts = {tp: known[tp] for tp in bounds if tp in known}
        topics = known_topics | {tp.topic for tp in starts}
        starts |= {tp: bounds[tp].earliest for tp in bounds if tp not in starts and tp.topic in topics}
        return {**starts, **self._first_starts({tp: bounds[tp] for tp in bounds if tp not in starts})}

    def _committed(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The offsets that the group has committed."""
        if self._options.group is None:
            return {}
        offsets = self._cluster.groups.offsets(self._options.group, list(partitions))
        return {tp: offset for tp, offset in offsets.items() if offset is not None}

    def _first_starts(self, bounds: Mapping[TopicPartition, PartitionBounds]) -> dict[TopicPartition, int]:
        """The starts of partitions whose topics were never read."""
        if self._options.starting is None:
            return {tp: each.latest for tp, each in bounds.items()}
        if not bounds:
            return {}
        check_names(self._options.read.starting, list(bounds))
        return {tp: end.offset for tp, end in starts_of(self._options.read, self._cluster, bounds).items()}

    def _warn_of_moves(self, recorded: Positions, committed: Positions) -> None:
        """Report offsets of the group that another program moved: the run reads no message twice and skips
        none because of them."""
        moved = [
            f"{tp} was at {offset} and is reset to {recorded[tp]}, where the output ends"
            for tp, offset in committed.items()
            if offset != recorded.get(tp, offset)
        ]
        if moved:
            self._progress.step(f"group {quoted(self._options.group)}: {moved[0]} ({len(moved)} in all)")
        self.moved += moved

    def _ranges(
        self, bounds: Mapping[TopicPartition, PartitionBounds], starts: Positions
    ) -> tuple[tuple[OffsetRange, ...], list[str]]:
        """The ranges to read, and lines about the losses in them."""
        whole, lost = ranges_to_read(bounds.values(), starts, fail_on_data_loss=self._is_loss_fatal)
        ranges = limited(whole, self._options.size_max, bounds)
        # A partition that lost all its messages gets an empty range: it is skipped and reported once.
        nothing_left = tuple(each for each in whole if each.topic_partition in lost and not each.size)
        return ranges + nothing_left, list(lost.values())

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The topics' ids, where they have some."""
        return {topic: str(each) for topic, each in self._cluster.topic_ids(topics).items()} if topics else {}

    def check_borne(self, losses: Sequence[str]) -> None:
        """Raise ``DataLossError`` (fatal) for the first loss, unless losses are borne."""
        if losses and self._is_loss_fatal:
            raise DataLossError(f"{losses[0]}; to read what is there, set failOnDataLoss=false")
