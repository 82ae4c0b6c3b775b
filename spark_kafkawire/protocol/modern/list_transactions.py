"""ListTransactions and DescribeTransactions (Kafka 3.0 and later): the transactions of a coordinator.

Every broker lists the transactions that it coordinates; the description of one comes from its coordinator.

Versions of ListTransactions::

    0       flexible (KIP-482): by state and producer id (KIP-664); throttled responses come at once (KIP-219)
    1       by their duration, too (KIP-994)
    2       by a pattern of their ids, too (KIP-1152)

Versions of DescribeTransactions::

    0       flexible (KIP-482): state and identity (KIP-664); throttled responses come at once (KIP-219)

Source: Apache Kafka's ListTransactions*.json and DescribeTransactions*.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import INT16, INT32, INT64, Array, String
from ..responses import Faults, below, not_topics, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max

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
    """States of the transactions to list; empty for all."""
    producer_id_filters: tuple[int, ...] = wire(Array(INT64), default=())
    """Producers of the transactions to list; empty for all."""
    duration_filter: int = wire(INT64, since=1, default=-1)
    """Least age of the transactions to list, ms; -1 for all (KIP-994)."""
    transactional_id_pattern: str | None = wire(String(), since=2, nullable_since=2, default=None)
    """Regular expression of the transactional ids; None for all (KIP-1152)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id and the state of its last transaction."""

    transactional_id: str = wire(String())
    """Transactional id of the producer."""
    producer_id: int = wire(INT64)
    """Id of the producer."""
    transaction_state: str = wire(String())
    """State of the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResponse:
    """The transactions of one coordinator."""

    throttle_time_ms: int = wire(INT32)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    unknown_state_filters: tuple[str, ...] = wire(Array(String()))
    """Filters that the coordinator does not know."""
    transaction_states: tuple[ListedTransaction, ...] = wire(Array(Struct(ListedTransaction)))
    """Transactions of the coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """Ask for transactions by their ids."""

    transactional_ids: tuple[str, ...] = wire(Array(String()))
    """Transactional ids to describe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTopic:
    """Partitions of a topic in a transaction; once it is ending, only those without its marker."""

    topic: str = wire(String())
    """Name of the topic."""
    partitions: tuple[int, ...] = wire(Array(INT32))
    """Indexes of the partitions in the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """Description of a transaction. ``transaction_start_time_ms`` is -1 if no transaction is open."""

    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    transactional_id: str = wire(String())
    """Transactional id of the producer."""
    transaction_state: str = wire(String())
    """State of the transaction."""
    transaction_timeout_ms: int = wire(INT32)
    """Time after which the coordinator aborts the transaction, ms."""
    transaction_start_time_ms: int = wire(INT64)
    """Start of the transaction, ms since 1970; -1 if none is open."""
    producer_id: int = wire(INT64)
    """Id of the producer."""
    producer_epoch: int = wire(INT16)
    """Epoch of the producer."""
    topics: tuple[TransactionTopic, ...] = wire(Array(Struct(TransactionTopic)))
    """Partitions in the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """The requested transactions."""

    throttle_time_ms: int = wire(INT32)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    transaction_states: tuple[DescribedTransaction, ...] = wire(Array(Struct(DescribedTransaction)))
    """Description of each transaction."""


def _list_faults(
    _request: ListTransactionsRequest, response: ListTransactionsResponse, _version: int
) -> Faults:
    yield from repeated(listed.transactional_id for listed in response.transaction_states)
    for listed in response.transaction_states:
        yield from below(0, "producer id", listed.producer_id, listed.transactional_id)


def _described_faults(
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


LIST_TRANSACTIONS: Final = Api(
    *names.LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsResponse,
    response_bytes_max,
    faults=_list_faults,
    versions=VersionRange(0, 2),
    flexible_since=0,
    throttles_since=0,
)

#: The version of ListTransactions that takes a pattern.
PATTERN_SINCE: Final = 2

DESCRIBE_TRANSACTIONS: Final = Api(
    *names.DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    response_bytes_max,
    faults=_described_faults,
    versions=VersionRange(0, 0),
    flexible_since=0,
    throttles_since=0,
)
