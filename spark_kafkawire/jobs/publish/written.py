"""Messages that a run wrote, by log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.errors import plural
from spark_kafkawire.model import TopicPartition

from ..state.positions import name_fields, name_order


@dataclass(frozen=True, slots=True)
class Written:
    """Messages of all tasks of a run in one partition: count, bytes of their batches, and first and last
    offset if brokers reported them. Messages of other producers may lie between them."""

    topic_partition: TopicPartition
    message_count: int
    size: int
    start_offset: int | None
    stop_offset: int | None


def total(receipts: Iterable[PartitionReceipt]) -> list[Written]:
    """The receipts of all tasks by log. Pure."""
    by_partition: dict[TopicPartition, list[PartitionReceipt]] = {}
    for receipt in receipts:
        by_partition.setdefault(receipt.topic_partition, []).append(receipt)
    return [
        Written(
            tp,
            sum(each.message_count for each in own),
            sum(each.size for each in own),
            min((each.start_offset for each in own if each.start_offset is not None), default=None),
            max((each.stop_offset for each in own if each.stop_offset is not None), default=None),
        )
        for tp, own in sorted(by_partition.items(), key=lambda item: name_order(item[0]))
    ]


def summary_of(written: Sequence[Written], *, with_partitions: bool) -> dict[str, object]:
    """The totals, and with ``with_partitions`` those of each partition."""
    summary: dict[str, object] = {
        "messages": sum(each.message_count for each in written),
        "bytes": sum(each.size for each in written),
    }
    if with_partitions:
        summary["partitions"] = [
            {
                **name_fields(each.topic_partition),
                "messages": each.message_count,
                "bytes": each.size,
                "start_offset": each.start_offset,
                "stop_offset": each.stop_offset,
            }
            for each in written
        ]
    return summary


def table_of(written: Sequence[Written]) -> list[list[str]]:
    """A row of text for each partition."""
    return [
        [
            f"{each.topic_partition}",
            f"{each.message_count:,} {plural(each.message_count, 'message')}",
            f"{each.size:,} bytes",
            "" if each.start_offset is None else f"offsets {each.start_offset} to {each.stop_offset}",
        ]
        for each in written
    ]
