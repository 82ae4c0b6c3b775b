"""Delivers batches to the leaders of their logs, in order, and retries those that may still succeed.

One thread sends: the next batches are encoded while brokers answer, and a broker that does not
keep up blocks the task. After a failure all requests in flight are waited for; what failed is queued
before what was not sent yet, so that the order within a log is kept.
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
from ....protocol.modern.acks import ACKS_NONE
from ....protocol.modern.error_codes import broker_error
from .batches import NO_PRODUCER, Batch, LogState
from .identity import init_producer_id
from .leader_link import LeaderLink, LeaderLinks
from .verdict import ACKED, Failure, Verdict

#: Bytes in the queue from which on it is sent: some requests to each leader.
_QUEUE_BYTES_MAX: Final = 4 << 20
#: Shortest time between two calls by which the deadlines of batches in flight are extended, seconds.
_IDLE_S_MIN: Final = 1.0


class Delivery:
    """The batches of one task that are not acked yet, and the connections they are sent on.

    ``logs`` is what the task knows of each log, and counts what was acked. All methods but ``close``
    raise ``DeliveryError`` (fatal); before anything was sent, the error that prevented it.
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
        self._idle_since_s = time.monotonic()

    def magic(self, log: TopicPartition) -> int:
        """The record format of the log's leader."""
        deadline = self.deadline()
        while True:
            try:
                return self._links.link_to(log, deadline).magic
            except KafkaWireError as error:
                self._links.forget(log.topic)
                self._wait(error, deadline)

    def deadline(self) -> Deadline:
        """When a batch that is encoded now must be acked."""
        return Deadline.after(self._options.delivery.timeout_s, "kafka.delivery.timeout.ms")

    def enqueue(self, batch: Batch) -> None:
        """Queue the next batch of its log."""
        self._queue.append(batch)
        self._queued_bytes += batch.size
        if self._queued_bytes >= _QUEUE_BYTES_MAX:
            self.pump()

    def free_requests(self, logs: Sequence[TopicPartition]) -> list[int] | None:
        """How many more requests for each log its leader takes before it is waited for; None where all keep
        up. What failed meanwhile is for the next ``pump``: nothing is raised here."""
        if self._keeps_up(len(logs)):
            return None
        self._extend_deadlines()
        for link in self._links:
            while link.has_come:
                self._take(link)
        if self._keeps_up(len(logs)):
            return None
        available_s = self._options.delivery.available_s
        free = self._links.free_requests(logs, self._in_flight_max, available_s)
        for index, log in enumerate(logs):
            if (state := self._logs.get(log)) and not state.is_ready:
                free[index] = 0
        return None if min(free) == max(free) else free

    def _keeps_up(self, count: int) -> bool:
        """Whether that is so of the leaders of so many logs."""
        available_s = self._options.delivery.available_s
        return self._links.keep_up(count, self._in_flight_max, available_s) and all(
            state.is_ready for state in self._logs.values()
        )

    def pump(self) -> None:
        """Send all that is queued; replies are waited for only where too many requests are in flight."""
        self._extend_deadlines()
        if self._failures:
            self._recover()
        while self._queue:
            self._send_next()
            if self._failures:
                self._recover()
        self._queued_bytes = 0
        self._idle_since_s = time.monotonic()

    def finish(self) -> None:
        """Send all that is queued, and wait until all is acked."""
        self.pump()
        while any(link.in_flight for link in self._links):
            self._drain()
            if self._failures:
                self._recover()
            self.pump()

    def close(self) -> None:
        """Leave the connections to the tasks that follow; never fails."""
        self._links.give_back()

    def _extend_deadlines(self) -> None:
        """While the task waited for its rows nobody received replies: that time does not count against
        the deadlines of batches in flight."""
        idle_s = time.monotonic() - self._idle_since_s
        if idle_s >= _IDLE_S_MIN:
            for link in self._links:
                link.extend_deadlines(idle_s)
            self._idle_since_s += idle_s

    def _send_next(self) -> None:
        """Send a request that begins with the head of the queue, or receive a reply to make room for it."""
        head = self._queue[0]
        try:
            link = self._links.link_to(head.log, head.deadline)
        except KafkaWireError as error:
            # No batch of a log may be in flight to its old leader when the new one gets the next.
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
            self._connection_lost(link, error)
            return
        if self._options.delivery.acks == ACKS_NONE:
            for batch in batches:
                self._ack(batch)

    def _packed(self, leader: Broker) -> list[Batch]:
        """The batches of one request, taken from the queue: in order, one for each log of the leader."""
        packed: list[Batch] = []
        left: deque[Batch] = deque()
        seen: set[TopicPartition] = set()
        size = 0
        for batch in self._queue:
            size_with = size + batch.size
            fits = not packed or size_with <= self._options.delivery.request_bytes_max
            may_go = batch.log not in seen and self._logs[batch.log].is_ready
            if fits and may_go and self._links.is_led_by(batch.log, leader):
                packed.append(batch)
                size = size_with
            else:
                left.append(batch)
            seen.add(batch.log)
        self._queue = left
        return packed

    def _drain(self) -> None:
        """Wait for all that is in flight."""
        for link in self._links:
            while link.in_flight:
                self._take(link)

    def _take(self, link: LeaderLink) -> None:
        """Receive the oldest reply of a link."""
        try:
            outcomes = link.take()
        except KafkaWireError as error:
            self._connection_lost(link, error)
            return
        for batch, answer in outcomes:
            if answer.error_code in ACKED:
                self._ack(batch, answer.base_offset)
                self._attempts.progressed()
            else:
                place = f"Produce to {batch.log} on {link.broker}"
                self._fail(batch, broker_error(answer.error_code, place, answer.reason))

    def _connection_lost(self, link: LeaderLink, error: KafkaWireError) -> None:
        """What became of the batches in flight on the link is not known."""
        for batch in self._links.drop(link):
            self._fail(batch, error)

    def _ack(self, batch: Batch, base_offset: int = -1) -> None:
        state = self._logs[batch.log]
        state.settled(batch)
        state.acked(batch, base_offset)

    def _fail(self, batch: Batch, error: KafkaWireError) -> None:
        self._logs[batch.log].settled(batch)
        self._failures.append(Failure(batch, error))

    def _recover(self) -> None:
        """Queue again what failed, as its error allows, once nothing is in flight."""
        self._drain()
        failures, self._failures = sorted(self._failures, key=attrgetter("batch.index")), []
        retried: list[Batch] = []
        reset: list[TopicPartition] = []
        seen: set[TopicPartition] = set()
        for failure in failures:
            log = failure.batch.log
            verdict = failure.verdict(
                is_first=log not in seen, may_reset_producer=self._logs[log].may_reset_producer
            )
            seen.add(log)
            retried += self._replacements(failure, verdict)
            if verdict is Verdict.RESET_PRODUCER:
                reset.append(log)
        self._queue = deque(sorted([*retried, *self._queue], key=attrgetter("index")))
        for log in reset:
            self._reset_producer(log)
        if waits := next((failure for failure in failures if failure.error.retriable), None):
            self._wait(waits.error, waits.batch.deadline)

    def _replacements(self, failure: Failure, verdict: Verdict) -> Sequence[Batch]:
        """The batches to send in place of the one that failed."""
        batch = failure.batch
        if verdict is Verdict.FAIL:
            raise self._undelivered(failure.error)
        if verdict is Verdict.SPLIT:
            state = self._logs[batch.log]
            state.batch_bytes_max = min(state.batch_bytes_max, batch.size // 2)
            return batch.halves()
        # A retriable error may follow an append: the leader waited for its replicas, and timed out.
        batch.maybe_persisted |= failure.error.retriable
        if failure.error.action in (Action.REFRESH, Action.RECONNECT):
            self._links.forget(batch.log.topic)
        if batch.producer == NO_PRODUCER:
            # Without sequences only one request in flight keeps the order if another one fails.
            self._in_flight_max = 1
        return [batch]

    def _reset_producer(self, log: TopicPartition) -> None:
        state = self._logs[log]
        try:
            state.reset_producer(init_producer_id(self._metadata, self._options))
        except KafkaWireError as error:
            raise self._undelivered(error) from error
        for batch in self._queue:
            if batch.log == log:
                state.assign_sequence(batch)

    def _wait(self, error: KafkaWireError, deadline: Deadline) -> None:
        """Wait before the next try; raises where there is none."""
        try:
            if not deadline.left_s:
                raise error.located(f"not delivered within {deadline}")
            self._attempts.failed(error, deadline)
        except KafkaWireError as last:
            raise self._undelivered(last) from error

    def _undelivered(self, error: KafkaWireError) -> KafkaWireError:
        """The error, with what may be missing; unchanged where nothing was sent."""
        acked = sum(state.message_count for state in self._logs.values())
        if not self._sent_count:
            return error
        return DeliveryError(
            f"{error}; {acked} message(s) of this task are proven to be in their logs, each of the others "
            "may be there or missing"
        )
