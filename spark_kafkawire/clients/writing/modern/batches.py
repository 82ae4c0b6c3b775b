"""What a task has written to each log, and the batches that are on their way there."""

from __future__ import annotations

import time
from collections.abc import Iterator
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
    """The identity that InitProducerId gives: a broker knows repeated batches by it."""

    id: int
    epoch: int


#: In the batches of a producer that is not idempotent.
NO_PRODUCER: Final = ProducerId(-1, -1)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a producer is in a log: its identity, and the sequence of the next record.

    A producer that takes over another one's position is held by the broker to that log's order: of
    all that both send, each sequence is appended once. Source: KIP-98.
    """

    producer: ProducerId
    next_sequence: int = 0


@dataclass(frozen=True, slots=True)
class BatchEncoder:
    """How a task's records become batches: the format that its brokers speak, codec, level."""

    magic: int
    compression: str
    level: int | None
    record_bytes_max: int

    def encode(self, records: Records, batch_bytes_max: int) -> Iterator[EncodedBatch]:
        """Batches of all records, in order; a record without a timestamp is of now."""
        return encode_batches(
            records,
            magic=self.magic,
            compression=self.compression,
            level=self.level,
            batch_bytes_max=batch_bytes_max,
            request_bytes_max=self.record_bytes_max,
            now_ms=time.time_ns() // 1_000_000,
        )


@dataclass(slots=True)
class LogState:
    """One log as a task sees it: the identity and next sequence of its batches, whether a broker
    has had one under that identity, how many are in flight, how large they may be (bytes), and
    what is proven to be there. ``is_resumed`` tells that the identity is an earlier producer's, and
    must stay; ``is_repeating`` that a batch in flight may be in the log already.
    """

    producer: ProducerId
    batch_bytes_max: int
    next_sequence: int = 0
    is_known: bool = False
    in_flight: int = 0
    is_repeating: bool = False
    is_resumed: bool = False
    message_count: int = 0
    size: int = 0
    start_offset: int | None = None
    stop_offset: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether another batch may be sent.

        A broker takes whatever sequence it sees first of an identity: the second batch must not
        come before the first is there. And it knows a repeated batch among the last five alone: a
        new one must not come before that is settled. Source: ProducerAppendInfo.checkSequence and
        ProducerStateEntry.NUM_BATCHES_TO_RETAIN of Apache Kafka.
        """
        may_follow = self.is_known and not self.is_repeating
        return may_follow or self.in_flight == 0 or self.producer == NO_PRODUCER

    @property
    def may_begin_anew(self) -> bool:
        """Whether a broker that has forgotten the identity may be given another one."""
        return self.is_known and not self.is_resumed

    def identify(self, producer: ProducerId) -> None:
        """Begin anew under another identity."""
        self.producer, self.next_sequence, self.is_known = producer, 0, False

    def number(self, batch: Batch) -> None:
        """Give a batch the identity and the next sequences."""
        batch.producer = self.producer
        if self.producer != NO_PRODUCER:
            batch.base_sequence = self.next_sequence
            self.next_sequence = self.next_sequence + batch.count & SEQUENCE_MAX

    def sent(self, batch: Batch) -> None:
        """The batch is in flight."""
        self.in_flight += 1
        self.is_repeating |= batch.is_in_doubt

    def settled(self, batch: Batch) -> None:
        """The batch is not in flight any more."""
        self.in_flight -= 1
        if batch.is_in_doubt:
            self.is_repeating = False

    def prove(self, batch: Batch, base_offset: int = -1) -> None:
        """The batch is in the log, from ``base_offset`` on unless that is -1."""
        self.is_known = True
        self.message_count += batch.count
        self.size += batch.size
        if base_offset >= 0:
            # A repeated batch is proven after those that came behind it.
            start, stop = base_offset, base_offset + batch.count
            self.start_offset = start if self.start_offset is None else min(self.start_offset, start)
            self.stop_offset = stop if self.stop_offset is None else max(self.stop_offset, stop)


@dataclass(slots=True, eq=False)
class Batch:
    """Records of one log from their encoding until they are proven.

    ``place`` is the batch's among all of its task. ``deadline`` is when it must be proven.
    ``is_in_doubt`` tells that a broker may have the batch although none said so.
    """

    log: TopicPartition
    records: Records = field(repr=False)
    encoder: BatchEncoder
    encoded: EncodedBatch = field(repr=False)
    place: int
    deadline: Deadline
    producer: ProducerId = NO_PRODUCER
    base_sequence: int = -1
    is_in_doubt: bool = False

    @property
    def count(self) -> int:
        """Records in the batch."""
        return self.encoded.count

    @property
    def size(self) -> int:
        """Bytes of the batch."""
        return len(self.encoded.data)

    def data(self) -> Buffer:
        """The bytes to send, which carry identity and sequence."""
        return self.encoded.with_producer(self.producer.id, self.producer.epoch, self.base_sequence)

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches of the same records and sequences."""
        middle = self.count // 2
        return self._part(0, middle), self._part(middle, self.count)

    def _part(self, start: int, stop: int) -> Batch:
        records = self.records.slice(start, stop - start)
        (encoded,) = self.encoder.encode(records, BATCH_BYTES_UNBOUNDED)
        sequence = self.base_sequence
        if self.producer != NO_PRODUCER:
            sequence = sequence + start & SEQUENCE_MAX
        return replace(self, records=records, encoded=encoded, base_sequence=sequence)
