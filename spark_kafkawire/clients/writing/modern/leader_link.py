"""Connections to the brokers that lead partitions, and the batches in flight on them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from ....cluster.modern.metadata import Metadata
from ....errors import Action, BrokerError, OptionError, UnknownTopicError
from ....model import Broker, TopicPartition
from ....net.client import Client
from ....net.pool import POOL
from ....net.transport import Deadline
from ....options import WriteOptions
from ....protocol.modern.acks import ACKS_NONE
from ....protocol.modern.error_codes import ErrorCode
from ....protocol.modern.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionReply,
    ProduceReply,
    ProduceRequest,
    ProduceTopic,
)
from ....records.compression.codec import Codec
from ....records.compression.table import CODECS
from .batches import Batch

#: First version of Produce that carries magic 2, and that of magic 1. Source: KIP-98, KIP-32.
_MAGIC_2_SINCE: Final = 3
_MAGIC_1_SINCE: Final = 2


class LeaderLink:
    """Sends batches and pairs replies with them. A link that failed is abandoned."""

    def __init__(self, client: Client, acks: int, timeout_ms: int) -> None:
        self._client = client
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._requests: deque[Sequence[Batch]] = deque()
        self._moved_s = 0.0

    @property
    def broker(self) -> Broker:
        """Who is at the other end."""
        return self._client.broker

    @property
    def in_flight(self) -> int:
        """Requests whose replies have not come yet."""
        return len(self._requests)

    def free_requests(self, most: int, away_s: float | None) -> int:
        """Requests that it takes without a wait, of ``most`` in flight: none where it has answered nothing
        for ``away_s``."""
        is_away = away_s is not None and time.monotonic() - self._moved_s > away_s
        return 0 if self._requests and is_away else max(most - len(self._requests), 0)

    @property
    def has_come(self) -> bool:
        """Whether a reply is there to be taken, or the end of the connection."""
        return self.in_flight > 0 and self._client.has_come()

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent: with none in flight, a close by the broker is seen here."""
        return self.in_flight > 0 or self._client.is_quiet()

    @property
    def magic(self) -> int:
        """The record format of the broker."""
        version = self._client.version_of(PRODUCE)
        return 2 if version >= _MAGIC_2_SINCE else int(version >= _MAGIC_1_SINCE)

    def takes(self, codec: Codec) -> bool:
        """Whether the broker knows the codec."""
        return self._client.version_of(PRODUCE) >= codec.produce_version

    def send(self, batches: Sequence[Batch]) -> None:
        """Send one request; of each log at most one batch is in it.

        Raises ``TransportError`` (retriable); the batches count as in flight then.
        """
        if not self._requests:
            self._moved_s = time.monotonic()
        self._requests.append(batches)
        self._client.send(self._request(batches), _first_deadline(batches))
        if self._acks == ACKS_NONE:
            self._requests.pop()

    def take(self) -> list[tuple[Batch, ProducePartitionReply]]:
        """The outcome of each batch of the oldest request in flight.

        Raises ``TransportError`` (retriable), ``ProtocolError`` (fatal).
        """
        reply: ProduceReply = self._client.receive(_first_deadline(self._requests[0])).body
        answers = {
            TopicPartition(topic.name, answer.index): answer
            for topic in reply.responses
            for answer in topic.partition_responses
        }
        batches = self._requests.popleft()
        self._moved_s = time.monotonic()
        return [(batch, answers[batch.log]) for batch in batches]

    def extend_deadlines(self, seconds: float) -> None:
        """Extend the deadlines of all batches in flight."""
        for batch in (batch for request in self._requests for batch in request):
            batch.deadline = batch.deadline.later(seconds)

    def abandon(self) -> list[Batch]:
        """Close the connection; the batches that were in flight, in the order they were sent."""
        self._client.close()
        batches = [batch for request in self._requests for batch in request]
        self._requests.clear()
        return batches

    def give_back(self) -> None:
        """Return the connection to the pool; it is closed where replies are missing, or a request was
        sent in part."""
        if self._requests:
            self._client.close()
        else:
            POOL.give_back(self._client)

    def _request(self, batches: Sequence[Batch]) -> ProduceRequest:
        topics = groupby(sorted(batches, key=lambda batch: batch.log), lambda batch: batch.log.topic)
        # All batches of a task are of one producer, but for those that continue another one's, which are of
        # no transaction.
        producer = batches[0].producer
        return ProduceRequest(
            transactional_id=producer.transactional_id,
            transaction_version=producer.transaction_version,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=tuple(
                ProduceTopic(
                    name=topic,
                    partition_data=tuple(
                        ProducePartition(index=batch.log.partition, records=batch.data()) for batch in own
                    ),
                )
                for topic, own in topics
            ),
        )


