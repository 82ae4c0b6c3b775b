"""Requests of an exactly-once write to modern Kafka, their answers, and the class that sends them.

Tasks and the driver begin, describe, fence and end transactions, and commit offsets of groups in them.
``net.retry`` retries errors that may pass. An error that arrives here is the last one, after all retries.
Source: Apache Kafka's TransactionManager; KIP-588, KIP-890, KIP-1050; answers of
brokers 3.9, 4.1 and 4.4.
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction, Transactions
from spark_kafkawire.errors import BrokerError, KafkaWireError, UnsupportedVersionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.transactions import (
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    DescribedTransaction,
)

from .write_state import OffsetAndMetadata, committed_records, partitions_of_offsets

#: Transaction timeout of ids that were fenced, ms. Brokers report it and no attempt uses it (see
#: ``attempt_timeout_ms``), so an id with this timeout need not be fenced again. No transaction has it, but
#: coordinators take it as the time limit for replicating that an id was taken over, and refuse the request
#: afterwards (KAFKA-16047). Three brokers took up to 72 ms for one id, and more than 100 ms for one of 400 at
#: once. Brokers that accept the shortest timeout that is tried for attempts accept this one.
FENCED_TIMEOUT_MS: Final = 4_999
#: Longest time for fencing all ids of a write, seconds: a cluster misses a broker that died after 9 s by
#: default (broker.session.timeout.ms), then others take its transactions over.
FENCING_MAX_S: Final = 20.0
#: Requests sent at the same time: more do not make brokers faster.
_THREADS: Final = 8
#: Offsets of one request: brokers write them as one batch of at most 1 MiB, and 4 KiB each.
_RECORDS_MAX: Final = 200
#: Requests of one kind from which on they are sent in batches.
_TOGETHER_MIN: Final = 4
#: Interval between looks at transactions that are becoming complete, seconds: brokers take about 50 ms.
_SETTLING_POLL_S: Final = 0.02


class TransactionOutcome(enum.Enum):
    """Conclusion that the caller may draw from an error."""

    FENCED = "another producer has taken over the transactional id"
    GONE = "the transaction is not ongoing: it timed out, was aborted, or never began"
    ABORTABLE = "this transaction can only be aborted; the next one may succeed"
    UNKNOWN = "no broker answered: the request may have been carried out"
    FATAL = "the request was not carried out, and never will be"


_OUTCOMES: Final = {
    ErrorCode.PRODUCER_FENCED: TransactionOutcome.FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: TransactionOutcome.FENCED,
    ErrorCode.INVALID_TXN_STATE: TransactionOutcome.GONE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: TransactionOutcome.GONE,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: TransactionOutcome.GONE,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionOutcome.ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID: TransactionOutcome.ABORTABLE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: TransactionOutcome.ABORTABLE,
}


def outcome_of(error: KafkaWireError) -> TransactionOutcome:
    """Classify an error."""
    if isinstance(error, BrokerError) and error.code in _OUTCOMES:
        return _OUTCOMES[ErrorCode(error.code)]
    return TransactionOutcome.UNKNOWN if error.retriable or error.exhausted else TransactionOutcome.FATAL


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """Take over a transactional id. The answer is the ``Transaction``."""

    id: str


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """Fetch the committed offsets of a group. The answer is a tuple of them. With ``is_stable`` the
    coordinator does not answer while a transaction that has ended may still change them."""

    group: str
    is_stable: bool = False


@dataclass(frozen=True, slots=True)
class CommitOffset:
    """Commit an offset of a group in a transaction, in partition 0 of the topics of ``records``, which must
    exist. The answer is None."""

    transaction: Transaction
    group: str
    records: tuple[OffsetAndMetadata, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort a transaction. The answer is the ``Transaction`` that may begin next."""

    transaction: Transaction
    committed: bool


@dataclass(frozen=True, slots=True)
class IsOngoing:
    """Ask whether a transaction can still be committed. The answer is None if brokers do not report that."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class AwaitCompletion:
    """Wait until all partitions of a committed transaction have its marker. The answer is None."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class FenceProducer:
    """Take over a transactional id without using it: the coordinator aborts its ongoing transaction, and
    refuses late requests of the producer that had the id. The answer is None."""

    id: str


