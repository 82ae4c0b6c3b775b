"""Groups of modern Kafka (0.8 to 4.x): their names, state, members, and partitions with committed offsets.

Every broker lists the groups that it coordinates and describes them, a few hundred in each request. Members
of streams groups have tasks: a task reads one partition of all input topics of its subtopology that have it.

Source: Apache Kafka's ListGroups, DescribeGroups, ConsumerGroupDescribe (KIP-848) and OffsetFetch; KIP-932,
KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from spark_kafkawire.errors import BrokerError, UnsupportedVersionError, quote
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import call_with_retries
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupMember,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.group_members import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupMember,
    DescribedStreamsGroup,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberAssignment,
    ShareGroupDescribeRequest,
    ShareGroupMember,
    StreamsGroupDescribeRequest,
    StreamsGroupMember,
    parse_assigned_topics,
)
from spark_kafkawire.protocol.modern.group_offsets import OffsetFetchRequest, OffsetFetchResponse
from spark_kafkawire.protocol.modern.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from ..asking import side_by_side
from .group_offsets import (
    Committed,
    all_committed,
    ask_coordinator,
    commit_offsets,
    committed_offsets,
    committed_texts,
    coordinator_of,
    read_committed,
)
from .metadata import Metadata

#: Codes of a group that is not of the consumer protocol, and of brokers that have none of it.
_OTHER_KIND: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


class ConsumerGroups:
    """Implements the protocol ``cluster.ConsumerGroups``."""

    def __init__(self, metadata: Metadata, net: NetOptions) -> None:
        self._metadata = metadata
        self._net = net

    def names(self) -> tuple[str, ...]:
        groups = list_coordinated_groups(self._metadata.known_brokers(), self._net)
        return tuple(sorted({group.id for group in groups if group.listed.protocol_type in OF_CONSUMERS}))

    def members(self, group: str) -> tuple[str, ...]:
        """Ids of the members; empty if there is no such group. Members of streams groups (KIP-1071) and of
        share groups (KIP-932) are not included."""

        def once() -> tuple[Member, ...]:
            coordinator = coordinator_of(self._metadata, group)
            # A classic group, or else one that the broker assigns (KIP-848).
            classic = _classic_groups(coordinator, [group], self._net)[group]
            return classic.members or _members_of(coordinator, group, self._net)

        return tuple(sorted(member.id for member in call_with_retries(once, self._net.request_retry)))

    def partitions(self, group: str) -> tuple[TopicPartition, ...]:
        """Partitions for which a group has offsets, also those of deleted topics. Brokers before 0.10.2
        cannot list them: then the result has all partitions of the cluster."""
        try:
            return tuple(sorted(all_committed(self._metadata, group, self._net)))
        except UnsupportedVersionError:
            return tuple(tp for topic in self._metadata.topics() for tp in topic.partitions)

    def offsets(
        self,
        group: str,
        partitions: Sequence[TopicPartition],
        *,
        strict: bool = True,  # noqa: ARG002  # brokers keep offsets alone
    ) -> dict[TopicPartition, int | None]:
        return committed_offsets(self._metadata, group, partitions, self._net)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        try:
            result = all_committed(self._metadata, group, self._net)
        except UnsupportedVersionError:
            offsets = self.offsets(group, self.partitions(group))
            return {tp: offset for tp, offset in offsets.items() if offset is not None}
        return {tp: part.committed_offset for tp, part in sorted(result.items())}

    def texts(self, group: str) -> tuple[tuple[int, str, str], ...]:
        try:
            return committed_texts(self._metadata, group, self._net, stable_in=None)
        except UnsupportedVersionError:
            return ()

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        force: bool = False,  # noqa: ARG002  # the coordinator decides
    ) -> None:
        commit_offsets(self._metadata, group, offsets, self._net)


def _members_of(coordinator: Broker, group: str, net: NetOptions) -> tuple[Member, ...]:
    """Members of a group of the consumer protocol; empty for another kind of group."""
    try:
        result = _described(coordinator, _CONSUMER, [group], net)
    except UnsupportedVersionError:
        return ()
    except BrokerError as error:
        if error.code not in _OTHER_KIND:
            raise
        return ()
    return result[group].members


#: Groups of one request: the response holds all their members.
_TOGETHER_MAX: Final = 200
#: Protocol types of consumers' groups; other groups coordinate, for example, workers of Kafka Connect.
OF_CONSUMERS: Final = ("consumer", "")
#: Those of groups with committed offsets: streams groups (KIP-1071) commit as consumers do.
WITH_OFFSETS: Final = (*OF_CONSUMERS, "streams")
#: Kinds of groups, as brokers name them from 3.8 on; empty before.
_CONSUMER: Final = "consumer"
_SHARE: Final = "share"
_STREAMS: Final = "streams"


@dataclass(frozen=True, slots=True)
class CoordinatedGroup:
    """A group and the broker that coordinates it."""

    coordinator: Broker
    listed: ListedGroup

    @property
    def id(self) -> str:
        """Name of the group."""
        return self.listed.group_id

    @property
    def type(self) -> str:
        """Kind of the group in lower case: ``classic``, ``consumer``, ``share`` or ``streams``; empty if the
        broker does not report it (before 3.8)."""
        return self.listed.group_type.lower()


@dataclass(frozen=True, slots=True)
class Member:
    """Member of a group. ``epoch`` is None in a classic group, ``assignment`` if its format is not that of
    Kafka's consumers, or while the broker does not know the topology of a streams group."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assignment: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """State, assignor and members of a group."""

    state: str
    assignor: str
    members: tuple[Member, ...]


