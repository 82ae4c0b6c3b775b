"""Batches of a write task to modern Kafka (0.8 to 4.x), the producer that numbers them, and its id (0.11 to
4.x). Source: KIP-98."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import LOG, BrokerError, OptionError, UnsupportedVersionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.retry import call_with_retries
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.produce import InitProducerIdRequest, InitProducerIdResponse
from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.records.encoded_batch import EncodedBatch
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records

#: Greatest sequence number; 0 follows it: sequences number records in a signed int32.
SEQUENCE_MAX: Final = (1 << 31) - 1
#: Bytes of a request for each batch besides its data and the name of its topic, at most: partition, lengths,
#: counts and tagged fields. Source: ProduceRequest.json.
BATCH_OVERHEAD: Final = 32
#: Size limit that puts all records into one batch.
BATCH_BYTES_UNBOUNDED: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ProducerId:
    """Producer id and epoch from InitProducerId, by which a broker recognizes duplicates.
    ``transactional_id`` is the one of the batches' transaction, if any, and ``transaction_version`` its
    protocol."""

    id: int
    epoch: int
    transactional_id: str | None = None
    transaction_version: int = 1


#: Id in the batches of a producer that is not idempotent.
NO_PRODUCER: Final = ProducerId(-1, -1)


@dataclass(frozen=True, slots=True)
class ProducerPosition:
    """Position of a producer in a partition: its id, and the sequence of the next record.

    A producer that takes over the position of another one continues its sequences: the broker appends each
    sequence once, whichever of the two sends it. Source: KIP-98.
    """

    producer: ProducerId
    next_sequence: int = 0


@dataclass(frozen=True, slots=True)
class BatchEncoder:
    """Encodes a task's records as batches in the record format (``magic``) of its brokers."""

    magic: int
    compression: str
    level: int | None
    record_bytes_max: int

    def encode(self, parts: Sequence[Records], batch_bytes_max: int) -> Iterator[EncodedBatch]:
        """Encode the records of all parts, in order, as batches; records without a timestamp get the present
        time."""
        return encode_batches(
            *parts,
            magic=self.magic,
            compression=self.compression,
            level=self.level,
            batch_bytes_max=batch_bytes_max,
            request_bytes_max=self.record_bytes_max,
            now_ms=time.time_ns() // 1_000_000,
        )


