"""Times of the records of partitions, and their leaders at the moment: the requests of a report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_kafkawire.cluster.modern.cluster import ModernCluster
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.v07 import cluster as cluster_07
from spark_kafkawire.errors import BrokerError, UnknownTopicError
from spark_kafkawire.model import Broker, Leader, RecordTimes, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import Discovery, NetOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.limits import READ_UNCOMMITTED
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.mock_cluster import LIST_OFFSETS, NO_LEADER, MockCluster
from tests.support.noida import NoidaBroker
from tests.support.settings import net_07, net_modern

NET = net_modern(timeout_s=10.0, backoff_s=0.01)
TIMES_MS = (1_700_000_005_000, 1_700_000_009_000, 1_700_000_001_000)


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    POOL.close_idle()


def cluster_of(bootstrap_servers: str, net: NetOptions = NET) -> ModernCluster:
    addresses = [address.rsplit(":", 1) for address in bootstrap_servers.split(",")]
    servers = [Broker(-place, host, int(port)) for place, (host, port) in enumerate(addresses, 1)]
    return ModernCluster(Metadata(servers, net), net, READ_UNCOMMITTED)


@pytest.fixture
def partitions(noida: NoidaBroker) -> list[TopicPartition]:
    """A partition of three records, the second of which is the youngest, and an empty one."""
    topic = noida.create_topic(partitions=2)
    records = [Record(b"v", partition=0, timestamp_ms=time_ms) for time_ms in TIMES_MS]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    return [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def test_the_first_and_the_youngest_record_have_times(
    noida: NoidaBroker, partitions: list[TopicPartition]
) -> None:
    found = cluster_of(noida.bootstrap_servers).record_times(partitions)
    assert found == {partitions[0]: RecordTimes(TIMES_MS[0], TIMES_MS[1]), partitions[1]: RecordTimes()}


def test_a_broker_older_than_3_0_does_not_tell_the_youngest(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    partition = TopicPartition("t", 0)
    mock_cluster.set_api_versions(LIST_OFFSETS, 1, 6)
    mock_cluster.start_request_tracking()
    found = cluster_of(mock_cluster.bootstrap_servers).record_times([partition])
    assert found[partition].max_ms is None
    asked = [request for request in mock_cluster.requests() if request.api_key == LIST_OFFSETS]
    assert len(asked) == 1


def test_a_broker_older_than_0_10_1_tells_no_times(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    partition = TopicPartition("t", 0)
    mock_cluster.set_api_versions(LIST_OFFSETS, 0, 0)
    assert cluster_of(mock_cluster.bootstrap_servers).record_times([partition]) == {partition: RecordTimes()}


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION])
def test_a_partition_whose_records_have_no_times_is_no_failure(
    mock_cluster: MockCluster, code: ErrorCode
) -> None:
    mock_cluster.create_topic("t")
    partition = TopicPartition("t", 0)
    mock_cluster.push_request_errors(LIST_OFFSETS, code, code)
    assert cluster_of(mock_cluster.bootstrap_servers).record_times([partition]) == {partition: RecordTimes()}


def test_another_refusal_is_a_failure(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="not authorized for this operation on the topic"):
        cluster_of(mock_cluster.bootstrap_servers).record_times([TopicPartition("t", 0)])


def test_a_partition_without_leader_is_left_out_at_once(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_leader("t", 0, 2)
    mock_cluster.set_leader("t", 1, NO_LEADER)
    cluster = cluster_of(mock_cluster.bootstrap_servers)
    partitions = cluster.partitions_of(["t"])
    leaders = cluster.known_leaders(partitions)
    assert [(tp, leader.broker.id) for tp, leader in leaders.items()] == [(partitions[0], 2)]


def test_a_topic_that_was_not_asked_for_has_no_known_leader(mock_cluster: MockCluster) -> None:
    assert cluster_of(mock_cluster.bootstrap_servers).known_leaders([TopicPartition("t", 0)]) == {}


def test_brokers_are_those_that_metadata_names(mock_cluster: MockCluster) -> None:
    cluster = cluster_of(mock_cluster.bootstrap_servers)
    assert [broker.id for broker in cluster.brokers()] == [1, 2, 3]
    with pytest.raises(UnknownTopicError):
        cluster.partitions_of(["t"])
    assert [broker.id for broker in cluster.brokers()] == [1, 2, 3]


def test_brokers_of_07_tell_no_times() -> None:
    broker, partition, gone = Broker(0, "h", 1), TopicPartition("t", 0, 0), TopicPartition("t", 0, 7)
    cluster = cluster_07.V07Cluster(Discovery(broker_list=(broker,)), net_07())
    assert cluster.brokers() == (broker,)
    assert cluster.known_leaders([partition, gone]) == {partition: Leader(broker)}
    assert cluster.record_times([partition]) == {partition: RecordTimes()}
