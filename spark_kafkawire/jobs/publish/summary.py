"""The result of a run of ``publish``, its messages by log, and the report of it. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.errors import DeliveryError, plural
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.tables.table import Row

from ..progress import aligned, print_summary
from ..state import name_fields, name_order


def report(published: Published, stream: TextIO, *, as_json: bool) -> dict[str, Any]:
    """The summary that is still to be printed: its partitions are printed here unless ``as_json``.

    Raises ``DeliveryError`` (fatal) where rows are in a topic too often; all is printed then.
    """
    if not as_json and published.written:
        print(*aligned(table_of(published.written)), sep="\n", file=stream, flush=True)
    summary = summary_of(published.written, with_partitions=as_json)
    if published.found_count is None:
        return summary
    summary["messages_found"] = published.found_count
    if published.doubled_count is None:
        return summary
    summary["messages_doubled"] = published.doubled_count
    if published.doubled_count and not published.was_done:
        print_summary(summary, as_json=as_json)
        are = plural(published.doubled_count, "message is", "messages are")
        raise DeliveryError(
            f"{published.doubled_count:,} {are} in the topic more often than the rows are: another producer "
            "wrote equal ones, or a killed run was still writing; remove the duplicates where the "
            "topic is read, Kafka takes nothing back"
        )
    return summary


@dataclass(frozen=True, slots=True)
class Published:
    """Result of a run: the messages written, the rows found in the topic, and the duplicate messages, each
    None if unknown. ``was_done`` by an earlier run."""

    written: Sequence[Row]
    found_count: int | None = None
    doubled_count: int | None = None
    was_done: bool = False


def total(receipts: Iterable[PartitionReceipt]) -> list[Row]:
    """A row for each log, from the receipts of all tasks: its messages, bytes of their batches, and first and
    last offset if brokers reported them. Messages of other producers may lie between them. Pure."""
    by_partition: dict[TopicPartition, list[PartitionReceipt]] = {}
    for receipt in receipts:
        by_partition.setdefault(receipt.topic_partition, []).append(receipt)
    return [
        {
            **name_fields(tp),
            "messages": sum(each.message_count for each in own),
            "bytes": sum(each.size for each in own),
            "start_offset": min(_known(each.start_offset for each in own), default=None),
            "stop_offset": max(_known(each.stop_offset for each in own), default=None),
        }
        for tp, own in sorted(by_partition.items(), key=lambda item: name_order(item[0]))
    ]


def _known(offsets: Iterable[int | None]) -> list[int]:
    return [each for each in offsets if each is not None]


def summary_of(written: Sequence[Row], *, with_partitions: bool) -> dict[str, object]:
    """The totals, and with ``with_partitions`` those of each partition."""
    totals = {name: sum(each[name] for each in written) for name in ("messages", "bytes")}
    return {**totals, **({"partitions": [*written]} if with_partitions else {})}


def table_of(written: Sequence[Row]) -> list[list[str]]:
    """A row of text for each partition."""
    rows = []
    for each in written:
        first, last = each["start_offset"], each["stop_offset"]
        rows.append(
            [
                f"{TopicPartition(each['topic'], each['partition'], each.get('broker'))}",
                f"{each['messages']:,} {plural(each['messages'], 'message')}",
                f"{each['bytes']:,} bytes",
                "" if first is None else f"offsets {first} to {last}",
            ]
        )
    return rows
