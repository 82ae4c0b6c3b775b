"""EndTxn (Kafka 0.11 and later): commits or aborts a transaction, from any connection.

Kafka has two protocols of transactions. In the first protocol the client announces to the coordinator the
partitions that a transaction will write to (``add_to_txn``), and the producer's epoch stays. In the second
protocol (KIP-890, finalized by a cluster as ``transaction.version=2``, see ``api_versions``) the coordinator
learns them from the writes, and each end raises the epoch, so that no earlier request arrives after the
end. A transaction is written and ended in one protocol: Produce 12, TxnOffsetCommit 5 and EndTxn 5 belong
to the second, earlier versions to the first. ``transaction_version`` is the protocol of a request. A
request of the second protocol must not use a version of the first: its records would be outside of the
transaction.

Versions of EndTxn::

    0       commit, or abort (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
    2       PRODUCER_FENCED may come (KIP-588)
    3       flexible (KIP-482)
    4       TRANSACTION_ABORTABLE may come (KIP-890)
    5       of the second protocol: answers with the producer's next id and epoch (KIP-890)

Source: Apache Kafka's EndTxnRequest.json and EndTxnResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX, Api, VersionRange
from ..primitives import BOOL, INT16, INT32, INT64, String
from ..responses import Faults, below
from ..schema import wire
from . import names
from .limits import small_response_bytes_max

#: First version of the second protocol.
SECOND_PROTOCOL_SINCE: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    """End the transaction: commit it, or abort it."""

    transactional_id: str = wire(String())
    """Transactional id of the producer."""
    producer_id: int = wire(INT64)
    """Id of the producer."""
    producer_epoch: int = wire(INT16)
    """Epoch of the producer."""
    committed: bool = wire(BOOL)
    """True to commit the transaction; it is aborted otherwise."""
    transaction_version: int = 1
    """Protocol of the transaction: 1, or 2 (KIP-890). Not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnResponse:
    """Outcome of the decision; the markers may reach the partitions later. In the second protocol it holds
    the producer id and epoch of the next transaction, in the first -1."""

    throttle_time_ms: int = wire(INT32)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    producer_id: int = wire(INT64, since=SECOND_PROTOCOL_SINCE, default=-1)
    """Id of the producer for the next transaction; -1 in the first protocol (KIP-890)."""
    producer_epoch: int = wire(INT16, since=SECOND_PROTOCOL_SINCE, default=-1)
    """Epoch of the producer for the next transaction; -1 in the first protocol (KIP-890)."""


def _version_max(request: EndTxnRequest) -> int:
    return SECOND_PROTOCOL_SINCE - 1 if request.transaction_version == 1 else VERSION_MAX


def _version_min(request: EndTxnRequest) -> int:
    return 0 if request.transaction_version == 1 else SECOND_PROTOCOL_SINCE


def _faults(request: EndTxnRequest, response: EndTxnResponse, version: int) -> Faults:
    if not response.error_code and version >= SECOND_PROTOCOL_SINCE:
        yield from below(0, "producer id", response.producer_id)
        # When epochs are used up, the next epoch is the first of another producer id.
        is_same = response.producer_id == request.producer_id
        yield from below(request.producer_epoch if is_same else 0, "producer epoch", response.producer_epoch)


END_TXN: Final = Api(
    *names.END_TXN,
    EndTxnRequest,
    EndTxnResponse,
    small_response_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 5),
    flexible_since=3,
    throttles_since=1,
    version_max=_version_max,
    version_min=_version_min,
)