def list_coordinated_groups(brokers: Iterable[Broker], net: NetOptions) -> list[CoordinatedGroup]:
    """All groups that the user may describe, sorted by name.

    All functions and methods here raise ``BrokerError`` if a broker refuses, and when the retries are used up
    that or a ``TransportError``; ``UnsupportedVersionError`` (fatal) before Kafka 0.9.
    """

    def listed(broker: Broker) -> tuple[ListedGroup, ...]:
        response: ListGroupsResponse = ask_coordinator(broker, ListGroupsRequest(), net)
        if response.error_code:
            raise broker_error(response.error_code, f"ListGroups on {broker}")
        return response.groups

    result = side_by_side(
        brokers, lambda broker: call_with_retries(lambda: listed(broker), net.request_retry)
    )
    groups = (CoordinatedGroup(broker, item) for broker, own in result.items() for item in own)
    return sorted(groups, key=lambda group: group.id)


def describe_groups(groups: Sequence[CoordinatedGroup], net: NetOptions) -> dict[str, GroupDescription]:
    """The description of each group, without those of kinds that their broker does not describe."""
    result: dict[str, GroupDescription] = {}
    for broker, kind, ids in _shares(groups):
        result |= call_with_retries(partial(_described, broker, kind, ids, net), net.request_retry)
    return result


def offsets_of(groups: Sequence[CoordinatedGroup], net: NetOptions) -> dict[str, Committed]:
    """Committed offsets of each group, without partitions for which it has committed none and without those
    of topics that the user may not describe. ``UnsupportedVersionError`` (fatal) before Kafka 0.10.2."""
    result: dict[str, Committed] = {}
    for broker, _, ids in _shares(groups):
        result |= call_with_retries(partial(_offsets, broker, ids, net), net.request_retry)
    return result


def _shares(groups: Sequence[CoordinatedGroup]) -> Iterator[tuple[Broker, str, list[str]]]:
    """Groups of one coordinator and kind, as many as one request takes."""
    kinds: dict[tuple[Broker, str], list[str]] = {}
    for group in groups:
        kinds.setdefault((group.coordinator, group.type), []).append(group.id)
    for (broker, kind), ids in sorted(kinds.items()):
        for at in range(0, len(ids), _TOGETHER_MAX):
            yield broker, kind, ids[at : at + _TOGETHER_MAX]


def _classic_groups(broker: Broker, ids: Sequence[str], net: NetOptions) -> dict[str, GroupDescription]:
    response: DescribeGroupsResponse = ask_coordinator(broker, DescribeGroupsRequest(groups=tuple(ids)), net)
    for group in response.groups:
        if group.refusal:
            location = f"DescribeGroups of group {quote(group.group_id)} on {broker}"
            raise broker_error(group.refusal, location)
    return {group.group_id: _classic(group) for group in response.groups}


def _classic(group: DescribedGroup) -> GroupDescription:
    members = (
        Member(
            item.member_id,
            item.group_instance_id,
            item.client_id,
            item.client_host,
            None,
            _assignment(group, item),
        )
        for item in group.members
    )
    return GroupDescription(group.group_state, group.protocol_data, tuple(members))


