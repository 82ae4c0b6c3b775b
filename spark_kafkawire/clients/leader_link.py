"""One connection to a broker that leads partitions, and the batches in flight on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from ..errors import ProtocolError
from ..model import Broker, TopicPartition
from ..net.client import Client
from ..net.pool import POOL
from ..protocol.modern import PRODUCE
from ..protocol.modern.produce import (
    ACKS_NONE,
    ProducePartition,
    ProducePartitionReply,
    ProduceReply,
    ProduceRequest,
    ProduceTopic,
)
from .batches import Batch

#: First version of Produce that carries magic 2, that of magic 1, and that of zstd. Source: KIP-98,
#: KIP-32, KIP-110.
_MAGIC_2_SINCE: Final = 3
_MAGIC_1_SINCE: Final = 2
ZSTD_SINCE: Final = 7


class LeaderLink:
    """Sends batches and pairs replies with them. A link that failed is abandoned."""

    def __init__(self, client: Client, acks: int, timeout_ms: int) -> None:
        self._client = client
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._requests: deque[Sequence[Batch]] = deque()

    @property
    def broker(self) -> Broker:
        """Who is at the other end."""
        return self._client.broker

    @property
    def in_flight(self) -> int:
        """Requests whose replies have not come yet."""
        return len(self._requests)

    @property
    def produce_version(self) -> int:
        """The version of Produce that is spoken here."""
        return self._client.version_of(PRODUCE)

    @property
    def magic(self) -> int:
        """The format of records that is spoken here."""
        version = self.produce_version
        return 2 if version >= _MAGIC_2_SINCE else int(version >= _MAGIC_1_SINCE)

    def send(self, batches: Sequence[Batch]) -> None:
        """Send one request; of each log at most one batch is in it.

        Raises ``TransportError`` (retriable); the batches count as in flight then.
        """
        self._requests.append(batches)
        self._client.send(self._request(batches))
        if self._acks == ACKS_NONE:
            self._requests.pop()

    def take(self) -> list[tuple[Batch, ProducePartitionReply]]:
        """The outcome of each batch of the oldest request in flight.

        Raises ``TransportError`` (retriable), ``ProtocolError`` (fatal).
        """
        reply: ProduceReply = self._client.receive().body
        answers = {
            TopicPartition(topic.name, answer.index): answer
            for topic in reply.responses
            for answer in topic.partition_responses
        }
        batches = self._requests[0]
        if missing := next((batch.log for batch in batches if batch.log not in answers), None):
            raise ProtocolError(f"{self.broker}: the Produce reply does not tell what became of {missing}")
        self._requests.popleft()
        return [(batch, answers[batch.log]) for batch in batches]

    def abandon(self) -> list[Batch]:
        """Close the connection; the batches that were in flight, in the order they were sent."""
        self._client.close()
        batches = [batch for request in self._requests for batch in request]
        self._requests.clear()
        return batches

    def give_back(self) -> None:
        """Leave the connection to the tasks that follow; it closes where replies are missing."""
        POOL.give_back(self._client)

    def _request(self, batches: Sequence[Batch]) -> ProduceRequest:
        topics = groupby(sorted(batches, key=lambda batch: batch.log), lambda batch: batch.log.topic)
        return ProduceRequest(
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
