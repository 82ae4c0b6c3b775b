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
from typing import Final

from spark_kafkawire.errors import UnsupportedVersionError, quote
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
    ConsumerGroupDescribeResponse,
    ConsumerGroupMember,
    DescribedConsumerGroup,
    DescribedShareGroup,
    DescribedStreamsGroup,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberAssignment,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupMember,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupMember,
    parse_assigned_topics,
)
from spark_kafkawire.protocol.modern.group_offsets import (
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from spark_kafkawire.protocol.modern.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from ..asking import side_by_side
from .group_offsets import ask_coordinator, commit_offsets, committed_offsets, committed_texts, coordinator_of
from .metadata import Metadata


class ConsumerGroups:
    """Implements the protocol ``cluster.ConsumerGroups``."""

    def __init__(self, metadata: Metadata, net: NetOptions) -> None:
        self._metadata = metadata
        self._net = net

    def names(self) -> tuple[str, ...]:
        return list_groups(self._metadata.known_brokers(), self._net)

    def members(self, group: str) -> tuple[str, ...]:
        return group_members(self._metadata, group, self._net)

    def partitions(self, group: str) -> tuple[TopicPartition, ...]:
        return partitions_of_group(self._metadata, group, self._net)

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
            result = offsets_of_group(self._metadata, group, self._net)
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


#: Codes for a group whose members a broker does not coordinate, and codes of brokers that never do.
_NOT_ITS_OWN: Final = (
    ErrorCode.NONE,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_VERSION,
)


def list_groups(brokers: Iterable[Broker], net: NetOptions) -> tuple[str, ...]:
    """Ids of all consumer groups, sorted: each broker lists those that it coordinates.

    Raises as ``group_members`` does.
    """
    groups = list_coordinated_groups(brokers, net)
    return tuple(sorted({group.id for group in groups if group.listed.protocol_type in OF_CONSUMERS}))


def group_members(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[str, ...]:
    """Ids of the members of a group, sorted; empty if there is no such group.

    Members of streams groups (KIP-1071) and of share groups (KIP-932) are not included. Raises
    ``BrokerError`` if a broker refuses the group, and when the retries are used up that or a
    ``TransportError``.
    """
    return tuple(sorted(call_with_retries(lambda: _members(metadata, group_id, net), net.request_retry)))


def partitions_of_group(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[TopicPartition, ...]:
    """Partitions for which a group may have offsets, sorted, also those of deleted topics.

    Brokers before 0.10.2 cannot list them: then the result has all partitions of the cluster. Raises as
    ``group_members`` does.
    """
    try:
        return call_with_retries(lambda: _partitions(metadata, group_id, net), net.request_retry)
    except UnsupportedVersionError:
        return tuple(tp for topic in metadata.topics() for tp in topic.partitions)


def _members(metadata: Metadata, group_id: str, net: NetOptions) -> list[str]:
    """Members of a classic group, or else of a group that the broker assigns (KIP-848)."""
    coordinator = coordinator_of(metadata, group_id)
    classic = _describe_classic(coordinator, group_id, net).members
    return [member.member_id for member in classic] or _list_assigned_members(coordinator, group_id, net)


def _describe_classic(coordinator: Broker, group_id: str, net: NetOptions) -> DescribedGroup:
    location = f"DescribeGroups of group {quote(group_id)} on {coordinator}"
    response: DescribeGroupsResponse = ask_coordinator(
        coordinator, DescribeGroupsRequest(groups=(group_id,)), net
    )
    [group] = response.groups
    if group.refusal:
        raise broker_error(group.refusal, location)
    return group


def _list_assigned_members(coordinator: Broker, group_id: str, net: NetOptions) -> list[str]:
    location = f"ConsumerGroupDescribe of group {quote(group_id)} on {coordinator}"
    request = ConsumerGroupDescribeRequest(group_ids=(group_id,))
    try:
        response: ConsumerGroupDescribeResponse = ask_coordinator(coordinator, request, net)
    except UnsupportedVersionError:
        return []
    [group] = response.groups
    if group.error_code not in _NOT_ITS_OWN:
        raise broker_error(group.error_code, location, group.error_message)
    return [member.member_id for member in group.members]


def _partitions(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[TopicPartition, ...]:
    coordinator = coordinator_of(metadata, group_id)
    response: OffsetFetchResponse = ask_coordinator(
        coordinator, OffsetFetchRequest.for_group(group_id, None), net
    )
    group = response.group_of(group_id)
    if group.error_code:
        raise broker_error(group.error_code, f"OffsetFetch of group {quote(group_id)} on {coordinator}")
    partitions = {
        TopicPartition(topic.name, partition.partition_index)
        for topic in group.topics
        for partition in topic.partitions
    }
    return tuple(sorted(partitions))


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

    All functions here raise ``BrokerError`` if a broker refuses, and when the retries are used up that or a
    ``TransportError``; ``UnsupportedVersionError`` (fatal) before Kafka 0.9.
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
        ask = _ASKING.get(kind, _classic_groups)
        result |= call_with_retries(partial(ask, broker, ids, net), net.request_retry)
    return result


def offsets_of(
    groups: Sequence[CoordinatedGroup], net: NetOptions
) -> dict[str, dict[TopicPartition, OffsetFetchPartitionResponse]]:
    """Committed offsets of each group, without partitions for which it has committed none and without those
    of topics that the user may not describe. ``UnsupportedVersionError`` (fatal) before Kafka 0.10.2."""
    result: dict[str, dict[TopicPartition, OffsetFetchPartitionResponse]] = {}
    for broker, _, ids in _shares(groups):
        result |= call_with_retries(partial(_offsets, broker, ids, net), net.request_retry)
    return result


def offsets_of_group(
    metadata: Metadata, group_id: str, net: NetOptions
) -> dict[TopicPartition, OffsetFetchPartitionResponse]:
    """The same of one group, whose coordinator is looked up."""

    def once() -> dict[TopicPartition, OffsetFetchPartitionResponse]:
        return _offsets(coordinator_of(metadata, group_id), [group_id], net)[group_id]

    return call_with_retries(once, net.request_retry)


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


def _consumer_groups(broker: Broker, ids: Sequence[str], net: NetOptions) -> dict[str, GroupDescription]:
    request = ConsumerGroupDescribeRequest(group_ids=tuple(ids))
    response: ConsumerGroupDescribeResponse = ask_coordinator(broker, request, net)
    return _with_epochs(response.groups, "ConsumerGroupDescribe", broker)


def _share_groups(broker: Broker, ids: Sequence[str], net: NetOptions) -> dict[str, GroupDescription]:
    """Share groups; empty if the broker is too old to describe them (before 4.1)."""
    try:
        request = ShareGroupDescribeRequest(group_ids=tuple(ids))
        response: ShareGroupDescribeResponse = ask_coordinator(broker, request, net)
    except UnsupportedVersionError:
        return {}
    return _with_epochs(response.groups, "ShareGroupDescribe", broker)


def _with_epochs(
    groups: Sequence[DescribedConsumerGroup | DescribedShareGroup], api: str, broker: Broker
) -> dict[str, GroupDescription]:
    """Groups whose members have epochs. Raises ``BrokerError``."""
    _check(groups, api, broker)
    return {
        group.group_id: GroupDescription(
            group.group_state, group.assignor_name, tuple(map(_with_epoch, group.members))
        )
        for group in groups
    }


def _check(
    groups: Sequence[DescribedConsumerGroup | DescribedShareGroup | DescribedStreamsGroup],
    api: str,
    broker: Broker,
) -> None:
    for group in groups:
        if group.error_code:
            location = f"{api} of group {quote(group.group_id)} on {broker}"
            raise broker_error(group.error_code, location, group.error_message)


def _with_epoch(member: ConsumerGroupMember | ShareGroupMember) -> Member:
    return Member(
        member.member_id,
        member.instance_id if isinstance(member, ConsumerGroupMember) else None,
        member.client_id,
        member.client_host,
        member.member_epoch,
        _partitions_of(member.assignment),
    )


def _partitions_of(assignment: MemberAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _streams_groups(broker: Broker, ids: Sequence[str], net: NetOptions) -> dict[str, GroupDescription]:
    """Streams groups; empty if the broker does not describe them (before 4.2)."""
    try:
        request = StreamsGroupDescribeRequest(group_ids=tuple(ids))
        response: StreamsGroupDescribeResponse = ask_coordinator(broker, request, net)
    except UnsupportedVersionError:
        return {}
    _check(response.groups, "StreamsGroupDescribe", broker)
    topics = {
        topic for group in response.groups for item in (group.inputs() or {}).values() for topic in item
    }
    counts = _partition_counts(broker, sorted(topics), net) if topics else {}
    return {group.group_id: _streams(group, counts) for group in response.groups}


def _partition_counts(broker: Broker, topics: Sequence[str], net: NetOptions) -> dict[str, int]:
    """Number of partitions of each topic; 0 for one that was deleted."""
    asked = tuple(MetadataRequestTopic(name=item) for item in topics)
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    response: MetadataResponse = ask_coordinator(broker, request, net)
    for topic in response.topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise broker_error(topic.error_code, f"Metadata of topic {quote(topic.name or '')} on {broker}")
    return {topic.name or "": len(topic.partitions) for topic in response.topics}


def _streams(group: DescribedStreamsGroup, counts: Mapping[str, int]) -> GroupDescription:
    inputs = group.inputs()

    def assignment(member: StreamsGroupMember) -> tuple[TopicPartition, ...] | None:
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

    members = (
        Member(
            item.member_id,
            item.instance_id,
            item.client_id,
            item.client_host,
            item.member_epoch,
            assignment(item),
        )
        for item in group.members
    )
    return GroupDescription(group.group_state, "", tuple(members))


_ASKING: Final = {_CONSUMER: _consumer_groups, _SHARE: _share_groups, _STREAMS: _streams_groups}


def _offsets(
    broker: Broker, ids: Sequence[str], net: NetOptions
) -> dict[str, dict[TopicPartition, OffsetFetchPartitionResponse]]:
    with POOL.lend(broker, net.connection) as client:
        requests = [OffsetFetchRequest.for_group(item, None) for item in ids]
        responses: list[OffsetFetchResponse] = [item.body for item in client.pipeline(requests)]
    return {
        group_id: _read_committed(group_id, response, broker)
        for group_id, response in zip(ids, responses, strict=True)
    }


def _read_committed(
    group_id: str, response: OffsetFetchResponse, broker: Broker
) -> dict[TopicPartition, OffsetFetchPartitionResponse]:
    group, location = response.group_of(group_id), f"OffsetFetch of group {quote(group_id)} on {broker}"
    if group.error_code:
        raise broker_error(group.error_code, location)
    result: dict[TopicPartition, OffsetFetchPartitionResponse] = {}
    for topic in group.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if part.error_code:
                raise broker_error(part.error_code, f"{location}, {tp}")
            if part.committed_offset >= 0:
                result[tp] = part
    return result
