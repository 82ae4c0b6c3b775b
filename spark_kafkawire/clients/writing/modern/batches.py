"""Batches of a task from their encoding until they are acked, and what was acked of each log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ....model import TopicPartition
from ....net.transport import Deadline
from ....protocol.primitives import Buffer
from ....records.encoded_batch import EncodedBatch
from ....records.record_log import encode_batches
from ....records.rows import Records

#: Sequences count records and begin anew after this one: the field is a signed int32.
SEQUENCE_MAX: Final = (1 << 31) - 1
#: Puts all records into one batch, whatever its size.
BATCH_BYTES_UNBOUNDED: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ProducerId:
    """What InitProducerId gives: a broker recognizes repeated batches by it. ``transactional_id`` is that of
    the transaction that the batches are of, if any, and ``transaction_version`` its protocol."""

    id: int
    epoch: int
    transactional_id: str | None = None
    transaction_version: int = 1


#: In the batches of a producer that is not idempotent.
NO_PRODUCER: Final = ProducerId(-1, -1)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a producer is in a log: its id, and the sequence of the next record.

    A producer that takes over the position of another one continues its sequences: of all that both
    send, the broker appends each sequence once. Source: KIP-98.
    """

    producer: ProducerId
    next_sequence: int = 0


@dataclass(frozen=True, slots=True)
class BatchEncoder:
    """How a task's records become batches: the record format (``magic``) of its brokers, codec, level."""

    magic: int
    compression: str
    level: int | None
    record_bytes_max: int

    def encode(self, parts: Sequence[Records], batch_bytes_max: int) -> Iterator[EncodedBatch]:
        """Batches of the records of all parts, in order; a record without a timestamp is of now."""
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
class LogState:
    """What a task knows of one log: the producer id and next sequence of its batches, how many of them
    are in flight, how large they may be (bytes), and what was acked: counts and offsets.

    ``has_acks`` tells that a broker has acked a batch under this producer id, ``is_retrying`` that a
    batch in flight may be in the log already, ``is_resumed`` that the producer id is an earlier
    producer's and must stay.
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
        """Whether another batch may be sent.

        A broker accepts any sequence as the first of a producer id: the second batch must not arrive
        before the first was acked. It recognizes a repeated batch among the last five only: a new one
        must not arrive before the outcome of a retry is known. Source: ProducerAppendInfo.checkSequence and
        ProducerStateEntry.NUM_BATCHES_TO_RETAIN of Apache Kafka.
        """
        may_follow = self.has_acks and not self.is_retrying
        return may_follow or self.in_flight == 0 or self.producer == NO_PRODUCER

    @property
    def may_reset_producer(self) -> bool:
        """Whether another producer id may be used where the broker has forgotten this one."""
        return self.has_acks and not self.is_resumed

    def reset_producer(self, producer: ProducerId) -> None:
        """Continue under another producer id, whose sequences begin at 0."""
        self.producer, self.next_sequence, self.has_acks = producer, 0, False

    def assign_sequence(self, batch: Batch) -> None:
        """Give a batch the producer id and the next sequences."""
        batch.producer = self.producer
        if self.producer != NO_PRODUCER:
            batch.base_sequence = self.next_sequence
            self.next_sequence = self.next_sequence + batch.count & SEQUENCE_MAX

    def sent(self, batch: Batch) -> None:
        """The batch is in flight."""
        self.in_flight += 1
        self.is_retrying |= batch.maybe_persisted

    def settled(self, batch: Batch) -> None:
        """The batch is no longer in flight."""
        self.in_flight -= 1
        if batch.maybe_persisted:
            self.is_retrying = False

    def acked(self, batch: Batch, base_offset: int = -1) -> None:
        """The batch is in the log, from ``base_offset`` on unless that is -1."""
        self.has_acks = True
        self.message_count += batch.count
        self.size += batch.size
        if base_offset >= 0:
            # A batch that was retried is acked after those that were sent behind it.
            start, stop = base_offset, base_offset + batch.count
            self.start_offset = start if self.start_offset is None else min(self.start_offset, start)
            self.stop_offset = stop if self.stop_offset is None else max(self.stop_offset, stop)


@dataclass(slots=True, eq=False)
class Batch:
    """Records of one log from their encoding until they are acked, in one part or more.

    ``index`` counts the batches of the task, ``deadline`` is when this one must be acked.
    ``maybe_persisted`` tells that the batch may be in the log although no broker has acked it.
    """

    log: TopicPartition
    parts: Sequence[Records] = field(repr=False)
    encoder: BatchEncoder
    encoded: EncodedBatch = field(repr=False)
    index: int
    deadline: Deadline
    producer: ProducerId = NO_PRODUCER
    base_sequence: int = -1
    maybe_persisted: bool = False

    @property
    def count(self) -> int:
        """Records in the batch."""
        return self.encoded.count

    @property
    def size(self) -> int:
        """Bytes of the batch."""
        return len(self.encoded.data)

    def data(self) -> Buffer:
        """The bytes to send, with producer id and sequence."""
        producer = self.producer
        is_transactional = producer.transactional_id is not None
        return self.encoded.with_producer(
            producer.id, producer.epoch, self.base_sequence, is_transactional=is_transactional
        )

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches of the same records and sequences."""
        records, middle = Records.concat(self.parts), self.count // 2
        return self._part(records, 0, middle), self._part(records, middle, self.count)

    def _part(self, records: Records, start: int, stop: int) -> Batch:
        parts = [records.slice(start, stop - start)]
        (encoded,) = self.encoder.encode(parts, BATCH_BYTES_UNBOUNDED)
        sequence = self.base_sequence
        if self.producer != NO_PRODUCER:
            sequence = sequence + start & SEQUENCE_MAX
        return replace(self, parts=parts, encoded=encoded, base_sequence=sequence)
