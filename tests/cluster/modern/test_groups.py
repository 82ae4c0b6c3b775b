"""Groups, transactions and times of records in a cluster."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.group_commits import WARN_AGAIN_S, GroupCommits, commits_of
from spark_kafkawire.cluster.modern.group_offsets import committed_texts
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction, Transactions
from spark_kafkawire.cluster.v07 import cluster as cluster_07
from spark_kafkawire.errors import (
    BrokerError,
    OptionError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from spark_kafkawire.model import Broker, Leader, RecordTimes, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import Discovery, StreamOptions, WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.transactions import (
    ONGOING,
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
)
from tests.cluster.modern.clusters import (
    COORDINATOR_LOADING,
    GROUP_REFUSED,
    NOT_COORDINATOR,
    cluster_of,
)
from tests.support import librdkafka
from tests.support.fake_cluster import FakeCluster
from tests.support.foreign import Record
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import (
    DISCONNECT,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    NO_LEADER,
    OFFSET_FETCH,
    MockCluster,
)
from tests.support.noida import NoidaBroker
from tests.support.polling import DEADLINE_S, poll
from tests.support.settings import net_07

ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 22, 25, 27
OFFSET_COMMIT = 8
PARTITION = TopicPartition("t", 0)


def commits_to(connection: dict[str, str], group: str) -> GroupCommits:
    options = {**connection, "subscribe": "t", "kafka.group.id": group, "requestTimeout": "2s"}
    return commits_of(StreamOptions.parse(options).read)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def mock(mock_cluster: MockCluster) -> MockCluster:
    """Three brokers that hold t."""
    mock_cluster.create_topic("t", partitions=1)
    return mock_cluster


def test_a_group_has_the_newest_offsets(noida: NoidaBroker, caplog: pytest.LogCaptureFixture) -> None:
    topic = noida.create_topic(partitions=2)
    commits = commits_to({"kafka.bootstrap.servers": noida.bootstrap_servers}, f"group-of-{topic}")
    for offset in range(1, 101):
        commits.commit({TopicPartition(topic, 0): offset, TopicPartition(topic, 1): 2 * offset})
    assert commits.settle(DEADLINE_S)
    for partition, offset in ((0, 100), (1, 200)):
        result = librdkafka.committed_offset(noida.bootstrap_servers, f"group-of-{topic}", topic, partition)
        assert result == offset
    assert warnings(caplog) == []


def test_put_back_and_report_a_group_that_is_further_on(
    noida: NoidaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = noida.create_topic()
    group, partition = f"group-of-{topic}", TopicPartition(topic, 0)
    librdkafka.commit_offsets(noida.bootstrap_servers, group, topic, {0: 9})
    commits = commits_to({"kafka.bootstrap.servers": noida.bootstrap_servers}, group)
    commits.commit({partition: 4})
    assert commits.settle(DEADLINE_S)
    assert librdkafka.committed_offset(noida.bootstrap_servers, group, topic) == 4
    [reported] = warnings(caplog)
    assert reported.startswith(f"group '{group}': the committed offset 9 of {topic} 0 is set back to 4, the")


@pytest.mark.parametrize(
    ("api_key", "error", "reported"),
    [
        (OFFSET_COMMIT, GROUP_REFUSED, "OffsetCommit of group 'g' on .* the user is not authorized"),
        (OFFSET_FETCH, GROUP_REFUSED, "OffsetFetch of group 'g' on .* the user is not authorized"),
        (OFFSET_COMMIT, UNKNOWN_MEMBER_ID, "OffsetCommit of group 'g' on .*: the group has members, .* stop"),
    ],
)
def test_report_a_refused_commit_and_repeat_it_with_the_next_one(
    mock: MockCluster, caplog: pytest.LogCaptureFixture, api_key: int, error: int, reported: str
) -> None:
    caplog.set_level(logging.INFO, "spark_kafkawire")
    mock.push_request_errors(api_key, error)
    commits = commits_to({"kafka.bootstrap.servers": mock.bootstrap_servers}, "g")
    commits.commit({PARTITION: 1})
    assert not commits.settle(DEADLINE_S)
    [warning] = warnings(caplog)
    assert warning.startswith("group 'g': offsets are not committed: ")
    assert re.search(reported, warning)
    assert warning.endswith("; the query continues, and its next batch tries again")
    commits.retry()
    assert commits.settle(DEADLINE_S)
    assert librdkafka.committed_offset(mock.bootstrap_servers, "g", "t") == 1
    assert caplog.records[-1].getMessage() == "group 'g': commits succeed again"


def test_report_a_lasting_failure_once_a_minute(mock: MockCluster, caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    commits = GroupCommits(cluster_of(mock.bootstrap_servers).groups, "g", clock=lambda: now_s)
    for warning_count, now_s in ((1, 0.0), (1, WARN_AGAIN_S - 1), (2, WARN_AGAIN_S)):
        mock.push_request_errors(OFFSET_COMMIT, GROUP_REFUSED)
        commits.commit({PARTITION: int(now_s)})
        assert not commits.settle(DEADLINE_S)
        assert len(warnings(caplog)) == warning_count


@pytest.mark.slow
def test_give_up_a_silent_coordinator_without_a_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with NoidaBroker() as broker:
        topic = broker.create_topic()
        commits = commits_to({"kafka.bootstrap.servers": broker.bootstrap_servers, "retries": "0"}, "g")
        broker.pause()
        try:
            for offset in range(3):
                commits.commit({TopicPartition(topic, 0): offset})  # each returns at once
            assert not commits.settle(0.0)
            assert not commits.settle(DEADLINE_S)
            assert "offsets are not committed" in warnings(caplog)[-1]
        finally:
            broker.resume()
        commits.retry()
        assert commits.settle(DEADLINE_S)
        assert librdkafka.committed_offset(broker.bootstrap_servers, "g", topic) == 2


def test_groups_of_07_follow_in_zookeeper(
    corpus: EmbeddedCluster, corpus_zookeeper: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    partition, node = TopicPartition("debian-plain", 1, 0), "/consumers/follower/offsets/debian-plain/0-1"
    commits = commits_to({"zookeeper.connect": corpus.zookeeper_connect}, "follower")
    commits.commit({partition: 12_345})
    assert commits.settle(DEADLINE_S)
    assert corpus_zookeeper.get(node)[0] == b"12345"
    corpus_zookeeper.create("/consumers/follower/ids/follower_host-1", makepath=True, ephemeral=True)
    commits.commit({partition: 20_000})
    assert not commits.settle(DEADLINE_S)
    assert corpus_zookeeper.get(node)[0] == b"12345"
    [reported] = warnings(caplog)
    assert (
        "group 'follower' has live consumers (follower_host-1), which commit offsets themselves; stop them"
        in reported
    )


def test_a_consumer_is_a_member_of_its_group_while_it_lives(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    cluster, group = cluster_of(noida.bootstrap_servers), f"group-of-{topic}"
    assert cluster.groups.members(group) == ()
    with librdkafka.member(noida.bootstrap_servers, group, topic, client_id="alive"):
        [member] = cluster.groups.members(group)
    assert member.startswith("alive")
    poll(lambda: not cluster.groups.members(group), "the consumer has left")


def test_a_group_is_listed_with_all_partitions_that_it_has_offsets_for(noida: NoidaBroker) -> None:
    first, second = (noida.create_topic(partitions=3) for _ in range(2))
    group = f"group-of-{first}"
    librdkafka.commit_offsets(noida.bootstrap_servers, group, first, {0: 5, 2: 7})
    librdkafka.commit_offsets(noida.bootstrap_servers, group, second, {1: 9})
    expected = [TopicPartition(first, 0), TopicPartition(first, 2), TopicPartition(second, 1)]
    groups = cluster_of(noida.bootstrap_servers).groups
    assert groups.partitions(group) == tuple(sorted(expected))
    assert group in groups.names()


def test_a_broker_that_cannot_list_a_groups_logs_has_all_of_them_asked(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_api_versions(OFFSET_FETCH, 1, 1)
    result = cluster_of(mock_cluster.bootstrap_servers).groups.partitions("g")
    assert result == (TopicPartition("t", 0), TopicPartition("t", 1))


def test_a_broker_that_tells_no_members_is_an_error(mock_cluster: MockCluster) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"does not offer DescribeGroups"):
        cluster_of(mock_cluster.bootstrap_servers).groups.members("g")


def test_another_client_reads_what_was_committed(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=3)
    partitions = [TopicPartition(topic, partition) for partition in range(3)]
    cluster = cluster_of(noida.bootstrap_servers)
    cluster.groups.commit(f"group-of-{topic}", {partitions[0]: 5, partitions[2]: 1 << 40})
    assert librdkafka.committed_offset(noida.bootstrap_servers, f"group-of-{topic}", topic, 2) == 1 << 40
    result = cluster.groups.offsets(f"group-of-{topic}", partitions)
    assert result == {partitions[0]: 5, partitions[1]: None, partitions[2]: 1 << 40}


def test_nothing_is_asked_where_there_is_nothing_to_commit() -> None:
    cluster_of("127.0.0.1:1").groups.commit("g", {})


@pytest.mark.parametrize(
    ("api_key", "error"),
    [
        (FIND_COORDINATOR, DISCONNECT),
        *((OFFSET_COMMIT, error) for error in (COORDINATOR_LOADING, NOT_COORDINATOR, DISCONNECT)),
        *((OFFSET_FETCH, error) for error in (COORDINATOR_LOADING, NOT_COORDINATOR, DISCONNECT)),
    ],
)
def test_a_coordinator_that_starts_or_moves_is_waited_for(
    api_key: int, error: int, mock: MockCluster
) -> None:
    mock.set_coordinator("group", "g", 3)
    mock.push_request_errors(api_key, error, error)
    cluster = cluster_of(mock.bootstrap_servers, group_id="g")
    cluster.groups.commit("g", {PARTITION: 1})
    assert cluster.committed_offsets([PARTITION]) == {PARTITION: 1}


@pytest.mark.parametrize("error", [ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS])
def test_a_group_with_members_is_left_alone(error: int, mock: MockCluster) -> None:
    mock.push_request_errors(OFFSET_COMMIT, error)
    with pytest.raises(OptionError, match=r"^OffsetCommit of group 'g' on broker .* the group has members"):
        cluster_of(mock.bootstrap_servers).groups.commit("g", {PARTITION: 1})


@pytest.fixture
def options(noida: NoidaBroker) -> WriteOptions:
    return WriteOptions.parse({"kafka.bootstrap.servers": noida.bootstrap_servers})


@pytest.fixture
def metadata(options: WriteOptions) -> Metadata:
    return Metadata(options.discovery.bootstrap_servers, options.net)


@pytest.fixture
def transactions(metadata: Metadata, options: WriteOptions) -> Transactions:
    return Transactions(metadata, options.net)


def state_of(transactions: Transactions, transaction: Transaction) -> Any:
    return transactions.describe(transaction.id).transaction_state


@pytest.mark.parametrize("committed", [True, False])
def test_an_offset_counts_where_its_transaction_is_committed(
    noida: NoidaBroker, transactions: Transactions, metadata: Metadata, options: WriteOptions, committed: bool
) -> None:
    partition = TopicPartition(noida.create_topic(), 0)
    name = f"offset-{partition.topic}"
    begun = transactions.begin(name, 60_000)
    assert (begun.id, begun.version) == (name, 1)
    transactions.add_partitions(begun, [partition])
    transactions.commit_offsets(begun, name, {partition: (7, "what it is about")})
    assert state_of(transactions, begun) == ONGOING
    assert name in {item.transactional_id for item in transactions.listed((ONGOING,))}
    assert committed_texts(metadata, name, options.net, stable_in=None) == ()
    for _ in range(2):  # again says the same
        transactions.end(begun, committed=committed)
    expected = ((7, "what it is about", partition.topic),) if committed else ()
    assert committed_texts(metadata, name, options.net, stable_in=[partition]) == expected
    assert name not in {item.transactional_id for item in transactions.listed((ONGOING,))}


def test_a_new_producer_of_an_id_fences_the_one_before(
    noida: NoidaBroker, transactions: Transactions
) -> None:
    partition = TopicPartition(noida.create_topic(), 0)
    name = f"fenced-{partition.topic}"
    first = transactions.begin(name, 60_000)
    transactions.add_partitions(first, [partition])
    second = transactions.begin(name, 60_000)
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)
    for attempt in (
        lambda: transactions.add_partitions(first, [partition]),
        lambda: transactions.commit_offsets(first, name, {partition: (1, "")}),
        lambda: transactions.end(first, committed=True),
    ):
        with pytest.raises(BrokerError) as error:
            attempt()
        assert error.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert f"'{name}'" in str(error.value)


def test_a_timeout_above_the_brokers_own_is_refused(transactions: Transactions) -> None:
    with pytest.raises(BrokerError) as error:
        transactions.begin("timeout", 2_000_000_000)
    assert error.value.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


#: Longest wait for the questions to the other brokers, seconds.
_TOGETHER_S = 60.0
BROKERS = 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_list_by", "_states_of"])
def test_all_brokers_are_asked_at_the_same_time(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    asked = threading.Barrier(BROKERS)
    send = getattr(Transactions, name)

    def send_with_the_others(*arguments: Any) -> Any:
        asked.wait(_TOGETHER_S)
        return send(*arguments)

    with FakeCluster(partitions=1, brokers=BROKERS) as cluster:
        options = WriteOptions.parse({"kafka.bootstrap.servers": cluster.bootstrap})
        metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        transactions = Transactions(metadata, options.net)
        ids = [f"x-{number}-7.0.{number}" for number in range(2_500)]
        monkeypatch.setattr(Transactions, name, send_with_the_others)
        if name == "_list_by":
            assert transactions.listed() == []
            assert cluster.requests()["ListTransactions"] == BROKERS
            assert metadata._last_response is not None
            assert not metadata._last_response.topics
        else:
            assert sorted(transactions.described(ids)) == sorted(ids)


def test_ids_that_have_another_coordinator_by_now_are_looked_up() -> None:
    asked: list[tuple[str, ...]] = []
    codes = {
        "here": [ErrorCode.NONE],
        "moved": [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE],
        "removed": [ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND],
        "gone": [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND],
    }

    def described(request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        asked.append(request.transactional_ids)
        states = (
            DescribedTransaction(
                error_code=codes[item].pop(0),
                transactional_id=item,
                transaction_state=ONGOING,
                transaction_timeout_ms=1,
                transaction_start_time_ms=1,
                producer_id=1,
                producer_epoch=0,
                topics=(),
            )
            for item in request.transactional_ids
        )
        return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=tuple(states))

    with LogServer({"t": [MemoryLog()]}) as server:
        server.broker.answer_with(DescribeTransactionsRequest, described)
        options = WriteOptions.parse({"kafka.bootstrap.servers": server.bootstrap_servers})
        metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        listed = [
            ListedTransaction(transactional_id=item, producer_id=1, transaction_state=ONGOING)
            for item in codes
        ]
        [broker] = metadata.known_brokers()
        result = Transactions(metadata, options.net).describe_listed({broker: listed})
    assert sorted(result) == ["here", "moved"]
    assert asked == [tuple(codes), ("moved",), ("removed",)]


TIMES_MS = (1_700_000_005_000, 1_700_000_009_000, 1_700_000_001_000)


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    POOL.close_idle()


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
    result = cluster_of(noida.bootstrap_servers).record_times(partitions)
    assert result == {partitions[0]: RecordTimes(TIMES_MS[0], TIMES_MS[1]), partitions[1]: RecordTimes()}


def test_a_broker_older_than_3_0_does_not_tell_the_youngest(mock: MockCluster) -> None:
    mock.set_api_versions(LIST_OFFSETS, 1, 6)
    mock.start_request_tracking()
    result = cluster_of(mock.bootstrap_servers).record_times([PARTITION])
    assert result[PARTITION].max_ms is None
    assert [request.api_key for request in mock.requests()].count(LIST_OFFSETS) == 1


def test_a_broker_older_than_0_10_1_tells_no_times(mock: MockCluster) -> None:
    mock.set_api_versions(LIST_OFFSETS, 0, 0)
    assert cluster_of(mock.bootstrap_servers).record_times([PARTITION]) == {PARTITION: RecordTimes()}


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION])
def test_a_partition_whose_records_have_no_times_is_no_failure(mock: MockCluster, code: ErrorCode) -> None:
    mock.push_request_errors(LIST_OFFSETS, code, code)
    assert cluster_of(mock.bootstrap_servers).record_times([PARTITION]) == {PARTITION: RecordTimes()}


def test_another_refusal_is_a_failure(mock: MockCluster) -> None:
    mock.push_request_errors(LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="not authorized for this operation on the topic"):
        cluster_of(mock.bootstrap_servers).record_times([PARTITION])


def test_a_partition_without_leader_is_left_out_at_once(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_leader("t", 0, 2)
    mock_cluster.set_leader("t", 1, NO_LEADER)
    cluster = cluster_of(mock_cluster.bootstrap_servers)
    # A topic that was not asked for has no known leader.
    assert cluster.known_leaders([PARTITION]) == {}
    partitions = cluster.partitions_of(["t"])
    leaders = cluster.known_leaders(partitions)
    assert [(tp, leader.broker.id) for tp, leader in leaders.items()] == [(partitions[0], 2)]


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
