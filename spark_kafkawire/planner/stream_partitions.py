"""Partitions of a running stream and their bounds, for both generations, as the cluster reports them.

A query runs for months: topics are created, grow and are deleted, and brokers restart and move. Failed
requests are repeated for the ``brokerDownTimeout`` of the options. ``planner.stream_judge`` decides about
partitions that no longer exist.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeVar

from ..cluster.cluster import Cluster, cluster_of
from ..errors import LOG, Action, KafkaWireError, UnknownTopicError, printable
from ..model import Generation, Leader, PartitionBounds, TopicPartition
from ..net.retry import retried
from ..options import ReadOptions
from .batch import matching, select
from .stream_offsets import UNPINNED, Offsets

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


class GoneSinceError(KafkaWireError):
    """A topic was deleted after the partitions were listed; the next refresh decides what that means."""

    action = Action.REFRESH


def topic_ids_of(leaders: Mapping[TopicPartition, Leader]) -> dict[str, uuid.UUID]:
    """Ids of the topics of some partitions, if topics have ids."""
    return {tp.topic: leader.topic_id for tp, leader in leaders.items() if leader.topic_id is not None}


@contextlib.contextmanager
def gone_since() -> Iterator[None]:
    """Turn the error for a topic that was deleted since the refresh into a retriable one."""
    try:
        yield
    except UnknownTopicError as error:
        raise GoneSinceError(str(error)) from error


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

        return retried(once, self._options.planning_retry)

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

    def bounds(self, known: Offsets) -> Mapping[TopicPartition, PartitionBounds]:
        """Bounds of all partitions that exist now; ``known`` are the positions of the query."""
        return self.ask(lambda cluster: self._bounds_there(cluster, known))

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, uuid.UUID]:
        """Ids of the topics of partitions by the last refresh, without a new request."""
        return topic_ids_of(self.ask(lambda cluster: cluster.known_leaders(list(partitions))))

    def carried(self, start: Offsets, there: Collection[TopicPartition]) -> dict[TopicPartition, int]:
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
        leaders = cluster.leaders_of(
            partitions
        )  # without those of missing brokers, if failOnDataLoss is false
        return cluster.bounds([tp for tp in partitions if tp in leaders])

    def _bounds_there(self, cluster: Cluster, known: Offsets) -> Mapping[TopicPartition, PartitionBounds]:
        partitions = self._there(cluster, known)
        if self._among is not None:
            partitions = tuple(tp for tp in partitions if tp in self._among)
        # Starts are used for partitions without a position or without a pinned one, and for key order.
        has_positions = all(known.get(tp, UNPINNED) != UNPINNED for tp in partitions)
        is_followed = has_positions and self._options.key_order is None
        with gone_since():
            return cluster.followed_bounds(partitions) if is_followed else self._bounds(cluster, partitions)

    def _there(self, cluster: Cluster, known: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        if self._is_old:
            cluster.await_partitions(known)
            self._partitions = self._selected(cluster, {tp.topic for tp in known})
            cluster.await_partitions(self._partitions)
            self._looked_s = self._clock()
        return self._partitions

    def _selected(self, cluster: Cluster, known: Collection[str]) -> tuple[TopicPartition, ...]:
        selection = self._options.selection
        if selection.pattern is not None:
            listed = matching(selection.pattern, cluster.topics())
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
