"""Connections of a write task to the leaders of partitions in modern Kafka (0.8 to 4.x)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import Action, BrokerError, OptionError, UnknownTopicError
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.limits import ACKS_NONE, NO_TOPIC_ID, with_names
from spark_kafkawire.protocol.modern.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from spark_kafkawire.records.compression import CODECS

from .batches import ProducerBatch

#: First version of Produce that carries magic 2, and that of magic 1. Source: KIP-98, KIP-32.
_MAGIC_2_SINCE: Final = 3
_MAGIC_1_SINCE: Final = 2


class BrokerConnection:
    """Sends batches to a broker and pairs its responses with them. A connection that failed is abandoned."""

    def __init__(self, client: Client, metadata: Metadata, options: WriteOptions) -> None:
        self.broker = client.broker
        self._client = client
        self._metadata = metadata
        self._acks, self._away_s = options.delivery.acks, options.delivery.available_s
        self._timeout_ms = round(options.net.request_timeout_s * 1000)
        self._requests: deque[Sequence[ProducerBatch]] = deque()
        self._moved_s = 0.0

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._requests)

    def free_requests(self, most: int) -> int:
        """Number of requests that the broker accepts without a wait, of ``most`` in flight: 0 if it has not
        responded for the time of the options."""
        is_away = self._away_s is not None and time.monotonic() - self._moved_s > self._away_s
        return 0 if self._requests and is_away else max(most - len(self._requests), 0)

    @property
    def has_come(self) -> bool:
        """Return whether a response, or the end of the connection, has arrived."""
        return self.in_flight > 0 and self._client.has_come()

    @property
    def is_open(self) -> bool:
        """Return whether a request may be sent. With none in flight, this detects a close by the broker."""
        return self.in_flight > 0 or self._client.is_quiet()

    @property
    def magic(self) -> int:
        """Record format of the broker."""
        version = self._client.version_of(PRODUCE)
        return 2 if version >= _MAGIC_2_SINCE else int(version >= _MAGIC_1_SINCE)

    def send(self, batches: Sequence[ProducerBatch]) -> None:
        """Send one request, with at most one batch of each partition. Raises ``TransportError`` (retriable);
        the batches count as in flight then."""
        if not self._requests:
            self._moved_s = time.monotonic()
        self._requests.append(batches)
        self._client.send(self._request(batches), _first_deadline(batches))
        if self._acks == ACKS_NONE:
            self._requests.pop()

    def take(self) -> list[tuple[ProducerBatch, ProducePartitionResponse]]:
        """Receive the response to the oldest request in flight, and return the outcome of each of its
        batches. Raises ``TransportError`` (retriable), ``ProtocolError`` (fatal)."""
        received = self._client.receive(_first_deadline(self._requests[0]))
        response: ProduceResponse = received.body
        answers = {
            TopicPartition(topic.name, answer.index): answer
            for topic in with_names(response.responses, received.request.topic_data)
            for answer in topic.partition_responses
        }
        batches = self._requests.popleft()
        self._moved_s = time.monotonic()
        return [(batch, answers[batch.topic_partition]) for batch in batches]

    def extend_deadlines(self, seconds: float) -> None:
        """Extend the deadlines of all batches in flight."""
        for batch in (batch for request in self._requests for batch in request):
            batch.deadline = batch.deadline.later(seconds)

    def abandon(self) -> list[Sequence[ProducerBatch]]:
        """Close the connection; see ``LeaderConnections.drop``."""
        self._client.close()
        requests, self._requests = list(self._requests), deque()
        return requests

    def give_back(self) -> None:
        """Return the connection to the pool; close it if responses are missing, or a request was sent in
        part."""
        if self._requests:
            self._client.close()
        else:
            POOL.give_back(self._client)

    def _request(self, batches: Sequence[ProducerBatch]) -> ProduceRequest:
        topics = groupby(
            sorted(batches, key=attrgetter("topic_partition")), attrgetter("topic_partition.topic")
        )
        # All batches of a task have one producer id, except for those that continue another producer's, which
        # are in no transaction.
        producer = batches[0].producer
        ids = self._metadata.known_ids({batch.topic_partition.topic for batch in batches})
        return ProduceRequest(
            transactional_id=producer.transactional_id,
            transaction_version=producer.transaction_version,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=tuple(
                ProduceTopic(
                    name=topic,
                    topic_id=ids.get(topic, NO_TOPIC_ID),
                    partition_data=tuple(
                        ProducePartition(index=batch.topic_partition.partition, records=batch.data())
                        for batch in own
                    ),
                )
                for topic, own in topics
            ),
        )


class LeaderConnections:
    """Leaders of partitions, as far as Metadata has reported them, and a connection to each leader."""

    def __init__(self, metadata: Metadata, options: WriteOptions) -> None:
        metadata.keep_ids()
        self._metadata = metadata
        self._options = options
        self._leaders: dict[TopicPartition, Broker] = {}
        self._connections: dict[Broker, BrokerConnection] = {}

    def __iter__(self) -> Iterator[BrokerConnection]:
        """Iterate over all connections; some may be dropped during the iteration."""
        return iter(list(self._connections.values()))

    def connection_to(self, partition: TopicPartition, within: Deadline) -> BrokerConnection:
        """Find or make the connection to the leader of a partition, ``within`` the deadline.

        Raises ``TransportError`` and ``BrokerError`` (retriable) if the leader is not reached, and
        ``OptionError`` (fatal) for a leader that does not support the codec.
        """
        leader = self._leaders.get(partition) or self._leader_from_metadata(partition, within)
        self._leaders[partition] = leader
        connection = self._connections.get(leader)
        if connection is None or not connection.is_open:
            # Brokers close idle connections. Nothing was in flight, so nothing is lost.
            if connection is not None:
                self.drop(connection)
            connection = self._connections[leader] = self._connect(leader, within)
        return connection

    def known_leaders(self, partitions: Sequence[TopicPartition]) -> list[Broker | None]:
        """Return the leader of each partition, None if it is not known. No request is sent:
        ``connection_to`` sends it once the partition is first in its queue."""
        self._learn(partitions)
        return [self._leaders.get(tp) for tp in partitions]

    def keep_up(self, count: int, most: int) -> bool:
        """Return whether all leaders of ``count`` partitions are known, and at most one of ``most`` requests
        waits for each: the changes between two responses say nothing about the speed of a leader."""
        is_known = len(self._leaders) >= count
        return is_known and all(item.free_requests(most) > max(most - 2, 0) for item in self)

    def free_requests(self, partitions: Sequence[TopicPartition], most: int) -> list[int]:
        """Count the requests that the leader of each partition accepts now, of ``most`` in flight: ``most``
        if the leader is unknown, 0 if the partition is known to have no leader. This sends no request."""
        self._learn(partitions)
        free = {item.broker: item.free_requests(most) for item in self}
        return [
            free.get(leader, most) if leader else 0 if self._metadata.knows(tp.topic) else most
            for tp, leader in zip(partitions, map(self._leaders.get, partitions), strict=True)
        ]

    def forget(self, topic: str) -> None:
        """Drop the known leaders of a topic, which are stale."""
        self._metadata.forget(topic)
        self._leaders = {tp: leader for tp, leader in self._leaders.items() if tp.topic != topic}

    def drop(self, connection: BrokerConnection) -> list[Sequence[ProducerBatch]]:
        """Close a connection that failed, and return the batches of each request in flight, in the order they
        were sent."""
        del self._connections[connection.broker]
        return connection.abandon()

    def give_back(self) -> None:
        """Return the connections to the pool; never fails."""
        for connection in self:
            connection.give_back()
        self._connections.clear()

    def _learn(self, partitions: Sequence[TopicPartition]) -> None:
        """Take over leaders from the last Metadata responses."""
        if unseen := [tp for tp in partitions if tp not in self._leaders]:
            for partition, leader in self._metadata.known_leaders(unseen).items():
                self._leaders[partition] = leader.broker

    def _leader_from_metadata(self, partition: TopicPartition, within: Deadline) -> Broker:
        try:
            return self._metadata.leader_of(partition, within).broker
        except UnknownTopicError as error:
            # The topic existed when the write began, and some brokers learn of new topics later.
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise BrokerError(str(error), code, Action.REFRESH) from error

    def _connect(self, leader: Broker, within: Deadline) -> BrokerConnection:
        client = POOL.take(leader, self._options.net.connection, within)
        codec = CODECS.get(self._options.compression)
        if codec and client.version_of(PRODUCE) < codec.produce_version:
            POOL.give_back(client)
            raise OptionError(
                f"option compression: {leader} is older than {codec.name} ({codec.since}); choose another"
            )
        return BrokerConnection(client, self._metadata, self._options)


def _first_deadline(batches: Sequence[ProducerBatch]) -> Deadline:
    return min((batch.deadline for batch in batches), key=attrgetter("at_s"))
