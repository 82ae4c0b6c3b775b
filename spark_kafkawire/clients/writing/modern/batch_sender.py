"""Sender of the batches of a write task to modern Kafka (0.8 to 4.x): Produce requests, with retries.

Each batch goes to the leader of its partition, and is sent again as long as it may succeed. A task sends with
one thread: it encodes the next batches while brokers respond, and a broker that does not
keep up blocks the task. After a failure it waits for all requests in flight. Failed batches go to the queue
before those that were not sent yet, which keeps the order within a partition.

A request takes batches of one leader, and leaders take turns (``LeaderQueues``). So the cost of a request
does not grow with the batches that wait for other leaders.

A batch fails if the broker refuses it, or if its response is missing: a ``Verdict`` retries it, splits it, or
fails the write. Source: Apache Kafka's Sender and TransactionManager; KIP-98, KIP-126 (splitting),
KIP-360.
"""

from __future__ import annotations

import enum
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import (
    LOG,
    Action,
    BrokerError,
    ConnectionLost,
    DeliveryError,
    KafkaWireError,
    counted,
)
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.retry import Attempts
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.limits import ACKS_NONE
from spark_kafkawire.protocol.modern.produce import ProducePartitionResponse

from .batches import NO_PRODUCER, PartitionProducerState, ProducerBatch, init_producer_id
from .leader_connections import BrokerConnection, LeaderConnections

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
        self._is_throttling_logged = False
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
        free = self._connections.free_requests(partitions, self._in_flight_max)
        for index, partition in enumerate(partitions):
            if (state := self._states.get(partition)) and not state.is_ready:
                free[index] = 0
        return None if min(free) == max(free) else free

    def _keeps_up(self, count: int) -> bool:
        """Return whether the leaders of so many partitions all keep up."""
        return self._connections.keep_up(count, self._in_flight_max) and all(
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
        size = self.sizes.size_without_batches(head)

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
                self._attempts.note_progress()
            else:
                self._fail(batch, self._refusal(connection.broker, batch, answer))

    def _refusal(self, broker: Broker, batch: ProducerBatch, answer: ProducePartitionResponse) -> BrokerError:
        """Make the error of a batch that was refused. A policy violation may be a broker that throttles: it
        is retried until the deadline of the batch."""
        location = f"Produce to {batch.topic_partition} on {self._options.net.connection.place(broker)}"
        error = broker_error(answer.error_code, location, answer.reason)
        if error.code != ErrorCode.POLICY_VIOLATION:
            return error
        error = error.advise(_THROTTLED)
        error.action = Action.BACK_OFF
        if not self._is_throttling_logged:
            self._is_throttling_logged = True
            LOG.warning("%s; trying again for up to %s", error, batch.deadline)
        return error

    def _connection_lost(self, connection: BrokerConnection, error: KafkaWireError) -> None:
        """Fail the batches in flight on a connection: their outcome is unknown."""
        requests = self._connections.drop(connection)
        error = self.sizes.closed(connection.broker, requests, error)
        for batch in chain.from_iterable(requests):
            self._fail(batch, error)

    def _ack(self, batch: ProducerBatch, base_offset: int = -1) -> None:
        state = self._states[batch.topic_partition]
        state.settle(batch)
        state.acknowledge(batch, base_offset)

    def _fail(self, batch: ProducerBatch, error: KafkaWireError) -> None:
        self._states[batch.topic_partition].settle(batch)
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
                    raise self._describe_undelivered(error)
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
        # All of them in order, cut to the size that requests may have.
        batches = sorted([*again, *waiting], key=attrgetter("index"))
        waiting = [part for batch in batches for part in self.sizes.cut(batch)]
        for partition in reset:
            self._reset_producer(partition, waiting)
        self._queue.put(waiting)
        if waits := next((failure for failure in failures if failure.error.retriable), None):
            self._wait(waits.error, waits.batch.deadline)

    def _reset_producer(self, partition: TopicPartition, waiting: Sequence[ProducerBatch]) -> None:
        state = self._states[partition]
        try:
            state.reset_producer(init_producer_id(self._metadata, self._options))
        except KafkaWireError as error:
            raise self._describe_undelivered(error) from error
        for batch in waiting:
            if batch.topic_partition == partition:
                state.assign_sequence(batch)

    def _wait(self, error: KafkaWireError, deadline: Deadline) -> None:
        """Wait before the next attempt; raise if there is none."""
        try:
            if not deadline.left_s:
                raise error.locate(f"not delivered within {deadline}")
            self._attempts.failed(error, deadline)
        except KafkaWireError as last:
            raise self._describe_undelivered(last) from error

    def _describe_undelivered(self, error: KafkaWireError) -> KafkaWireError:
        """Add to the error how much may be missing; unchanged if nothing was sent."""
        acked = sum(state.message_count for state in self._states.values())
        if not self._sent_count:
            return error
        if isinstance(error, BrokerError) and error.code == ErrorCode.INCONSISTENT_TOPIC_ID:
            return DeliveryError(f"{error}, and write all rows again: those written before are gone, too")
        return DeliveryError(
            f"{error}; {acked} message(s) of this task are proven to be in their partitions, each of the "
            "others may be there or missing: compare the topic with the rows before you write again, or "
            "write with delivery=exactly-once"
        )


class LeaderQueues:
    """Queues of batches, one for each leader, and one for partitions without a known leader.

    All batches of a partition wait in one queue, in their order. ``leaders_of`` returns the known leaders of
    partitions; call ``regroup`` after it has forgotten leaders.
    """

    def __init__(self, leaders_of: Callable[[Sequence[TopicPartition]], Sequence[Broker | None]]) -> None:
        self._leaders_of = leaders_of
        self._arrived: list[ProducerBatch] = []
        self._by_leader: dict[Broker | None, deque[ProducerBatch]] = {}
        #: Leaders with a queue. The first one is next.
        self._turns: deque[Broker | None] = deque()

    def __bool__(self) -> bool:
        return bool(self._arrived or self._turns)

    def put(self, batches: Iterable[ProducerBatch]) -> None:
        """Add batches, each after the waiting ones of its partition."""
        self._arrived += batches

    def take_all(self) -> list[ProducerBatch]:
        """Remove all batches, and return them in the order of their indexes."""
        waiting = [batch for queue in self._by_leader.values() for batch in queue]
        # The sort is stable: parts of one batch, which have its index, keep their order.
        batches = sorted(waiting, key=attrgetter("index")) + self._arrived
        self._arrived, self._by_leader = [], {}
        self._turns.clear()
        return batches

    def regroup(self) -> None:
        """Look up all leaders again."""
        self._arrived = self.take_all()

    def next(self) -> tuple[Broker | None, ProducerBatch]:
        """The leader whose turn it is, None if it is not known, and the first batch in its queue."""
        self._group()
        leader = self._turns[0]
        return leader, self._by_leader[leader][0]

    def take(self, take: Callable[[ProducerBatch], bool]) -> None:
        """Offer the batches of the leader whose turn it is, in order, and remove those that ``take`` accepts.
        The next turn is another leader's."""
        leader = self._turns.popleft()
        if left := deque(batch for batch in self._by_leader.pop(leader) if not take(batch)):
            self._by_leader[leader] = left
            self._turns.append(leader)

    def _group(self) -> None:
        """Put batches that have arrived into the queues of their leaders."""
        if not self._arrived:
            return
        batches, self._arrived = self._arrived, []
        # Leaders that were not known may be known by now.
        if (unled := self._by_leader.pop(None, None)) is not None:
            self._turns.remove(None)
            batches = [*unled, *batches]
        leaders = self._leaders_of([batch.topic_partition for batch in batches])
        for batch, leader in zip(batches, leaders, strict=True):
            if (queue := self._by_leader.get(leader)) is None:
                queue = self._by_leader[leader] = deque()
                self._turns.append(leader)
            queue.append(batch)


#: Bytes of a request besides its batches and names, at most: its own length, the header, acks, timeout, the
#: lengths of names, the count of topics. Source: ProduceRequest.json, RequestHeader.json.
_REQUEST_OVERHEAD: Final = 64
#: Closes in a row before requests are made smaller.
_CLOSES_MIN: Final = 3
#: Smaller requests are not suspected, bytes: all services that are known take 256 KiB.
_SUSPECT_BYTES_MIN: Final = 64 << 10


class RequestSizes:
    """Sizes of requests. ``size_max`` bounds a request with all its parts, in bytes; a single batch may be
    larger.

    Requests become smaller if brokers close connections because of their size. Azure Event Hubs does that,
    without a response, on a request above 1,046,528 bytes. A broker that restarts closes connections, too.
    The size is the reason if a broker accepts new connections, and closes each of them on a request that is
    larger than all requests with a response.
    """

    def __init__(self, options: WriteOptions) -> None:
        self.size_max = options.delivery.request_bytes_max
        self._option_size = self.size_max
        self._batch_bytes = options.batch_bytes
        self._has_answers = options.delivery.acks != ACKS_NONE
        self._client_id_size = len((options.net.connection.client_id or "").encode())
        #: Largest request with a response, and largest request that a connection was closed on since, bytes.
        self._answered = 0
        self._suspect = 0
        self._closes = 0

    def of(self, batches: Sequence[ProducerBatch]) -> int:
        """Bytes of a request with these batches, at most."""
        return self.size_without_batches(batches[0]) + sum(batch.request_size for batch in batches)

    def size_without_batches(self, first: ProducerBatch) -> int:
        """Bytes of a request without its batches, at most; ``first`` names the transaction."""
        transactional_id = first.producer.transactional_id or ""
        return _REQUEST_OVERHEAD + self._client_id_size + len(transactional_id.encode())

    @property
    def _is_lowered(self) -> bool:
        """True while requests are smaller than the options say."""
        return self.size_max < self._option_size

    @property
    def batch_bytes_max(self) -> int:
        """Bytes of a new batch, at most."""
        return min(self._batch_bytes, self.size_max)

    def cut(self, batch: ProducerBatch) -> Sequence[ProducerBatch]:
        """Split a batch into parts that are not larger than requests may be now, if that is needed.

        Parts keep the sequences of the batch. A broker that has the whole batch in its log refuses the first
        part, and acknowledges the whole, which is sent again then, as a duplicate.
        """
        is_small = batch.size <= self.size_max or batch.count == 1
        if is_small or batch.stays_whole or not self._is_lowered:
            return [batch]
        return [part for half in batch.halves() for part in self.cut(half)]

    def answered(self, batches: Sequence[ProducerBatch]) -> None:
        """Record a response: a request of this size, or a smaller one, is no reason to close a connection."""
        self._answered = max(self._answered, self.of(batches))
        if self._answered >= self._suspect:
            self._suspect = self._closes = 0

    def closed(
        self, broker: Broker, requests: Sequence[Sequence[ProducerBatch]], error: KafkaWireError
    ) -> KafkaWireError:
        """Record that a connection was closed on these requests, and return the error, with the size if the
        size may be the reason. After several closes in a row, ``size_max`` becomes half of the size."""
        size = max(map(self.of, requests), default=0)
        is_suspect = self._has_answers and size > max(self._answered, _SUSPECT_BYTES_MIN)
        if not is_suspect or not isinstance(error, ConnectionLost):
            return error
        self._suspect = max(self._suspect, size)
        self._closes += 1
        if self._closes >= _CLOSES_MIN:
            if not self._is_lowered:
                LOG.warning(
                    "%s closed the connection %s on Produce requests of up to %d bytes, and has answered "
                    "none so large: sending half of that at most, and less where it closes again; set "
                    "kafka.max.request.size (%d) and batchBytes below what it takes",
                    *(broker, counted(self._closes, "time"), size, self._option_size),
                )
            self.size_max = min(self.size_max, max(size // 2, _SUSPECT_BYTES_MIN))
        largest = f"none above {self._answered} bytes" if self._answered else "none"
        return ConnectionLost(
            f"{broker} closed the connection on a Produce request of {size} bytes, and {largest} was "
            f"answered; where it closes on all so large, set kafka.max.request.size ({self._option_size}) "
            "and batchBytes below what it takes (Azure Event Hubs: 1046528)"
        )


#: Codes of a batch that is in the log; the second marks a duplicate.
ACKED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
#: Advice for POLICY_VIOLATION. Azure Event Hubs responds with it to a request that its throttling would delay
#: for longer than the request timeout. Source: its troubleshooting guide for Apache Kafka.
_THROTTLED: Final = (
    "Azure Event Hubs answers so where more is written than its throughput units allow: give it more of "
    "them, or let fewer tasks write"
)


class Verdict(enum.Enum):
    """Next step for a batch that failed."""

    RETRY = "send it again"
    SPLIT = "send its halves"
    WHOLE = "send the batch that it was cut from"
    RESET_PRODUCER = "send it again under a new producer id"
    FAIL = "fail the task"


@dataclass(frozen=True, slots=True)
class BatchFailure:
    """Batch that was not acknowledged, and the error."""

    batch: ProducerBatch
    error: KafkaWireError

    def verdict(self, *, is_first: bool, may_reset_producer: bool) -> Verdict:
        """Decide the next step for the batch.

        ``is_first`` means that no earlier batch of its partition failed with it: later ones may have failed
        only because the first did. ``may_reset_producer`` comes from the partition's state. A broker does
        not recognize a batch under a new producer id as a duplicate, so a batch that may be persisted keeps
        its id. Halves keep the id as well. The broker refuses the first half if the whole batch is in the
        log: then the whole batch is sent, and acknowledged as a duplicate.
        """
        code = self.error.code if isinstance(self.error, BrokerError) else None
        not_persisted = not self.batch.maybe_persisted
        match code:
            case ErrorCode.MESSAGE_TOO_LARGE if self.batch.count > 1:
                return Verdict.SPLIT
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if not is_first:
                return Verdict.RETRY
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if self.batch.begins_its_whole:
                return Verdict.WHOLE
            case ErrorCode.UNKNOWN_PRODUCER_ID if not is_first:
                return Verdict.RETRY
            case ErrorCode.UNKNOWN_PRODUCER_ID if not_persisted and may_reset_producer:
                return Verdict.RESET_PRODUCER
        return Verdict.RETRY if self.error.retriable else Verdict.FAIL
