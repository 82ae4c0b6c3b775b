"""What a task's writing needs of a client, whatever generation its brokers are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...model import TopicPartition

if TYPE_CHECKING:
    from ...records.rows import Records


@dataclass(frozen=True, slots=True)
class LogReceipt:
    """What one task wrote to one log: ``message_count`` messages in batches of ``size`` bytes.

    ``start_offset`` is where the first written message starts, ``stop_offset`` where the last one
    ends; None where no broker told. Other producers' messages may lie between them. In the format of 0.7,
    unless ``acks=verify``, they are the log's visible end before the first and after the last produce, and
    own messages that are not flushed may come after them.
    """

    log: TopicPartition
    message_count: int
    size: int
    start_offset: int | None
    stop_offset: int | None


class Sender(Protocol):
    """Sends records to the logs they are for; the order of records within a log is kept.

    with targets.sender(options) as sender:
        sender.add(log, records)
        receipts = sender.finish()
    """

    def add(self, log: TopicPartition, records: Records) -> None:
        """Take the records of a log, and send what is enough for a request.

        Raises ``RowError``, ``DeliveryError``, and what keeps a broker from being reached (all
        fatal).
        """

    def rooms(self, logs: Sequence[TopicPartition]) -> Sequence[int] | None:
        """Bytes that each log's broker takes now before it is waited for, 0 or more; None where all are
        alike, or where that is not to count. Never fails."""

    def finish(self) -> tuple[LogReceipt, ...]:
        """Send what is left, and wait for the proof that ``acks`` asks for; receipts by log.

        Raises as ``add``.
        """

    def __enter__(self) -> Sender: ...

    def __exit__(self, *exc_info: object) -> None: ...
