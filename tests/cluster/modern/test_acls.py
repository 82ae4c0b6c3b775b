"""Numbers of ACL operations, as Kafka's own tools write them, and the questions that send them."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation as TheirOperation  # type: ignore[attr-defined]

from spark_kafkawire.cluster.modern.acls import (
    AclOperation,
    may_do_to_cluster,
    may_do_to_group,
    may_do_to_topic,
)
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol.modern import describe_groups, metadata
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog

#: Apache Kafka's AclOperation.java.
NUMBERS = {"READ": 3, "WRITE": 4, "DESCRIBE": 8}


def test_operations_have_the_numbers_of_kafka() -> None:
    assert {each.name: each.value for each in AclOperation} == NUMBERS
    assert {name: TheirOperation[name].value for name in NUMBERS} == NUMBERS


@pytest.mark.parametrize("operation", AclOperation)
@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_operation_is_the_bit_of_its_number(operation: AclOperation, is_allowed: bool) -> None:
    bit = 1 << NUMBERS[operation.name]
    bits = bit if is_allowed else 0x7FFFFFFF ^ bit

    def described(request: describe_groups.DescribeGroupsRequest) -> describe_groups.DescribeGroupsResponse:
        group = describe_groups.DescribedGroup(
            error_code=0,
            group_id=request.groups[0],
            group_state="Empty",
            protocol_type="",
            protocol_data="",
            members=(),
            authorized_operations=bits,
        )
        return describe_groups.DescribeGroupsResponse(groups=(group,))

    with LogServer({"t": [MemoryLog()]}) as server:
        honest = server.broker

        def reported(request: metadata.MetadataRequest) -> metadata.MetadataResponse:
            node = metadata.MetadataBroker(node_id=0, host="127.0.0.1", port=server.port)
            topics = tuple(
                metadata.MetadataTopic(
                    error_code=0, name=each.name, partitions=(), topic_authorized_operations=bits
                )
                for each in request.topics or ()
            )
            return metadata.MetadataResponse(
                brokers=(node,), topics=topics, cluster_authorized_operations=bits
            )

        honest.answer_with(metadata.MetadataRequest, reported)
        honest.answer_with(describe_groups.DescribeGroupsRequest, described)
        options = ReadOptions.parse({"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": "t"})
        asked = Metadata(options.discovery.bootstrap_servers, options.net)
        assert may_do_to_cluster(asked, operation) is is_allowed
        assert may_do_to_topic(asked, "t", operation) is is_allowed
        assert may_do_to_group(asked, "g", operation, options.net) is is_allowed