def _assignment(group: DescribedGroup, member: GroupMember) -> tuple[TopicPartition, ...] | None:
    topics = parse_assigned_topics(member.member_assignment) if group.protocol_type == _CONSUMER else None
    if topics is None:
        return None
    return tuple(TopicPartition(item.topic, partition) for item in topics for partition in item.partitions)


#: The request for each kind of group whose members the broker assigns.
_DESCRIBING: Final = {
    _CONSUMER: ConsumerGroupDescribeRequest,
    _SHARE: ShareGroupDescribeRequest,
    _STREAMS: StreamsGroupDescribeRequest,
}


def _described(broker: Broker, kind: str, ids: Sequence[str], net: NetOptions) -> dict[str, GroupDescription]:
    """Groups of a kind; empty if the broker does not describe it (share before 4.1, streams before 4.2).

    Raises ``UnsupportedVersionError`` for groups of consumers: brokers that list that kind describe it.
    """
    if kind not in _DESCRIBING:
        return _classic_groups(broker, ids, net)
    request = _DESCRIBING[kind](group_ids=tuple(ids))
    try:
        groups: Sequence[Any] = ask_coordinator(broker, request, net).groups
    except UnsupportedVersionError:
        if kind == _CONSUMER:
            raise
        return {}
    for group in groups:
        if group.error_code:
            location = f"{kind.title()}GroupDescribe of group {quote(group.group_id)} on {broker}"
            raise broker_error(group.error_code, location, group.error_message)
    if kind == _STREAMS:
        return _streams_groups(broker, groups, net)
    return {
        group.group_id: GroupDescription(
            group.group_state,
            group.assignor_name,
            tuple(_assigned(member, _partitions_of(member.assignment)) for member in group.members),
        )
        for group in groups
    }


def _assigned(
    member: ConsumerGroupMember | ShareGroupMember | StreamsGroupMember,
    assignment: tuple[TopicPartition, ...] | None,
) -> Member:
    return Member(
        member.member_id,
        None if isinstance(member, ShareGroupMember) else member.instance_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
        assignment,
    )


def _partitions_of(assignment: MemberAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _streams_groups(
    broker: Broker, groups: Sequence[DescribedStreamsGroup], net: NetOptions
) -> dict[str, GroupDescription]:
    topics = {topic for group in groups for item in (group.inputs() or {}).values() for topic in item}
    counts = _partition_counts(broker, sorted(topics), net) if topics else {}
    return {
        group.group_id: GroupDescription(
            group.group_state,
            "",
            tuple(_assigned(member, _tasks(member, group.inputs(), counts)) for member in group.members),
        )
        for group in groups
    }


def _partition_counts(broker: Broker, topics: Sequence[str], net: NetOptions) -> dict[str, int]:
    """Number of partitions of each topic; 0 for one that was deleted."""
    asked = tuple(MetadataRequestTopic(name=item) for item in topics)
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    response: MetadataResponse = ask_coordinator(broker, request, net)
    for topic in response.topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise broker_error(topic.error_code, f"Metadata of topic {quote(topic.name or '')} on {broker}")
    return {topic.name or "": len(topic.partitions) for topic in response.topics}


def _tasks(
    member: StreamsGroupMember, inputs: Mapping[str, Sequence[str]] | None, counts: Mapping[str, int]
) -> tuple[TopicPartition, ...] | None:
    """The partitions that the tasks of a member read; None while the topology is unknown."""
    if inputs is None:
        return None
    result = {
        TopicPartition(topic, partition)
        for tasks in member.assignment.active_tasks
        for topic in inputs.get(tasks.subtopology_id, ())
        for partition in tasks.partitions
        if partition < counts.get(topic, 0)
    }
    return tuple(sorted(result))


def _offsets(broker: Broker, ids: Sequence[str], net: NetOptions) -> dict[str, Committed]:
    with POOL.lend(broker, net.connection) as client:
        requests = [OffsetFetchRequest.for_group(item, None) for item in ids]
        responses: list[OffsetFetchResponse] = [item.body for item in client.pipeline(requests)]
    return {
        group_id: read_committed(response.group_of(group_id), broker)
        for group_id, response in zip(ids, responses, strict=True)
    }
