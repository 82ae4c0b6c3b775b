"""Many requests about transactions at once: what is not answered plainly is asked for alone."""

from __future__ import annotations

from spark_kafkawire.clients.writing.modern.transactional.asking import Asker
from spark_kafkawire.clients.writing.modern.transactional.meanings import Meaning
from spark_kafkawire.clients.writing.modern.transactional.requests import End, IsOpen, Refused, Settle
from spark_kafkawire.cluster.modern.metadata import Metadata
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


def asker_of(bootstrap_servers: str) -> Asker:
    options = WriteOptions.parse({"kafka.bootstrap.servers": bootstrap_servers})
    return Asker(Metadata(options.discovery.bootstrap_servers, options.net), options.net, 60_000)


def begun(asker: Asker, topic: str) -> list[Transaction]:
    """Transactions that are open."""
    found = [asker.transactions.begin(f"{topic}-{number}", 60_000) for number in range(COUNT)]
    for each in found:
        asker.transactions.add_partitions(each, [TopicPartition(topic, 0)])
    return found


def states(asker: Asker, transactions: list[Transaction]) -> set[str]:
    found = asker.transactions.described([each.id for each in transactions])
    return {each.transaction_state for each in found.values()}


def test_of_many_ends_one_that_is_refused_is_refused_alone(noida: NoidaBroker) -> None:
    asker, topic = asker_of(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(asker, topic)
    fenced, others = open_[7], [*open_[:7], *open_[8:]]
    again = asker.transactions.begin(fenced.id, 60_000)
    asker.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    answers = asker.answers([End(each, committed=True) for each in open_])
    refused = answers.pop(7)
    assert isinstance(refused, Refused)
    assert (refused.meaning, f"EndTxn of '{fenced.id}'" in refused.line) == (Meaning.FENCED, True)
    assert answers == others
    assert asker.answers([Settle(each) for each in others]) == [None] * (COUNT - 1)
    assert states(asker, others) == {COMPLETE_COMMIT}
    assert states(asker, [again]) == {ONGOING}
    assert asker.answer(End(again, committed=False)) == again


def test_many_are_told_which_of_them_are_open(noida: NoidaBroker) -> None:
    asker, topic = asker_of(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(asker, topic)
    for each in open_[::2]:
        asker.transactions.end(each, committed=False)
    again = asker.transactions.begin(open_[1].id, 60_000)  # by another attempt, of the same producer
    asker.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    assert again.producer_id == open_[1].producer_id
    are_open = [False, False] + [False, True] * (COUNT // 2 - 1)
    assert asker.answers([IsOpen(each) for each in open_]) == are_open
    assert [asker.answer(IsOpen(each)) for each in (open_[1], again)] == [False, True]
    asker.answers([End(each, committed=False) for each in [again, *open_[3::2]]])


def test_one_is_complete_whose_producer_has_completed_another_one_since(noida: NoidaBroker) -> None:
    asker, topic = asker_of(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(asker, topic)
    asker.answers([End(each, committed=True) for each in open_])
    again = asker.transactions.begin(open_[0].id, 60_000)
    asker.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    for request in (End(again, committed=True), Settle(again)):
        asker.answer(request)
    assert states(asker, [again]) == {COMPLETE_COMMIT}
    assert asker.answers([Settle(each) for each in open_]) == [None] * COUNT


def test_one_that_was_aborted_is_not_taken_for_complete(noida: NoidaBroker) -> None:
    asker, topic = asker_of(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(asker, topic)
    asker.answers([End(each, committed=True) for each in open_[1:]])
    again = asker.transactions.begin(open_[0].id, 60_000)
    first, *others = asker.answers([Settle(each) for each in open_])
    assert isinstance(first, Refused)
    assert first.meaning is Meaning.FENCED
    assert others == [None] * (COUNT - 1)
    assert again.epoch == open_[0].epoch + 1


def test_many_ends_come_through_where_coordinators_move_and_hang_up(mock_cluster: MockCluster) -> None:
    """They tell of one coordinator at a time, and not which transactions are open."""
    mock_cluster.create_topic("t")
    asker = asker_of(mock_cluster.bootstrap_servers)
    open_ = begun(asker, "t")
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
    fresh = asker_of(mock_cluster.bootstrap_servers)
    assert fresh.answers([IsOpen(each) for each in open_]) == [None] * COUNT
    assert fresh.answers([End(each, committed=True) for each in open_]) == open_
    assert fresh.answers([Settle(each) for each in open_]) == [None] * COUNT
