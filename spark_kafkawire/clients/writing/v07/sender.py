"""Sends values to the logs of 0.7 brokers; one connection for each broker that gets any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ....model import Broker, TopicPartition, WireFormat
from ....options import WriteOptions
from ....records.rows import Records
from ..sender import LogReceipt
from .acknowledged_sender import AcknowledgedSender
from .broker_sender import BrokerSender

#: What sends to one broker, by what is spoken with it.
_SENDERS: Final[Mapping[WireFormat, type[BrokerSender]]] = {
    WireFormat.V07: BrokerSender,
    WireFormat.PROPOSAL: AcknowledgedSender,
}


class Sender:
    """What one task writes. The order of values within a log is kept.

    Memory: up to ``batchBytes`` and one batch of rows for each broker, twice while it is sent.
    """

    def __init__(self, brokers: Iterable[Broker], options: WriteOptions) -> None:
        sender = _SENDERS[options.wire_format or options.discovery.generation.wire_format]
        self._senders = {broker.id: sender(broker, options) for broker in brokers}

    def add(self, log: TopicPartition, records: Records) -> None:
        """Take the values (binary, no null) of a log's records, and send what is enough for a request.

        Raises ``RowError``, ``ConnectFailed``, ``DeliveryError`` (fatal: nothing is sent again).
        """
        assert log.broker is not None
        self._senders[log.broker].add(log, records.values)

    def rooms(self, logs: Sequence[TopicPartition]) -> None:
        """No broker of 0.7 answers: what waits for it is not known."""

    def finish(self) -> tuple[LogReceipt, ...]:
        """Send what is left, and wait for the proof that ``acks`` asks for; receipts by log.

        Raises as ``add``.
        """
        senders = self._senders.values()
        for sender in senders:
            sender.flush()
        # All brokers are asked before one is waited for.
        for sender in senders:
            sender.request_proof()
        return tuple(receipt for sender in senders for receipt in sender.receipts())

    def close(self) -> None:
        """Close all connections; never fails."""
        for sender in self._senders.values():
            sender.close()

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
