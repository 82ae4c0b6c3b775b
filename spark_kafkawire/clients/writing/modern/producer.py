"""Producer of a write task to modern Kafka (0.8 to 4.x): it buffers records, and encodes and sends batches.

    with Producer(metadata, options) as producer:
        producer.add(partition, records)
        receipts = producer.finish()

Batches of an idempotent producer carry its id and a sequence, by which brokers recognize duplicates. Source:
KIP-98.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import RowError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.records.rows import Records

from ..rows import first_broken_text
from ..sender import PartitionReceipt, Sender
from .batch_sender import BatchSender
from .batches import (
    BatchEncoder,
    PartitionProducerState,
    ProducerBatch,
    ProducerId,
    ProducerPosition,
    obtain_producer_id,
)

if TYPE_CHECKING:
    from spark_kafkawire.cluster.modern.transactions import Transaction, Transactions

#: Batches of one partition that are buffered before the whole buffer is sent: the last of them is not full,
#: and costs as much as the others.
_GATHERED_BATCHES: Final = 4
#: Parts of one partition are concatenated up to this many bytes: each part has a cost of its own.
_COPIED_BYTES_MAX: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class ProducerTransaction:
    """Transaction of all batches of a producer, and the requests that add partitions to it."""

    transactions: Transactions
    transaction: Transaction

    @property
    def producer(self) -> ProducerId:
        """Id of the producer that writes in it."""
        item = self.transaction
        return ProducerId(item.producer_id, item.epoch, item.id, item.version)


class Producer(Sender):
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
        resumed: Mapping[TopicPartition, ProducerPosition] | None = None,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        self._metadata = metadata
        self._options = options
        self._resumed = resumed or {}
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
        (all fatal)."""
        self._buffered.setdefault(partition, []).append(records)
        size = records.nbytes
        self._buffered_bytes += size
        self._buffered_sizes[partition] = size = self._buffered_sizes.get(partition, 0) + size
        is_full = self._buffered_bytes >= self._options.delivery.buffer_bytes
        if is_full or size >= _GATHERED_BATCHES * self._options.batch_bytes:
            self._flush()

    def queue_capacity(self, partitions: Sequence[TopicPartition]) -> list[int] | None:
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
        self._flush()
        self._batch_sender.finish()
        return tuple(
            PartitionReceipt(tp, state.message_count, state.size, state.start_offset, state.stop_offset)
            for tp, state in sorted(self._states.items())
        )

    def close(self) -> None:
        self._batch_sender.close()

    def _flush(self) -> None:
        """Encode and send the whole buffer, partition by partition."""
        buffered, self._buffered = self._buffered, {}
        self._buffered_sizes, self._buffered_bytes = {}, 0
        if self._transaction and (new := buffered.keys() - self._states.keys()):
            self._transaction.transactions.add_partitions(self._transaction.transaction, sorted(new))
        for partition, buffered_parts in buffered.items():
            if parts := list(join_parts(buffered_parts)):
                self._deliver(partition, parts)
        self._batch_sender.pump()

    def _deliver(self, partition: TopicPartition, parts: Sequence[Records]) -> None:
        options = self._options
        if self._encoder is None:
            magic, level = self._batch_sender.magic(partition), options.compression_level
            self._encoder = BatchEncoder(magic, options.compression, level, options.message_size_max)
        encoder = self._encoder
        if partition not in self._states:
            self._states[partition] = self._new_state(partition, encoder.magic)
        state, left = self._states[partition], deque(parts)
        batch_bytes_max = min(state.batch_bytes_max, self._batch_sender.sizes.batch_bytes_max)
        for encoded in encoder.encode(parts, batch_bytes_max):
            own, deadline = take_rows(left, encoded.count), self._batch_sender.deadline()
            batch = ProducerBatch(partition, own, encoder, encoded, self._batch_count, deadline)
            state.assign_sequence(batch)
            self._batch_sender.enqueue(batch)
            self._batch_count += 1

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


