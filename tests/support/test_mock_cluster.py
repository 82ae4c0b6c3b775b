"""Tests of the helper: librdkafka's clients see the faults that its mock cluster is set to show."""

from __future__ import annotations

from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.support import librdkafka
from tests.support import mock_cluster as mock
from tests.support.foreign import Record, values
from tests.support.mock_cluster import MockCluster, TrackedRequest

NOT_LEADER: Final = KafkaError.NOT_LEADER_FOR_PARTITION
RECORDS: Final = [Record(b"%d" % number) for number in range(100)]
QUICK: Final[dict[str, Any]] = {
    "retry_backoff_ms": 1,
    "reconnect_backoff_ms": 1,
    "topic_metadata_refresh_fast_interval_ms": 10,
}


def test_records_go_in_and_come_out(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=3)
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS, "lz4")
    assert len(mock_cluster.bootstrap_servers.split(",")) == 3
    assert values(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == values(RECORDS)


def test_pushed_errors_are_answered_one_request_each(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.start_request_tracking()
    mock_cluster.push_request_errors(mock.PRODUCE, NOT_LEADER, 0, mock.DISCONNECT)
    for _ in range(2):
        librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS[:1], **QUICK)
    asked = [request.api_key for request in mock_cluster.requests()]
    assert asked.count(mock.PRODUCE) == 4
    assert len(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == 2


def test_an_error_without_retry_reaches_the_client(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(mock.PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS)


def test_errors_of_one_broker_are_its_own(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_leader("t", 0, 1)
    mock_cluster.set_leader("t", 1, 2)
    mock_cluster.push_broker_errors(1, mock.PRODUCE, (KafkaError.TOPIC_AUTHORIZATION_FAILED, 1))
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", [Record(b"", partition=1)])
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        librdkafka.produce(mock_cluster.bootstrap_servers, "t", [Record(b"", partition=0)])


def test_a_moved_leader_is_followed(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    servers = mock_cluster.bootstrap_servers
    for broker_id in (1, 2, 3):
        mock_cluster.set_leader("t", 0, broker_id)
        mock_cluster.start_request_tracking()
        librdkafka.produce(servers, "t", RECORDS)
        assert TrackedRequest(broker_id, mock.PRODUCE) in mock_cluster.requests()
        mock_cluster.clear_requests()
    assert len(librdkafka.consume(servers, "t")) == 3 * len(RECORDS)


def test_the_first_leader_named_may_be_a_lie(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 1)
    # librdkafka asks more than once before it sends anything.
    for _ in range(4):
        mock_cluster.push_leader_response("t", 0, 2, 0)
    mock_cluster.start_request_tracking()
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS, **QUICK)
    assert TrackedRequest(2, mock.PRODUCE) in mock_cluster.requests()
    assert TrackedRequest(1, mock.PRODUCE) in mock_cluster.requests()


def test_a_broker_that_is_down_accepts_nothing_until_it_is_up(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 2)
    mock_cluster.set_broker_down(2)
    with pytest.raises(KafkaException, match="MSG_TIMED_OUT"):
        librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS, message_timeout_ms=300, **QUICK)
    mock_cluster.set_broker_up(2)
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS)


def test_a_slow_broker_is_too_slow_for_a_short_deadline(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_broker_rtt(mock.ALL_BROKERS, 1000)
    with pytest.raises(KafkaException, match="TIMED_OUT"):
        librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS, message_timeout_ms=300)


def test_deleted_records_are_out_of_range(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    # A partition is deleted by whole batches: one each.
    for record in RECORDS[:5]:
        librdkafka.produce(mock_cluster.bootstrap_servers, "t", [record])
    mock_cluster.delete_records("t", 0, 2)
    servers = mock_cluster.bootstrap_servers
    assert librdkafka.offsets(servers, "t") == (2, 5)
    with pytest.raises(KafkaException, match="Offset out of range"):
        librdkafka.consume(servers, "t", start_offset=0)


def test_an_api_may_be_served_in_old_versions_only(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_api_versions(mock.FETCH, 0, 4)
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", RECORDS)
    assert len(librdkafka.consume(mock_cluster.bootstrap_servers, "t")) == len(RECORDS)


def test_what_no_cluster_can_do_is_an_error_of_the_test(mock_cluster: MockCluster) -> None:
    with pytest.raises(AssertionError, match="broker_set_down"):
        mock_cluster.set_broker_down(77)
