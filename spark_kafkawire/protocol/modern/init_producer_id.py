"""InitProducerId (Kafka 0.11 and later): the id and epoch of an idempotent or transactional producer.

For a transactional id the broker aborts the open transaction and fences the producer that began it. The
request goes to the coordinator of the id (see ``group_offsets``), which answers CONCURRENT_TRANSACTIONS
until the previous transaction has ended.

Versions of InitProducerId::

    0       a producer id and its epoch (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)
    3       the current id and epoch of the producer, to keep the id (KIP-360)
    4       PRODUCER_FENCED may come (KIP-588)
    5       TRANSACTION_ABORTABLE may come (KIP-890)
    6       commits in two phases (KIP-939)

Version 6 is sent only for two-phase commits: brokers up to 4.4 serve it only with
``unstable.api.versions.enable``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX
from ..primitives import BOOL, INT16, INT32, INT64, String
from ..responses import Faults, below
from ..schema import wire
from . import declare
from .limits import small_response_bytes_max

#: Last version without commits in two phases.
_ONE_PHASE_UNTIL: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    """Ask for a producer id. ``transactional_id`` is None if the producer is only idempotent.

    ``enable_2pc`` asks for transactions without a timeout, ``keep_prepared_txn`` keeps the open transaction
    open.
    """

    transactional_id: str | None = wire(String(), nullable_since=0, default=None)
    transaction_timeout_ms: int = wire(INT32, default=0x7FFFFFFF)
    """Time after which the coordinator aborts an open transaction, ms."""
    producer_id: int = wire(INT64, since=3, default=-1)
    """Id that the producer has; -1 for none (KIP-360)."""
    producer_epoch: int = wire(INT16, since=3, default=-1)
    enable_2pc: bool = wire(BOOL, since=6, default=False)
    keep_prepared_txn: bool = wire(BOOL, since=6, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    """The producer's id and epoch, which its batches carry. The ``ongoing_txn`` fields are those of an open
    transaction that was kept."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    ongoing_txn_producer_id: int = wire(INT64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = wire(INT16, since=6, default=-1)


def _version_max(request: InitProducerIdRequest) -> int:
    in_two_phases = request.enable_2pc or request.keep_prepared_txn
    return VERSION_MAX if in_two_phases else _ONE_PHASE_UNTIL


def _faults(_request: InitProducerIdRequest, response: InitProducerIdResponse, _version: int) -> Faults:
    if not response.error_code:
        yield from below(0, "producer id", response.producer_id)
        yield from below(0, "producer epoch", response.producer_epoch)
        yield from below(-1, "producer id of the open transaction", response.ongoing_txn_producer_id)
        yield from below(-1, "epoch of the open transaction", response.ongoing_txn_producer_epoch)


INIT_PRODUCER_ID: Final = declare(
    InitProducerIdRequest, InitProducerIdResponse, small_response_bytes_max, _faults, version_max=_version_max
)