@dataclass(slots=True)
class PartitionProducerState:
    """State of a task's producer in one partition: producer id and next sequence, the number of batches in
    flight, their largest size in bytes, and the counts and offsets of what was acknowledged.

    ``has_acks`` means that a broker has acknowledged a batch under this producer id, ``is_retrying`` that a
    batch in flight may be in the log already, ``is_resumed`` that the producer id came from an earlier
    producer and must stay.
    """

    producer: ProducerId
    batch_bytes_max: int
    next_sequence: int = 0
    has_acks: bool = False
    in_flight: int = 0
    is_retrying: bool = False
    is_resumed: bool = False
    message_count: int = 0
    size: int = 0
    start_offset: int | None = None
    stop_offset: int | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether another batch may be sent.

        A broker accepts any sequence as the first of a producer id: the second batch must not arrive before
        the first was acknowledged. It recognizes duplicates of the last five batches only: a new batch must
        not arrive before the outcome of a retry is known. Source: ProducerAppendInfo.checkSequence and
        ProducerStateEntry.NUM_BATCHES_TO_RETAIN of Apache Kafka.
        """
        may_follow = self.has_acks and not self.is_retrying
        return may_follow or self.in_flight == 0 or self.producer == NO_PRODUCER

    @property
    def may_reset_producer(self) -> bool:
        """Return whether another producer id may be used after the broker has forgotten this one."""
        return self.has_acks and not self.is_resumed

    def reset_producer(self, producer: ProducerId) -> None:
        """Continue under another producer id, whose sequences begin at 0."""
        self.producer, self.next_sequence, self.has_acks = producer, 0, False

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give a batch the producer id and the next sequences."""
        batch.producer = self.producer
        if self.producer != NO_PRODUCER:
            batch.base_sequence = self.next_sequence
            self.next_sequence = self.next_sequence + batch.count & SEQUENCE_MAX

    def sent(self, batch: ProducerBatch) -> None:
        """Count a batch that is in flight."""
        self.in_flight += 1
        self.is_retrying |= batch.maybe_persisted

    def settle(self, batch: ProducerBatch) -> None:
        """Count a batch that is no longer in flight."""
        self.in_flight -= 1
        if batch.maybe_persisted:
            self.is_retrying = False

    def acknowledge(self, batch: ProducerBatch, base_offset: int = -1) -> None:
        """Count a batch that is in the log, from ``base_offset`` on unless that is -1."""
        self.has_acks = True
        self.message_count += batch.count
        self.size += batch.size
        if base_offset >= 0:
            # A batch that was retried is acknowledged after batches that were sent later.
            start, stop = base_offset, base_offset + batch.count
            self.start_offset = start if self.start_offset is None else min(self.start_offset, start)
            self.stop_offset = stop if self.stop_offset is None else max(self.stop_offset, stop)


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """Records of one partition from their encoding until they are acknowledged, in one part or more.

    ``index`` numbers the batches of the task, ``deadline`` bounds the time until the acknowledgement.
    ``maybe_persisted`` means that the batch may be in the log although no broker has acknowledged it.
    ``whole`` is the batch that this one was split from, if that may be in the log; a batch with
    ``stays_whole`` is not split.
    """

    topic_partition: TopicPartition
    parts: Sequence[Records] = field(repr=False)
    encoder: BatchEncoder
    encoded: EncodedBatch = field(repr=False)
    index: int
    deadline: Deadline
    producer: ProducerId = NO_PRODUCER
    base_sequence: int = -1
    maybe_persisted: bool = False
    whole: ProducerBatch | None = field(default=None, repr=False)
    stays_whole: bool = False

    @property
    def count(self) -> int:
        """Records in the batch."""
        return self.encoded.count

    @property
    def size(self) -> int:
        """Bytes of the batch."""
        return len(self.encoded.data)

    @property
    def begins_its_whole(self) -> bool:
        """True for the first part of a batch that may be in the log."""
        own, whole = (self.producer, self.base_sequence), self.whole
        return whole is not None and own == (whole.producer, whole.base_sequence)

    @property
    def request_size(self) -> int:
        """Bytes of the batch in a request, at most."""
        return len(self.encoded.data) + len(self.topic_partition.topic) + BATCH_OVERHEAD

    def data(self) -> Buffer:
        """Bytes to send, with producer id and sequence."""
        identity = self.producer.id, self.producer.epoch, self.base_sequence
        is_transactional = self.producer.transactional_id is not None
        return self.encoded.with_producer(*identity, is_transactional=is_transactional)

    def halves(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Split into two batches with the same records and sequences."""
        records, middle = Records.concat(self.parts), self.count // 2
        return self._part(records, 0, middle), self._part(records, middle, self.count)

    def _part(self, records: Records, start: int, stop: int) -> ProducerBatch:
        parts = [records.slice(start, stop - start)]
        (encoded,) = self.encoder.encode(parts, BATCH_BYTES_UNBOUNDED)
        sequence = self.base_sequence
        if self.producer != NO_PRODUCER:
            sequence = sequence + start & SEQUENCE_MAX
        whole = self.whole or (self if self.maybe_persisted else None)
        return replace(self, parts=parts, encoded=encoded, base_sequence=sequence, whole=whole)


def obtain_producer_id(metadata: Metadata, options: WriteOptions, magic: int) -> ProducerId:
    """Obtain a new producer id from the brokers, whose record format is ``magic``.

    Returns ``NO_PRODUCER`` if the options ask for no id, and with a warning if they leave the choice open and
    the brokers refuse one. Raises ``OptionError`` (fatal) if the options insist, ``TransportError`` or
    ``BrokerError`` if no broker returned an id within ``kafka.max.block.ms``.
    """
    if not options.delivery.idempotent:
        return NO_PRODUCER
    if magic < 2:  # the first record format whose batches have a producer id
        return _without_idempotence(options, "brokers before 0.11 have no idempotent producers")
    try:
        return init_producer_id(metadata, options)
    except UnsupportedVersionError as error:
        return _without_idempotence(options, str(error))
    except BrokerError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return _without_idempotence(options, f"{error}; brokers before 2.8 want the right IdempotentWrite")


def init_producer_id(metadata: Metadata, options: WriteOptions) -> ProducerId:
    """Ask any broker for a new producer id. Raises as ``obtain_producer_id``, and
    ``UnsupportedVersionError``."""

    def ask() -> ProducerId:
        response: InitProducerIdResponse = metadata.ask(InitProducerIdRequest())
        if response.error_code:
            raise broker_error(response.error_code, "InitProducerId")
        return ProducerId(response.producer_id, response.producer_epoch)

    return call_with_retries(ask, options.net.retry.make_lasting(options.delivery.metadata_timeout_s))


def _without_idempotence(options: WriteOptions, reason: str) -> ProducerId:
    if options.delivery.insists_on_idempotence:
        raise OptionError(
            f"option kafka.enable.idempotence: {reason}; set it to false, to write with "
            "duplicates after retries"
        )
    LOG.warning("%s; writing without: a batch that is sent again may be in its partition twice", reason)
    return NO_PRODUCER
