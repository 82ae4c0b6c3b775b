"""The tables ``groups``, ``group_members``, ``group_offsets`` (committed offsets with lag),
``transactions`` and ``producers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..cluster.modern.admin import active_producers
from ..cluster.modern.groups import (
    WITH_OFFSETS,
    CoordinatedGroup,
    GroupDescription,
    describe_groups,
    offsets_of,
)
from ..cluster.modern.list_offsets import end_offsets
from ..cluster.modern.transactions import Transactions
from ..model import Generation, TopicPartition
from ..protocol.modern.admin import NO_TRANSACTION
from ..protocol.modern.limits import READ_UNCOMMITTED
from . import FLAG, GROUPS, INT, LONG, PARTITIONS, TEXT, TIME, TOPICS, Column, Row, Table, us_of
from .scan import Scan, needs
from .topics import last_stable_offsets


def _groups(scan: Scan) -> Iterator[Row]:
    # Brokers list states from 2.6 on.
    needs_state = scan.wants("state") and not all(group.listed.group_state for group in scan.groups)
    result = _describe_groups(scan, scan.groups) if needs_state or scan.wants("assignor", "members") else {}
    for group in scan.groups:
        description = result.get(group.id)
        yield {
            "groupId": group.id,
            "type": group.type or None,
            "protocolType": group.listed.protocol_type,
            "state": group.listed.group_state or (description.state if description else None),
            "coordinator": group.coordinator.id,
            "assignor": (description.assignor or None) if description else None,
            "members": len(description.members) if description else None,
        }


def _members(scan: Scan) -> Iterator[Row]:
    for group_id, description in _describe_groups(scan, scan.groups).items():
        for member in sorted(description.members, key=lambda item: item.id):
            yield {
                "groupId": group_id,
                "memberId": member.id,
                "instanceId": member.instance_id,
                "clientId": member.client_id,
                "host": member.host,
                "memberEpoch": member.epoch,
                "assignment": None if member.assignment is None else structs(member.assignment),
            }


def _describe_groups(scan: Scan, groups: Sequence[CoordinatedGroup]) -> dict[str, GroupDescription]:
    with needs("Describe on the groups, and on the topics of streams groups"):
        return dict(sorted(describe_groups(groups, scan.net).items()))


def structs(partitions: Sequence[TopicPartition]) -> list[dict[str, object]]:
    """Partitions as the elements of a column, sorted."""
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def _groups_07(scan: Scan) -> Iterator[Row]:
    groups = scan.cluster.groups
    for name in groups.names():
        yield {"groupId": name, "members": len(groups.members(name)) if scan.wants("members") else None}


def _members_07(scan: Scan) -> Iterator[Row]:
    groups = scan.cluster.groups
    for name in groups.names():
        for member in groups.members(name):
            yield {"groupId": name, "memberId": member}


GROUPS_TABLE: Final = Table(
    "groups",
    "Groups of all types: consumers, share groups, Kafka Connect and others.",
    (
        Column("groupId", TEXT, "name"),
        Column("type", TEXT, "`classic`, `consumer` (KIP-848), `share` or `streams`; null before Kafka 3.8"),
        Column("protocolType", TEXT, "`consumer` for consumers; empty for a group that never had members"),
        Column("state", TEXT, "state, such as `Stable` or `Empty`"),
        Column("coordinator", INT, "id of the broker that coordinates the group"),
        Column("assignor", TEXT, "assignor in use; null without members"),
        Column(
            "members",
            INT,
            "number of members; null where the broker does not describe `share` (before Kafka 4.1) or "
            "`streams` (before 4.2)",
        ),
    ),
    {Generation.MODERN: _groups, Generation.V07: _groups_07},
    GROUPS,
)

MEMBERS_TABLE: Final = Table(
    "group_members",
    "Members of groups, also of share groups from Kafka 4.1 on and of streams groups from 4.2 on.",
    (
        Column("groupId", TEXT, "group"),
        Column("memberId", TEXT, "id of the member"),
        Column("instanceId", TEXT, "`group.instance.id` of a static member; null for others"),
        Column("clientId", TEXT, "`client.id` of the member"),
        Column("host", TEXT, "host of the member, as the broker sees it"),
        Column("memberEpoch", INT, "epoch of the member; null in a classic group"),
        Column(
            "assignment",
            PARTITIONS,
            "partitions that it reads, in a share group beside others, in a streams group by its active "
            "tasks; null if it is no consumer, or while a streams group is `NotReady`",
        ),
    ),
    {Generation.MODERN: _members, Generation.V07: _members_07},
    GROUPS,
)


def _group_offsets(scan: Scan) -> Iterator[Row]:
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
                **_offset_row(group, tp, part.committed_offset, ends.get(tp)),
                "leaderEpoch": epoch if epoch >= 0 else None,
                "metadata": part.metadata,
            }


def _ends(scan: Scan, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    """End offsets of those of the partitions that exist and have a leader."""
    scan.metadata.topics()
    led = sorted(scan.metadata.known_leaders(partitions))
    with needs("Describe on the topics"):
        return end_offsets(scan.metadata, led, scan.net, READ_UNCOMMITTED)


def _offset_row(group: str, tp: TopicPartition, offset: int, latest: int | None) -> Row:
    return {
        "groupId": group,
        "topic": tp.topic,
        "partition": tp.partition,
        "broker": tp.broker,
        "offset": offset,
        "latest": latest,
        "lag": None if latest is None else latest - offset,
    }


def _group_offsets_07(scan: Scan) -> Iterator[Row]:
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
            yield _offset_row(group, tp, offset, ends[tp].latest if tp in ends else None)


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
    {Generation.MODERN: _group_offsets, Generation.V07: _group_offsets_07},
    (*TOPICS, *GROUPS),
)


_DESCRIBED: Final = ("producerEpoch", "timeoutMs", "startTime", "partitions")


def _transactions(scan: Scan) -> Iterator[Row]:
    asking = Transactions(scan.metadata, scan.net)
    with needs("Describe on the transactional ids"):
        listed = asking.list_by_coordinator()
        if not any(listed.values()):
            asking.check_sees_ids()
        result = asking.describe_listed(listed) if scan.wants(*_DESCRIBED) else {}
    rows = [(item, broker) for broker, own in listed.items() for item in own]
    for item, broker in sorted(rows, key=lambda row: row[0].transactional_id):
        state = result.get(item.transactional_id)
        partitions = (
            [TopicPartition(t.topic, p) for t in state.topics for p in t.partitions] if state else None
        )
        yield {
            "transactionalId": item.transactional_id,
            "state": item.transaction_state,
            "coordinator": broker.id,
            "producerId": item.producer_id,
            "producerEpoch": state.producer_epoch if state else None,
            "timeoutMs": state.transaction_timeout_ms if state else None,
            "startTime": us_of(state.transaction_start_time_ms) if state else None,
            "partitions": None if partitions is None else structs(partitions),
        }


def _producers(scan: Scan) -> Iterator[Row]:
    with needs("Read on the topics; or choose others with subscribe"):
        result = active_producers(scan.metadata, scan.led, scan.net)
    # Stable offsets come after the producers: a transaction that ended meanwhile holds nothing back.
    stable = last_stable_offsets(scan, scan.wants("lastStable", "holdsLastStable"))
    for tp, states in sorted(result.items()):
        for state in sorted(states, key=lambda item: item.producer_id):
            start = state.current_txn_start_offset
            yield {
                "topic": tp.topic,
                "partition": tp.partition,
                "producerId": state.producer_id,
                "producerEpoch": state.producer_epoch,
                "lastSequence": state.last_sequence if state.last_sequence >= 0 else None,
                "lastTimestamp": us_of(state.last_timestamp),
                "coordinatorEpoch": state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
                "txnStartOffset": start if start != NO_TRANSACTION else None,
                "lastStable": stable.get(tp),
                "holdsLastStable": start != NO_TRANSACTION and stable.get(tp) == start,
            }


TRANSACTIONS: Final = Table(
    "transactions",
    "Transactional ids and their last transactions, from Kafka 3.0 on.",
    (
        Column("transactionalId", TEXT, "transactional id"),
        Column("state", TEXT, "state, such as `Ongoing` or `CompleteCommit`"),
        Column("coordinator", INT, "id of the broker that coordinates it"),
        Column("producerId", LONG, "id of its producer"),
        Column("producerEpoch", INT, "epoch of its producer"),
        Column("timeoutMs", INT, "time after which the coordinator aborts a transaction, ms"),
        Column("startTime", TIME, "start of the open transaction; null if none is open"),
        Column("partitions", PARTITIONS, "partitions in it; once it ends, those without its marker"),
    ),
    {Generation.MODERN: _transactions},
)

PRODUCERS: Final = Table(
    "producers",
    "Producers whose state the leader of a partition keeps, from Kafka 2.8 on: idempotent and transactional "
    "ones.",
    (
        Column("topic", TEXT, "topic"),
        Column("partition", INT, "partition"),
        Column("producerId", LONG, "id of the producer"),
        Column("producerEpoch", INT, "epoch of the producer"),
        Column("lastSequence", INT, "sequence number of its last record; null if unknown"),
        Column("lastTimestamp", TIME, "time of its last batch"),
        Column(
            "coordinatorEpoch", INT, "epoch of the coordinator that wrote its last marker; null without one"
        ),
        Column("txnStartOffset", LONG, "first offset of its open transaction; null if none is open"),
        Column("lastStable", LONG, "last stable offset of the partition"),
        Column(
            "holdsLastStable", FLAG, "true if its open transaction is what `read_committed` readers wait for"
        ),
    ),
    {Generation.MODERN: _producers},
    TOPICS,
)
