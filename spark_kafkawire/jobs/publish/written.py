"""What a run wrote, by log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...clients.writing.sender import LogReceipt
from ...model import TopicPartition
from ..state.positions import name_fields, name_order


@dataclass(frozen=True, slots=True)
class Written:
    """What all tasks of a run wrote to one log: messages, bytes of their batches, and between which
    offsets, where brokers told. Messages of other producers may lie between them."""

    log: TopicPartition
    message_count: int
    size: int
    start_offset: int | None
    stop_offset: int | None


def total(receipts: Iterable[LogReceipt]) -> list[Written]:
    """The receipts of all tasks by log. Pure."""
    by_log: dict[TopicPartition, list[LogReceipt]] = {}
    for receipt in receipts:
        by_log.setdefault(receipt.log, []).append(receipt)
    return [
        Written(
            log,
            sum(each.message_count for each in own),
            sum(each.size for each in own),
            min((each.start_offset for each in own if each.start_offset is not None), default=None),
            max((each.stop_offset for each in own if each.stop_offset is not None), default=None),
        )
        for log, own in sorted(by_log.items(), key=lambda item: name_order(item[0]))
    ]


def summary_of(written: Sequence[Written], *, with_partitions: bool) -> dict[str, object]:
    """The totals, and with ``with_partitions`` those of each log."""
    summary: dict[str, object] = {
        "messages": sum(each.message_count for each in written),
        "bytes": sum(each.size for each in written),
    }
    if with_partitions:
        summary["partitions"] = [
            {
                **name_fields(each.log),
                "messages": each.message_count,
                "bytes": each.size,
                "start_offset": each.start_offset,
                "stop_offset": each.stop_offset,
            }
            for each in written
        ]
    return summary


def table_of(written: Sequence[Written]) -> list[list[str]]:
    """A row of text for each log."""
    return [
        [
            f"{each.log}",
            f"{each.message_count:,} messages",
            f"{each.size:,} bytes",
            "" if each.start_offset is None else f"offsets {each.start_offset} to {each.stop_offset}",
        ]
        for each in written
    ]
