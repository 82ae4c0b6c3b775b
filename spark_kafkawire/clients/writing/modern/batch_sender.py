"""Sender of the batches of a write task to modern Kafka (0.8 to 4.x): Produce requests, with retries.

Each batch goes to the leader of its partition, and is sent again as long as it may succeed. A task sends with
one thread: it encodes the next batches while brokers respond, and a broker that does not
keep up blocks the task. After a failure it waits for all requests in flight. Failed batches go to the queue
before those that were not sent yet, which keeps the order within a partition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import Action, DeliveryError, KafkaWireError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.retry import Attempts
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.limits import ACKS_NONE

from .batch_failures import ACKED, BatchFailure, ProduceErrors, Verdict
from .batches import NO_PRODUCER, PartitionProducerState, ProducerBatch
from .leader_connections import BrokerConnection, LeaderConnections
from .leader_queues import LeaderQueues
from .producer_ids import init_producer_id
from .request_sizes import RequestSizes

#: Bytes in the queue from which on it is sent: a few requests to each leader.
_QUEUE_BYTES_MAX: Final = 4 << 20
#: Shortest idle time that extends the deadlines of batches in flight, seconds.
_IDLE_S_MIN: Final = 1.0


class BatchSender:
    """Batches of one task that are not acknowledged yet, and the connections to send them on.

    ``states`` has the state of each partition, with the counts of acknowledged messages; ``sizes`` bounds the
    requests. All methods except ``close`` raise ``DeliveryError`` (fatal), or, before anything was sent, the
    error that prevented it.
    """

    def __init__(
        self, metadata: Metadata, options: WriteOptions, states: dict[TopicPartition, PartitionProducerState]
    ):
        self.sizes = RequestSizes(options)
        self._metadata = metadata
        self._options = options
        self._states = states
        self._connections = LeaderConnections(metadata, options)
        self._produce_errors = ProduceErrors()
        self._queue = LeaderQueues(self._connections.known_leaders)
        self._queued_bytes = 0
        self._failures: list[BatchFailure] = []
        self._attempts = Attempts(options.delivery.retry)
        self._in_flight_max = options.delivery.requests_in_flight
        self._sent_count = 0
        self._idle_since_s = time.monotonic()

    def magic(self, partition: TopicPartition) -> int:
        """Record format of the partition's leader."""
        deadline = self.deadline()
        while True:
            try:
                return self._connections.connection_to(partition, deadline).magic
            except KafkaWireError as error:
                self._connections.forget(partition.topic)
                self._wait(error, deadline)

    def deadline(self) -> Deadline:
        """Deadline for the acknowledgement of a batch that is encoded now."""
        return Deadline.after(self._options.delivery.timeout_s, "kafka.delivery.timeout.ms")

    def enqueue(self, batch: ProducerBatch) -> None:
        """Queue the next batch of its partition."""
        self._queue.put([batch])
        self._queued_bytes += batch.size
        if self._queued_bytes >= _QUEUE_BYTES_MAX:
            self.pump()

    def free_requests(self, partitions: Sequence[TopicPartition]) -> list[int] | None:
        """Count the requests that the leader of each partition accepts now without a wait; None if all
        leaders keep up. Failures are left to the next ``pump``: this method never raises."""
        if self._keeps_up(len(partitions)):
            return None
        self._extend_deadlines()
        for connection in self._connections:
            while connection.has_come:
                self._take(connection)
        if self._keeps_up(len(partitions)):
            return None
        available_s = self._options.delivery.available_s
        free = self._connections.free_requests(partitions, self._in_flight_max, available_s)
        for index, partition in enumerate(partitions):
            if (state := self._states.get(partition)) and not state.is_ready:
                free[index] = 0
        return None if min(free) == max(free) else free

    def _keeps_up(self, count: int) -> bool:
        """Return whether the leaders of so many partitions all keep up."""
        available_s = self._options.delivery.available_s
        return self._connections.keep_up(count, self._in_flight_max, available_s) and all(
            state.is_ready for state in self._states.values()
        )

    def pump(self) -> None:
        """Send the queue; wait for responses only while too many requests are in flight."""
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
        """Send the queue, and wait until all batches are acknowledged."""
        self.pump()
        while any(connection.in_flight for connection in self._connections):
            self._drain()
            if self._failures:
                self._recover()
            self.pump()

    def close(self) -> None:
        """Return the connections to the pool for later tasks; never fails."""
        self._connections.give_back()

    def _extend_deadlines(self) -> None:
        """Extend the deadlines of batches in flight by the time in which the task waited for rows and
        received no responses."""
        idle_s = time.monotonic() - self._idle_since_s
        if idle_s >= _IDLE_S_MIN:
            for connection in self._connections:
                connection.extend_deadlines(idle_s)
            self._idle_since_s += idle_s

    def _send_next(self) -> None:
        """Send a request to the leader whose turn it is, or receive a response to make room."""
        leader, head = self._queue.next()
        try:
            connection = self._connections.connection_to(head.topic_partition, head.deadline)
        except KafkaWireError as error:
            # No batch may be in flight to the old leader of a partition when the new one gets the next batch.
            self._drain()
            self._connections.forget(head.topic_partition.topic)
            self._queue.regroup()
            self._wait(error, head.deadline)
            return
        if leader is None:
            self._queue.regroup()
            return
        if connection.in_flight >= self._in_flight_max or not self._states[head.topic_partition].is_ready:
            self._take(connection)
            return
        batches = self._packed(head)
        for batch in batches:
            self._sent_count += batch.count
            self._states[batch.topic_partition].sent(batch)
        try:
            connection.send(batches)
        except KafkaWireError as error:
            self._connection_lost(connection, error)
            return
        if self._options.delivery.acks == ACKS_NONE:
            for batch in batches:
                self._ack(batch)

    def _packed(self, head: ProducerBatch) -> list[ProducerBatch]:
        """Take the batches of one request from the queue: in order from ``head`` on, one for each
        partition."""
        packed: list[ProducerBatch] = []
        seen: set[TopicPartition] = set()
        size = self.sizes.of_none(head)

        def take(batch: ProducerBatch) -> bool:
            nonlocal size
            partition = batch.topic_partition
            size_with = size + batch.request_size
            fits = not packed or size_with <= self.sizes.size_max
            may_go = fits and partition not in seen and self._states[partition].is_ready
            seen.add(partition)
            if may_go:
                packed.append(batch)
                size = size_with
            return may_go

        self._queue.take(take)
        return packed

    def _drain(self) -> None:
        """Wait for all requests in flight."""
        for connection in self._connections:
            while connection.in_flight:
                self._take(connection)

    def _take(self, connection: BrokerConnection) -> None:
        """Receive the oldest response of a connection."""
        try:
            outcomes = connection.take()
        except KafkaWireError as error:
            self._connection_lost(connection, error)
            return
        self.sizes.answered([batch for batch, _ in outcomes])
        for batch, answer in outcomes:
            if answer.error_code in ACKED:
                self._ack(batch, answer.base_offset)
                self._attempts.progressed()
            else:
                self._fail(batch, self._produce_errors.error(connection.broker, batch, answer))

    def _connection_lost(self, connection: BrokerConnection, error: KafkaWireError) -> None:
        """Fail the batches in flight on a connection: their outcome is unknown."""
        requests = self._connections.drop(connection)
        error = self.sizes.closed(connection.broker, requests, error)
        for batch in chain.from_iterable(requests):
            self._fail(batch, error)

    def _ack(self, batch: ProducerBatch, base_offset: int = -1) -> None:
        state = self._states[batch.topic_partition]
        state.settled(batch)
        state.acked(batch, base_offset)

    def _fail(self, batch: ProducerBatch, error: KafkaWireError) -> None:
        self._states[batch.topic_partition].settled(batch)
        self._failures.append(BatchFailure(batch, error))

    def _recover(self) -> None:
        """Queue failed batches again, as their errors allow, and wait before the next attempt; or raise.

        Every branch of the recovery is here. The methods below it look something up or do one thing.
        """
        self._drain()
        waiting = self._queue.take_all()
        failures, self._failures = sorted(self._failures, key=attrgetter("batch.index")), []
        again: list[ProducerBatch] = []
        reset: list[TopicPartition] = []
        seen: set[TopicPartition] = set()
        for failure in failures:
            batch, error = failure.batch, failure.error
            state = self._states[batch.topic_partition]
            verdict = failure.verdict(
                is_first=batch.topic_partition not in seen, may_reset_producer=state.may_reset_producer
            )
            seen.add(batch.topic_partition)
            match verdict:
                case Verdict.FAIL:
                    raise self._undelivered(error)
                case Verdict.SPLIT:
                    state.batch_bytes_max = min(state.batch_bytes_max, batch.size // 2)
                    again += batch.halves()
                case Verdict.WHOLE:
                    assert batch.whole is not None
                    waiting = [other for other in waiting if other.whole is not batch.whole]
                    batch.whole.stays_whole = True
                    again.append(batch.whole)
                case Verdict.RETRY | Verdict.RESET_PRODUCER:
                    # A retriable error may follow an append: the leader timed out waiting for replicas.
                    batch.maybe_persisted |= error.retriable
                    if error.action in (Action.REFRESH, Action.RECONNECT):
                        self._connections.forget(batch.topic_partition.topic)
                    if batch.producer == NO_PRODUCER:
                        # Without sequences, only one request in flight keeps the order after a failure.
                        self._in_flight_max = 1
                    if verdict is Verdict.RESET_PRODUCER:
                        reset.append(batch.topic_partition)
                    again.append(batch)
        waiting = self._merged(again, waiting)
        for partition in reset:
            self._reset_producer(partition, waiting)
        self._queue.put(waiting)
        if waits := next((failure for failure in failures if failure.error.retriable), None):
            self._wait(waits.error, waits.batch.deadline)

    def _merged(
        self, again: Sequence[ProducerBatch], waiting: Sequence[ProducerBatch]
    ) -> list[ProducerBatch]:
        """All these batches in order, cut to the size that requests may have."""
        batches = sorted([*again, *waiting], key=attrgetter("index"))
        return [part for batch in batches for part in self.sizes.cut(batch)]

    def _reset_producer(self, partition: TopicPartition, waiting: Sequence[ProducerBatch]) -> None:
        state = self._states[partition]
        try:
            state.reset_producer(init_producer_id(self._metadata, self._options))
        except KafkaWireError as error:
            raise self._undelivered(error) from error
        for batch in waiting:
            if batch.topic_partition == partition:
                state.assign_sequence(batch)

    def _wait(self, error: KafkaWireError, deadline: Deadline) -> None:
        """Wait before the next attempt; raise if there is none."""
        try:
            if not deadline.left_s:
                raise error.located(f"not delivered within {deadline}")
            self._attempts.failed(error, deadline)
        except KafkaWireError as last:
            raise self._undelivered(last) from error

    def _undelivered(self, error: KafkaWireError) -> KafkaWireError:
        """Add to the error how much may be missing; unchanged if nothing was sent."""
        acked = sum(state.message_count for state in self._states.values())
        if not self._sent_count:
            return error
        return DeliveryError(
            f"{error}; {acked} message(s) of this task are proven to be in their partitions, each of the "
            "others may be there or missing: compare the topic with the rows before you write again, or "
            "write with delivery=exactly-once"
        )