class LeaderLinks:
    """Which broker leads each log, as far as Metadata was asked, and a link to each leader."""

    def __init__(self, metadata: Metadata, options: WriteOptions) -> None:
        self._metadata = metadata
        self._options = options
        self._leaders: dict[TopicPartition, Broker] = {}
        self._links: dict[Broker, LeaderLink] = {}

    def __iter__(self) -> Iterator[LeaderLink]:
        """All links; some may be dropped during the iteration."""
        return iter(list(self._links.values()))

    def link_to(self, log: TopicPartition, within: Deadline) -> LeaderLink:
        """The link to the log's leader, ``within`` that time.

        Raises ``TransportError`` and ``BrokerError`` (retriable) where it is not reached, and for a
        leader too old for the codec ``OptionError`` (fatal).
        """
        leader = self._leaders.get(log) or self._leader_from_metadata(log, within)
        self._leaders[log] = leader
        link = self._links.get(leader)
        if link is None or not link.is_open:
            # Brokers close connections that were idle for long. Nothing was in flight, so nothing is lost.
            if link is not None:
                self.drop(link)
            link = self._links[leader] = self._new_link(leader, within)
        return link

    def is_led_by(self, log: TopicPartition, leader: Broker) -> bool:
        """Whether a broker leads a log by what is known; no broker is asked: ``link_to`` does that once
        the log is first in the queue."""
        self._learn([log])
        return self._leaders.get(log) == leader

    def keep_up(self, count: int, most: int, away_s: float | None) -> bool:
        """Whether all leaders of so many logs are known, and at most one of ``most`` requests waits for
        each: what comes and goes between two replies tells nothing of how fast they are."""
        is_known = len(self._leaders) >= count
        return is_known and all(link.free_requests(most, away_s) > max(most - 2, 0) for link in self)

    def free_requests(self, logs: Sequence[TopicPartition], most: int, away_s: float | None) -> list[int]:
        """How many more requests each log's leader takes now, of ``most`` in flight: ``most`` where it is not
        known who leads, none where it is known that nobody does. No broker is asked."""
        self._learn(logs)
        free = {leader: link.free_requests(most, away_s) for leader, link in self._links.items()}
        leaders = [self._leaders.get(log) for log in logs]
        return [
            free.get(leader, most) if leader else 0 if self._metadata.knows(log.topic) else most
            for log, leader in zip(logs, leaders, strict=True)
        ]

    def forget(self, topic: str) -> None:
        """Drop what is known of a topic's leaders: it is stale."""
        self._metadata.forget(topic)
        self._leaders = {log: leader for log, leader in self._leaders.items() if log.topic != topic}

    def drop(self, link: LeaderLink) -> list[Batch]:
        """Close a link that failed; what was in flight on it, in the order it was sent."""
        del self._links[link.broker]
        return link.abandon()

    def give_back(self) -> None:
        """Return the connections to the pool; never fails."""
        for link in self:
            link.give_back()
        self._links.clear()

    def _learn(self, logs: Sequence[TopicPartition]) -> None:
        """Take over who leads what from the last answers."""
        if unseen := [log for log in logs if log not in self._leaders]:
            for log, leader in self._metadata.known_leaders(unseen).items():
                self._leaders[log] = leader.broker

    def _leader_from_metadata(self, log: TopicPartition, within: Deadline) -> Broker:
        try:
            return self._metadata.leader_of(log, within).broker
        except UnknownTopicError as error:
            # The topic existed when the write began; not every broker learns of a new one at once.
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise BrokerError(str(error), code, Action.REFRESH) from error

    def _new_link(self, leader: Broker, within: Deadline) -> LeaderLink:
        net = self._options.net
        client = POOL.take(leader, net.connection, within)
        link = LeaderLink(client, self._options.delivery.acks, round(net.request_timeout_s * 1000))
        codec = CODECS.get(self._options.compression)
        if codec and not link.takes(codec):
            link.give_back()
            raise OptionError(
                f"option compression: {leader} is older than {codec.name} ({codec.since}); choose another"
            )
        return link


def _first_deadline(batches: Sequence[Batch]) -> Deadline:
    return min((batch.deadline for batch in batches), key=attrgetter("at_s"))
