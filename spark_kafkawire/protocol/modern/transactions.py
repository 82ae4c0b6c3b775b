"""Transactions: what joins them, how they end, and which ones a coordinator has.

AddPartitionsToTxn and AddOffsetsToTxn (Kafka 0.11 and later): partitions and groups join a transaction.

Only the first protocol of transactions needs them. In the second protocol (see EndTxn) a partition
joins with the first write to it, and a group with TxnOffsetCommit.

Versions of AddPartitionsToTxn::

    0       partitions of one transaction (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
    2       PRODUCER_FENCED may come (KIP-588)
    3       flexible (KIP-482)
    4       not spoken: of brokers, for several transactions (KIP-890)
    5       not spoken: of brokers, TRANSACTION_ABORTABLE may come (KIP-890)

Versions of AddOffsetsToTxn::

    0       a group whose offsets are committed in the transaction (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
    2       PRODUCER_FENCED may come (KIP-588)
    3       flexible (KIP-482)
    4       TRANSACTION_ABORTABLE may come (KIP-890)

TxnOffsetCommit (Kafka 0.11 and later): commits offsets of a group as part of a transaction.

Versions of TxnOffsetCommit::

    0       offsets of a group (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
    2       epochs of leaders (KIP-320)
    3       flexible (KIP-482); the member that commits (KIP-447)
    4       TRANSACTION_ABORTABLE may come (KIP-890)
    5       of the second protocol: the group joins the transaction with this request (KIP-890)
    6       topics by id (KIP-1319)

EndTxn (Kafka 0.11 and later): commits or aborts a transaction, from any connection.

Kafka has two protocols of transactions. In the first protocol the client announces to the coordinator the
partitions that a transaction will write to (AddPartitionsToTxn), and the producer's epoch stays. In the
second protocol (KIP-890, finalized by a cluster as ``transaction.version=2``, see ``negotiation``) the
coordinator learns them from the writes, and each end raises the epoch, so that no earlier request arrives
after the end. A transaction is written and ended in one protocol: Produce 12, TxnOffsetCommit 5 and EndTxn 5
belong to the second, earlier versions to the first. ``transaction_version`` is the protocol of a request. A
request of the second protocol must not use a version of the first: its records would be outside of the
transaction.

Versions of EndTxn::

    0       commit, or abort (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
    2       PRODUCER_FENCED may come (KIP-588)
    3       flexible (KIP-482)
    4       TRANSACTION_ABORTABLE may come (KIP-890)
    5       of the second protocol: answers with the producer's next id and epoch (KIP-890)

ListTransactions and DescribeTransactions (Kafka 3.0 and later): the transactions of a coordinator.

Every broker lists the transactions that it coordinates; the description of one comes from its coordinator.

Versions of ListTransactions::

    0       flexible (KIP-482): by state and producer id (KIP-664); throttled responses come at once (KIP-219)
    1       by their duration, too (KIP-994)
    2       by a pattern of their ids, too (KIP-1152)

Versions of DescribeTransactions::

    0       flexible (KIP-482): state and identity (KIP-664); throttled responses come at once (KIP-219)
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX
from ..primitives import BOOL, INT16, INT32, INT64, UUID, Array, String
from ..responses import Faults, below, find_repeated, not_topics, nothing_to_compare, unlike
from ..schema import Struct, wire
from . import declare
from .group_offsets import OffsetCommitPartitionResponse, check_committed
from .limits import NO_TOPIC_ID, have_ids, response_bytes_max, small_response_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """Announce the partitions that the transaction will write to; the transaction begins with that."""

    v3_and_below_transactional_id: str = wire(String())
    v3_and_below_producer_id: int = wire(INT64)
    v3_and_below_producer_epoch: int = wire(INT16)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = wire(Array(Struct(AddPartitionsToTxnTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResponse:
    """Outcome of adding one partition to the transaction."""

    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopicResponse:
    """Outcomes of one topic's partitions."""

    name: str = wire(String())
    results_by_partition: tuple[AddPartitionsToTxnPartitionResponse, ...] = wire(
        Array(Struct(AddPartitionsToTxnPartitionResponse))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """Outcome for each partition: all are in the transaction, or none is."""

    throttle_time_ms: int = wire(INT32)
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResponse, ...] = wire(
        Array(Struct(AddPartitionsToTxnTopicResponse))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    """Announce a group whose offsets the transaction will commit."""

    transactional_id: str = wire(String())
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(String())


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnResponse:
    """Outcome of adding the group to the transaction."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)


def _check_added(
    request: AddPartitionsToTxnRequest, response: AddPartitionsToTxnResponse, _version: int
) -> Faults:
    return unlike(
        [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions],
        [
            (topic.name, partition.partition_index)
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ],
    )


ADD_PARTITIONS_TO_TXN: Final = declare(
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, response_bytes_max, _check_added
)

ADD_OFFSETS_TO_TXN: Final = declare(
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, small_response_bytes_max, nothing_to_compare
)


#: First version of TxnOffsetCommit and EndTxn in the second protocol of transactions (see EndTxn).
SECOND_PROTOCOL_SINCE: Final = 5
#: Last version of TxnOffsetCommit that names topics; later ones have their ids.
_TOPIC_NAMES_UNTIL: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitPartition:
    """The offset of a partition, and the text that is stored with it."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=2, default=-1, ignorable=True)
    committed_metadata: str | None = wire(String(), nullable_since=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitTopic:
    """Offsets of one topic's partitions."""

    name: str = wire(String(), until=_TOPIC_NAMES_UNTIL, default="", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, since=_TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[TxnOffsetCommitPartition, ...] = wire(Array(Struct(TxnOffsetCommitPartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """Commit offsets with the transaction; the defaults are for a client outside of the group."""

    transactional_id: str = wire(String())
    group_id: str = wire(String())
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id_or_member_epoch: int = wire(INT32, since=3, default=-1)
    member_id: str = wire(String(), since=3, default="")
    group_instance_id: str | None = wire(String(), since=3, nullable_since=3, default=None)
    topics: tuple[TxnOffsetCommitTopic, ...] = wire(Array(Struct(TxnOffsetCommitTopic)))
    transaction_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitTopicResponse:
    """Outcomes of one topic's partitions."""

    name: str = wire(String(), until=_TOPIC_NAMES_UNTIL, default="")
    topic_id: uuid.UUID = wire(UUID, since=_TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID)
    partitions: tuple[OffsetCommitPartitionResponse, ...] = wire(Array(Struct(OffsetCommitPartitionResponse)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    """Outcome for each partition."""

    throttle_time_ms: int = wire(INT32)
    topics: tuple[TxnOffsetCommitTopicResponse, ...] = wire(Array(Struct(TxnOffsetCommitTopicResponse)))


def _commit_version_max(request: TxnOffsetCommitRequest) -> int:
    return min(_version_max(request), VERSION_MAX if have_ids(request.topics) else _TOPIC_NAMES_UNTIL)


def _version_max(request: TxnOffsetCommitRequest | EndTxnRequest) -> int:
    return SECOND_PROTOCOL_SINCE - 1 if request.transaction_version == 1 else VERSION_MAX


def _version_min(request: TxnOffsetCommitRequest | EndTxnRequest) -> int:
    return 0 if request.transaction_version == 1 else SECOND_PROTOCOL_SINCE


TXN_OFFSET_COMMIT: Final = declare(
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    response_bytes_max,
    check_committed,
    version_max=_commit_version_max,
    version_min=_version_min,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    """End the transaction: commit it, or abort it."""

    transactional_id: str = wire(String())
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    committed: bool = wire(BOOL)
    transaction_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnResponse:
    """Outcome of the decision; the markers may reach the partitions later. In the second protocol it holds
    the producer id and epoch of the next transaction, in the first -1."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, since=SECOND_PROTOCOL_SINCE, default=-1)
    producer_epoch: int = wire(INT16, since=SECOND_PROTOCOL_SINCE, default=-1)


def _end_faults(request: EndTxnRequest, response: EndTxnResponse, version: int) -> Faults:
    if not response.error_code and version >= SECOND_PROTOCOL_SINCE:
        yield from below(0, "producer id", response.producer_id)
        # When epochs are used up, the next epoch is the first of another producer id.
        is_same = response.producer_id == request.producer_id
        yield from below(request.producer_epoch if is_same else 0, "producer epoch", response.producer_epoch)


END_TXN: Final = declare(
    EndTxnRequest,
    EndTxnResponse,
    small_response_bytes_max,
    _end_faults,
    version_max=_version_max,
    version_min=_version_min,
)


#: State of an id that was initialised and has had no transaction since.
EMPTY: Final = "Empty"
#: State of an open transaction.
ONGOING: Final = "Ongoing"
#: States of a committed transaction, before and after all its partitions have the commit marker.
PREPARE_COMMIT: Final = "PrepareCommit"
COMPLETE_COMMIT: Final = "CompleteCommit"
#: States of an aborted transaction, before and after all its partitions have the abort marker.
PREPARE_ABORT: Final = "PrepareAbort"
COMPLETE_ABORT: Final = "CompleteAbort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsRequest:
    """Ask for all transactions, or those of some states, producers, or longer than a duration (ms)."""

    state_filters: tuple[str, ...] = wire(Array(String()), default=())
    producer_id_filters: tuple[int, ...] = wire(Array(INT64), default=())
    duration_filter: int = wire(INT64, since=1, default=-1)
    transactional_id_pattern: str | None = wire(String(), since=2, nullable_since=2, default=None)
    """Regular expression of the transactional ids; None for all (KIP-1152)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id and the state of its last transaction."""

    transactional_id: str = wire(String())
    producer_id: int = wire(INT64)
    transaction_state: str = wire(String())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResponse:
    """The transactions of one coordinator."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    unknown_state_filters: tuple[str, ...] = wire(Array(String()))
    transaction_states: tuple[ListedTransaction, ...] = wire(Array(Struct(ListedTransaction)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """Ask for transactions by their ids."""

    transactional_ids: tuple[str, ...] = wire(Array(String()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTopic:
    """Partitions of a topic in a transaction; once it is ending, only those without its marker."""

    topic: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """Description of a transaction. ``transaction_start_time_ms`` is -1 if no transaction is open."""

    error_code: int = wire(INT16)
    transactional_id: str = wire(String())
    transaction_state: str = wire(String())
    transaction_timeout_ms: int = wire(INT32)
    """Time after which the coordinator aborts the transaction, ms."""
    transaction_start_time_ms: int = wire(INT64)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    topics: tuple[TransactionTopic, ...] = wire(Array(Struct(TransactionTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """The requested transactions."""

    throttle_time_ms: int = wire(INT32)
    transaction_states: tuple[DescribedTransaction, ...] = wire(Array(Struct(DescribedTransaction)))


def _list_faults(
    _request: ListTransactionsRequest, response: ListTransactionsResponse, _version: int
) -> Faults:
    yield from find_repeated(listed.transactional_id for listed in response.transaction_states)
    for listed in response.transaction_states:
        yield from below(0, "producer id", listed.producer_id, listed.transactional_id)


def _check_described(
    request: DescribeTransactionsRequest, response: DescribeTransactionsResponse, _version: int
) -> Faults:
    yield from unlike(
        request.transactional_ids, (described.transactional_id for described in response.transaction_states)
    )
    for described in response.transaction_states:
        if not described.error_code:
            yield from below(0, "producer id", described.producer_id, described.transactional_id)
            # After a restart of an old broker an id has the epoch -1 until it is initialised again.
            yield from below(-1, "producer epoch", described.producer_epoch, described.transactional_id)
            yield from not_topics(topic.topic for topic in described.topics)


LIST_TRANSACTIONS: Final = declare(
    ListTransactionsRequest, ListTransactionsResponse, response_bytes_max, _list_faults
)

#: The version of ListTransactions that takes a pattern.
PATTERN_SINCE: Final = 2

DESCRIBE_TRANSACTIONS: Final = declare(
    DescribeTransactionsRequest, DescribeTransactionsResponse, response_bytes_max, _check_described
)
