"""Start and end of one streaming query by its options, for both generations.

**Start.** A start that moves is ``UNPINNED`` until the first batch finds it and writes it to the checkpoint.

**End.** The checkpoint does not have it: the keys of an offset are topics, which programs read. An offset is
the end itself. An end by timestamp is looked up by each run of the query, and each finds the same. A log
grows at its end only, so once a record of that time or later is at an offset, no earlier offset gets one.
Before, all records that exist are before the end, and a batch may end at any of them. The bounds are
requested before the lookup: a record that is appended in between may be beyond the end, and is not in the
bounds. In 0.7 the time of a file is that of its last message: the segment in which the time lies has its end
when the next one begins. The lookup finds another record only where the first one was deleted. Then all
records up to it are deleted, too, and the query that has not read them fails as for any loss; or the topic is
compacted, and the end is the next record that was kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, Protocol, TypeVar

from ..cluster import Cluster
from ..errors import LOG, Action, KafkaWireError, OptionError, UnknownTopicError, counted, list_some
from ..model import PartitionBounds, TopicPartition
from ..options import LATEST, LimitKind, ReadOptions
from .batch import starts_of
from .limits import check_names, limit_of, start_of
from .ranges import Bounds
from .stream_offsets import UNPINNED, Offsets, limit_bounds

T = TypeVar("T")


class GoneSinceError(KafkaWireError):
    """A topic was deleted after the partitions were listed; the next refresh decides what that means."""

    action = Action.REFRESH


@contextlib.contextmanager
def gone_since() -> Iterator[None]:
    """Turn the error for a topic that was deleted since the refresh into a retriable one."""
    try:
        yield
    except UnknownTopicError as error:
        raise GoneSinceError(str(error)) from error


class SelectedPartitions(Protocol):
    """The partitions that a query reads; see ``stream.StreamPartitions``."""

    def select(self) -> dict[TopicPartition, PartitionBounds]: ...

    def ask(self, question: Callable[[Cluster], T]) -> T: ...


#: Starts that may differ when a query that crashed in its first batch starts again.
_MOVING: Final = (LimitKind.LATEST, LimitKind.COMMITTED, LimitKind.AGE, LimitKind.FROM_END)


class QueryStart:
    """Start of one query by its options. ``lose`` warns about a loss, or raises it."""

    def __init__(
        self, options: ReadOptions, partitions: SelectedPartitions, lose: Callable[[str], None]
    ) -> None:
        self._options, self._partitions, self._lose = options, partitions, lose
        self._initial: dict[TopicPartition, int] | None = None

    def initial(self) -> dict[TopicPartition, int]:
        """Start offsets of a new query; every call returns the same, because Spark asks twice.

        Starts that may move before the first batch is in the checkpoint are ``UNPINNED``. Raises
        ``OptionError``, ``DataLossError``, and the errors of the cluster.
        """
        if self._initial is None:
            bounds = self._partitions.select()
            for limits in (self._options.starting, self._options.ending):
                check_names(limits, list(bounds))
            self._initial = self._partitions.ask(lambda cluster: self._starts(cluster, bounds))
        return self._initial

    @property
    def is_asked(self) -> bool:
        """True if ``initial`` was called."""
        return self._initial is not None

    def is_at(self, start: Offsets) -> bool:
        """True if the batch that begins at ``start`` is the first one."""
        return start == self._initial

    def _starts(self, cluster: Cluster, bounds: Bounds) -> dict[TopicPartition, int]:
        starting = self._options.starting
        limits = {tp: limit_of(starting, tp) for tp in bounds}
        times = {tp: limit.value for tp, limit in limits.items() if limit.kind is LimitKind.TIMESTAMP}
        by_time = cluster.start_offsets(times, bounds) if times else {}
        no_match = {
            tp for tp, offset in by_time.items() if offset is None and self._options.latest_if_no_match
        }
        return {
            tp: UNPINNED
            if limits[tp].kind in _MOVING or tp in no_match
            else self._inside(start_of(starting, result, by_time, latest_if_no_match=False).offset, result)
            for tp, result in bounds.items()
        }

    def pin(self, start: Offsets, bounds: Bounds) -> dict[TopicPartition, int]:
        """Start offsets of partitions that have no start yet and do not start at their ends: committed ones,
        and those of times before now and of offsets before the end."""
        asked = {
            tp: result for tp, result in bounds.items() if start.get(tp) == UNPINNED and self._is_found(tp)
        }
        if not asked:
            return {}
        ends = self._partitions.ask(lambda cluster: starts_of(self._options, cluster, asked))
        return {tp: self._inside(end.offset, asked[tp]) for tp, end in ends.items()}

    def _inside(self, offset: int, bounds: PartitionBounds) -> int:
        """A given offset, or the nearest one in the partition."""
        if not bounds.earliest <= offset <= bounds.latest:
            self._lose(
                f"option {self._options.starting.option}: offset {offset} is not in "
                f"{bounds.topic_partition}, which holds [{bounds.earliest}, {bounds.latest})"
            )
        return min(max(offset, bounds.earliest), bounds.latest)

    def run_again(self, start: Offsets, end: Offsets, *, is_pinned: bool) -> dict[TopicPartition, int]:
        """Start offsets of a first batch that an earlier run planned up to ``end`` and did not finish.

        Newer partitions are left to the next batch. Raises ``OptionError`` (fatal) if the earlier start is
        unknown, ``DataLossError`` if records of the batch are gone.
        """
        begins = {tp: offset for tp, offset in start.items() if tp in end}
        if not is_pinned and (unknown := [tp for tp in sorted(begins) if begins[tp] == UNPINNED]):
            raise OptionError(
                f'checkpointLocation: format("kafka") planned the first batch and did not finish it, and '
                f"only that source knows where {unknown[0]} starts: let it finish the batch, or set the "
                "startingOffsets that kafkawire checkpoints shows"
            )
        for partition, offset in begins.items():
            if offset > end[partition]:
                self._lose(
                    f"{partition} begins at {offset} now, but the first batch, which runs again, ends at "
                    f"{end[partition]}: the records in between are gone"
                )
        if moved := [tp for tp in sorted(begins) if begins[tp] > 0 and self._is_found(tp)]:
            LOG.warning(
                "the first batch runs again from the first records that still exist, of %s from %d: records "
                "that were deleted since it was planned are not read",
                moved[0],
                begins[moved[0]],
            )
        return {tp: min(offset, end[tp]) for tp, offset in begins.items()}

    def _is_found(self, partition: TopicPartition) -> bool:
        """True if the start of a partition is not a given offset, but depends on its records."""
        return limit_of(self._options.starting, partition).kind is not LimitKind.OFFSET


class QueryEnd:
    """End of one query by its options, in each partition; without such options it changes nothing."""

    def __init__(self, options: ReadOptions, partitions: SelectedPartitions) -> None:
        self._limits, self._partitions = options.ending, partitions
        self._is_set = options.ending.for_all != LATEST
        self._stops: dict[TopicPartition, int] = {}
        self._looked: dict[TopicPartition, int] = {}
        self._logged: set[str] = set()
        #: True if the end of each partition is known, and the last bounds reach it.
        self.is_near = False

    def limited(self, start: Offsets, bounds: Bounds, recreated: Collection[str]) -> Bounds:
        """Bounds up to the end, without partitions that the options do not name. A start that is not pinned
        yet may be after the end, which ``check`` finds."""
        if not self._is_set:
            return bounds
        for partition in [tp for tp in self._stops.keys() | self._looked.keys() if tp.topic in recreated]:
            self._stops.pop(partition, None)
            self._looked.pop(partition, None)
        named = self._named(bounds)
        self._look_up(named)
        stops = {tp: self._stops[tp] for tp in named if tp in self._stops}
        self.is_near = all(tp in stops and stops[tp] <= result.latest for tp, result in named.items())
        ends = {tp: max(stop, start.get(tp, stop)) for tp, stop in stops.items() if start.get(tp) != UNPINNED}
        return limit_bounds(named, {**{tp: result.latest for tp, result in named.items()}, **ends})

    def _named(self, bounds: Bounds) -> Bounds:
        if self._limits.for_all is not None:
            return bounds
        if others := [tp for tp in bounds if tp not in self._limits.by_partition]:
            self._log(
                LOG.warning,
                " names no end of",
                f"{list_some(others, 3)}, new since the query was planned: nothing is read there",
            )
        return {tp: result for tp, result in bounds.items() if tp in self._limits.by_partition}

    def _look_up(self, bounds: Bounds) -> None:
        """Find the ends that are not known yet, where there are new records."""
        limits = {tp: limit_of(self._limits, tp) for tp in bounds if tp not in self._stops}
        self._stops |= {tp: limit.value for tp, limit in limits.items() if limit.kind is LimitKind.OFFSET}
        times = {
            tp: limit.value
            for tp, limit in limits.items()
            if limit.kind is LimitKind.TIMESTAMP and self._looked.get(tp) != bounds[tp].latest
        }
        if not times:
            return

        def look_up(cluster: Cluster) -> Mapping[TopicPartition, int | None]:
            with gone_since():
                return cluster.stop_offsets(times, bounds)

        offsets = self._partitions.ask(look_up)
        result = {tp: offset for tp, offset in offsets.items() if offset is not None}
        self._looked |= {tp: bounds[tp].latest for tp in times if tp not in result}
        self._stops |= result
        if result:
            LOG.info(
                "option %s: %s",
                self._limits.option,
                list_some(list(result), 3, lambda tp: f"{tp} ends at {result[tp]}"),
            )

    def check(self, start: Offsets, end: Offsets, *, is_first: bool, is_last: bool) -> None:
        """Raise ``OptionError`` (fatal) if the first batch would begin after the end, and log once what a
        query without new records waits for. ``is_last``: it ends, because of AvailableNow."""
        if not self._is_set:
            return
        after = [tp for tp in end if end[tp] > self._stops.get(tp, end[tp])]
        if after and is_first:
            raise OptionError(
                f"option {self._limits.option}: {after[0]} would start at {end[after[0]]} and end at "
                f"{self._stops[after[0]]}; correct one of them: a stream starts at latest unless an option "
                "says otherwise"
            )
        if after:
            self._log(
                LOG.warning,
                ": the query is already after the end of",
                f"{list_some(after, 3)}, at {end[after[0]]}, and the end is {self._stops[after[0]]}: "
                "nothing is read there",
            )
        if not end or start != end:
            return
        log = LOG.info if is_last else LOG.warning
        waiting = [tp for tp in end if end[tp] < self._stops.get(tp, end[tp] + 1)]
        then = "the trigger availableNow stops here" if is_last else "the query waits"
        if waiting:
            first, stop = waiting[0], self._stops.get(waiting[0])
            lacking = "no record of that time or later is there" if stop is None else f"the end is {stop}"
            text = f"{first} is at {end[first]}, and {lacking}: {then} ({counted(len(waiting), 'partition')})"
            self._log(log, " is ahead:", text)
        else:
            idle = then if is_last else "it stays idle, and the trigger availableNow would stop it"
            self._log(
                log, " is reached:", f"the query has read {counted(len(end), 'partition')} to the end; {idle}"
            )

    def _log(self, log: Callable[..., None], what: str, text: str) -> None:
        """Log a line once in this process."""
        if what not in self._logged:
            self._logged.add(what)
            log("option %s%s %s", self._limits.option, what, text)
