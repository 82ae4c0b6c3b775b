"""All that one task sends to one broker in the format of the proposal: the broker's own word is the proof.

A request holds the sets of many partitions, and its response tells for each whether it was appended, and
where. So nothing is asked before and after it, and what an error leaves open are the requests without a
response alone. They are not sent again either: nobody knows whether they were carried out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ....errors import DeliveryError
from ....model import Broker, TopicPartition
from ....net.client import Client
from ....options import WriteOptions
from ....protocol.proposal import ACKS_NONE, PartitionData, ProduceRequest, TopicData
from ....protocol.proposal.error_codes import broker_error, is_appended
from .broker_sender import BrokerSender, SetOfLog, unproven

#: Requests that wait for their responses at the same time: each keeps its messages in memory until then.
_IN_FLIGHT_MAX: Final = 4
_INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message set that was sent: ``message_count`` messages in ``size`` bytes."""

    log: TopicPartition
    message_count: int
    size: int


class AcknowledgedSender(BrokerSender):
    """Sends message sets, and takes what the broker says of each; with ``acks=0`` it says nothing."""

    def __init__(self, broker: Broker, options: WriteOptions) -> None:
        super().__init__(broker, options)
        self._acks = int(options.acks)
        self._ack_timeout_ms = min(int(options.net.request_timeout_s * 1000), _INT32_MAX)
        #: What has no response yet: the sets of each request.
        self._waiting: deque[list[_Sent]] = deque()

    def _request_ends(self, client: Client, logs: Iterable[TopicPartition]) -> None:
        """Nothing: responses tell where sets are."""

    def _send(self, client: Client, sets: list[SetOfLog]) -> None:
        while client.in_flight >= _IN_FLIGHT_MAX:
            self._receive(client)
        by_topic: dict[str, list[SetOfLog]] = {}
        for log, encoded in sets:
            by_topic.setdefault(log.topic, []).append((log, encoded))
        if self._acks != ACKS_NONE:
            grouped = (each for of_topic in by_topic.values() for each in of_topic)
            self._waiting.append([_Sent(log, each.count, len(each.data)) for log, each in grouped])
        data = tuple(
            TopicData(topic, tuple(PartitionData(log.partition, encoded.data) for log, encoded in of_topic))
            for topic, of_topic in by_topic.items()
        )
        client.send(ProduceRequest(self._acks, self._ack_timeout_ms, data))

    def _receive(self, client: Client) -> None:
        reply = client.receive().body
        refused: list[tuple[_Sent, int]] = []
        for sent, code, offset in zip(self._waiting.popleft(), reply.errors, reply.offsets, strict=True):
            if not is_appended(code):
                refused.append((sent, code))
                continue
            ends = self._written[sent.log].ends
            ends[:] = [ends[0] if ends else offset, offset + sent.size]
        if refused:
            raise self._refusal(refused)

    def _refusal(self, refused: list[tuple[_Sent, int]]) -> DeliveryError:
        sent, code = refused[0]
        count = sum(each.message_count for each, _ in refused)
        more = f"; {unproven(waiting)}" if (waiting := self._unproven()) else ""
        reason = broker_error(code, f"{sent.log} on {self._broker}")
        return DeliveryError(f"{reason}; refused: {count} message(s) that this task sent there{more}")

    def _unproven(self) -> Mapping[TopicPartition, int]:
        counts: Counter[TopicPartition] = Counter()
        for request in self._waiting:
            for sent in request:
                counts[sent.log] += sent.message_count
        return counts
