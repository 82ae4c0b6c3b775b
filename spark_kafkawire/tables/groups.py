"""The tables ``groups`` and ``group_members``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..cluster.modern.groups import CoordinatedGroup, GroupDescription, described
from ..model import Generation, TopicPartition
from .scan import Scan, needs
from .table import GROUPS, INT, PARTITIONS, TEXT, Column, Row, Table


def _groups(scan: Scan) -> Iterator[Row]:
    # Brokers list states from 2.6 on.
    needs_state = scan.wants("state") and not all(group.listed.group_state for group in scan.groups)
    found = _described(scan, scan.groups) if needs_state or scan.wants("assignor", "members") else {}
    for group in scan.groups:
        description = found.get(group.id)
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
    for group_id, description in _described(scan, scan.groups).items():
        for member in sorted(description.members, key=lambda each: each.id):
            yield {
                "groupId": group_id,
                "memberId": member.id,
                "instanceId": member.instance_id,
                "clientId": member.client_id,
                "host": member.host,
                "memberEpoch": member.epoch,
                "assignment": None if member.assignment is None else structs(member.assignment),
            }


def _described(scan: Scan, groups: Sequence[CoordinatedGroup]) -> dict[str, GroupDescription]:
    with needs("Describe on the groups, and on the topics of streams groups"):
        return dict(sorted(described(groups, scan.net).items()))


def structs(partitions: Sequence[TopicPartition]) -> list[dict[str, object]]:
    """Partitions as the elements of a column, sorted."""
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def _groups_07(scan: Scan) -> Iterator[Row]:
    groups = scan.cluster.groups
    for name in groups.names():
        yield {
            "groupId": name,
            **dict.fromkeys(("type", "protocolType", "state", "coordinator", "assignor")),
            "members": len(groups.members(name)) if scan.wants("members") else None,
        }


def _members_07(scan: Scan) -> Iterator[Row]:
    groups = scan.cluster.groups
    unknown = ("instanceId", "clientId", "host", "memberEpoch", "assignment")
    for name in groups.names():
        for member in groups.members(name):
            yield {"groupId": name, "memberId": member, **dict.fromkeys(unknown)}


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
