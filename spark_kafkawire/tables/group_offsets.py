"""The table ``group_offsets``: committed offsets with lag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..cluster.modern.groups import WITH_OFFSETS, offsets_of
from ..cluster.modern.list_offsets import end_offsets
from ..model import Generation, TopicPartition
from ..protocol.modern.limits import READ_UNCOMMITTED
from .scan import Scan, needs
from .table import GROUPS, INT, LONG, TEXT, TOPICS, Column, Row, Table


def _rows(scan: Scan) -> Iterator[Row]:
    groups = [group for group in scan.groups if group.listed.protocol_type in WITH_OFFSETS]
    with needs("Describe on the groups"):
        committed = offsets_of(groups, scan.net)
    if scan.options.selection is not None:
        topics = {topic.name for topic in scan.topics}
        committed = {
            group: {tp: part for tp, part in own.items() if tp.topic in topics}
            for group, own in committed.items()
        }
    # Ends come after offsets: a group that reads on meanwhile is not beyond the end.
    held = {tp for own in committed.values() for tp in own}
    ends = _ends(scan, held) if scan.wants("latest", "lag") else {}
    for group, own in sorted(committed.items()):
        for tp, part in sorted(own.items()):
            epoch = part.committed_leader_epoch
            yield {
                "groupId": group,
                "topic": tp.topic,
                "partition": tp.partition,
                "broker": None,
                "offset": part.committed_offset,
                "leaderEpoch": epoch if epoch >= 0 else None,
                "metadata": part.metadata,
                **_lag(part.committed_offset, ends.get(tp)),
            }


def _ends(scan: Scan, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    """End offsets of those of the partitions that exist and have a leader."""
    scan.metadata.topics()
    led = sorted(scan.metadata.known_leaders(partitions))
    with needs("Describe on the topics"):
        return end_offsets(scan.metadata, led, scan.net, READ_UNCOMMITTED)


def _lag(offset: int, latest: int | None) -> Row:
    return {"latest": latest, "lag": None if latest is None else latest - offset}


def _rows_07(scan: Scan) -> Iterator[Row]:
    groups = scan.cluster.groups
    topics = {tp.topic for tp in scan.partitions} if scan.options.selection is not None else None
    committed = {
        name: {
            tp: offset
            for tp, offset in groups.committed(name).items()
            if topics is None or tp.topic in topics
        }
        for name in groups.names()
    }
    held = sorted({tp for own in committed.values() for tp in own})
    ends = scan.cluster.bounds(list(scan.cluster.leaders_of(held))) if scan.wants("latest", "lag") else {}
    for group, own in committed.items():
        for tp, offset in sorted(own.items()):
            yield {
                "groupId": group,
                "topic": tp.topic,
                "partition": tp.partition,
                "broker": tp.broker,
                "offset": offset,
                "leaderEpoch": None,
                "metadata": None,
                **_lag(offset, ends[tp].latest if tp in ends else None),
            }


OFFSETS_TABLE: Final = Table(
    "group_offsets",
    "Committed offsets of consumer groups and of streams groups, with lag.",
    (
        Column("groupId", TEXT, "group"),
        Column("topic", TEXT, "topic"),
        Column("partition", INT, "partition"),
        Column("broker", INT, "broker of the partition in Kafka 0.7; null later"),
        Column("offset", LONG, "committed offset: that of the next record to read"),
        Column("leaderEpoch", INT, "epoch of the leader at that offset; null if the consumer wrote none"),
        Column("metadata", TEXT, "text that the consumer wrote with the offset"),
        Column("latest", LONG, "end of the partition; null if it does not exist, or has no leader"),
        Column("lag", LONG, "`latest` - `offset`: records, in Kafka 0.7 bytes; negative beyond the end"),
    ),
    {Generation.MODERN: _rows, Generation.V07: _rows_07},
    (*TOPICS, *GROUPS),
)
