"""Many requests about transactions at once: what is not answered plainly is asked for alone."""

from __future__ import annotations

import pytest

from spark_kafkawire.clients.writing.modern.transactional.requests import (
    AwaitCompletion,
    CommitOffset,
    EndTransaction,
    FetchOffsets,
    IsOngoing,
    Refused,
    TransactionOutcome,
    TransactionRequests,
)
from spark_kafkawire.clients.writing.modern.transactional.write_state import OffsetAndMetadata
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.topic import Topic
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.list_transactions import COMPLETE_COMMIT, ONGOING
from tests.support.mock_cluster import DISCONNECT, MockCluster
from tests.support.noida import NoidaBroker

#: Enough for several connections to each coordinator.
COUNT = 40
END_TXN, FIND_COORDINATOR = 26, 10


def requests_to(bootstrap_servers: str) -> TransactionRequests:
    options = WriteOptions.parse({"kafka.bootstrap.servers": bootstrap_servers})
    return TransactionRequests(
        Metadata(options.discovery.bootstrap_servers, options.net), options.net, 60_000
    )


def begun(requests: TransactionRequests, topic: str) -> list[Transaction]:
    """Transactions that are open."""
    found = [requests.transactions.begin(f"{topic}-{number}", 60_000) for number in range(COUNT)]
    for each in found:
        requests.transactions.add_partitions(each, [TopicPartition(topic, 0)])
    return found


def states(requests: TransactionRequests, transactions: list[Transaction]) -> set[str]:
    found = requests.transactions.described([each.id for each in transactions])
    return {each.transaction_state for each in found.values()}


def test_of_many_ends_one_that_is_refused_is_refused_alone(noida: NoidaBroker) -> None:
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(requests, topic)
    fenced, others = open_[7], [*open_[:7], *open_[8:]]
    again = requests.transactions.begin(fenced.id, 60_000)
    requests.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    answers = requests.send_all([EndTransaction(each, committed=True) for each in open_])
    refused = answers.pop(7)
    assert isinstance(refused, Refused)
    assert (refused.outcome, f"EndTxn of '{fenced.id}'" in refused.message) == (
        TransactionOutcome.FENCED,
        True,
    )
    assert answers == others
    assert requests.send_all([AwaitCompletion(each) for each in others]) == [None] * (COUNT - 1)
    assert states(requests, others) == {COMPLETE_COMMIT}
    assert states(requests, [again]) == {ONGOING}
    assert requests.send(EndTransaction(again, committed=False)) == again


def test_all_topics_are_requested_only_for_a_group_without_offsets(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows name their topics, so that the first offset of the group may be pending in any of them."""
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    asked, topics = list[Metadata](), Metadata.topics

    def counted(metadata: Metadata) -> tuple[Topic, ...]:
        asked.append(metadata)
        return topics(metadata)

    monkeypatch.setattr(Metadata, "topics", counted)
    assert requests.send(FetchOffsets(topic, is_stable=True)) == ()
    assert len(asked) == 1
    transaction, record = requests.transactions.begin(topic, 60_000), OffsetAndMetadata(7, "text", topic)
    assert requests.send(CommitOffset(transaction, topic, (record,))) is None
    requests.transactions.end(transaction, committed=True)
    assert requests.send(FetchOffsets(topic, is_stable=True)) == (record,)
    assert requests.send(FetchOffsets(f"{topic}-other")) == ()
    assert len(asked) == 1


def test_many_are_told_which_of_them_are_open(noida: NoidaBroker) -> None:
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(requests, topic)
    for each in open_[::2]:
        requests.transactions.end(each, committed=False)
    again = requests.transactions.begin(open_[1].id, 60_000)  # by another attempt, of the same producer
    requests.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    assert again.producer_id == open_[1].producer_id
    are_open = [False, False] + [False, True] * (COUNT // 2 - 1)
    assert requests.send_all([IsOngoing(each) for each in open_]) == are_open
    assert [requests.send(IsOngoing(each)) for each in (open_[1], again)] == [False, True]
    requests.send_all([EndTransaction(each, committed=False) for each in [again, *open_[3::2]]])


def test_one_is_complete_whose_producer_has_completed_another_one_since(noida: NoidaBroker) -> None:
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(requests, topic)
    requests.send_all([EndTransaction(each, committed=True) for each in open_])
    again = requests.transactions.begin(open_[0].id, 60_000)
    requests.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    for request in (EndTransaction(again, committed=True), AwaitCompletion(again)):
        requests.send(request)
    assert states(requests, [again]) == {COMPLETE_COMMIT}
    assert requests.send_all([AwaitCompletion(each) for each in open_]) == [None] * COUNT


def test_one_that_was_aborted_is_not_taken_for_complete(noida: NoidaBroker) -> None:
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(requests, topic)
    requests.send_all([EndTransaction(each, committed=True) for each in open_[1:]])
    again = requests.transactions.begin(open_[0].id, 60_000)
    first, *others = requests.send_all([AwaitCompletion(each) for each in open_])
    assert isinstance(first, Refused)
    assert first.outcome is TransactionOutcome.FENCED
    assert others == [None] * (COUNT - 1)
    assert again.epoch == open_[0].epoch + 1


def test_many_ends_come_through_where_coordinators_move_and_hang_up(mock_cluster: MockCluster) -> None:
    """They tell of one coordinator at a time, and not which transactions are open."""
    mock_cluster.create_topic("t")
    requests = requests_to(mock_cluster.bootstrap_servers)
    open_ = begun(requests, "t")
    mock_cluster.push_request_errors(FIND_COORDINATOR, 0, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    mock_cluster.push_request_errors(
        END_TXN,
        0,
        ErrorCode.NOT_COORDINATOR,
        DISCONNECT,
        0,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        DISCONNECT,
    )
    fresh = requests_to(mock_cluster.bootstrap_servers)
    assert fresh.send_all([IsOngoing(each) for each in open_]) == [None] * COUNT
    assert fresh.send_all([EndTransaction(each, committed=True) for each in open_]) == open_
    assert fresh.send_all([AwaitCompletion(each) for each in open_]) == [None] * COUNT
