"""Delivers batches to the leaders of their logs, in order, and again where that may help.

One thread sends: while brokers answer, the next batches are encoded, and a broker that does not
keep up stops the task. After a failure all that is in flight is waited for; what failed is queued
again before what was not sent yet, so that the order within a log is kept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from ....cluster.modern.metadata import Metadata
from ....errors import Action, DeliveryError, KafkaWireError
from ....model import Broker, TopicPartition
from ....net.retry import Attempts
from ....net.transport import Deadline
from ....options import WriteOptions
from ....protocol.modern.error_codes import broker_error
from ....protocol.modern.produce import ACKS_NONE
from .batches import NO_PRODUCER, Batch, LogState
from .identity import new_producer
from .leader_link import LeaderLink, LeaderLinks
from .verdict import PROVEN, Failure, Verdict

#: Bytes in the queue from which on it is sent: some requests to each leader.
_QUEUE_BYTES_MAX: Final = 4 << 20
#: Shortest time between two calls that batches in flight get in addition, seconds.
_AWAY_S_MIN: Final = 1.0


class Delivery:
    """The batches of one task that are not proven yet, and the connections they go on.

    ``logs`` is what the task knows of each log; what is proven is noted there. All methods but
    ``close`` raise ``DeliveryError`` (fatal), and before anything was sent whatever kept it from
    being sent.
    """

    def __init__(self, metadata: Metadata, options: WriteOptions, logs: dict[TopicPartition, LogState]):
        self._metadata = metadata
        self._options = options
        self._logs = logs
        self._links = LeaderLinks(metadata, options)
        self._queue: deque[Batch] = deque()
        self._queued_bytes = 0
        self._failures: list[Failure] = []
        self._attempts = Attempts(options.delivery.retry)
        self._in_flight_max = options.delivery.requests_in_flight
        self._sent_count = 0
        self._left_at_s = time.monotonic()

    def magic(self, log: TopicPartition) -> int:
        """The format of records that the log's leader speaks."""
        deadline = self.deadline()
        while True:
            try:
                return self._links.link_to(log, deadline).magic
            except KafkaWireError as error:
                self._links.forget(log.topic)
                self._wait(error, deadline)

    def deadline(self) -> Deadline:
        """When a batch that is made now must be proven."""
        return Deadline.after(self._options.delivery.timeout_s, "kafka.delivery.timeout.ms")

    def enqueue(self, batch: Batch) -> None:
        """Take the next batch of its log."""
        self._queue.append(batch)
        self._queued_bytes += batch.size
        if self._queued_bytes >= _QUEUE_BYTES_MAX:
            self.pump()

    def pump(self) -> None:
        """Send all that is queued, waiting for replies only to make room for more."""
        self._come_back()
        while self._queue:
            self._send_next()
            if self._failures:
                self._recover()
        self._queued_bytes = 0
        self._left_at_s = time.monotonic()

    def finish(self) -> None:
        """Wait until all is proven."""
        self.pump()
        while any(link.in_flight for link in self._links):
            self._drain()
            if self._failures:
                self._recover()
            self.pump()

    def close(self) -> None:
        """Leave the connections to the tasks that follow; never fails."""
        self._links.give_back()

    def _come_back(self) -> None:
        """While the task waited for its rows nobody took replies: that time is not the brokers'."""
        away_s = time.monotonic() - self._left_at_s
        if away_s >= _AWAY_S_MIN:
            for link in self._links:
                link.postpone(away_s)

    def _send_next(self) -> None:
        """Send a request that begins with the head of the queue, or make room for it."""
        head = self._queue[0]
        try:
            link = self._links.link_to(head.log, head.deadline)
        except KafkaWireError as error:
            # Nothing of a log may be in flight to its old leader when the new one gets more of it.
            self._drain()
            self._links.forget(head.log.topic)
            self._wait(error, head.deadline)
            return
        if link.in_flight >= self._in_flight_max or not self._logs[head.log].is_ready:
            self._take(link)
            return
        batches = self._packed(link.broker)
        for batch in batches:
            self._sent_count += batch.count
            self._logs[batch.log].sent(batch)
        try:
            link.send(batches)
        except KafkaWireError as error:
            self._lose(link, error)
            return
        if self._options.delivery.acks == ACKS_NONE:
            for batch in batches:
                self._prove(batch)

    def _packed(self, leader: Broker) -> list[Batch]:
        """Takes the batches of one request from the queue: in order, one of each log of the leader."""
        packed: list[Batch] = []
        left: deque[Batch] = deque()
        met: set[TopicPartition] = set()
        size = 0
        for batch in self._queue:
            size_with = size + batch.size
            fits = not packed or size_with <= self._options.delivery.request_bytes_max
            may_go = batch.log not in met and self._logs[batch.log].is_ready
            if fits and may_go and self._links.is_led_by(batch.log, leader):
                packed.append(batch)
                size = size_with
            else:
                left.append(batch)
            met.add(batch.log)
        self._queue = left
        return packed

    def _drain(self) -> None:
        """Wait for all that is in flight."""
        for link in self._links:
            while link.in_flight:
                self._take(link)

    def _take(self, link: LeaderLink) -> None:
        """Take the oldest reply of a link."""
        try:
            outcomes = link.take()
        except KafkaWireError as error:
            self._lose(link, error)
            return
        for batch, answer in outcomes:
            if answer.error_code in PROVEN:
                self._prove(batch, answer.base_offset)
                self._attempts.progressed()
            else:
                place = f"Produce to {batch.log} on {link.broker}"
                self._fail(batch, broker_error(answer.error_code, place, answer.reason))

    def _lose(self, link: LeaderLink, error: KafkaWireError) -> None:
        """Nobody knows what the broker did with all that was in flight on the link."""
        for batch in self._links.drop(link):
            self._fail(batch, error)

    def _prove(self, batch: Batch, base_offset: int = -1) -> None:
        state = self._logs[batch.log]
        state.settled(batch)
        state.prove(batch, base_offset)

    def _fail(self, batch: Batch, error: KafkaWireError) -> None:
        self._logs[batch.log].settled(batch)
        self._failures.append(Failure(batch, error))

    def _recover(self) -> None:
        """Queue again what failed, as its error allows, once nothing is in flight any more."""
        self._drain()
        failures, self._failures = sorted(self._failures, key=attrgetter("batch.place")), []
        again: list[Batch] = []
        anew: list[TopicPartition] = []
        met: set[TopicPartition] = set()
        for failure in failures:
            log = failure.batch.log
            verdict = failure.verdict(is_first=log not in met, is_known=self._logs[log].may_begin_anew)
            met.add(log)
            again += self._sentenced(failure, verdict)
            if verdict is Verdict.BEGIN_ANEW:
                anew.append(log)
        self._queue = deque(sorted([*again, *self._queue], key=attrgetter("place")))
        for log in anew:
            self._begin_anew(log)
        if waits := next((failure for failure in failures if failure.error.retriable), None):
            self._wait(waits.error, waits.batch.deadline)

    def _sentenced(self, failure: Failure, verdict: Verdict) -> Sequence[Batch]:
        """The batches to send in place of the one that failed."""
        batch = failure.batch
        if verdict is Verdict.FAIL:
            raise self._undelivered(failure.error)
        if verdict is Verdict.SPLIT:
            state = self._logs[batch.log]
            state.batch_bytes_max = min(state.batch_bytes_max, batch.size // 2)
            return batch.halves()
        # A retriable answer may come after the append: a leader that waited for its replicas in vain.
        batch.is_in_doubt |= failure.error.retriable
        if failure.error.action in (Action.REFRESH, Action.RECONNECT):
            self._links.forget(batch.log.topic)
        if batch.producer == NO_PRODUCER:
            # Without sequences only one request at a time keeps the order if another one fails.
            self._in_flight_max = 1
        return [batch]

    def _begin_anew(self, log: TopicPartition) -> None:
        state = self._logs[log]
        try:
            state.identify(new_producer(self._metadata, self._options))
        except KafkaWireError as error:
            raise self._undelivered(error) from error
        for batch in self._queue:
            if batch.log == log:
                state.number(batch)

    def _wait(self, error: KafkaWireError, deadline: Deadline) -> None:
        """Wait before the next try; raises where there is none."""
        try:
            if not deadline.left_s:
                raise error.located(f"not delivered within {deadline}")
            self._attempts.failed(error, deadline)
        except KafkaWireError as last:
            raise self._undelivered(last) from error

    def _undelivered(self, error: KafkaWireError) -> KafkaWireError:
        """The error with what may be missing; as it is where nothing was sent."""
        proven = sum(state.message_count for state in self._logs.values())
        if not self._sent_count:
            return error
        return DeliveryError(
            f"{error}; {proven} message(s) of this task are proven to be in their logs, each of the others "
            "may be there or missing"
        )
