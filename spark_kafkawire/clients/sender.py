"""Sends values to the logs they are for; one connection for each broker that gets any.

with Sender(brokers, options) as sender:
    sender.add(log, values)
    receipts = sender.finish()
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

import pyarrow as pa

from ..model import Broker, TopicPartition
from ..options import WriteOptions
from .broker_sender import BrokerSender, LogReceipt

__all__ = ["LogReceipt", "Sender"]


class Sender:
    """What one task writes. The order of values within a log is kept.

    Memory: up to ``batchBytes`` and one batch of rows for each broker, twice while it is sent.
    """

    def __init__(self, brokers: Iterable[Broker], options: WriteOptions) -> None:
        self._senders = {broker.id: BrokerSender(broker, options) for broker in brokers}

    def add(self, log: TopicPartition, values: pa.Array) -> None:
        """Take the values (binary, no null) of a log, and send what is enough for a request.

        Raises ``RowError``, ``ConnectFailed``, ``DeliveryError`` (fatal: nothing is sent again).
        """
        assert log.broker is not None
        self._senders[log.broker].add(log, values)

    def finish(self) -> tuple[LogReceipt, ...]:
        """Send what is left, and wait for the proof that ``acks`` asks for; receipts by log.

        Raises as ``add``.
        """
        senders = self._senders.values()
        for sender in senders:
            sender.flush()
        # All brokers are asked before one is waited for.
        for sender in senders:
            sender.ask_proof()
        return tuple(receipt for sender in senders for receipt in sender.receipts())

    def close(self) -> None:
        """Close all connections; never fails."""
        for sender in self._senders.values():
            sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
