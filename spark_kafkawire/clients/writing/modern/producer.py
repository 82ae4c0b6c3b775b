"""Buffers records by log, encodes them to batches, and delivers those in order.

    with Producer(metadata, options) as producer:
        producer.add(log, records)
        receipts = producer.finish()

Batches of an idempotent producer carry its id and a sequence, by which a broker appends a repeated
batch once. Source: KIP-98.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from ....cluster.modern.metadata import Metadata
from ....model import TopicPartition
from ....options import WriteOptions
from ....records.rows import Records
from ..sender import LogReceipt
from .batches import Batch, BatchEncoder, LogState, Position, ProducerId
from .delivery import Delivery
from .identity import obtain_producer_id

#: Batches that are gathered for one log before all that is buffered is sent: the last of them is not full,
#: and costs as much as the others.
_GATHERED_BATCHES: Final = 4
#: Parts of one log are copied together up to this many bytes: a part has a cost of its own.
_COPIED_BYTES_MAX: Final = 64 << 10
_NOTHING_RESUMED: Final[Mapping[TopicPartition, Position]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Membership:
    """The transaction that all batches of a producer are of, and what adds partitions to it."""

    producer: ProducerId
    add_partitions: Callable[[Collection[TopicPartition]], None]


class Producer:
    """What one task writes to modern brokers. The order of records within a log is kept.

    Where ``resumed`` has a position for a log, its batches continue there instead of under a new
    producer id. With a ``membership`` all of them are of that transaction.

    Memory: up to ``kafka.buffer.memory`` and one batch of rows, twice while it is encoded, and the
    requests in flight.
    """

    def __init__(
        self,
        metadata: Metadata,
        options: WriteOptions,
        resumed: Mapping[TopicPartition, Position] = _NOTHING_RESUMED,
        membership: Membership | None = None,
    ) -> None:
        self._metadata = metadata
        self._options = options
        self._resumed = resumed
        self._membership = membership
        self._buffered: dict[TopicPartition, list[Records]] = {}
        self._buffered_sizes: dict[TopicPartition, int] = {}
        self._buffered_bytes = 0
        self._logs: dict[TopicPartition, LogState] = {}
        self._delivery = Delivery(metadata, options, self._logs)
        self._encoder: BatchEncoder | None = None
        self._producer: ProducerId | None = None
        self._batch_count = 0

    def add(self, log: TopicPartition, records: Records) -> None:
        """Buffer records of a log; all that is buffered is sent once it fills some batches or the memory.

        Raises ``DeliveryError``, ``OptionError``, and what keeps the first batch from being sent
        (all fatal).
        """
        self._buffered.setdefault(log, []).append(records)
        size = records.nbytes
        self._buffered_bytes += size
        self._buffered_sizes[log] = size = self._buffered_sizes.get(log, 0) + size
        is_full = self._buffered_bytes >= self._options.delivery.buffer_bytes
        if is_full or size >= _GATHERED_BATCHES * self._options.batch_bytes:
            self._flush()

    def rooms(self, logs: Sequence[TopicPartition]) -> list[int] | None:
        """Bytes that may be added for each log before its leader is waited for; None where all keep up.
        Never fails."""
        if not self._options.delivery.adapts:
            return None
        free = self._delivery.free_requests(logs)
        if free is None:
            return None
        size, buffered = self._options.batch_bytes, self._buffered_sizes
        return [max(count * size - buffered.get(log, 0), 0) for log, count in zip(logs, free, strict=True)]

    def finish(self) -> tuple[LogReceipt, ...]:
        """Send what is left, and wait until all is acked as ``acks`` demands. Raises as ``add``."""
        self._flush()
        self._delivery.finish()
        return tuple(
            LogReceipt(log, state.message_count, state.size, state.start_offset, state.stop_offset)
            for log, state in sorted(self._logs.items())
        )

    def close(self) -> None:
        """Leave the connections to the tasks that follow; never fails."""
        self._delivery.close()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _flush(self) -> None:
        """Encode and send all that is buffered, log by log."""
        buffered, self._buffered = self._buffered, {}
        self._buffered_sizes, self._buffered_bytes = {}, 0
        if self._membership and (new := buffered.keys() - self._logs.keys()):
            self._membership.add_partitions(sorted(new))
        for log, buffered_parts in buffered.items():
            if parts := list(joined(buffered_parts)):
                self._deliver(log, parts)
        self._delivery.pump()

    def _deliver(self, log: TopicPartition, parts: Sequence[Records]) -> None:
        state, encoder = self._state(log)
        left = deque(parts)
        for encoded in encoder.encode(parts, state.batch_bytes_max):
            own = taken(left, encoded.count)
            batch = Batch(log, own, encoder, encoded, self._batch_count, self._delivery.deadline())
            state.assign_sequence(batch)
            self._delivery.enqueue(batch)
            self._batch_count += 1

    def _state(self, log: TopicPartition) -> tuple[LogState, BatchEncoder]:
        if self._encoder is None:
            options, magic = self._options, self._delivery.magic(log)
            self._encoder = BatchEncoder(
                magic, options.compression, options.compression_level, options.message_size_max
            )
        if log not in self._logs:
            self._logs[log] = self._new_state(log, self._encoder.magic)
        return self._logs[log], self._encoder

    def _new_state(self, log: TopicPartition, magic: int) -> LogState:
        batch_bytes = self._options.batch_bytes
        if self._membership:
            # Another producer id would be in no transaction.
            return LogState(self._membership.producer, batch_bytes, is_resumed=True)
        if position := self._resumed.get(log):
            return LogState(position.producer, batch_bytes, position.next_sequence, is_resumed=True)
        if self._producer is None:
            self._producer = obtain_producer_id(self._metadata, self._options, magic)
        return LogState(self._producer, batch_bytes)


def joined(parts: Sequence[Records]) -> Iterator[Records]:
    """The records of all parts that have any, small ones put together: what is joined is copied."""
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
    """The first ``count`` rows of all parts; they are taken out of these."""
    rows: list[Records] = []
    while count:
        part = parts.popleft()
        if part.count > count:
            parts.appendleft(part.slice(count, part.count - count))
            part = part.slice(0, count)
        rows.append(part)
        count -= part.count
    return rows
