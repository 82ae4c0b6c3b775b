"""Plan of the batches of one streaming query, for both generations, on the driver.

    planner = StreamPlanner(options)
    start = planner.initial()                    # for a new query; otherwise from the checkpoint
    end = planner.next(start)
    tasks = planner.tasks(start, end)           # depends on these and the options only

The state between two calls may be lost with the process. A query that joins a consumer group of 0.7 has
a planner of its own (``v07``).

**Start.** The checkpoint does not contain the start of a query before its first batch is finished.
Until then Spark requests the start before that batch is planned, and again when it runs again after a
crash. So the first batch of a start that moves, as ``latest`` does, reads nothing: it pins the start in
the checkpoint. Its end has a mark (``stream_offsets.PIN_MARK``), because the first batch of
``format("kafka")`` reads records after a start that only that source knows.

**Partitions.** A query runs for months: topics are created, grow and are deleted, and brokers restart
and move. Failed requests are repeated for the ``brokerDownTimeout`` of the options.

**Data loss** (``failOnDataLoss``). Repeated requests confirm a loss before the stream fails or warns. A
loss that every later start of the query finds again raises an error in ``settle``. Any other loss
becomes part of the end of the next batch, which Spark writes to the checkpoint before it requests the
tasks of the batch. Then ``judge`` raises, at each start, until the user decides.

**Key order** (``keyOrder``). Batches run one after the other, and the rows of a batch are as in a batch
read: in the order of their Spark partition, or unsorted. So a batch contains records of a layout only
if it, or an earlier batch, reads all partitions that held their keys before up to the boundary. Those
partitions in turn waited for their own parents.

- Partitions that are added while a query runs are not in the options yet, so the query ends with an error.
  The counts are requested after the end offsets, so that no earlier batch contains a record of the new count,
  as far as all brokers learn of partitions at the same time. When the query is started again with the new
  layout, it continues at its position.
- A record that a late producer wrote after a boundary may arrive after the records that follow it. Waiting
  for all such records would never end, so it is an error, unless ``verifyPartitioner`` allows it.
"""

from __future__ import annotations

import contextlib
import math
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeVar

