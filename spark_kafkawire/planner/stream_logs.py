"""What the cluster says of a running query's logs: which there are, and where they start and end.

A query runs for months: topics come, grow and go, brokers restart and move. What cannot be asked now is
asked again, for as long as the options' patience says; what was there and is not any more is left to
``planner.stream`` to judge.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeVar

from ..cluster.cluster import Cluster, cluster_of
from ..errors import Action, KafkaWireError, UnknownTopicError, shown
from ..model import Generation, LogBounds, TopicPartition
from ..net.retry import Attempts
from ..options import ReadOptions
from .batch import matching, select

_log = logging.getLogger("spark_kafkawire")
T = TypeVar("T")
#: How a cluster is asked for the logs of topics.
_AskLogs = Callable[[Sequence[str]], tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class _Look:
    """How a cluster is looked at again. ``age_max_s`` is how long is believed which logs there are.

    A cluster that ``stays`` is as it was when it was first asked: a new one is taken for the next look, which
    leaves it to ``StreamLogs.ask`` to be patient.
    """

    age_max_s: float
    stays: bool


#: Any later broker tells in one answer which logs there are; of 0.7 all of ZooKeeper, or each broker,
#: is asked.
_LOOKS: Final[Mapping[Generation, _Look]] = MappingProxyType(
    {Generation.V07: _Look(5.0, stays=True), Generation.MODERN: _Look(0.0, stays=False)}
)
#: How long after its last answer a topic that is not there is asked for again, seconds: nobody says at once
#: that there is none.
_MISSING_AGE_S: Final = 5.0


class GoneSinceError(KafkaWireError):
    """A topic was deleted after the look at which there are: the next one tells what that means."""

    action = Action.REFRESH


@contextlib.contextmanager
def gone_since() -> Iterator[None]:
    """Ask again from the start where a topic is gone about which is asked because it was there."""
    try:
        yield
    except UnknownTopicError as error:
        raise GoneSinceError(str(error)) from error


class StreamLogs:
    """The logs that a stream's options select, looked at again and again."""

    def __init__(self, options: ReadOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._look = _LOOKS[options.discovery.generation]
        self._cluster: Cluster | None = None
        self._logs: tuple[TopicPartition, ...] = ()
        self._looked_s = float("-inf")
        self._missing: dict[str, float] = {}
        self._among: frozenset[TopicPartition] | None = None
        self._topic_ids: dict[str, uuid.UUID] = {}

    def ask(self, question: Callable[[Cluster], T]) -> T:
        """The cluster's answer, for which a broker that is away is waited for.

        Raises what ``question`` does, once the retries and the patience are used up.
        """
        attempts = Attempts(self._options.planning_retry)
        while True:
            try:
                return question(self._asked())
            except KafkaWireError as error:
                self.forget()
                attempts.failed(error)

    def forget(self) -> None:
        """Ask anew which logs there are: what is known of them turned out to be old."""
        self._looked_s = float("-inf")
        self._missing.clear()

    def narrow(self, logs: Collection[TopicPartition]) -> None:
        """Have ``bounds`` of these logs alone from now on."""
        self._among = frozenset(logs)

    def select(self) -> dict[TopicPartition, LogBounds]:
        """The bounds of all logs that a new query reads. Raises ``UnknownTopicError`` for what no broker
        holds."""
        selection = self._options.selection
        return self.ask(lambda cluster: self._bounds(cluster, select(selection, cluster, may_be_empty=True)))

    def bounds(self, known: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        """The bounds of all logs that are there now; ``known`` are those where the query stands.

        Logs of a topic that was deleted and made anew since the last look are left out, until
        ``accept_new_topics``.
        """
        bounds = self.ask(lambda cluster: self._bounds_there(cluster, known))
        ids = self._ids(bounds)
        anew = {topic for topic, id_ in ids.items() if self._topic_ids.get(topic, id_) != id_}
        self._topic_ids = {**ids, **self._topic_ids}
        return {log: found for log, found in bounds.items() if log.topic not in anew}

    def accept_new_topics(self) -> None:
        """The loss of what topics held before they were made anew is told: from now on they are others."""
        self._topic_ids = {}

    def unreachable(self, logs: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the logs whose broker is away, where the name of a log holds one (0.7): they are there,
        and nobody can read them now."""
        of_brokers = [log for log in logs if log.broker is not None]
        if not of_brokers:
            return []
        alive = {broker.id for broker in self.ask(lambda cluster: cluster.brokers())}
        return [log for log in of_brokers if log.broker not in alive]

    def _asked(self) -> Cluster:
        """The cluster to ask."""
        if self._cluster is None or (self._is_old and self._look.stays):
            retry = self._options.planning_retry
            retry = retry.impatient if self._look.stays else retry
            self._cluster = cluster_of(replace(self._options, planning_retry=retry))
        return self._cluster

    @property
    def _is_old(self) -> bool:
        """Whether it is to be asked again which logs there are."""
        return self._clock() - self._looked_s >= self._look.age_max_s

    def _bounds(self, cluster: Cluster, logs: tuple[TopicPartition, ...]) -> dict[TopicPartition, LogBounds]:
        leaders = cluster.leaders_of(logs)  # those of missing brokers are left out, where that is borne
        return cluster.bounds([log for log in logs if log in leaders])

    def _bounds_there(
        self, cluster: Cluster, known: Collection[TopicPartition]
    ) -> dict[TopicPartition, LogBounds]:
        logs = self._there(cluster, known)
        if self._among is not None:
            logs = tuple(log for log in logs if log in self._among)
        with gone_since():
            return self._bounds(cluster, logs)

    def _there(self, cluster: Cluster, known: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        if self._is_old:
            cluster.await_logs(known)
            self._logs = self._selected(cluster, {log.topic for log in known})
            cluster.await_logs(self._logs)
            self._looked_s = self._clock()
        return self._logs

    def _selected(self, cluster: Cluster, known: Collection[str]) -> tuple[TopicPartition, ...]:
        selection = self._options.selection
        if selection.pattern is not None:
            listed = matching(selection.pattern, cluster.topics())
            return self._logs_of(cluster, cluster.logs_listed, listed, known)
        if selection.subscribe:
            return self._logs_of(cluster, cluster.logs_of, selection.subscribe, known)
        topics = sorted({log.topic for log in selection.assign})
        there = set(self._logs_of(cluster, cluster.logs_of, topics, known))
        return tuple(log for log in selection.assign if log in there)

    def _logs_of(
        self, cluster: Cluster, question: _AskLogs, topics: Iterable[str], known: Collection[str]
    ) -> tuple[TopicPartition, ...]:
        """The logs of those of the topics that are there. One that is not there, and that the query has not
        read (``known``), is an error unless data loss is borne."""
        is_recent = self._clock() - _MISSING_AGE_S
        asked = [topic for topic in topics if self._missing.get(topic, float("-inf")) <= is_recent]
        try:
            logs = question(asked) if asked else ()
        except UnknownTopicError:
            return tuple(log for topic in asked for log in self._logs_of_one(cluster, topic, known))
        for topic in asked:
            self._missing.pop(topic, None)
        return logs

    def _logs_of_one(
        self, cluster: Cluster, topic: str, known: Collection[str]
    ) -> tuple[TopicPartition, ...]:
        try:
            logs = cluster.logs_of([topic])
        except UnknownTopicError as error:
            is_pattern = self._options.selection.pattern is not None
            if self._options.fetch.fail_on_data_loss and topic not in known and not is_pattern:
                raise
            if topic not in self._missing and topic not in known:
                _log.warning("%s: the query goes on without %s until it is there", error, shown(topic))
            self._missing[topic] = self._clock()
            return ()
        self._missing.pop(topic, None)
        return logs

    def _ids(self, bounds: Iterable[TopicPartition]) -> dict[str, uuid.UUID]:
        """The ids of the topics, where topics have ids; nobody is asked."""
        leaders = self.ask(lambda cluster: cluster.known_leaders(list(bounds)))
        return {log.topic: leader.topic_id for log, leader in leaders.items() if leader.topic_id is not None}
