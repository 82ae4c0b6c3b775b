"""Plan of the batches of one streaming query, for both generations, on the driver.

    planner = StreamPlanner(options)
    start = planner.initial()                    # for a new query; otherwise from the checkpoint
    end = planner.next(start)
    tasks = planner.tasks(start, end)           # depends on these and the options only

The state between two calls may be lost with the process. A query that joins a consumer group of 0.7 has a
planner of its own (``v07.group_planner``).
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from ..clients.reading.task import FetchTask
from ..errors import OptionError, printable
from ..model import OffsetRange, TopicPartition
from ..net.known_versions import BROKER_VERSIONS
from ..options import LimitKind, StreamOptions
from .batch import covers
from .ranges import split
from .stream import Bounds, must_wait, next_offsets, ranges_between, until
from .stream_judge import LossJudge, latest_of
from .stream_key_order import StreamKeyOrder
from .stream_leaders import bounds_of
from .stream_losses import losses
from .stream_offsets import UNPINNED, Offsets, Position
from .stream_partitions import StreamPartitions
from .stream_start import QueryStart

#: Seconds between two requests for end offsets while no records arrive: Spark then asks every 10 ms.
POLL_INTERVAL_S: Final = 0.1
#: The longest of these intervals, seconds, and how many times as long as the work of a request they are: an
#: idle query keeps a core busy for a twentieth of the time, with pyspark, unless requests take long.
POLL_INTERVAL_MAX_S: Final = 1.0
_IDLE_TIMES: Final = 30


class StreamPlanner:
    """Planner of one run of one query, in one process. ``clock`` and ``sleep`` count seconds."""

    def __init__(
        self,
        options: StreamOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read, self._limits, self._clock, self._sleep = options.read, options.limits, clock, sleep
        self._partitions = StreamPartitions(options.read, clock=clock)
        self._order = StreamKeyOrder(options.read, self._partitions)
        self._judge = LossJudge(options.read, self._partitions, clock=clock, sleep=sleep)
        self._start = QueryStart(options.read, self._partitions, self._judge.lose)
        self._ends: Position | None = None
        self._polled_s = self._batched_s = -math.inf
        self._poll_took_s = 0.0
        self._last_start: Position | None = None
        #: Latest offsets by the last request, for the lag of the query.
        self.latest: dict[TopicPartition, int] | None = None

    def initial(self) -> dict[TopicPartition, int]:
        """Start of a new query; see ``QueryStart``."""
        return self._start.initial()

    @property
    def is_begun(self) -> bool:
        """True if Spark has requested the start of the query, because no checkpoint contains it."""
        return self._start.is_asked

    def stop_at_latest(self) -> None:
        """Stop at the current end offsets (trigger AvailableNow)."""
        bounds = self._partitions.bounds({})
        self._ends = Position(latest_of(bounds), self._partitions.topic_ids(bounds))

    def stop_at(self, ends: Offsets) -> None:
        """Stop at these offsets."""
        self._ends = Position(ends)

    def narrow(self, partitions: Collection[TopicPartition]) -> None:
        """Read only these of the selected partitions from now on: other consumers own the rest."""
        self._partitions.narrow(partitions)

    def bounds_of(self, partitions: list[TopicPartition]) -> Bounds:
        """Bounds of the partitions that exist."""
        return self._partitions.ask(lambda cluster: bounds_of(cluster, partitions)) if partitions else {}

    def next(self, start: Position, *, limited: bool = True) -> Position:
        """End of the batch that begins at ``start``, or ``start`` itself if there is nothing to read.

        Waits until the next request is due. A loss that later requests might not find again becomes part of
        the end: Spark writes it to the checkpoint, and ``tasks`` raises, now and when the query is started
        again. Raises ``DataLossError`` for a loss that every later request finds, and the errors of the
        cluster.
        """
        self._check_topics(start.offsets)
        self._pace(start)
        try:
            return self._next(start, limited)
        finally:
            self._poll_took_s = self._clock() - self._polled_s

    def _next(self, start: Position, limited: bool) -> Position:
        settled = self._judge.settled(start, self._ends)
        found, lost = settled.bounds, settled.lost
        self.latest = latest_of(found)
        position = start.without(lost.recreated_topics)
        ids = {**settled.topic_ids, **position.topic_ids}
        bounds = found if self._ends is None else until(found, self._due(position.offsets))
        if limited and self._ends is None and not lost:
            now_s = self._clock()
            if must_wait(position.offsets, bounds, self._limits, now_s - self._batched_s):
                return _identified(position.offsets, ids)
            self._batched_s = now_s
        ends = next_offsets(position.offsets, bounds, self._limits.size_max if limited else None)
        ends = self._order.held(position.offsets, ends, found)
        ends |= {tp: end for tp, _, end in lost.shorter}
        passed_over = settled.held.keys() | (found.keys() - bounds.keys())
        held = {
            tp: position.offsets[tp]
            for tp in passed_over & position.offsets.keys()
            if position.offsets[tp] != UNPINNED
        }
        return _identified({**held, **ends, **self._start.pinned(position.offsets, bounds)}, ids)

    def _due(self, start: Offsets) -> dict[TopicPartition, int]:
        """End of AvailableNow, never before ``start``, even if a broker was behind when the end was
        requested."""
        assert self._ends is not None
        return {tp: max(end, start.get(tp, end)) for tp, end in self._ends.offsets.items()}

    def _check_topics(self, offsets: Offsets) -> None:
        """Refuse a checkpoint without any topic that the options select."""
        topics = sorted({tp.topic for tp in offsets})
        if topics and not self.is_begun:  # an earlier run of the query has reached the cluster
            self._read.planning_retry.bootstrap.answered()
        if topics and not any(covers(self._read.selection, topic) for topic in topics):
            raise OptionError(
                f"checkpointLocation: it holds the offsets of {', '.join(map(printable, topics[:3]))}, "
                "which the options do not name: give this query a checkpoint of its own, or use its "
                "previous options"
            )

    def _pace(self, start: Position) -> None:
        """Wait if no records have arrived since the last request; after a batch ask at once."""
        wait_s = self._polled_s + idle_s(self._poll_took_s) - self._clock()
        if wait_s > 0 and start == self._last_start:
            self._sleep(wait_s)
        self._polled_s, self._last_start = self._clock(), start

    def tasks(self, start: Position, end: Position, *, is_pinned: bool = False) -> tuple[FetchTask, ...]:
        """Ranges of the batch from ``start`` to ``end``, in the order of ``end``. A topic that was recreated
        between the two is read from its first record.

        Raises ``DataLossError`` for partitions of it that are gone, and ``OptionError`` for a first batch of
        another source, unless it ``is_pinned``. The task that reads deleted offsets finds and reports them.
        """
        self._check_topics(end.offsets)
        if self.latest is None and self._start.is_at(start.offsets):
            offsets = self._start.run_again(start.offsets, end.offsets, is_pinned=is_pinned)
            start = Position(offsets, start.topic_ids)
        if lost := losses(start, end):
            self._judge.judge(lost)
        begins = start.without(lost.recreated_topics).offsets
        earliest = self._earliest([tp for tp in end.offsets if tp not in begins])
        ranges, gone = ranges_between(begins, end.offsets, earliest)
        for deleted in gone:
            self._judge.lose(f"{deleted} of a new partition was deleted before it was read")
        starts = {each.topic_partition: each.start_offset for each in ranges}
        leaders = self._judge.leaders(Position(starts, end.topic_ids))
        ranges = tuple(each for each in ranges if each.topic_partition in leaders)
        cuts = self._cut_points(ranges)
        parts = split(ranges, self._read.min_partitions, self._read.partition_size_max, cuts)
        brokers = [leader.broker for leader in leaders.values()]
        minimum = BROKER_VERSIONS.minimum(self._read.net.connection, brokers)
        return self._order.marked(
            FetchTask(
                part, leaders[part.topic_partition], start_option=self._option(part), minimum_versions=minimum
            )
            for part in parts
        )

    def _earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Start offsets of new partitions; 0 for a partition that is gone, which ``leaders`` reports."""
        bounds = self.bounds_of(partitions)
        return {tp: bounds[tp].earliest if tp in bounds else 0 for tp in partitions}

    def _cut_points(self, ranges: Iterable[OffsetRange]) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        splits = self._read.min_partitions is not None or self._read.partition_size_max is not None
        partitions = [each.topic_partition for each in ranges]
        return self._partitions.ask(lambda cluster: cluster.cut_points(partitions)) if splits else None

    def _option(self, part: OffsetRange) -> str | None:
        """The option that gave the start of a range as a number: in 0.7 it may be inside of a message."""
        limit = self._read.starting.by_partition.get(part.topic_partition)
        is_given = limit is not None and (limit.kind, limit.value) == (LimitKind.OFFSET, part.start_offset)
        return self._read.starting.option if is_given and part.topic_partition.broker is not None else None


def idle_s(request_s: float) -> float:
    """Seconds between two requests of an idle query whose last request took ``request_s``."""
    return min(max(_IDLE_TIMES * request_s, POLL_INTERVAL_S), POLL_INTERVAL_MAX_S)


def _identified(offsets: Offsets, ids: Mapping[str, uuid.UUID]) -> Position:
    """Position with the ids of its own topics only."""
    topics = {tp.topic for tp in offsets}
    return Position(offsets, {topic: id_ for topic, id_ in ids.items() if topic in topics})
