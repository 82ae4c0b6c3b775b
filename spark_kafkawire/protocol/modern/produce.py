"""Produce, and InitProducerId of an idempotent or transactional producer.

Produce (Kafka 0.8 and later): appends record batches to partitions.

Versions of Produce::

    0       records in magic 0
    1       throttle time
    2       records in magic 1: timestamps; the broker's time of appending (KIP-32)
    3       records in magic 2, one batch for each partition; transactional id (KIP-98)
    4       KAFKA_STORAGE_ERROR may come (KIP-112)
    5       log start offset
    6       throttled responses come at once, and the client waits (KIP-219)
    7       records in zstd (KIP-110)
    8       which records are refused, and why (KIP-467)
    9       flexible (KIP-482)
    10      the current leader and its address (KIP-951)
    11      TRANSACTION_ABORTABLE may come (KIP-890)
    12      a partition joins the transaction with the first write to it (KIP-890)
    13      topics by id (KIP-516)

InitProducerId (Kafka 0.11 and later): the id and epoch of an idempotent or transactional producer.

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

import uuid
from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX
from ..primitives import BOOL, BYTES, INT16, INT32, INT64, UUID, Array, Buffer, String
from ..responses import Faults, below, unlike
from ..schema import Struct, wire
from . import declare
from .limits import ACKS_NONE, NO_TOPIC_ID, have_ids, response_bytes_max, small_response_bytes_max, with_names

#: Last version of a transaction whose partitions were added by AddPartitionsToTxn.
_FIRST_PROTOCOL_UNTIL: Final = 11
#: Last version that names topics; later ones have their ids.
TOPIC_NAMES_UNTIL: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartition:
    """Records for one partition.

    Their format depends on the version: magic 0 up to version 1, magic 1 in version 2, exactly one
    batch of magic 2 from version 3 on. zstd needs version 7.
    """

    index: int = wire(INT32)
    records: Buffer | None = wire(BYTES, nullable_since=0, shown=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceTopic:
    """Records for partitions of one topic. The version decides whether its name or its id is sent."""

    name: str = wire(String(), until=TOPIC_NAMES_UNTIL, default="", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID, ignorable=True)
    partition_data: tuple[ProducePartition, ...] = wire(Array(Struct(ProducePartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """Append to partitions that the broker leads. The broker does not answer if ``acks`` is 0.

    ``timeout_ms`` bounds the leader's wait for its replicas. ``transaction_version`` is the protocol of
    the transaction (see ``transactions``) that the request belongs to, if any.
    """

    transactional_id: str | None = wire(String(), since=3, nullable_since=3, default=None)
    """Transactional id; None outside of transactions (KIP-98)."""
    acks: int = wire(INT16)
    """Acknowledgement to wait for: 0 none, 1 the leader, -1 all in-sync replicas."""
    timeout_ms: int = wire(INT32)
    topic_data: tuple[ProduceTopic, ...] = wire(Array(Struct(ProduceTopic)))
    transaction_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """A record that caused its batch to be refused."""

    batch_index: int = wire(INT32)
    batch_index_error_message: str | None = wire(String(), nullable_since=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartitionResponse:
    """Outcome for one partition. ``base_offset`` is the first record's offset, -1 if none was appended.

    ``log_append_time_ms`` is -1 unless the topic stamps records with the broker's time.
    """

    index: int = wire(INT32)
    error_code: int = wire(INT16)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, since=2, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    record_errors: tuple[RecordError, ...] = wire(Array(Struct(RecordError)), since=8, default=())
    error_message: str | None = wire(String(), since=8, nullable_since=8, default=None)

    @property
    def reason(self) -> str | None:
        """The broker's own text about the error: that of the first refused record if there is one."""
        of_records = (error.batch_index_error_message for error in self.record_errors)
        return next(filter(None, of_records), self.error_message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceTopicResponse:
    """Outcomes of one topic's partitions."""

    name: str = wire(String(), until=TOPIC_NAMES_UNTIL, default="")
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID)
    partition_responses: tuple[ProducePartitionResponse, ...] = wire(Array(Struct(ProducePartitionResponse)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    """Outcome for the records of each partition."""

    responses: tuple[ProduceTopicResponse, ...] = wire(Array(Struct(ProduceTopicResponse)))
    throttle_time_ms: int = wire(INT32, since=1, default=0)


def _version_max(request: ProduceRequest) -> int:
    of_first_protocol = request.transactional_id is not None and request.transaction_version == 1
    if of_first_protocol:
        return _FIRST_PROTOCOL_UNTIL
    return VERSION_MAX if have_ids(request.topic_data) else TOPIC_NAMES_UNTIL


def _version_min(request: ProduceRequest) -> int:
    of_second_protocol = request.transactional_id is not None and request.transaction_version > 1
    return _FIRST_PROTOCOL_UNTIL + 1 if of_second_protocol else 0


def _produce_faults(request: ProduceRequest, response: ProduceResponse, _version: int) -> Faults:
    topics = with_names(response.responses, request.topic_data)
    yield from unlike(
        [(topic.name, part.index) for topic in request.topic_data for part in topic.partition_data],
        [(topic.name, part.index) for topic in topics for part in topic.partition_responses],
    )
    for topic in topics:
        for part in topic.partition_responses:
            # Appended records have an offset.
            yield from below(-1 if part.error_code else 0, "base offset", part.base_offset, topic.name)
            yield from below(-1, "log append time", part.log_append_time_ms, topic.name)
            yield from below(-1, "log start offset", part.log_start_offset, topic.name)


PRODUCE: Final = declare(
    ProduceRequest,
    ProduceResponse,
    response_bytes_max,
    _produce_faults,
    is_answered=lambda request: request.acks != ACKS_NONE,
    version_max=_version_max,
    version_min=_version_min,
)


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


def _phases_version_max(request: InitProducerIdRequest) -> int:
    in_two_phases = request.enable_2pc or request.keep_prepared_txn
    return VERSION_MAX if in_two_phases else _ONE_PHASE_UNTIL


def _init_faults(_request: InitProducerIdRequest, response: InitProducerIdResponse, _version: int) -> Faults:
    if not response.error_code:
        yield from below(0, "producer id", response.producer_id)
        yield from below(0, "producer epoch", response.producer_epoch)
        yield from below(-1, "producer id of the open transaction", response.ongoing_txn_producer_id)
        yield from below(-1, "epoch of the open transaction", response.ongoing_txn_producer_epoch)


INIT_PRODUCER_ID: Final = declare(
    InitProducerIdRequest,
    InitProducerIdResponse,
    small_response_bytes_max,
    _init_faults,
    version_max=_phases_version_max,
)
