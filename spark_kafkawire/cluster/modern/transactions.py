"""Transactions of Kafka 0.11 to 4.x: requests to their coordinators that begin, fill, describe and end them.

    transactions = Transactions(metadata, net)
    transaction = transactions.begin("orders-0", timeout_ms=60_000)
    transactions.add_partitions(transaction, [partition])   # version 1 needs it before batches are sent
    transactions.commit_offsets(transaction, "orders-0", {partition: (7, "metadata of the offset")})
    transactions.end(transaction, committed=True)

A ``Transaction`` has all that is needed to end it, so it travels from the tasks to the driver. Every request
here may be repeated, so ``Coordinators`` retries it while its coordinator moves or starts, or while the
previous transaction is still ending.

Source: KIP-98, KIP-890, KIP-664.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import Action, BrokerError, KafkaWireError, TransportError, quote
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import Attempts, RetryPolicy, call_with_retries
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.group_offsets import (
    FIND_COORDINATOR,
    SEVERAL_SINCE,
    Coordinator,
    FindCoordinatorRequest,
)
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID, with_names
from spark_kafkawire.protocol.modern.produce import InitProducerIdRequest
from spark_kafkawire.protocol.modern.transactions import (
    END_TXN,
    LIST_TRANSACTIONS,
    PATTERN_SINCE,
    SECOND_PROTOCOL_SINCE,
    TXN_OFFSET_COMMIT,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopic,
)

from ..asking import BROKERS_AT_ONCE_MAX, side_by_side
from .group_offsets import group_by_topic
from .metadata import Metadata

#: Transactional ids of one request.
_TOGETHER_MAX: Final = 1_000
#: Time that a response may take beside what the request allows for, seconds.
_ANSWER_S: Final = 1.0
#: A transactional id that no program uses. A broker refuses it to a user who may not describe all ids.
_NO_ID: Final = "kafkawire-may-describe-ids"


@dataclass(frozen=True, slots=True, order=True)
class Transaction:
    """Identity of a transaction: its id, its producer, and the version of transactions that it began with
    (1 or 2, see ``protocol.modern.transactions``)."""

    id: str
    producer_id: int
    epoch: int
    version: int


class Transactions:
    """Requests about transactions of one cluster. Thread-safe.

    All methods raise ``BrokerError`` with the error code of the broker, and when the retries are used up that
    or a ``TransportError``; ``UnsupportedVersionError`` (fatal) with brokers before Kafka 0.11.
    """

    def __init__(self, metadata: Metadata, net: NetOptions) -> None:
        self._metadata = metadata
        self._net = net
        self._coordinators = Coordinators(metadata, net)

    def locate(self, transactional_ids: Iterable[str], group_ids: Iterable[str] = ()) -> None:
        """Find all coordinators at once. Those that are not found are looked up when they are needed."""
        transactions = map(_coordinator_of, transactional_ids)
        groups = map(FindCoordinatorRequest.for_group, group_ids)
        self._coordinators.locate([*transactions, *groups])

    def begin(self, transactional_id: str, timeout_ms: int, *, two_phase_commit: bool = False) -> Transaction:
        """Take over an id: its open transaction is aborted, and its previous producer is fenced."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, enable_2pc=two_phase_commit
        )
        who, place = _coordinator_of(transactional_id), f"InitProducerId of {quote(transactional_id)}"
        result, version = self._coordinators.ask(who, request, place)
        return Transaction(transactional_id, result.producer_id, result.producer_epoch, version)

    def fence(
        self, fenced: Sequence[str | Transaction], timeout_ms: int, within: Deadline
    ) -> list[KafkaWireError | None]:
        """Take over ids without using them: the coordinator aborts their open transactions, and refuses late
        requests of their producers. The id of a ``Transaction`` is taken over unless another producer has
        done so since (KIP-360): its error is ``UnsupportedVersionError`` with brokers before 2.5.

        ``timeout_ms`` is the time in which a coordinator has to replicate that it has done so. All requests
        are sent in parallel, and repeated ``within`` one deadline. Returns the error of each id that is not
        fenced, else None."""

        def fence(who: str | Transaction) -> InitProducerIdRequest:
            if isinstance(who, str):
                return InitProducerIdRequest(transactional_id=who, transaction_timeout_ms=timeout_ms)
            return InitProducerIdRequest(
                transactional_id=who.id,
                transaction_timeout_ms=timeout_ms,
                producer_id=who.producer_id,
                producer_epoch=who.epoch,
            )

        requests = [fence(item) for item in fenced]
        questions = [(_coordinator_of(str(item.transactional_id)), item) for item in requests]
        # A coordinator that takes longer does not answer: another one may take its place.
        round_s = timeout_ms / 1000 + _ANSWER_S
        return self._coordinators.ask_until(questions, "InitProducerId", within, round_s)

    def add_partitions(self, transaction: Transaction, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions before they are written to. In version 2 the first batch adds its partition
        itself."""
        if transaction.version > 1:
            return
        topics = [
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(tp.partition for tp in own))
            for topic, own in group_by_topic(partitions).items()
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction.id,
            v3_and_below_producer_id=transaction.producer_id,
            v3_and_below_producer_epoch=transaction.epoch,
            v3_and_below_topics=tuple(topics),
        )

        def codes(response: AddPartitionsToTxnResponse) -> Codes:
            for topic in response.results_by_topic_v3_and_below:
                for part in topic.results_by_partition:
                    yield part.partition_error_code, TopicPartition(topic.name, part.partition_index)

        place = f"AddPartitionsToTxn of {quote(transaction.id)}"
        self._coordinators.ask(_coordinator_of(transaction.id), request, place, codes)

    def commit_offsets(
        self, transaction: Transaction, group_id: str, offsets: Mapping[TopicPartition, tuple[int, str]]
    ) -> None:
        """Commit offsets of a group, each with a metadata text, as part of the transaction."""
        if transaction.version == 1:
            added = AddOffsetsToTxnRequest(
                transactional_id=transaction.id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.epoch,
                group_id=group_id,
            )
            place = f"AddOffsetsToTxn of {quote(transaction.id)}"
            self._coordinators.ask(_coordinator_of(transaction.id), added, place)
        ids = self._metadata.known_ids({tp.topic for tp in offsets})
        topics = [
            TxnOffsetCommitTopic(
                name=topic,
                topic_id=ids.get(topic, NO_TOPIC_ID),
                partitions=tuple(
                    TxnOffsetCommitPartition(
                        partition_index=tp.partition,
                        committed_offset=offsets[tp][0],
                        committed_metadata=offsets[tp][1],
                    )
                    for tp in own
                ),
            )
            for topic, own in group_by_topic(offsets).items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=transaction.id,
            group_id=group_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            topics=tuple(topics),
            transaction_version=transaction.version,
        )

        def codes(response: TxnOffsetCommitResponse) -> Codes:
            for topic in with_names(response.topics, request.topics):
                for part in topic.partitions:
                    yield part.error_code, TopicPartition(topic.name, part.partition_index)

        who, place = FindCoordinatorRequest.for_group(group_id), f"TxnOffsetCommit of {quote(transaction.id)}"
        self._coordinators.ask(who, request, place, codes)

    def end(self, transaction: Transaction, *, committed: bool) -> Transaction:
        """Commit or abort; repeating it has no effect. Returns the identity of the next transaction of the
        id."""
        request, place = _end_request(transaction, committed), f"EndTxn of {quote(transaction.id)}"
        response, _ = self._coordinators.ask(_coordinator_of(transaction.id), request, place)
        return _next_of(transaction, response)

    def end_many(
        self, transactions: Sequence[Transaction], *, committed: bool
    ) -> dict[Transaction, Transaction]:
        """Commit or abort many transactions in parallel. The result leaves out those that were refused or not
        answered: nothing is retried."""
        questions = [(_coordinator_of(item.id), _end_request(item, committed)) for item in transactions]
        responses = self._coordinators.ask_many(questions)
        return {
            item: _next_of(item, response)
            for item, response in zip(transactions, responses, strict=True)
            if not isinstance(response, KafkaWireError) and not response.error_code
        }

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Describe a transactional id, by its coordinator; needs Kafka 3.0 or later."""
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        place = f"DescribeTransactions of {quote(transactional_id)}"
        response: DescribeTransactionsResponse
        response, _ = self._coordinators.ask(
            _coordinator_of(transactional_id),
            request,
            place,
            lambda response: [(state.error_code, None) for state in response.transaction_states],
        )
        [result] = response.transaction_states
        return result

    def described(
        self, transactional_ids: Sequence[str], within: Deadline | None = None
    ) -> dict[str, DescribedTransaction]:
        """Describe many ids, by requests to all coordinators in parallel, which are not retried."""
        self._coordinators.locate([_coordinator_of(item) for item in transactional_ids], within)
        by_coordinator: dict[Broker, list[str]] = defaultdict(list)
        for item in transactional_ids:
            by_coordinator[self._coordinators.of(_coordinator_of(item))].append(item)

        def described(broker: Broker) -> list[DescribedTransaction]:
            states = self._states_of(broker, by_coordinator[broker], within)
            for state in states:
                refuse(state.error_code, _place_of(state, broker))
            return states

        result = side_by_side(by_coordinator, described)
        return {state.transactional_id: state for states in result.values() for state in states}

    def listed(
        self, states: Sequence[str] = (), pattern: str | None = None, within: Deadline | None = None
    ) -> list[ListedTransaction]:
        """List the transactions of all brokers, or those in some states whose ids match a pattern; needs
        Kafka 3.0 or later."""
        by_coordinator = self.list_by_coordinator(states, pattern, within)
        result = [item for own in by_coordinator.values() for item in own]
        return sorted(result, key=lambda item: item.transactional_id)

    def list_by_coordinator(
        self, states: Sequence[str] = (), pattern: str | None = None, within: Deadline | None = None
    ) -> dict[Broker, list[ListedTransaction]]:
        """The same for each broker."""
        request = ListTransactionsRequest(state_filters=tuple(states))
        like = re.compile(pattern or ".*", re.DOTALL)
        attempts = Attempts(self._net.request_retry)

        def listed(broker: Broker) -> list[ListedTransaction]:
            own = self._list_by(broker, request, pattern, within)
            return [item for item in own if like.fullmatch(item.transactional_id)]

        while True:
            try:
                # A broker that is down is soon none of the cluster's, and another one has its transactions.
                self._metadata.refresh((), within)
                return side_by_side(self._metadata.brokers, listed)
            except KafkaWireError as error:
                attempts.failed(error, within)

    def describe_listed(
        self, listed: Mapping[Broker, Sequence[ListedTransaction]]
    ) -> dict[str, DescribedTransaction]:
        """Describe the listed transactions, without ids that were removed since, by their coordinators; those
        that have another one by now are looked up."""

        def described(broker: Broker) -> list[DescribedTransaction]:
            ids = [item.transactional_id for item in listed[broker]]
            return call_with_retries(partial(self._describe_by, broker, ids), self._net.request_retry)

        result: dict[str, DescribedTransaction] = {}
        moved: list[str] = []
        answers = side_by_side((broker for broker, own in listed.items() if own), described)
        for state in (item for states in answers.values() for item in states):
            if state.error_code:
                moved.append(state.transactional_id)
            else:
                result[state.transactional_id] = state
        for item in moved:
            try:
                result[item] = self.describe(item)
            except BrokerError as error:
                if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
        return result

    def _describe_by(self, broker: Broker, ids: Sequence[str]) -> list[DescribedTransaction]:
        """States of the ids that the broker knows, also of those that it does not coordinate."""
        states = [
            state
            for state in self._states_of(broker, ids)
            if state.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        ]
        for state in states:
            if state.error_code != ErrorCode.NOT_COORDINATOR:
                refuse(state.error_code, _place_of(state, broker))
        return states

    def _states_of(
        self, broker: Broker, ids: Sequence[str], within: Deadline | None = None
    ) -> list[DescribedTransaction]:
        """Describe ids by one coordinator, some of them with each request."""
        shares = [tuple(ids[at : at + _TOGETHER_MAX]) for at in range(0, len(ids), _TOGETHER_MAX)]
        requests = (DescribeTransactionsRequest(transactional_ids=share) for share in shares)
        with POOL.lend(broker, self._net.connection, within) as client:
            came = client.pipeline(requests, within=within)
            return [state for response in came for state in response.body.transaction_states]

    def check_sees_ids(self) -> None:
        """Raise ``BrokerError`` if the user may not describe transactional ids: brokers list none then, as if
        there were none."""
        request = DescribeTransactionsRequest(transactional_ids=(_NO_ID,))
        response: DescribeTransactionsResponse = self._metadata.ask(request)
        [result] = response.transaction_states
        if result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            refuse(result.error_code, "ListTransactions of all brokers")

    def _list_by(
        self, broker: Broker, request: ListTransactionsRequest, pattern: str | None, within: Deadline | None
    ) -> Sequence[ListedTransaction]:
        with POOL.lend(broker, self._net.connection, within) as client:
            if pattern is not None and client.version_of(LIST_TRANSACTIONS) >= PATTERN_SINCE:
                # A cluster may have many more ids than those of one write.
                request = replace(request, transactional_id_pattern=pattern)
            response: ListTransactionsResponse = client.request(request, within)
        refuse(response.error_code, f"ListTransactions on {broker}")
        return response.transaction_states


def _place_of(state: DescribedTransaction, broker: Broker) -> str:
    return f"DescribeTransactions of {quote(state.transactional_id)} on {broker}"


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


def _next_of(transaction: Transaction, response: EndTxnResponse) -> Transaction:
    if transaction.version == 1:
        return transaction
    return replace(transaction, producer_id=response.producer_id, epoch=response.producer_epoch)


T = TypeVar("T")

#: Most connections to one coordinator that share many requests, and the requests per connection that make
#: another one worthwhile: a broker answers the requests of a connection one after the other, and each waits
#: until it is replicated.
_LANES_MAX: Final = 4
_LANE_REQUESTS_MIN: Final = 16
#: Seconds that a transaction may take to end before the wait counts as a failure, and seconds between two
#: requests meanwhile. Java's client also waits for 20 ms.
_ENDING_S: Final = 2.0
_ENDING_POLL_S: Final = 0.02
#: Waits between the rounds of requests that are repeated together, and the longest of them, seconds.
_ROUNDS: Final = RetryPolicy(backoff_s=2 * _ENDING_POLL_S)
_ROUND_WAIT_MAX_S: Final = 1.0
#: APIs that end a transaction, and that add offsets to it in the coordinator of a group.
_SECOND_PROTOCOL: Final = ((END_TXN, SECOND_PROTOCOL_SINCE), (TXN_OFFSET_COMMIT, 5))


#: Error codes in a response, each with its partition if it is of one.
Codes = Iterable[tuple[int, TopicPartition | None]]


class Coordinators:
    """Coordinators of one cluster. Thread-safe. All methods raise as those of ``Transactions`` do."""

    def __init__(self, metadata: Metadata, net: NetOptions) -> None:
        self._metadata = metadata
        self._net = net
        self._known: dict[FindCoordinatorRequest, Broker] = {}

    def locate(
        self, wanted: Iterable[FindCoordinatorRequest], within: Deadline | None = None
    ) -> dict[FindCoordinatorRequest, BrokerError]:
        """Find the coordinators of many groups and transactional ids at once. Returns the errors of those
        that are not found, which are looked up again when they are needed."""
        unknown = [who for who in wanted if who not in self._known]
        refused: dict[FindCoordinatorRequest, BrokerError] = {}

        def requests(client: Client) -> Sequence[FindCoordinatorRequest]:
            finds_several = client.version_of(FIND_COORDINATOR) >= SEVERAL_SINCE
            return FindCoordinatorRequest.together(unknown) if finds_several else unknown

        for response in self._metadata.ask_in_turn(requests, within) if unknown else ():
            for who, result in response.body.coordinators_of(response.request).items():
                if result.error_code:
                    refused[who] = _not_found(who, result)
                else:
                    self._known[who] = Broker(result.node_id, result.host, result.port)
        return refused

    def ask(
        self,
        who: FindCoordinatorRequest,
        request: object,
        place: str,
        codes: Callable[[Any], Codes] = lambda response: [(response.error_code, None)],
    ) -> tuple[Any, int]:
        """Send a request to the coordinator of a group or transactional id, which is looked up again if it
        has moved or does not answer. ``codes`` are the error codes of a response.

        Returns the response, and the version of transactions that begin there now."""

        def asked() -> tuple[Any, int]:
            with POOL.lend(self.of(who), self._net.connection) as client:
                response = client.request(request)
                version = _transaction_version(client)
            for code, partition in codes(response):
                location = f"{place} on {client.broker}"
                refuse(code, location if partition is None else f"{location}, {partition}")
            return response, version

        def once() -> tuple[Any, int]:
            try:
                return _await_previous(asked)
            except KafkaWireError as error:
                self._forget_moved(who, error)
                raise

        return call_with_retries(once, self._net.request_retry)

    def ask_until(
        self,
        questions: Sequence[tuple[FindCoordinatorRequest, object]],
        api: str,
        within: Deadline,
        round_s: float,
    ) -> list[KafkaWireError | None]:
        """Send many repeatable requests as ``ask_many``, and those that fail with a retriable error again in
        further rounds, ``within`` one deadline. A round takes ``round_s`` seconds at most. Returns the last
        error of each request, None for those that succeeded."""
        errors: list[KafkaWireError | None] = [None] * len(questions)
        left: Sequence[int] = range(len(questions))
        for attempt in itertools.count(1):
            asked = [questions[index] for index in left]
            for index, response in zip(left, self.ask_many(asked, within.sooner(round_s)), strict=True):
                who, error = questions[index][0], None
                if isinstance(response, KafkaWireError):
                    error = response
                elif response.error_code:
                    location = f"{api} of {quote(who.key)} on {self._known.get(who)}"
                    error = broker_error(response.error_code, location)
                if error is not None:
                    self._forget_moved(who, error)
                errors[index] = error
            left = [index for index in left if (error := errors[index]) is not None and error.retriable]
            if not left or not within.left_s:
                break
            time.sleep(min(_ROUNDS.wait_s(attempt, random.random()), _ROUND_WAIT_MAX_S, within.left_s))
        return errors

    def ask_many(
        self, questions: Sequence[tuple[FindCoordinatorRequest, object]], within: Deadline | None = None
    ) -> list[Any]:
        """Send many repeatable requests to their coordinators in parallel, pipelined on each connection.
        Returns the responses in the order of the requests, and in place of a missing one its error; nothing
        is retried."""
        try:
            not_found = self.locate((who for who, _ in questions), within)
        except KafkaWireError as error:
            return [error] * len(questions)
        responses: list[Any] = [None] * len(questions)
        by_broker: dict[Broker, list[int]] = defaultdict(list)
        for index, (who, _) in enumerate(questions):
            if (known := self._known.get(who)) is not None:
                by_broker[known].append(index)
            else:  # not found, or forgotten by another thread
                moved = broker_error(ErrorCode.NOT_COORDINATOR, f"FindCoordinator of {quote(who.key)}")
                responses[index] = not_found.get(who, moved)

        def fill(broker: Broker, lane: Sequence[int]) -> None:
            left = deque(lane)
            try:
                with POOL.lend(broker, self._net.connection, within) as client:
                    for response in client.pipeline((questions[index][1] for index in lane), within=within):
                        responses[left.popleft()] = response.body
            except KafkaWireError as error:
                for index in left:
                    responses[index] = error

        lanes = [(broker, lane) for broker, own in by_broker.items() for lane in _lanes(own)]
        if lanes:
            with ThreadPoolExecutor(
                min(len(lanes), BROKERS_AT_ONCE_MAX), "kafkawire-coordinators"
            ) as threads:
                list(threads.map(fill, *zip(*lanes, strict=True)))
        return responses

    def _forget_moved(self, who: FindCoordinatorRequest, error: KafkaWireError) -> None:
        """Look a coordinator up again that has moved or does not answer."""
        if error.action is Action.REFRESH or isinstance(error, TransportError):
            self._known.pop(who, None)

    def of(self, who: FindCoordinatorRequest) -> Broker:
        """The coordinator of a group or transactional id, looked up if it is not known."""
        if (known := self._known.get(who)) is not None:
            return known
        result = self._metadata.ask(who).coordinator_of(who.key)
        if result.error_code:
            raise _not_found(who, result)
        return self._known.setdefault(who, Broker(result.node_id, result.host, result.port))


def _not_found(who: FindCoordinatorRequest, result: Coordinator) -> BrokerError:
    location = f"FindCoordinator of {quote(who.key)}"
    return broker_error(result.error_code, location, result.error_message)


def _lanes(indexes: Sequence[int]) -> list[Sequence[int]]:
    """Shares of the requests for several connections."""
    count = min(_LANES_MAX, max(1, len(indexes) // _LANE_REQUESTS_MIN))
    return [indexes[first::count] for first in range(count)]


def _await_previous(asked: Callable[[], T]) -> T:
    """The response once the previous transaction has ended, which takes milliseconds and is not a failure."""
    stop_s = time.monotonic() + _ENDING_S
    while True:
        try:
            return asked()
        except BrokerError as error:
            if error.code != ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() > stop_s:
                raise
        time.sleep(_ENDING_POLL_S)


def refuse(code: int, place: str) -> None:
    """Raise the ``BrokerError`` of an error code; 0 is no error."""
    if code:
        raise broker_error(code, place)


def _transaction_version(client: Client) -> int:
    """The version of transactions that begin now: 2 if the cluster has enabled it, and the broker offers all
    APIs of version 2."""
    offered = all(client.version_of(api) >= since for api, since in _SECOND_PROTOCOL)
    return 2 if offered and client.channel.connection.transaction_version > 1 else 1
