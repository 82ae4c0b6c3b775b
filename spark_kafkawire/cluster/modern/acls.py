"""ACL operations that the user may perform on the cluster, groups and topics, as brokers of Kafka 2.3 to 4.x
report them.

Source: KIP-430.
"""

from __future__ import annotations

import enum

from spark_kafkawire.errors import UnsupportedVersionError, quote
from spark_kafkawire.net.retry import call_with_retries
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.metadata import (
    NOT_ASKED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

from .group_offsets import ask_coordinator, coordinator_of
from .metadata import Metadata


class AclOperation(enum.Enum):
    """An operation, by its number in Kafka's AclOperation."""

    READ = 3
    WRITE = 4
    DESCRIBE = 8


def may_do_to_cluster(metadata: Metadata, operation: AclOperation) -> bool | None:
    """True if the user may perform an operation on the cluster; None if brokers do not report it."""
    request = MetadataRequest(
        topics=(), allow_auto_topic_creation=False, include_cluster_authorized_operations=True
    )
    try:
        response: MetadataResponse = metadata.ask(request)
    except UnsupportedVersionError:
        return None
    return _has(response.cluster_authorized_operations, operation)


def may_do_to_group(
    metadata: Metadata, group_id: str, operation: AclOperation, net: NetOptions
) -> bool | None:
    """True if the user may perform an operation on a group, which need not exist; None if brokers do not
    report it.

    Raises ``BrokerError`` if a broker refuses for another reason, and when the retries are used up that or
    a ``TransportError``.
    """

    def asked() -> bool | None:
        coordinator = coordinator_of(metadata, group_id)
        request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=True)
        response: DescribeGroupsResponse = ask_coordinator(coordinator, request, net)
        [group] = response.groups
        if group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return False
        if group.error_code:
            location = f"DescribeGroups of group {quote(group_id)} on {coordinator}"
            raise broker_error(group.error_code, location)
        return _has(group.authorized_operations, operation)

    return call_with_retries(asked, net.request_retry)


def may_do_to_topic(metadata: Metadata, topic: str, operation: AclOperation) -> bool | None:
    """True if the user may perform an operation on an existing topic; None if brokers do not report it."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    try:
        response: MetadataResponse = metadata.ask(request)
    except UnsupportedVersionError:
        return None
    [result] = response.topics
    if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return False
    return None if result.error_code else _has(result.topic_authorized_operations, operation)


def _has(operations: int, operation: AclOperation) -> bool | None:
    return None if operations == NOT_ASKED else bool(operations & (1 << operation.value))
