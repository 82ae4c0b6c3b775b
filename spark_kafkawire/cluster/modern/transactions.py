"""Transactions, asked of their coordinators: begun, told what they hold, described and ended.

    transactions = Transactions(metadata, net)
    transaction = transactions.begin("orders-0", timeout_ms=60_000)
    transactions.add_partitions(transaction, [log])         # of the first protocol; then its batches are sent
    transactions.commit_offset(transaction, "orders-0", log, 7, "what it is about")
    transactions.end(transaction, committed=True)

Whoever has a ``Transaction`` may end it: it travels from the tasks to the driver. Every request here may be
repeated, and is retried (see ``coordinators``).
Source: KIP-98, KIP-890, KIP-664.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...errors import quoted
from ...model import Broker, TopicPartition
from ...net.pool import POOL
from ...options import NetOptions
from ...protocol.modern.add_to_txn import (
    AddOffsetsToTxnReply,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnReply,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ...protocol.modern.end_txn import EndTxnReply, EndTxnRequest
from ...protocol.modern.find_coordinator import FindCoordinatorRequest
from ...protocol.modern.init_producer_id import InitProducerIdReply, InitProducerIdRequest
from ...protocol.modern.list_transactions import (
    DescribedTransaction,
    DescribeTransactionsReply,
    DescribeTransactionsRequest,
    ListedTransaction,
    ListTransactionsReply,
    ListTransactionsRequest,
)
from ...protocol.modern.txn_offset_commit import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from .coordinators import Coordinators, Teller, refuse
from .group_offsets import by_topic
from .metadata import Metadata


@dataclass(frozen=True, slots=True, order=True)
class Transaction:
    """Who may write to and end a transaction: its id, its producer, and the protocol that it began with
    (1 or 2, see ``protocol.modern.end_txn``)."""

    id: str
    producer_id: int
    epoch: int
    version: int


class Transactions:
    """Requests about transactions of one cluster. Safe for many threads.

    All methods raise ``BrokerError`` with the code of a broker that refuses, and when the retries are used up
    that or a ``TransportError``; ``UnsupportedVersionError`` (fatal) of brokers before Kafka 0.11.
    """

    def __init__(self, metadata: Metadata, net: NetOptions) -> None:
        self._metadata = metadata
        self._net = net
        self._coordinators = Coordinators(metadata, net)

    def locate(self, transactional_ids: Iterable[str], group_ids: Iterable[str] = ()) -> None:
        """Look for all their coordinators at once; who is not found so is looked for when it is needed."""
        transactions = map(_coordinator_of, transactional_ids)
        groups = map(FindCoordinatorRequest.for_group, group_ids)
        self._coordinators.locate([*transactions, *groups])

    def begin(self, transactional_id: str, timeout_ms: int, *, two_phase_commit: bool = False) -> Transaction:
        """Take the id over: what is open under it is aborted, and whoever had it is fenced."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            enable_2pc=two_phase_commit,
        )

        def begun(reply: InitProducerIdReply, teller: Teller) -> Transaction:
            refuse(reply.error_code, f"InitProducerId of {quoted(transactional_id)} on {teller.broker}")
            identity = reply.producer_id, reply.producer_epoch
            return Transaction(transactional_id, *identity, teller.transaction_version)

        return self._coordinators.ask(_coordinator_of(transactional_id), request, begun)

    def add_partitions(self, transaction: Transaction, logs: Iterable[TopicPartition]) -> None:
        """Tell which partitions will be written to; in the second protocol they join by that itself."""
        if transaction.version > 1:
            return
        topics = [
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(log.partition for log in own))
            for topic, own in by_topic(logs).items()
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction.id,
            v3_and_below_producer_id=transaction.producer_id,
            v3_and_below_producer_epoch=transaction.epoch,
            v3_and_below_topics=tuple(topics),
        )

        def added(reply: AddPartitionsToTxnReply, teller: Teller) -> None:
            for topic in reply.results_by_topic_v3_and_below:
                for part in topic.results_by_partition:
                    place = f"AddPartitionsToTxn of {quoted(transaction.id)} on {teller.broker}"
                    log = TopicPartition(topic.name, part.partition_index)
                    refuse(part.partition_error_code, f"{place}, {log}")

        self._coordinators.ask(_coordinator_of(transaction.id), request, added)

    def commit_offset(
        self, transaction: Transaction, group_id: str, log: TopicPartition, offset: int, text: str
    ) -> None:
        """Commit an offset of a group, and a text beside it, with the transaction."""
        if transaction.version == 1:
            self._add_group(transaction, group_id)
        partition = TxnOffsetCommitPartition(
            partition_index=log.partition, committed_offset=offset, committed_metadata=text
        )
        request = TxnOffsetCommitRequest(
            transactional_id=transaction.id,
            group_id=group_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            topics=(TxnOffsetCommitTopic(name=log.topic, partitions=(partition,)),),
            transaction_version=transaction.version,
        )

        def committed(reply: TxnOffsetCommitReply, teller: Teller) -> None:
            [topic] = reply.topics
            place = f"TxnOffsetCommit of {quoted(transaction.id)} on {teller.broker}, {log}"
            refuse(topic.partitions[0].error_code, place)

        self._coordinators.ask(FindCoordinatorRequest.for_group(group_id), request, committed)

    def end(self, transaction: Transaction, *, committed: bool) -> Transaction:
        """Commit or abort; again and again says the same. Who may begin the next one of the same id."""
        request = _end_request(transaction, committed)

        def ended(reply: EndTxnReply, teller: Teller) -> Transaction:
            refuse(reply.error_code, f"EndTxn of {quoted(transaction.id)} on {teller.broker}")
            return _next_of(transaction, reply)

        return self._coordinators.ask(_coordinator_of(transaction.id), request, ended)

    def end_many(
        self, transactions: Sequence[Transaction], *, committed: bool
    ) -> dict[Transaction, Transaction]:
        """The same of many, side by side. What was refused, or not answered, is not in it: nothing is tried
        again."""
        questions = [(_coordinator_of(each.id), _end_request(each, committed)) for each in transactions]
        replies = self._coordinators.ask_many(questions)
        return {
            each: _next_of(each, reply)
            for each, reply in zip(transactions, replies, strict=True)
            if reply is not None and not reply.error_code
        }

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """What its coordinator knows of a transactional id; Kafka 3.0 and later tell it."""
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))

        def described(reply: DescribeTransactionsReply, teller: Teller) -> DescribedTransaction:
            [found] = reply.transaction_states
            place = f"DescribeTransactions of {quoted(transactional_id)} on {teller.broker}"
            refuse(found.error_code, place)
            return found

        return self._coordinators.ask(_coordinator_of(transactional_id), request, described)

    def described(self, transactional_ids: Sequence[str]) -> dict[str, DescribedTransaction]:
        """The same of many ids, by one request to each coordinator, not tried again."""
        self._coordinators.locate([_coordinator_of(each) for each in transactional_ids])
        by_coordinator: dict[Broker, list[str]] = defaultdict(list)
        for each in transactional_ids:
            by_coordinator[self._coordinators.of(_coordinator_of(each))].append(each)
        found: dict[str, DescribedTransaction] = {}
        for broker, ids in by_coordinator.items():
            with POOL.lend(broker, self._net.connection) as client:
                reply = client.request(DescribeTransactionsRequest(transactional_ids=tuple(ids)))
            for told in reply.transaction_states:
                place = f"DescribeTransactions of {quoted(told.transactional_id)} on {broker}"
                refuse(told.error_code, place)
                found[told.transactional_id] = told
        return found

    def listed(self, states: Sequence[str] = ()) -> list[ListedTransaction]:
        """The transactions of all brokers, or those in some states; Kafka 3.0 and later tell them."""
        self._metadata.topics()
        request = ListTransactionsRequest(state_filters=tuple(states))
        found: list[ListedTransaction] = []
        for broker in self._metadata.brokers:
            found += self._coordinators.retried(partial(self._listed_by, broker, request))
        return sorted(found, key=lambda each: each.transactional_id)

    def _add_group(self, transaction: Transaction, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=transaction.id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            group_id=group_id,
        )

        def added(reply: AddOffsetsToTxnReply, teller: Teller) -> None:
            refuse(reply.error_code, f"AddOffsetsToTxn of {quoted(transaction.id)} on {teller.broker}")

        self._coordinators.ask(_coordinator_of(transaction.id), request, added)

    def _listed_by(self, broker: Broker, request: ListTransactionsRequest) -> Sequence[ListedTransaction]:
        with POOL.lend(broker, self._net.connection) as client:
            reply: ListTransactionsReply = client.request(request)
        refuse(reply.error_code, f"ListTransactions on {broker}")
        return reply.transaction_states


def _coordinator_of(transactional_id: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest.for_transaction(transactional_id)


def _end_request(transaction: Transaction, committed: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transaction.id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=committed,
        transaction_version=transaction.version,
    )


def _next_of(transaction: Transaction, reply: EndTxnReply) -> Transaction:
    """Who may begin the next one of the same id."""
    if transaction.version == 1:
        return transaction
    return replace(transaction, producer_id=reply.producer_id, epoch=reply.producer_epoch)
