"""Who is in a consumer group of later Kafka at the moment, and which logs it has offsets for.

Source: Apache Kafka's DescribeGroups and OffsetFetch.
"""

from __future__ import annotations

from ..errors import ProtocolError, UnsupportedVersionError
from ..model import TopicPartition
from ..net.retry import Attempts
from ..options import NetOptions
from ..protocol.modern.describe_groups import DescribedGroup, DescribeGroupsReply, DescribeGroupsRequest
from ..protocol.modern.error_codes import broker_error
from ..protocol.modern.group_offsets import OffsetFetchReply, OffsetFetchRequest
from .groups import ask_coordinator, coordinator_of
from .metadata import Metadata


def group_members(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[str, ...]:
    """The ids of a group's members, sorted; none where there is no such group.

    Raises ``BrokerError`` where a broker refuses the group, and when the retries are used up that or
    a ``TransportError``.
    """
    attempts = Attempts(net.retry, patience_s=net.request_timeout_s)
    group = attempts.run(lambda: _described(metadata, group_id, net))
    return tuple(sorted(member.member_id for member in group.members))


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


def _described(metadata: Metadata, group_id: str, net: NetOptions) -> DescribedGroup:
    coordinator = coordinator_of(metadata, group_id)
    place = f"DescribeGroups of group {group_id!r} on {coordinator}"
    reply: DescribeGroupsReply = ask_coordinator(coordinator, DescribeGroupsRequest(groups=(group_id,)), net)
    for group in reply.groups:
        if group.group_id == group_id:
            if group.error_code:
                raise broker_error(group.error_code, place)
            return group
    raise ProtocolError(f"{place}: the answer does not mention it")


def _logs(metadata: Metadata, group_id: str, net: NetOptions) -> tuple[TopicPartition, ...]:
    coordinator = coordinator_of(metadata, group_id)
    reply: OffsetFetchReply = ask_coordinator(coordinator, OffsetFetchRequest.for_group(group_id, None), net)
    group = reply.group_of(group_id)
    if group.error_code:
        raise broker_error(group.error_code, f"OffsetFetch of group {group_id!r} on {coordinator}")
    logs = {
        TopicPartition(topic.name, partition.partition_index)
        for topic in group.topics
        for partition in topic.partitions
    }
    return tuple(sorted(logs))
