"""Sender of one task to one 0.7 broker in the New Wire Format Proposal of 2012, which has acknowledgements.

A request holds message sets of many partitions, and its response says for each set whether and where the
broker appended it. So no OFFSETS requests are sent before and after it, and only requests without a response
have an unknown outcome. They are not sent again: the broker may have appended their messages.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.proposal import ACKS_NONE, PartitionData, ProduceRequest, TopicData
from spark_kafkawire.protocol.proposal.error_codes import broker_error, is_appended

from .broker_sender import BrokerSender, PartitionSet, unproven

#: Requests in flight, at most: each keeps its messages in memory until its response.
_IN_FLIGHT_MAX: Final = 4
_INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class _Sent:
    """Message set that was sent: ``message_count`` messages in ``size`` bytes."""

    topic_partition: TopicPartition
    message_count: int
    size: int


class AcknowledgedSender(BrokerSender):
    """Sends message sets, and receives the acknowledgement of each, except with ``acks=0``."""

    def __init__(self, broker: Broker, options: WriteOptions) -> None:
        super().__init__(broker, options)
        self._acks = int(options.acks)
        self._ack_timeout_ms = min(int(options.net.request_timeout_s * 1000), _INT32_MAX)
        #: Sets of each request without a response.
        self._waiting: deque[list[_Sent]] = deque()

    def _send_offsets_requests(self, client: Client, partitions: Iterable[TopicPartition]) -> None:
        """Send nothing: responses report the offsets of sets."""

    def _send(self, client: Client, sets: list[PartitionSet]) -> None:
        while client.in_flight >= _IN_FLIGHT_MAX:
            self._receive(client)
        by_topic: dict[str, list[PartitionSet]] = {}
        for tp, encoded in sets:
            by_topic.setdefault(tp.topic, []).append((tp, encoded))
        if self._acks != ACKS_NONE:
            grouped = (each for of_topic in by_topic.values() for each in of_topic)
            self._waiting.append([_Sent(tp, each.count, len(each.data)) for tp, each in grouped])
        data = tuple(
            TopicData(topic, tuple(PartitionData(tp.partition, encoded.data) for tp, encoded in of_topic))
            for topic, of_topic in by_topic.items()
        )
        client.send(ProduceRequest(self._acks, self._ack_timeout_ms, data))

    def _receive(self, client: Client) -> None:
        response = client.receive().body
        refused: list[tuple[_Sent, int]] = []
        for sent, code, offset in zip(
            self._waiting.popleft(), response.errors, response.offsets, strict=True
        ):
            if not is_appended(code):
                refused.append((sent, code))
                continue
            ends = self._written[sent.topic_partition].ends
            ends[:] = [ends[0] if ends else offset, offset + sent.size]
        if refused:
            raise self._refusal(refused)

    def _refusal(self, refused: list[tuple[_Sent, int]]) -> DeliveryError:
        sent, code = refused[0]
        count = sum(each.message_count for each, _ in refused)
        more = f"; {unproven(waiting)}" if (waiting := self._unproven()) else ""
        reason = broker_error(code, f"{sent.topic_partition} on {self._broker}")
        return DeliveryError(
            f"{reason}; refused: {count} message(s) that this task sent there, write them again{more}"
        )

    def _unproven(self) -> Mapping[TopicPartition, int]:
        counts: Counter[TopicPartition] = Counter()
        for request in self._waiting:
            for sent in request:
                counts[sent.topic_partition] += sent.message_count
        return counts
