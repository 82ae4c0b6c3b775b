"""Decides what a run reads: from where each log was read to, up to its end now. Asks the brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...cluster.cluster import Cluster
from ...errors import DataLossError, quoted
from ...model import LogBounds, OffsetRange, TopicPartition
from ...planner.batch import led, select, starts_of
from ...planner.limits import check_names
from ..shell.progress import Progress
from ..state.known_logs import KnownLogs, missing_lines, missing_text
from ..state.positions import Positions
from .options import IngestOptions
from .plan import Plan, limited, next_plan, ranges_to_read

#: Finds the schema of the JSON in ranges; None where values are not decoded.
SchemaOf = Callable[[Sequence[OffsetRange]], str | None]


@dataclass(frozen=True, slots=True)
class _Found:
    """What the brokers tell of the logs to read. ``given_up`` are logs that earlier runs or the group have
    read, and that the user takes for gone."""

    bounds: Mapping[TopicPartition, LogBounds]
    topic_ids: Mapping[str, str]
    given_up: Sequence[TopicPartition]


class Planning:
    """The planning of one run. ``losses`` and ``moved`` are lines for its summary: what is gone besides what
    a plan tells, and where somebody else has moved the group."""

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
        """What to read after ``last``; None where there is nothing.

        Raises ``DataLossError`` (fatal) for what is gone, unless that is borne.
        """
        self._progress.step("asking the brokers where the logs end")
        found = self._look(last)
        anew = last.made_anew(found.topic_ids) if last else set()
        remade = [f"{topic} was made anew since it was read: its old messages are gone" for topic in anew]
        self.check_borne(remade)
        starts = self._starts(last, found.bounds, anew)
        if self._options.group is not None:
            # A group that may not be committed to is told before anything is read.
            self._cluster.commit_group_offsets(self._options.group, starts)
        ranges, lost = self._ranges(found.bounds, starts)
        # Where a topic starts is remembered also while there is nothing to read of it.
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
        logs = select(self._options.read.selection, self._cluster)
        logs = led(logs, self._cluster.leaders_of(logs), fail_on_data_loss=self._is_loss_fatal)
        given_up = self._given_up(known.missing(logs), known, last)
        bounds = self._cluster.bounds(logs)
        return _Found(bounds, self.topic_ids({log.topic for log in bounds}), given_up)

    def _known(self, last: Plan | None) -> KnownLogs:
        """What earlier runs have read, and in 0.7 the group; but for what was given up and told then."""
        known = set(last.positions if last else ())
        if self._options.group is not None and self._options.read.discovery.generation.has_logs_of_brokers:
            known.update(self._cluster.logs_of_group(self._options.group))
        known -= last.gone if last else frozenset()
        return KnownLogs(self._options.read, known, self._options.gone_brokers)

    def _given_up(
        self, missing: Sequence[TopicPartition], known: KnownLogs, last: Plan | None
    ) -> list[TopicPartition]:
        """Those of the missing logs that are told of once; others are an error, or told in each run: a log of
        0.7 is there again when its broker is, and later ones are gone with their topic."""
        others = [log for log in missing if not known.is_given_up(log)]
        self.check_borne([missing_text(others)] if others else [])
        away = [log for log in others if log.broker is not None]
        self.losses += missing_lines(away, last.positions if last else {})
        return [log for log in missing if log not in away]

    def _starts(
        self, last: Plan | None, bounds: Mapping[TopicPartition, LogBounds], anew: Collection[str]
    ) -> dict[TopicPartition, int]:
        """Where each log is read from: see the head of the package."""
        known_topics = {log.topic for log in last.positions} if last else set()
        recorded = {log: at for log, at in last.positions.items() if log.topic not in anew} if last else {}
        committed = {log: at for log, at in self._committed(bounds).items() if log.topic not in anew}
        self._tell_of_moves(recorded, committed)
        known = {**committed, **recorded}
        starts = {log: known[log] for log in bounds if log in known}
        topics = known_topics | {log.topic for log in starts}
        starts |= {log: bounds[log].earliest for log in bounds if log not in starts and log.topic in topics}
        return {**starts, **self._first_starts({log: bounds[log] for log in bounds if log not in starts})}

    def _committed(self, logs: Iterable[TopicPartition]) -> Positions:
        """What the group has committed."""
        if self._options.group is None:
            return {}
        offsets = self._cluster.read_group_offsets(self._options.group, list(logs))
        return {log: offset for log, offset in offsets.items() if offset is not None}

    def _first_starts(self, bounds: Mapping[TopicPartition, LogBounds]) -> dict[TopicPartition, int]:
        """Where logs are read from of topics that were never read."""
        if self._options.starting is None:
            return {log: each.latest for log, each in bounds.items()}
        if not bounds:
            return {}
        check_names(self._options.read.starting, list(bounds))
        return {log: end.offset for log, end in starts_of(self._options.read, self._cluster, bounds).items()}

    def _tell_of_moves(self, recorded: Positions, committed: Positions) -> None:
        """Say where somebody else has moved the group: no message is read twice or left out for it."""
        moved = [
            f"{log} stood at {offset} and is put back to {recorded[log]}, where the output ends"
            for log, offset in committed.items()
            if offset != recorded.get(log, offset)
        ]
        if moved:
            self._progress.step(f"group {quoted(self._options.group)}: {moved[0]} ({len(moved)} in all)")
        self.moved += moved

    def _ranges(
        self, bounds: Mapping[TopicPartition, LogBounds], starts: Positions
    ) -> tuple[tuple[OffsetRange, ...], list[str]]:
        """What to read, and lines about what is lost of it."""
        whole, lost = ranges_to_read(bounds.values(), starts, fail_on_data_loss=self._is_loss_fatal)
        ranges = limited(whole, self._options.size_max, bounds)
        # A log of which nothing is left is passed over once, and not told of again.
        nothing_left = tuple(each for each in whole if each.log in lost and not each.size)
        return ranges + nothing_left, list(lost.values())

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The topics' ids, where they have some."""
        return {topic: str(each) for topic, each in self._cluster.topic_ids(topics).items()} if topics else {}

    def check_borne(self, losses: Sequence[str]) -> None:
        """Raise ``DataLossError`` (fatal) for the first loss, unless losses are borne."""
        if losses and self._is_loss_fatal:
            raise DataLossError(f"{losses[0]}; to read what is there, set failOnDataLoss=false")