from ..clients.reading.task import FetchTask
from ..cluster import Cluster, cluster_of
from ..errors import (
    LOG,
    Action,
    BrokersMissingError,
    DataLossError,
    KafkaWireError,
    OptionError,
    UnknownTopicError,
    counted,
    printable,
)
from ..model import Generation, Leader, OffsetRange, PartitionBounds, TopicPartition
from ..net.known_versions import BROKER_VERSIONS
from ..net.retry import Attempts, call_with_retries
from ..options import LimitKind, OffsetLimits, ReadOptions, StreamOptions, TopicLayouts
from .batch import covers, match_topics, select
from .key_order import Layouts, find_layouts, mark_tasks
from .ranges import Bounds, split
from .record_sizes import BatchLimit
from .stream_offsets import (
    UNPINNED,
    Losses,
    Offsets,
    Position,
    find_recreated_topics,
    limit_bounds,
    losses,
    must_wait,
    next_offsets,
    ranges_between,
)
from .stream_range import QueryEnd, QueryStart, gone_since

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
        self._end = QueryEnd(options.read, self._partitions)
        self._limit = BatchLimit(options.limits, self._partitions.ask)
        self._ends: Position | None = None
        self._stops = False
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
        """Stop at the current end offsets (trigger AvailableNow).

        A topic that is missing is a loss if the checkpoint has it, which Spark shows with the first batch.
        """
        self._stops = True
        with contextlib.suppress(UnknownTopicError):
            self._stop()

    def _stop(self) -> None:
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
        result, topic_ids, lost, on_hold = self._judge.settle(start, self._ends)
        if self._stops and self._ends is None and not lost:
            self._stop()
        self.latest = latest_of(result)
        position = start.without(lost.recreated_topics)
        ids = {**topic_ids, **position.topic_ids}
        bounds = result if self._ends is None else limit_bounds(result, self._due(position.offsets))
        bounds = self._end.limited(position.offsets, bounds, lost.recreated_topics)
        if limited and self._ends is None and not lost and not self._end.is_near:
            now_s = self._clock()
            if must_wait(position.offsets, bounds, self._limits, now_s - self._batched_s):
                return self._ended(position.offsets, position.offsets, ids)
            self._batched_s = now_s
        ends = (self._limit.ends if limited else next_offsets)(position.offsets, bounds)
        ends = self._order.held(position.offsets, ends, result)
        ends |= {tp: end for tp, _, end in lost.shorter}
        passed_over = on_hold.keys() | (result.keys() - bounds.keys())
        held = {
            tp: position.offsets[tp]
            for tp in passed_over & position.offsets.keys()
            if position.offsets[tp] != UNPINNED
        }
        ends = {**held, **ends, **self._start.pin(position.offsets, bounds)}
        return self._ended(position.offsets, ends, ids)

    def _ended(self, start: Offsets, ends: Offsets, ids: Mapping[str, uuid.UUID]) -> Position:
        is_last = self._ends is not None
        self._end.check(start, ends, is_first=self._start.is_at(start), is_last=is_last)
        topics = {tp.topic for tp in ends}
        return Position(ends, {topic: id_ for topic, id_ in ids.items() if topic in topics})

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
        starts = {item.topic_partition: item.start_offset for item in ranges}
        leaders = self._judge.leaders(Position(starts, end.topic_ids))
        ranges = tuple(item for item in ranges if item.topic_partition in leaders)
        cuts = self._cut_points(ranges)
        parts = split(ranges, self._read.min_partitions, self._read.partition_size_max, cuts)
        brokers = [leader.broker for leader in leaders.values()]
        minimum = BROKER_VERSIONS.minimum(self._read.net.connection, brokers)
        return self._order.mark_layouts(
            FetchTask(
                part,
                leaders[part.topic_partition],
                start_option=_option(self._read.starting, part.topic_partition, part.start_offset),
                stop_option=_option(self._read.ending, part.topic_partition, part.stop_offset),
                minimum_versions=minimum,
            )
            for part in parts
        )

    def _earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Start offsets of new partitions; 0 for a partition that is gone, which ``leaders`` reports."""
        bounds = self.bounds_of(partitions)
        return {tp: bounds[tp].earliest if tp in bounds else 0 for tp in partitions}

    def _cut_points(self, ranges: Iterable[OffsetRange]) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        splits = self._read.min_partitions is not None or self._read.partition_size_max is not None
        partitions = [item.topic_partition for item in ranges]
        return self._partitions.ask(lambda cluster: cluster.cut_points(partitions)) if splits else None


def _option(limits: OffsetLimits, partition: TopicPartition, offset: int) -> str | None:
    """The option that gave an end of a range as a number: in 0.7 it may be inside of a message."""
    limit = limits.by_partition.get(partition)
    is_given = limit is not None and (limit.kind, limit.value) == (LimitKind.OFFSET, offset)
    return limits.option if is_given and partition.broker is not None else None


def idle_s(request_s: float) -> float:
    """Seconds between two requests of an idle query whose last request took ``request_s``."""
    return min(max(_IDLE_TIMES * request_s, POLL_INTERVAL_S), POLL_INTERVAL_MAX_S)


T = TypeVar("T")
#: A method of the cluster that returns the partitions of topics.
_AskPartitions = Callable[[Sequence[str]], tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class _Look:
    """Refresh of the partitions of a cluster. ``age_max_s`` is the maximum age of the list of partitions.

    A cluster object that ``stays`` keeps its first view, so the next refresh creates a new one, and leaves
    retries to ``StreamPartitions.ask``.
    """

    age_max_s: float
    stays: bool


#: Later brokers list all partitions in one response; 0.7 needs all nodes of ZooKeeper, or every broker.
_LOOKS: Final[Mapping[Generation, _Look]] = MappingProxyType(
    {Generation.V07: _Look(5.0, stays=True), Generation.MODERN: _Look(0.0, stays=False)}
)
#: Seconds until a missing topic is requested again, because the cluster repeats such a request before it
#: fails.
_MISSING_AGE_S: Final = 5.0


def topic_ids_of(leaders: Mapping[TopicPartition, Leader]) -> dict[str, uuid.UUID]:
    """Ids of the topics of some partitions, if topics have ids."""
    return {tp.topic: leader.topic_id for tp, leader in leaders.items() if leader.topic_id is not None}


class StreamPartitions:
    """Partitions that the options of a stream select, refreshed regularly."""

    def __init__(self, options: ReadOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._look = _LOOKS[options.discovery.generation]
        self._cluster: Cluster | None = None
        self._partitions: tuple[TopicPartition, ...] = ()
        self._looked_s = float("-inf")
        self._missing: dict[str, float] = {}
        self._among: frozenset[TopicPartition] | None = None

    def ask(self, question: Callable[[Cluster], T]) -> T:
        """Ask the cluster a question, and retry while brokers are not available.

        Raises the errors of ``question``, once the retries and brokerDownTimeout are used up.
        """

        def once() -> T:
            try:
                return question(self._asked())
            except KafkaWireError:
                self.forget()
                raise

        return call_with_retries(once, self._options.planning_retry)

    def forget(self) -> None:
        """Discard the list of partitions, which turned out to be old."""
        self._looked_s = float("-inf")
        self._missing.clear()

    def narrow(self, partitions: Collection[TopicPartition]) -> None:
        """Limit ``bounds`` to these partitions from now on."""
        self._among = frozenset(partitions)

    def select(self) -> dict[TopicPartition, PartitionBounds]:
        """Bounds of all partitions that a new query reads. Raises ``UnknownTopicError`` for topics that no
        broker holds."""
        selection = self._options.selection
        return self.ask(lambda cluster: self._bounds(cluster, select(selection, cluster, may_be_empty=True)))

    def bounds(self, known: Offsets) -> Bounds:
        """Bounds of all partitions that exist now; ``known`` are the positions of the query."""
        return self.ask(lambda cluster: self._bounds_there(cluster, known))

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, uuid.UUID]:
        """Ids of the topics of partitions by the last refresh, without a new request."""
        return topic_ids_of(self.ask(lambda cluster: cluster.known_leaders(list(partitions))))

    def carry(self, start: Offsets, there: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Positions in partitions that exist but cannot be read now: the query continues there later."""
        missed = [tp for tp, offset in start.items() if tp not in there and offset != UNPINNED]
        return {tp: start[tp] for tp in self.unreachable(missed)} if missed else {}

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Discard the metadata of the topics of partitions."""
        for partition in partitions:
            self._asked().forget(partition)

    def unreachable(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions whose broker is not alive, if partitions name a broker (0.7): they exist, but cannot be
        read now."""
        of_brokers = [tp for tp in partitions if tp.broker is not None]
        if not of_brokers:
            return []
        alive = {broker.id for broker in self.ask(lambda cluster: cluster.brokers())}
        return [tp for tp in of_brokers if tp.broker not in alive]

    def _asked(self) -> Cluster:
        """The cluster object for the next question."""
        if self._cluster is None or (self._is_old and self._look.stays):
            retry = self._options.planning_retry
            retry = retry.impatient if self._look.stays else retry
            self._cluster = cluster_of(replace(self._options, planning_retry=retry))
        return self._cluster

    @property
    def _is_old(self) -> bool:
        """True if the list of partitions must be refreshed."""
        return self._clock() - self._looked_s >= self._look.age_max_s

    def _bounds(
        self, cluster: Cluster, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, PartitionBounds]:
        # Without those of missing brokers, if failOnDataLoss is false.
        leaders = cluster.leaders_of(partitions)
        return cluster.bounds([tp for tp in partitions if tp in leaders])

    def _bounds_there(self, cluster: Cluster, known: Offsets) -> Bounds:
        partitions = self._there(cluster, known)
        if self._among is not None:
            partitions = tuple(tp for tp in partitions if tp in self._among)
        # Starts are used for partitions without a position or without a pinned one, and for key order.
        has_positions = all(known.get(tp, UNPINNED) != UNPINNED for tp in partitions)
        is_followed = has_positions and self._options.key_order is None
        with gone_since():
            return cluster.follow_bounds(partitions) if is_followed else self._bounds(cluster, partitions)

    def _there(self, cluster: Cluster, known: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        if self._is_old:
            cluster.await_partitions(known)
            self._partitions = self._select_partitions(cluster, {tp.topic for tp in known})
            cluster.await_partitions(self._partitions)
            self._looked_s = self._clock()
        return self._partitions

    def _select_partitions(self, cluster: Cluster, known: Collection[str]) -> tuple[TopicPartition, ...]:
        selection = self._options.selection
        if selection.pattern is not None:
            listed = match_topics(selection.pattern, cluster.topics())
            return self._partitions_of(cluster, cluster.listed_partitions, listed, known)
        if selection.subscribe:
            return self._partitions_of(cluster, cluster.partitions_of, selection.subscribe, known)
        topics = sorted({tp.topic for tp in selection.assign})
        there = set(self._partitions_of(cluster, cluster.partitions_of, topics, known))
        return tuple(tp for tp in selection.assign if tp in there)

    def _partitions_of(
        self, cluster: Cluster, question: _AskPartitions, topics: Iterable[str], known: Collection[str]
    ) -> tuple[TopicPartition, ...]:
        """Partitions of the topics that exist. A missing topic that the query has not read (``known``) is an
        error unless ``failOnDataLoss`` is false."""
        is_recent = self._clock() - _MISSING_AGE_S
        asked = [topic for topic in topics if self._missing.get(topic, float("-inf")) <= is_recent]
        try:
            partitions = question(asked) if asked else ()
        except UnknownTopicError:
            return tuple(tp for topic in asked for tp in self._partitions_of_one(cluster, topic, known))
        for topic in asked:
            self._missing.pop(topic, None)
        return partitions

    def _partitions_of_one(
        self, cluster: Cluster, topic: str, known: Collection[str]
    ) -> tuple[TopicPartition, ...]:
        try:
            partitions = cluster.partitions_of([topic])
        except UnknownTopicError as error:
            is_pattern = self._options.selection.pattern is not None
            if self._options.fetch.fail_on_data_loss and topic not in known and not is_pattern:
                raise
            if topic not in self._missing and topic not in known:
                LOG.warning("%s: the query continues without %s until it exists", error, printable(topic))
            self._missing[topic] = self._clock()
            return ()
        self._missing.pop(topic, None)
        return partitions


def bounds_of(cluster: Cluster, partitions: list[TopicPartition]) -> Bounds:
    """Bounds of the partitions that exist."""
    leaders = leaders_of(cluster, partitions)
    with gone_since():
        return cluster.bounds([tp for tp in partitions if tp in leaders])


def leaders_of(cluster: Cluster, partitions: list[TopicPartition]) -> Mapping[TopicPartition, Leader]:
    """Leaders of the partitions that exist. Raises ``BrokersMissingError`` (retriable) for a broker that is
    not alive: this does not prove that its partitions are gone."""
    cluster.await_partitions(partitions)
    try:
        result = dict(cluster.leaders_of(partitions))
    except UnknownTopicError:
        there: set[TopicPartition] = set()
        for topic in sorted({tp.topic for tp in partitions}):
            with contextlib.suppress(UnknownTopicError):
                there.update(cluster.partitions_of([topic]))
        result = dict(cluster.leaders_of([tp for tp in partitions if tp in there]))
    if away := [tp for tp in partitions if tp not in result and tp.broker is not None]:
        raise BrokersMissingError(
            f"broker {away[0].broker} is not alive and holds {len(away)} of the partitions that the batch "
            f"reads, {away[0]} first; start it"
        )
    return result


_NOWHERE: Final = Position({})
#: Seconds between two warnings about partitions on hold.
_WARN_AGAIN_S: Final = 60.0
_PLACING: Final = "kafkawire checkpoints CHECKPOINT --place sets another one (docs/data-loss.md)"


class _Doubt(KafkaWireError):
    """Something that existed seems to be gone: it is requested again before that counts as a loss."""

    action = Action.REFRESH


class LossJudge:
    """Decisions for one run of one query. ``clock`` and ``sleep`` count seconds."""

    def __init__(
        self,
        options: ReadOptions,
        partitions: StreamPartitions,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._partitions, self._clock, self._sleep = partitions, clock, sleep
        self._retry = options.planning_retry.impatient
        self._is_strict = options.fetch.fail_on_data_loss
        self._warned: set[str] = set()
        self._held: frozenset[TopicPartition] = frozenset()
        self._held_warned_s = -math.inf

    def settle(
        self, start: Position, due: Position | None
    ) -> tuple[Bounds, Mapping[str, uuid.UUID], Losses, Offsets]:
        """Answers of the cluster, after repeated requests for topics and records that seem to be gone.

        They are the bounds of the partitions that the query reads, the ids of all existing topics, the
        confirmed losses, and the positions in partitions that the query does not read now. ``due`` is the end
        of AvailableNow.

        If ``failOnDataLoss`` is false and a loss is not proven, the partition is put on hold: the query keeps
        its position, and continues there once the partition is back.
        """
        attempts = Attempts(self._retry, clock=self._clock, sleep=self._sleep)
        while True:
            bounds = self._partitions.bounds(start.offsets)
            carried = self._partitions.carry(start.offsets, bounds)
            now = Position({**carried, **latest_of(bounds)}, self._partitions.topic_ids(bounds))
            cut_off, all_lost = losses(due or _NOWHERE, now), losses(start, now)
            held = frozenset() if self._is_strict else frozenset(all_lost.unproven)
            lost = all_lost.without(held)
            is_settled = not (cut_off or lost) and held <= self._held
            if not is_settled:
                self._partitions.forget()
                if not attempts.last(_Doubt(str(cut_off or all_lost))):
                    continue
                self._check(start, cut_off, lost)
            self._hold(held, all_lost)
            bounds = {tp: result for tp, result in bounds.items() if tp not in held}
            places = {**carried, **{tp: start.offsets[tp] for tp in held}}
            return bounds, now.topic_ids, lost, places

    def _hold(self, held: frozenset[TopicPartition], lost: Losses) -> None:
        """Warn about partitions on hold, once a minute, and about those that are no longer on hold."""
        if back := sorted(self._held - held):
            LOG.warning(
                "%s no longer on hold, first %s: the query continues from its position there",
                counted(len(back), "partition"),
                back[0],
            )
        if held and (held - self._held or self._clock() - self._held_warned_s >= _WARN_AGAIN_S):
            self._held_warned_s = self._clock()
            LOG.warning(
                "%s, or a broker is behind: nothing proves which. The query keeps its position and reads "
                "nothing there until the partition reaches beyond it again, or %s",
                lost,
                _PLACING,
            )
        self._held = held

    def _check(self, start: Position, cut_off: Losses, lost: Losses) -> None:
        """Raise, or warn about, losses that the next start of the query finds again."""
        if cut_off:  # it must exist until it is read
            raise DataLossError(
                f"{cut_off}; the trigger availableNow had planned to read it: start the query again"
            )
        # A partition that has lost its end may have grown until the next start.
        is_forgotten = bool(lost.shorter) and self._is_strict
        if lost and lost.topics <= start.topic_ids.keys() and not is_forgotten:
            self.judge(lost)

    def judge(self, lost: Losses) -> None:
        """Fail for a loss, or warn if ``failOnDataLoss`` is false and the loss is proven."""
        if lost.unproven:
            raise DataLossError(
                f"{lost}, or a broker is behind: nothing proves which. The query does not continue from its "
                f"position until {_PLACING}"
            )
        self.lose(str(lost))

    def lose(self, loss: str) -> None:
        """Fail, or warn once and continue."""
        if self._is_strict:
            raise DataLossError(f"{loss}; to continue with what is left, set failOnDataLoss=false")
        if loss not in self._warned:
            self._warned.add(loss)
            LOG.warning("%s; continuing because failOnDataLoss=false", loss)

    def leaders(self, starts: Position) -> Mapping[TopicPartition, Leader]:
        """Leaders of the partitions in ``starts``. A partition that no longer has a leader is a loss, and so
        is a partition of a recreated topic."""
        attempts = Attempts(self._retry, clock=self._clock, sleep=self._sleep)
        while True:
            result = self._partitions.ask(lambda cluster: leaders_of(cluster, list(starts.offsets)))
            recreated = find_recreated_topics(starts, Position({}, topic_ids_of(result)))
            if not recreated:
                break
            if attempts.last(_Doubt(str(Losses(recreated)))):
                break
            self._partitions.forget_leaders(result)
        topics = {topic for topic, _, _ in recreated}
        gone = tuple((tp, offset) for tp, offset in starts.offsets.items() if tp not in result)
        if recreated or gone:
            self.lose(str(Losses(recreated, gone)))
        return {tp: leader for tp, leader in result.items() if tp.topic not in topics}


def latest_of(bounds: Bounds) -> dict[TopicPartition, int]:
    """End offsets of the partitions."""
    return {tp: result.latest for tp, result in bounds.items()}


def hold(start: Offsets, ends: Offsets, bounds: Bounds, layouts: TopicLayouts) -> dict[TopicPartition, int]:
    """End offsets of a batch, limited in partitions that have to wait. Pure."""
    held = {**start, **ends}
    waiting: set[TopicPartition] = set()
    for layout, boundaries in enumerate(layouts.boundaries or (), 1):
        common = layouts.common(layout)
        # A waiting partition may have had no record since, so its children wait for its parents. A partition
        # that is behind does not delay its own records before the boundary.
        behind = {
            location % common
            for location, tp in enumerate(layouts.lists[layout - 1])
            if tp in waiting or held.get(tp, 0) < boundaries[tp]
        }
        waiting = {tp for location, tp in enumerate(layouts.lists[layout]) if location % common in behind}
        for partition in waiting & ends.keys():
            if start.get(partition) != UNPINNED:
                begin = start.get(partition, bounds[partition].earliest)
                held[partition] = max(min(held[partition], boundaries.get(partition, 0)), begin)
    return {tp: held[tp] for tp in ends}


class StreamKeyOrder:
    """Key order of one query; without ``keyOrder`` it changes nothing."""

    def __init__(self, options: ReadOptions, partitions: StreamPartitions) -> None:
        self._options, self._partitions = options, partitions
        self._layouts: Layouts | None = None

    def held(self, start: Offsets, ends: Offsets, bounds: Bounds) -> dict[TopicPartition, int]:
        """End offsets of a batch, limited by the key order. Raises ``OptionError`` (fatal) if topics have
        grown."""
        if self._options.key_order is None:
            return dict(ends)
        self._layouts = self._partitions.ask(lambda cluster: self._found(cluster, list(bounds), bounds))
        result = dict(ends)
        for layouts in self._layouts.values():
            result |= hold(start, {tp: ends[tp] for tp in layouts.lists[-1] if tp in ends}, bounds, layouts)
        return result

    def mark_layouts(self, tasks: Iterable[FetchTask]) -> tuple[FetchTask, ...]:
        """Tasks with the layouts of their partitions."""
        tasks = tuple(tasks)
        if self._options.key_order is None or not tasks:
            return tasks
        if self._layouts is None:
            topics = sorted({task.range.topic_partition.topic for task in tasks})
            self._layouts = self._partitions.ask(lambda cluster: self._asked(cluster, topics))
        return mark_tasks(self._options.key_order, self._layouts, tasks, is_stream=True)

    def _asked(self, cluster: Cluster, topics: list[str]) -> Layouts:
        with gone_since():
            partitions = cluster.partitions_of(topics)
            return self._found(cluster, partitions, cluster.bounds(partitions))

    def _found(self, cluster: Cluster, partitions: Collection[TopicPartition], bounds: Bounds) -> Layouts:
        with gone_since():
            return find_layouts(self._options, cluster, partitions, bounds)
