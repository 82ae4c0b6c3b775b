"""Which consumer groups a cluster of later Kafka has, who is in them at the moment, and which logs they
have offsets for.

Source: Apache Kafka's ListGroups, DescribeGroups, ConsumerGroupDescribe (KIP-848) and OffsetFetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...errors import UnsupportedVersionError, quoted
from ...model import Broker, TopicPartition
from ...net.retry import Attempts
from ...options import NetOptions
from ...protocol.modern.consumer_group_describe import (
    ConsumerGroupDescribeReply,
    ConsumerGroupDescribeRequest,
)
from ...protocol.modern.describe_groups import DescribedGroup, DescribeGroupsReply, DescribeGroupsRequest
from ...protocol.modern.error_codes import ErrorCode, broker_error
from ...protocol.modern.list_groups import ListGroupsReply, ListGroupsRequest
from ...protocol.modern.offset_fetch import OffsetFetchReply, OffsetFetchRequest
from ..asking import side_by_side
from .group_offsets import ask_coordinator, coordinator_of
from .metadata import Metadata

#: What a broker answers for a group that it does not coordinate itself, and where it coordinates none.
_NOT_ITS_OWN: Final = (
    ErrorCode.NONE,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_VERSION,
)
#: The kinds of groups that have offsets; others coordinate something else, as Kafka Connect's workers.
_OF_CONSUMERS: Final = ("consumer", "")


def list_groups(brokers: Iterable[Broker], net: NetOptions) -> tuple[str, ...]:
    """The ids of all groups of consumers, sorted: each broker knows those that it coordinates.

    Raises as ``group_members`` does.
    """

    def question(broker: Broker) -> list[str]:
        attempts = Attempts(net.retry, patience_s=net.request_timeout_s)
        return attempts.run(lambda: _listed(broker, net))

    found = side_by_side(brokers, question)
    return tuple(sorted({group for groups in found.values() for group in groups}))


def group_members(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[str, ...]:
    """The ids of a group's members, sorted; none where there is no such group.

    Members of Kafka Streams' own groups (KIP-1071) and of share groups (KIP-932) are not told. Raises
    ``BrokerError`` where a broker refuses the group, and when the retries are used up that or a
    ``TransportError``.
    """
    attempts = Attempts(net.retry, patience_s=net.request_timeout_s)
    return tuple(sorted(attempts.run(lambda: _members(metadata, group_id, net))))


def logs_of_group(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[TopicPartition, ...]:
    """The logs that a group may have offsets for, sorted: also those of topics that are gone.

    Brokers before 0.10.2 cannot list them: there it is all logs of the cluster. Raises as
    ``group_members`` does.
    """
    attempts = Attempts(net.retry, patience_s=net.request_timeout_s)
    try:
        return attempts.run(lambda: _logs(metadata, group_id, net))
    except UnsupportedVersionError:
        return tuple(log for topic in metadata.topics() for log in topic.logs)


def _listed(broker: Broker, net: NetOptions) -> list[str]:
    reply: ListGroupsReply = ask_coordinator(broker, ListGroupsRequest(), net)
    if reply.error_code:
        raise broker_error(reply.error_code, f"ListGroups on {broker}")
    return [group.group_id for group in reply.groups if group.protocol_type in _OF_CONSUMERS]


def _members(metadata: Metadata, group_id: str, net: NetOptions) -> list[str]:
    """Those that clients elect a leader of, else those that the broker leads."""
    coordinator = coordinator_of(metadata, group_id)
    elected = _described(coordinator, group_id, net).members
    return [member.member_id for member in elected] or _led_members(coordinator, group_id, net)


def _described(coordinator: Broker, group_id: str, net: NetOptions) -> DescribedGroup:
    place = f"DescribeGroups of group {quoted(group_id)} on {coordinator}"
    reply: DescribeGroupsReply = ask_coordinator(coordinator, DescribeGroupsRequest(groups=(group_id,)), net)
    [group] = reply.groups
    if group.error_code:
        raise broker_error(group.error_code, place)
    return group


def _led_members(coordinator: Broker, group_id: str, net: NetOptions) -> list[str]:
    place = f"ConsumerGroupDescribe of group {quoted(group_id)} on {coordinator}"
    request = ConsumerGroupDescribeRequest(group_ids=(group_id,))
    try:
        reply: ConsumerGroupDescribeReply = ask_coordinator(coordinator, request, net)
    except UnsupportedVersionError:
        return []
    [group] = reply.groups
    if group.error_code not in _NOT_ITS_OWN:
        raise broker_error(group.error_code, place, group.error_message)
    return [member.member_id for member in group.members]


def _logs(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[TopicPartition, ...]:
    coordinator = coordinator_of(metadata, group_id)
    reply: OffsetFetchReply = ask_coordinator(coordinator, OffsetFetchRequest.for_group(group_id, None), net)
    group = reply.group_of(group_id)
    if group.error_code:
        raise broker_error(group.error_code, f"OffsetFetch of group {quoted(group_id)} on {coordinator}")
    logs = {
        TopicPartition(topic.name, partition.partition_index)
        for topic in group.topics
        for partition in topic.partitions
    }
    return tuple(sorted(logs))
