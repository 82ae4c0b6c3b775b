"""ListTransactions and DescribeTransactions: the transactions that a coordinator knows, from Kafka 3.0 on.

Every broker lists those whose coordinator it is; one that is described is asked for at its coordinator.

Versions of ListTransactions::

    0       flexible (KIP-482): by state and producer id (KIP-664); throttled replies come at once (KIP-219)
    1       by their duration, too (KIP-994)
    2       by a pattern of their ids, too (KIP-1152)

Versions of DescribeTransactions::

    0       flexible (KIP-482): state and identity (KIP-664); throttled replies come at once (KIP-219)

Source: Apache Kafka's ListTransactions*.json and DescribeTransactions*.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import INT16, INT32, INT64, Array, String
from ..replies import Faults, below, not_topics, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import reply_bytes_max

#: State of a transaction that was begun and not ended.
ONGOING: Final = "Ongoing"
#: States of one that was committed, before and after all its partitions have the marker of that.
PREPARE_COMMIT: Final = "PrepareCommit"
COMPLETE_COMMIT: Final = "CompleteCommit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsRequest:
    """Ask for all transactions, or those of some states, producers, or longer than a duration (ms)."""

    state_filters: tuple[str, ...] = wire(Array(String()), default=())
    producer_id_filters: tuple[int, ...] = wire(Array(INT64), default=())
    duration_filter: int = wire(INT64, since=1, default=-1)
    transactional_id_pattern: str | None = wire(String(), since=2, nullable_since=2, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id and the state of its last transaction."""

    transactional_id: str = wire(String())
    producer_id: int = wire(INT64)
    transaction_state: str = wire(String())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsReply:
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
    """Partitions of a topic that a transaction is in; of one that is ending, those without its marker."""

    topic: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """A transaction. ``transaction_start_time_ms`` is -1 where none is open."""

    error_code: int = wire(INT16)
    transactional_id: str = wire(String())
    transaction_state: str = wire(String())
    transaction_timeout_ms: int = wire(INT32)
    transaction_start_time_ms: int = wire(INT64)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    topics: tuple[TransactionTopic, ...] = wire(Array(Struct(TransactionTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsReply:
    """All transactions that were asked for."""

    throttle_time_ms: int = wire(INT32)
    transaction_states: tuple[DescribedTransaction, ...] = wire(Array(Struct(DescribedTransaction)))


def _list_faults(_request: ListTransactionsRequest, reply: ListTransactionsReply, _version: int) -> Faults:
    yield from repeated(listed.transactional_id for listed in reply.transaction_states)
    for listed in reply.transaction_states:
        yield from below(0, "producer id", listed.producer_id, listed.transactional_id)


def _described_faults(
    request: DescribeTransactionsRequest, reply: DescribeTransactionsReply, _version: int
) -> Faults:
    yield from unlike(
        request.transactional_ids, (described.transactional_id for described in reply.transaction_states)
    )
    for described in reply.transaction_states:
        if not described.error_code:
            yield from below(0, "producer id", described.producer_id, described.transactional_id)
            # Until it is initialised again, an id has the epoch -1 after a new start of old brokers.
            yield from below(-1, "producer epoch", described.producer_epoch, described.transactional_id)
            yield from not_topics(topic.topic for topic in described.topics)


LIST_TRANSACTIONS: Final = Api(
    *names.LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsReply,
    reply_bytes_max,
    faults=_list_faults,
    versions=VersionRange(0, 2),
    flexible_since=0,
    throttles_since=0,
)

DESCRIBE_TRANSACTIONS: Final = Api(
    *names.DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    DescribeTransactionsReply,
    reply_bytes_max,
    faults=_described_faults,
    versions=VersionRange(0, 0),
    flexible_since=0,
    throttles_since=0,
)
