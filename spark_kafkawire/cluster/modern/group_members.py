"""Consumer groups of modern Kafka (0.8 to 4.x): their names, members, and partitions with committed offsets.

Source: Apache Kafka's ListGroups, DescribeGroups, ConsumerGroupDescribe (KIP-848) and OffsetFetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spark_kafkawire.errors import UnsupportedVersionError, quoted
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from spark_kafkawire.protocol.modern.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

from .described_groups import OF_CONSUMERS, coordinated_groups
from .group_offsets import ask_coordinator, coordinator_of
from .metadata import Metadata

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
    groups = coordinated_groups(brokers, net)
    return tuple(sorted({group.id for group in groups if group.listed.protocol_type in OF_CONSUMERS}))


def group_members(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[str, ...]:
    """Ids of the members of a group, sorted; empty if there is no such group.

    Members of streams groups (KIP-1071) and of share groups (KIP-932) are not included. Raises
    ``BrokerError`` if a broker refuses the group, and when the retries are used up that or a
    ``TransportError``.
    """
    return tuple(sorted(retried(lambda: _members(metadata, group_id, net), net.request_retry)))


def partitions_of_group(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[TopicPartition, ...]:
    """Partitions for which a group may have offsets, sorted, also those of deleted topics.

    Brokers before 0.10.2 cannot list them: then the result has all partitions of the cluster. Raises as
    ``group_members`` does.
    """
    try:
        return retried(lambda: _partitions(metadata, group_id, net), net.request_retry)
    except UnsupportedVersionError:
        return tuple(tp for topic in metadata.topics() for tp in topic.partitions)


def _members(metadata: Metadata, group_id: str, net: NetOptions) -> list[str]:
    """Members of a classic group, or else of a group that the broker assigns (KIP-848)."""
    coordinator = coordinator_of(metadata, group_id)
    classic = _described(coordinator, group_id, net).members
    return [member.member_id for member in classic] or _assigned_members(coordinator, group_id, net)


def _described(coordinator: Broker, group_id: str, net: NetOptions) -> DescribedGroup:
    place = f"DescribeGroups of group {quoted(group_id)} on {coordinator}"
    response: DescribeGroupsResponse = ask_coordinator(
        coordinator, DescribeGroupsRequest(groups=(group_id,)), net
    )
    [group] = response.groups
    if group.error_code:
        raise broker_error(group.error_code, place)
    return group


def _assigned_members(coordinator: Broker, group_id: str, net: NetOptions) -> list[str]:
    place = f"ConsumerGroupDescribe of group {quoted(group_id)} on {coordinator}"
    request = ConsumerGroupDescribeRequest(group_ids=(group_id,))
    try:
        response: ConsumerGroupDescribeResponse = ask_coordinator(coordinator, request, net)
    except UnsupportedVersionError:
        return []
    [group] = response.groups
    if group.error_code not in _NOT_ITS_OWN:
        raise broker_error(group.error_code, place, group.error_message)
    return [member.member_id for member in group.members]


def _partitions(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[TopicPartition, ...]:
    coordinator = coordinator_of(metadata, group_id)
    response: OffsetFetchResponse = ask_coordinator(
        coordinator, OffsetFetchRequest.for_group(group_id, None), net
    )
    group = response.group_of(group_id)
    if group.error_code:
        raise broker_error(group.error_code, f"OffsetFetch of group {quoted(group_id)} on {coordinator}")
    partitions = {
        TopicPartition(topic.name, partition.partition_index)
        for topic in group.topics
        for partition in topic.partitions
    }
    return tuple(sorted(partitions))
