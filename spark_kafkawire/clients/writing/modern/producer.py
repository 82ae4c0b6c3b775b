"""Producer of a write task to modern Kafka (0.8 to 4.x): it buffers records, and encodes and sends batches.

    with Producer(metadata, options) as producer:
        producer.add(partition, records)
        receipts = producer.finish()

Batches of an idempotent producer carry its id and a sequence, by which brokers recognize duplicates. Source:
KIP-98.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.records.rows import Records

from .batch_sender import BatchSender
from .batches import BatchEncoder, PartitionProducerState, ProducerBatch, ProducerId, ProducerPosition
from .producer_ids import obtain_producer_id

#: Batches of one partition that are buffered before the whole buffer is sent: the last of them is not full,
#: and costs as much as the others.
_GATHERED_BATCHES: Final = 4
#: Parts of one partition are concatenated up to this many bytes: each part has a cost of its own.
_COPIED_BYTES_MAX: Final = 64 << 10
_NOTHING_RESUMED: Final[Mapping[TopicPartition, ProducerPosition]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProducerTransaction:
    """Transaction of all batches of a producer, and the function that adds partitions to it."""

    producer: ProducerId
    add_partitions: Callable[[Collection[TopicPartition]], None]


class Producer:
    """Writes the rows of one task to modern brokers. The order of records within a partition is kept.

    If ``resumed`` has a position for a partition, its batches continue there instead of under a new producer
    id. With a ``transaction``, all batches belong to it.

    Memory: up to ``kafka.buffer.memory`` and one batch of rows, twice while it is encoded, and the requests
    in flight.
    """

    def __init__(
        self,
        metadata: Metadata,
        options: WriteOptions,
        resumed: Mapping[TopicPartition, ProducerPosition] = _NOTHING_RESUMED,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        self._metadata = metadata
        self._options = options
        self._resumed = resumed
        self._transaction = transaction
        self._buffered: dict[TopicPartition, list[Records]] = {}
        self._buffered_sizes: dict[TopicPartition, int] = {}
        self._buffered_bytes = 0
        self._states: dict[TopicPartition, PartitionProducerState] = {}
        self._batch_sender = BatchSender(metadata, options, self._states)
        self._encoder: BatchEncoder | None = None
        self._producer: ProducerId | None = None
        self._batch_count = 0

    def add(self, partition: TopicPartition, records: Records) -> None:
        """Buffer records of a partition. The whole buffer is sent once it fills some batches or the memory.

        Raises ``DeliveryError``, ``OptionError``, and the error that prevents the first batch from being sent
        (all fatal).
        """
        self._buffered.setdefault(partition, []).append(records)
        size = records.nbytes
        self._buffered_bytes += size
        self._buffered_sizes[partition] = size = self._buffered_sizes.get(partition, 0) + size
        is_full = self._buffered_bytes >= self._options.delivery.buffer_bytes
        if is_full or size >= _GATHERED_BATCHES * self._options.batch_bytes:
            self._flush()

    def queue_capacity(self, partitions: Sequence[TopicPartition]) -> list[int] | None:
        """Bytes that may be added for each partition before the task waits for its leader; None if all
        leaders keep up. Never fails."""
        if not self._options.delivery.adapts:
            return None
        free = self._batch_sender.free_requests(partitions)
        if free is None:
            return None
        size, buffered = self._options.batch_bytes, self._buffered_sizes
        return [
            max(count * size - buffered.get(tp, 0), 0) for tp, count in zip(partitions, free, strict=True)
        ]

    def finish(self) -> tuple[PartitionReceipt, ...]:
        """Send the rest, and wait until all batches are acknowledged as ``acks`` asks for. Raises as
        ``add``."""
        self._flush()
        self._batch_sender.finish()
        return tuple(
            PartitionReceipt(tp, state.message_count, state.size, state.start_offset, state.stop_offset)
            for tp, state in sorted(self._states.items())
        )

    def close(self) -> None:
        """Return the connections to the pool for later tasks; never fails."""
        self._batch_sender.close()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _flush(self) -> None:
        """Encode and send the whole buffer, partition by partition."""
        buffered, self._buffered = self._buffered, {}
        self._buffered_sizes, self._buffered_bytes = {}, 0
        if self._transaction and (new := buffered.keys() - self._states.keys()):
            self._transaction.add_partitions(sorted(new))
        for partition, buffered_parts in buffered.items():
            if parts := list(joined(buffered_parts)):
                self._deliver(partition, parts)
        self._batch_sender.pump()

    def _deliver(self, partition: TopicPartition, parts: Sequence[Records]) -> None:
        state, encoder = self._state(partition)
        left = deque(parts)
        batch_bytes_max = min(state.batch_bytes_max, self._batch_sender.sizes.batch_bytes_max)
        for encoded in encoder.encode(parts, batch_bytes_max):
            own = taken(left, encoded.count)
            batch = ProducerBatch(
                partition, own, encoder, encoded, self._batch_count, self._batch_sender.deadline()
            )
            state.assign_sequence(batch)
            self._batch_sender.enqueue(batch)
            self._batch_count += 1

    def _state(self, partition: TopicPartition) -> tuple[PartitionProducerState, BatchEncoder]:
        if self._encoder is None:
            options, magic = self._options, self._batch_sender.magic(partition)
            self._encoder = BatchEncoder(
                magic, options.compression, options.compression_level, options.message_size_max
            )
        if partition not in self._states:
            self._states[partition] = self._new_state(partition, self._encoder.magic)
        return self._states[partition], self._encoder

    def _new_state(self, partition: TopicPartition, magic: int) -> PartitionProducerState:
        batch_bytes = self._options.batch_bytes
        if self._transaction:
            # A batch with another producer id would not be in the transaction.
            return PartitionProducerState(self._transaction.producer, batch_bytes, is_resumed=True)
        if position := self._resumed.get(partition):
            return PartitionProducerState(
                position.producer, batch_bytes, position.next_sequence, is_resumed=True
            )
        if self._producer is None:
            self._producer = obtain_producer_id(self._metadata, self._options, magic)
        return PartitionProducerState(self._producer, batch_bytes)


def joined(parts: Sequence[Records]) -> Iterator[Records]:
    """Concatenate small parts, which copies them; parts without records are dropped."""
    if len(parts) == 1 and parts[0].count:  # most partitions of many
        yield parts[0]
        return
    small: list[Records] = []
    size = 0
    for part in filter(attrgetter("count"), parts):
        if small and size + part.nbytes > _COPIED_BYTES_MAX:
            yield Records.concat(small)
            small, size = [], 0
        small.append(part)
        size += part.nbytes
    if small:
        yield Records.concat(small)


def taken(parts: deque[Records], count: int) -> list[Records]:
    """Remove the first ``count`` rows from ``parts``, and return them."""
    rows: list[Records] = []
    while count:
        part = parts.popleft()
        if part.count > count:
            parts.appendleft(part.slice(count, part.count - count))
            part = part.slice(0, count)
        rows.append(part)
        count -= part.count
    return rows