@dataclass(frozen=True, slots=True)
class FenceIfCurrent:
    """Fence the id of a transaction, unless another producer has taken over the id since. The answer is None.
    Brokers before 2.5 only abort the ongoing transaction."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class IsDriverWaiting:
    """Ask whether a driver waits for its tasks: it has not decided, and no other driver has taken over the
    name. The answer is None if brokers do not report that."""

    driver: Transaction


@dataclass(frozen=True, slots=True)
class Refused:
    """Answer to a request that failed: the conclusion, and the error as one line."""

    outcome: TransactionOutcome
    message: str


Request = (
    InitProducerId
    | FetchOffsets
    | CommitOffset
    | EndTransaction
    | IsOngoing
    | AwaitCompletion
    | FenceProducer
    | FenceIfCurrent
    | IsDriverWaiting
)
Answer = Transaction | tuple[OffsetAndMetadata, ...] | Refused | bool | None


def attempt_timeout_ms(timeout_ms: int) -> int:
    """The timeout of attempts that is next to one of ``kafka.transaction.timeout.ms``, and that of no fenced
    id, ms."""
    return timeout_ms + (timeout_ms == FENCED_TIMEOUT_MS)


def fencing_deadline(net: NetOptions) -> Deadline:
    """The deadline of all requests that fence ids now. A write does not wait for brokerDownTimeout: an id
    that is not fenced is fenced by the next run, and its transaction ends by its timeout."""
    return Deadline.after(min(FENCING_MAX_S, net.request_retry.retry_timeout_s), "for fencing")


class TransactionRequests:
    """Sends requests to the brokers of one cluster. ``timeout_ms`` is the timeout of the transactions that it
    begins; with ``two_phase_commit`` they have none. ``topic`` is None if rows name their topics. Ids are
    fenced ``within`` that time, or that of ``fencing_deadline``."""

    def __init__(
        self,
        metadata: Metadata,
        net: NetOptions,
        timeout_ms: int,
        topic: str | None = None,
        *,
        two_phase_commit: bool = False,
        within: Deadline | None = None,
    ) -> None:
        self.transactions = Transactions(metadata, net)
        self._metadata = metadata
        self._net = net
        self._timeout_ms = timeout_ms
        self._topic = topic
        self._two_phase_commit = two_phase_commit
        self._within = within

    def send(self, request: Request) -> Answer:
        """Send a request and return its answer. An error that is left after all retries is an answer, too."""
        try:
            return self._send(request)
        except KafkaWireError as error:
            return _make_refused(error)

    def send_all(self, requests: Sequence[Request]) -> list[Answer]:
        """Send several requests and return their answers in the same order."""
        send_all: dict[Request, Answer] = {}
        if len(requests) >= _TOGETHER_MIN or any(isinstance(item, FenceProducer) for item in requests):
            # An error here is raised again when the request is sent alone.
            with contextlib.suppress(KafkaWireError):
                send_all = self._send_together(requests)
        left = [item for item in requests if item not in send_all]
        with ThreadPoolExecutor(max(1, min(_THREADS, len(left))), "kafkawire-transactions") as threads:
            send_all.update(zip(left, threads.map(self.send, left), strict=True))
        return [send_all[item] for item in requests]

    def _send_together(self, requests: Sequence[Request]) -> dict[Request, Answer]:
        """Send many requests of one kind in batches, where that is faster. Requests without a plain answer
        are left out."""
        match requests[0]:
            case EndTransaction(_, committed):
                ends = {item.transaction: item for item in requests if isinstance(item, EndTransaction)}
                ended = self.transactions.end_many(list(ends), committed=committed)
                return {ends[item]: after for item, after in ended.items()}
            case IsOngoing():
                return self._all_open([item for item in requests if isinstance(item, IsOngoing)])
            case AwaitCompletion():
                return self._all_settled([item for item in requests if isinstance(item, AwaitCompletion)])
            case FenceProducer():
                fences = [item for item in requests if isinstance(item, FenceProducer)]
                errors = self._fence([item.id for item in fences])
                return {
                    item: None if error is None else _make_refused(error)
                    for item, error in zip(fences, errors, strict=True)
                }
            case CommitOffset():
                # Each is sent alone, but one request finds the coordinators of all groups.
                groups = [item.group for item in requests if isinstance(item, CommitOffset)]
                self.transactions.locate([], groups)
        return {}

    def _send(self, request: Request) -> Answer:
        match request:
            case InitProducerId(id_):
                return self.transactions.begin(id_, self._timeout_ms, two_phase_commit=self._two_phase_commit)
            case FenceProducer():
                return self._send_together([request])[request]
            case FenceIfCurrent(transaction):
                [error] = self._fence([transaction])
                if isinstance(error, UnsupportedVersionError):
                    self.transactions.end(transaction, committed=False)  # brokers before 2.5
                elif error is not None:
                    raise error
                return None
            case FetchOffsets(group, is_stable):
                return self._stable_records(group) if is_stable else self._records(group, None)
            case CommitOffset(transaction, group, records):
                for start in range(0, len(records), _RECORDS_MAX):
                    offsets = {
                        TopicPartition(item.topic, 0): (item.offset, item.metadata)
                        for item in records[start : start + _RECORDS_MAX]
                    }
                    self.transactions.commit_offsets(transaction, group, offsets)
                return None
            case EndTransaction(transaction, committed):
                return self.transactions.end(transaction, committed=committed)
            case IsOngoing(transaction):
                return self._is_in(ONGOING, transaction)
            case AwaitCompletion(transaction):
                # The coordinator refuses it while the transaction is not complete: it is retried.
                self.transactions.end(transaction, committed=True)
                return None
            case IsDriverWaiting(driver):
                return self._is_in(EMPTY, driver)

    def _records(
        self, group: str, stable_in: Collection[TopicPartition] | None
    ) -> tuple[OffsetAndMetadata, ...]:
        return committed_records(self._metadata, self._net, group, stable_in)

    def _stable_records(self, group: str) -> tuple[OffsetAndMetadata, ...]:
        if self._topic is not None:
            return self._records(group, [TopicPartition(self._topic, 0)])
        # The first offset of the group may be pending in any topic. All topics are requested only then: a
        # stream reads twice a batch.
        return self._records(group, ()) or self._records(group, partitions_of_offsets(self._metadata))

    def _fence(self, fenced: Sequence[str | Transaction]) -> list[KafkaWireError | None]:
        # Brokers accept the timeout of attempts, which may be less than that of fenced ids.
        timeout_ms = min(FENCED_TIMEOUT_MS, self._timeout_ms)
        return self.transactions.fence(fenced, timeout_ms, self._within or fencing_deadline(self._net))

    def _is_in(self, state: str, transaction: Transaction) -> bool | None:
        try:
            return _has_state(state, transaction, self.transactions.describe(transaction.id))
        except UnsupportedVersionError:
            return None  # brokers before 3.0

    def _all_open(self, requests: Sequence[IsOngoing]) -> dict[Request, Answer]:
        """Answer many ``IsOngoing`` with few requests to each coordinator."""
        try:
            result = self.transactions.described([item.transaction.id for item in requests])
        except UnsupportedVersionError:
            return dict.fromkeys(requests)  # brokers before 3.0
        return {item: _has_state(ONGOING, item.transaction, result[item.transaction.id]) for item in requests}

    def _all_settled(self, requests: Sequence[AwaitCompletion]) -> dict[Request, Answer]:
        """Find the transactions that are complete, and poll while others may become so."""
        settled: dict[Request, Answer] = {}
        waiting, stop_s = list(requests), time.monotonic() + self._net.request_timeout_s
        while waiting and (began_s := time.monotonic()) < stop_s:
            result = self.transactions.described([item.transaction.id for item in waiting])
            settled |= {item: None for item in waiting if _is_complete(item, result[item.transaction.id])}
            states = {id_: item.transaction_state for id_, item in result.items()}
            waiting = [item for item in waiting if states[item.transaction.id] == PREPARE_COMMIT]
            if waiting:
                # Questions about many transactions are not asked without a pause.
                time.sleep(max(_SETTLING_POLL_S, time.monotonic() - began_s))
        return settled


def _make_refused(error: KafkaWireError) -> Refused:
    return Refused(outcome_of(error), str(error))


def _is_complete(request: AwaitCompletion, result: DescribedTransaction) -> bool:
    """Return whether the last transaction of an id is the committed one, or a later one of the same producer,
    which begins only after the committed one is complete."""
    committed = request.transaction
    is_later = result.producer_id == committed.producer_id and result.producer_epoch >= committed.epoch
    return is_later and result.transaction_state == COMPLETE_COMMIT


def _has_state(state: str, transaction: Transaction, result: DescribedTransaction) -> bool:
    """Return whether the transaction that a coordinator reports is this one, and in that state."""
    identity = result.transaction_state, result.producer_id, result.producer_epoch
    return identity == (state, transaction.producer_id, transaction.epoch)
