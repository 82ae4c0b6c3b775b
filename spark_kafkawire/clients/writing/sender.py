"""Interface of the senders of a write task, for both generations: it takes rows and returns receipts, whose
totals travel to the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafkawire.model import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

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


@dataclass(frozen=True, slots=True)
class WriteTotals:
    """Totals of the receipts of tasks, small enough for the driver of any number of tasks and partitions.

    ``partitions`` has the partitions written to, by topic and broker (see ``TopicPartition``): bit n of the
    number for partition n."""

    message_count: int = 0
    size: int = 0
    #: Time of the slowest task, and attempts that were made again.
    seconds: float = field(default=0.0, compare=False)
    retried_count: int = 0
    #: The longest wait of a task for a broker, seconds, and its address.
    slowest: tuple[float, str] = field(default=(0.0, ""), compare=False)
    partitions: Mapping[tuple[str, int | None], int] = field(default_factory=dict)

    @classmethod
    def of(cls, receipts: Iterable[PartitionReceipt]) -> WriteTotals:
        """Add up the receipts of one task."""
        count = size = 0
        numbers: dict[tuple[str, int | None], list[int]] = {}
        for receipt in receipts:
            count += receipt.message_count
            size += receipt.size
            tp = receipt.topic_partition
            numbers.setdefault((tp.topic, tp.broker), []).append(tp.partition)
        return cls(count, size, partitions={name: _bits(own) for name, own in numbers.items()})

    @classmethod
    def sum(cls, totals: Iterable[WriteTotals]) -> WriteTotals:
        """Add up the totals of tasks, which may have written to the same partitions."""
        count = size = retried_count = 0
        seconds, slowest = 0.0, (0.0, "")
        partitions: dict[tuple[str, int | None], int] = {}
        for item in totals:
            count += item.message_count
            size += item.size
            seconds, slowest = max(seconds, item.seconds), max(slowest, item.slowest)
            retried_count += item.retried_count
            for name, bits in item.partitions.items():
                partitions[name] = partitions.get(name, 0) | bits
        return cls(count, size, seconds, retried_count, slowest, partitions)

    @property
    def partition_count(self) -> int:
        """Number of partitions written to."""
        return sum(bits.bit_count() for bits in self.partitions.values())

    @property
    def topics(self) -> list[str]:
        """Topics written to, sorted."""
        return sorted({topic for topic, _ in self.partitions})


def _bits(numbers: Sequence[int]) -> int:
    bits = bytearray(max(numbers) // 8 + 1)
    for number in numbers:
        bits[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bits, "little")


class Sender(ABC):
    """Sends records to partitions; the order of records within a partition is kept.

    with partitions.sender(options) as sender:
        sender.add(partition, records)
        receipts = sender.finish()
    """

    @abstractmethod
    def add(self, partition: TopicPartition, records: Records) -> None:
        """Buffer the records of a partition, and send what fills a request.

        Raises ``RowError``, ``DeliveryError``, and errors of connections to brokers (all fatal).
        """

    def queue_capacity(self, partitions: Sequence[TopicPartition]) -> Sequence[int] | None:  # noqa: ARG002
        """Bytes that each partition's broker accepts now without a wait, 0 or more; None if all are equal, or
        if the speed of brokers must not count. Never fails."""
        return None

    @abstractmethod
    def finish(self) -> tuple[PartitionReceipt, ...]:
        """Send the rest, and wait for the acknowledgements that ``acks`` asks for; return receipts by
        partition. Raises as ``add``."""

    @abstractmethod
    def close(self) -> None:
        """Close or return all connections; never fails."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
