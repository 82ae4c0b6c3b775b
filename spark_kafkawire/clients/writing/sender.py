"""Interface of the senders of a write task, for both generations: it takes rows and returns receipts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from spark_kafkawire.model import TopicPartition

if TYPE_CHECKING:
    from spark_kafkawire.records.rows import Records


@dataclass(frozen=True, slots=True)
class PartitionReceipt:
    """Receipt of one task for one partition: ``message_count`` messages in batches of ``size`` bytes.

    ``start_offset`` is the offset of the first message, ``stop_offset`` the offset after the last one; None
    if no broker reported them. Messages of other producers may lie between them. In the format of 0.7, unless
    ``acks=verify``, they are the visible end of the log before the first and after the last produce request,
    and messages of the task that are not flushed may follow.
    """

    topic_partition: TopicPartition
    message_count: int
    size: int
    start_offset: int | None
    stop_offset: int | None


class Sender(Protocol):
    """Sends records to partitions; the order of records within a partition is kept.

    with partitions.sender(options) as sender:
        sender.add(partition, records)
        receipts = sender.finish()
    """

    def add(self, partition: TopicPartition, records: Records) -> None:
        """Buffer the records of a partition, and send what fills a request.

        Raises ``RowError``, ``DeliveryError``, and errors of connections to brokers (all fatal).
        """

    def queue_capacity(self, partitions: Sequence[TopicPartition]) -> Sequence[int] | None:
        """Bytes that each partition's broker accepts now without a wait, 0 or more; None if all are equal, or
        if the speed of brokers must not count. Never fails."""

    def finish(self) -> tuple[PartitionReceipt, ...]:
        """Send the rest, and wait for the acknowledgements that ``acks`` asks for; return receipts by
        partition.

        Raises as ``add``.
        """

    def __enter__(self) -> Sender: ...

    def __exit__(self, *exc_info: object) -> None: ...
