"""Requests about transactions to a coordinator, noida-db's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from spark_kafkawire.cluster.modern.group_offsets import committed_texts
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction, Transactions
from spark_kafkawire.errors import BrokerError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.list_transactions import (
    ONGOING,
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
)
from tests.support.fake_cluster import FakeCluster
from tests.support.log_broker import LogBroker
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker


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
    noida: NoidaBroker,
    transactions: Transactions,
    metadata: Metadata,
    options: WriteOptions,
    committed: bool,
) -> None:
    partition = TopicPartition(noida.create_topic(), 0)
    name = f"offset-{partition.topic}"
    begun = transactions.begin(name, 60_000)
    assert (begun.id, begun.version) == (name, 1)
    transactions.add_partitions(begun, [partition])
    transactions.commit_offsets(begun, name, {partition: (7, "what it is about")})
    assert state_of(transactions, begun) == ONGOING
    assert name in {each.transactional_id for each in transactions.listed((ONGOING,))}
    assert committed_texts(metadata, name, options.net, stable_in=None) == ()
    for _ in range(2):  # again says the same
        transactions.end(begun, committed=committed)
    expected = ((7, "what it is about", partition.topic),) if committed else ()
    assert committed_texts(metadata, name, options.net, stable_in=[partition]) == expected
    assert name not in {each.transactional_id for each in transactions.listed((ONGOING,))}


def test_who_begins_an_id_anew_fences_the_one_before(noida: NoidaBroker, transactions: Transactions) -> None:
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


@pytest.mark.parametrize("name", ["_listed_by", "_states_of"])
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
        if name == "_listed_by":
            assert transactions.listed() == []
            assert cluster.requests()["ListTransactions"] == BROKERS
            assert metadata._last_response is not None
            assert not metadata._last_response.topics
        else:
            assert sorted(transactions.described(ids)) == sorted(ids)


class DescribingBroker(LogBroker):
    """A broker with this function for what it describes."""

    described: Callable[[DescribeTransactionsRequest], DescribeTransactionsResponse]

    def answer(self, api: Api, version: int, request: Any) -> tuple[Any, int] | None:
        if api is not modern.DESCRIBE_TRANSACTIONS:
            return super().answer(api, version, request)
        return self.described(request), version


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
                error_code=codes[each].pop(0),
                transactional_id=each,
                transaction_state=ONGOING,
                transaction_timeout_ms=1,
                transaction_start_time_ms=1,
                producer_id=1,
                producer_epoch=0,
                topics=(),
            )
            for each in request.transactional_ids
        )
        return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=tuple(states))

    with LogServer({"t": [MemoryLog()]}) as server:
        server.broker = DescribingBroker(server.broker.broker, server.broker.logs)
        server.broker.described = described
        options = WriteOptions.parse({"kafka.bootstrap.servers": server.bootstrap_servers})
        metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        listed = [
            ListedTransaction(transactional_id=each, producer_id=1, transaction_state=ONGOING)
            for each in codes
        ]
        [broker] = metadata.known_brokers()
        found = Transactions(metadata, options.net).described_by({broker: listed})
    assert sorted(found) == ["here", "moved"]
    assert asked == [tuple(codes), ("moved",), ("removed",)]
