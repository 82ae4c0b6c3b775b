"""EndTxn: commit or abort a transaction, from whichever connection.

There are two protocols of transactions. In the first one the coordinator is told what a transaction will
write to (``add_to_txn``), and the producer's epoch stays. In the second one (KIP-890, finalized by a cluster
as ``transaction.version=2``, see ``api_versions``) it learns that from what is written, and each end raises
the epoch, so that nothing which was sent before it arrives after it. A transaction is written and ended in
one of them: Produce 12, TxnOffsetCommit 5 and EndTxn 5 are of the second, what is before them of the first.
``transaction_version`` tells which one a request is of, and a request of the second goes in no version of the
first: what is written so is outside of the transaction.

Versions of EndTxn::

    0       commit, or abort (KIP-98)
    1       throttled replies come at once, and the client waits (KIP-219)
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
from ..replies import Faults, below
from ..schema import wire
from . import names
from .limits import small_reply_bytes_max

#: First version of the second protocol.
SECOND_PROTOCOL_SINCE: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    """End the transaction: commit it, or abort it."""

    transactional_id: str = wire(String())
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    committed: bool = wire(BOOL)
    transaction_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnReply:
    """Whether the end is decided; the markers may reach the partitions later. In the second protocol the
    identity for the next transaction, else -1."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, since=SECOND_PROTOCOL_SINCE, default=-1)
    producer_epoch: int = wire(INT16, since=SECOND_PROTOCOL_SINCE, default=-1)


def _version_max(request: EndTxnRequest) -> int:
    return SECOND_PROTOCOL_SINCE - 1 if request.transaction_version == 1 else VERSION_MAX


def _version_min(request: EndTxnRequest) -> int:
    return 0 if request.transaction_version == 1 else SECOND_PROTOCOL_SINCE


def _faults(request: EndTxnRequest, reply: EndTxnReply, version: int) -> Faults:
    if not reply.error_code and version >= SECOND_PROTOCOL_SINCE:
        yield from below(0, "producer id", reply.producer_id)
        # Where epochs are used up, the next one is the first of another producer.
        is_same = reply.producer_id == request.producer_id
        yield from below(request.producer_epoch if is_same else 0, "producer epoch", reply.producer_epoch)


END_TXN: Final = Api(
    *names.END_TXN,
    EndTxnRequest,
    EndTxnReply,
    small_reply_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 5),
    flexible_since=3,
    throttles_since=1,
    version_max=_version_max,
    version_min=_version_min,
)