def join_parts(parts: Sequence[Records]) -> Iterator[Records]:
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


def take_rows(parts: deque[Records], count: int) -> list[Records]:
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


#: Bytes that a batch of one record has besides its key, value and headers, at most: the header of
#: the batch (61) and the record's lengths, attributes, timestamp and offset. Source: KIP-98.
_OVERHEAD_BYTES: Final = 61 + 26
#: Lengths of a header's key and value, bytes at most.
_HEADER_OVERHEAD_BYTES: Final = 10


def check_records(records: Records, record_bytes_max: int) -> None:
    """Refuse records that exceed ``kafka.max.request.size`` before compression, as the Java producer does;
    timestamps before 1970; and headers without a key, or with a key that is not UTF-8.

    Raises ``RowError`` (fatal) for the first such row, counted from 0.
    """
    _refuse_oversize(records, record_bytes_max)
    if records.timestamps_ms is not None and (pc.min(records.timestamps_ms).as_py() or 0) < 0:
        row = pc.index(pc.less(records.timestamps_ms, 0), True).as_py()
        raise RowError(
            f"row {row}: its timestamp is before 1970, which Kafka cannot hold; correct it; null is now"
        )
    if records.headers is not None:
        _refuse_broken_keys(records.headers)


def _refuse_oversize(records: Records, record_bytes_max: int) -> None:
    has_headers = records.headers is not None and records.headers.null_count < len(records.headers)
    if not has_headers and _size_bound(records) <= record_bytes_max:
        return
    sizes = np.full(records.count, _OVERHEAD_BYTES, np.int64)
    for column in (records.values, records.keys):
        if column is not None:
            sizes += _sizes(column)
    if has_headers:
        sizes += _header_sizes(records.headers)
    if records.count and sizes.max() > record_bytes_max:
        row = int(np.argmax(sizes > record_bytes_max))
        raise RowError(
            f"row {row}: its record of {sizes[row]} bytes is larger than kafka.max.request.size="
            f"{record_bytes_max}; shorten it, or raise that option and the topic's max.message.bytes"
        )


def _size_bound(records: Records) -> int:
    """Upper bound for the size of records without headers: computing the size of each takes ten times as
    long."""
    columns = [column for column in (records.values, records.keys) if column is not None]
    return _OVERHEAD_BYTES + sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in columns)


def _sizes(column: pa.Array) -> npt.NDArray[np.int64]:
    sizes: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return sizes


def _header_sizes(headers: pa.Array) -> npt.NDArray[np.int64]:
    """Count the bytes of all headers of each row."""
    structs = pc.list_flatten(headers)
    sizes = _sizes(pc.struct_field(structs, 0)) + _sizes(pc.struct_field(structs, 1)) + _HEADER_OVERHEAD_BYTES
    of_row: npt.NDArray[np.int64] = np.bincount(_rows_of_pairs(headers), sizes, len(headers)).astype(np.int64)
    return of_row


def _rows_of_pairs(headers: pa.Array) -> npt.NDArray[np.int64]:
    """Row of each header. A null may lie over headers that do not count: unlike ``list_flatten``,
    ``list_parent_indices`` counts them."""
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(headers)), counts)


def _refuse_broken_keys(headers: pa.Array) -> None:
    """Refuse headers without a key, and keys that are not UTF-8: Spark's strings may hold any bytes, and
    readers expect UTF-8."""
    keys = pc.struct_field(pc.list_flatten(headers), 0)
    if keys.null_count:
        row = _rows_of_pairs(headers)[pc.index(pc.is_null(keys), True).as_py()]
        raise RowError(f"row {row}: it has a header without a key; drop the header, or name it")
    if (pair := first_broken_text(keys)) is not None:
        row = _rows_of_pairs(headers)[pair]
        raise RowError(f"row {row}: the key of a header is not UTF-8; drop the header, or correct the key")
