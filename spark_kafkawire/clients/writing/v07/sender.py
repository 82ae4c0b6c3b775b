"""Sender of a write task to Kafka 0.7: it sends values with one connection to each broker that gets any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.model import Broker, TopicPartition, WireFormat
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.records.rows import Records

from .acknowledged_sender import AcknowledgedSender
from .broker_sender import BrokerSender

#: Senders for one broker, by wire format.
_SENDERS: Final[Mapping[WireFormat, type[BrokerSender]]] = {
    WireFormat.V07: BrokerSender,
    WireFormat.PROPOSAL: AcknowledgedSender,
}


class V07Sender:
    """Sender of one task. The order of values within a partition is kept.

    Memory: up to ``batchBytes`` and one batch of rows for each broker, twice while it is sent.
    """

    def __init__(self, brokers: Iterable[Broker], options: WriteOptions) -> None:
        sender = _SENDERS[options.wire_format or options.discovery.generation.wire_format]
        self._senders = {broker.id: sender(broker, options) for broker in brokers}

    def add(self, partition: TopicPartition, records: Records) -> None:
        """Buffer the values (binary, no null) of a partition's records, and send what fills a request.

        Raises ``RowError``, ``ConnectFailed``, ``DeliveryError`` (fatal: nothing is sent again).
        """
        assert partition.broker is not None
        self._senders[partition.broker].add(partition, records.values)

    def queue_capacity(self, partitions: Sequence[TopicPartition]) -> None:
        """Return None: brokers of 0.7 do not respond, so their queues are unknown."""

    def finish(self) -> tuple[PartitionReceipt, ...]:
        """Send the rest, and wait for the proof that ``acks`` asks for; return receipts by partition.

        Raises as ``add``.
        """
        senders = self._senders.values()
        for sender in senders:
            sender.flush()
        # All brokers get their requests before the wait for the first of them.
        for sender in senders:
            sender.request_end_offsets()
        return tuple(receipt for sender in senders for receipt in sender.receipts())

    def close(self) -> None:
        """Close all connections; never fails."""
        for sender in self._senders.values():
            sender.close()

    def __enter__(self) -> V07Sender:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
