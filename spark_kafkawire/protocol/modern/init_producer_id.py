"""InitProducerId: the identity of an idempotent producer, or of one with a transactional id.

For a transactional id it aborts the transaction that is open under it, and fences whoever began that: the
coordinator of the id is asked (see ``find_coordinator``), which answers CONCURRENT_TRANSACTIONS until the
transaction before has ended.

Versions of InitProducerId::

    0       a producer id and its epoch (KIP-98)
    1       throttled replies come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)
    3       the id that the producer has, to go on with (KIP-360)
    4       PRODUCER_FENCED may come (KIP-588)
    5       TRANSACTION_ABORTABLE may come (KIP-890)
    6       commits in two phases (KIP-939)

Version 6 is sent where it is asked for only: brokers up to 4.4 serve it with ``unstable.api.versions.enable``
alone.

Source: Apache Kafka's InitProducerIdRequest.json and InitProducerIdResponse.json.
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

#: Last version without commits in two phases.
_ONE_PHASE_UNTIL: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    """Ask for a producer id. ``transactional_id`` is None where the producer is only idempotent.

    ``enable_2pc`` wants transactions that no timeout ends, ``keep_prepared_txn`` wants the open one left
    open.
    """

    transactional_id: str | None = wire(String(), nullable_since=0, default=None)
    transaction_timeout_ms: int = wire(INT32, default=0x7FFFFFFF)
    producer_id: int = wire(INT64, since=3, default=-1)
    producer_epoch: int = wire(INT16, since=3, default=-1)
    enable_2pc: bool = wire(BOOL, since=6, default=False)
    keep_prepared_txn: bool = wire(BOOL, since=6, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdReply:
    """The producer's id and epoch, which its batches carry; those of the open transaction where that was to
    be kept and is there."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    ongoing_txn_producer_id: int = wire(INT64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = wire(INT16, since=6, default=-1)


def _version_max(request: InitProducerIdRequest) -> int:
    in_two_phases = request.enable_2pc or request.keep_prepared_txn
    return VERSION_MAX if in_two_phases else _ONE_PHASE_UNTIL


def _faults(_request: InitProducerIdRequest, reply: InitProducerIdReply, _version: int) -> Faults:
    if not reply.error_code:
        yield from below(0, "producer id", reply.producer_id)
        yield from below(0, "producer epoch", reply.producer_epoch)
        yield from below(-1, "producer id of the open transaction", reply.ongoing_txn_producer_id)
        yield from below(-1, "epoch of the open transaction", reply.ongoing_txn_producer_epoch)


INIT_PRODUCER_ID: Final = Api(
    *names.INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdReply,
    small_reply_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 6),
    flexible_since=2,
    throttles_since=1,
    version_max=_version_max,
)
