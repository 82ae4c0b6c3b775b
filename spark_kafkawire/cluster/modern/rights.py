"""What the user may do to a group and to a topic, as far as brokers tell: from Kafka 2.3 on (KIP-430)."""

from __future__ import annotations

import enum

from ...errors import UnsupportedVersionError, quoted
from ...net.retry import Attempts
from ...options import NetOptions
from ...protocol.modern.describe_groups import DescribeGroupsReply, DescribeGroupsRequest
from ...protocol.modern.error_codes import ErrorCode, broker_error
from ...protocol.modern.metadata import NOT_ASKED, MetadataReply, MetadataRequest, MetadataRequestTopic
from .group_offsets import ask_coordinator, coordinator_of
from .metadata import Metadata


class Right(enum.Enum):
    """An operation, by its number in Kafka's AclOperation."""

    READ = 3
    WRITE = 4


def may_do_to_group(metadata: Metadata, group_id: str, right: Right, net: NetOptions) -> bool | None:
    """Whether the user has a right on a group, which need not be there; None where brokers do not tell.

    Raises ``BrokerError`` where a broker refuses for another reason, and when the retries are used up that or
    a ``TransportError``.
    """

    def asked() -> bool | None:
        coordinator = coordinator_of(metadata, group_id)
        request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=True)
        reply: DescribeGroupsReply = ask_coordinator(coordinator, request, net)
        [group] = reply.groups
        if group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return False
        if group.error_code:
            place = f"DescribeGroups of group {quoted(group_id)} on {coordinator}"
            raise broker_error(group.error_code, place)
        return _has(group.authorized_operations, right)

    return Attempts(net.retry, patience_s=net.request_timeout_s).run(asked)


def may_do_to_topic(metadata: Metadata, topic: str, right: Right) -> bool | None:
    """The same of a topic that is there."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    try:
        reply: MetadataReply = metadata.ask(request)
    except UnsupportedVersionError:
        return None
    [found] = reply.topics
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return False
    return None if found.error_code else _has(found.topic_authorized_operations, right)


def _has(operations: int, right: Right) -> bool | None:
    return None if operations == NOT_ASKED else bool(operations & (1 << right.value))
