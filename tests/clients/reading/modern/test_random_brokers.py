"""Reads of random logs from brokers that fail at random, against what the partitions are known to hold.

No socket and no clock: thousands of reads, with all that may happen between two of their responses.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pytest

from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.errors import ConnectionLost
from spark_kafkawire.model import (
    Broker,
    Leader,
    OffsetRange,
    PartitionBounds,
    TopicPartition,
)
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from tests.records.batches import TRANSACTIONAL, batch, marker, record
from tests.support.codecs import of_magic
from tests.support.settings import net_modern

RUNS: Final = 150
PARTITION: Final = TopicPartition("t", 0)
LEADER: Final = Leader(Broker(1, "h", 9092), epoch=3)
#: What brokers answer that will do better in a moment.
PASSING_CODES: Final = (1, 2, 3, 5, 6, 9, 74, 75, 78)
#: An offset and the value.
Row = tuple[int, bytes]


@dataclass
class BatchLog:
    """A partition of batches with compacted gaps, of producers whose transactions commit, abort or stay
    open."""

    chance: random.Random
    is_committed: bool
    earliest: int = 0
    rows: list[Row] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._offset = self.earliest = self.chance.choice((0, 5, 2**31 - 20, 2**40))
        self._batches: list[tuple[int, int, bytes]] = []
        self._aborted: list[tuple[fetch.AbortedTransaction, int]] = []
        self._open: dict[int, tuple[int, list[Row]]] = {}
        for _ in range(self.chance.randrange(1, 30)):
            producer_id = self.chance.randrange(1, 4)
            if producer_id in self._open and self.chance.random() < 0.2:
                self._end_transaction(producer_id)
            else:
                self._append(producer_id)
        ends = [first for first, _ in self._open.values()] if self.is_committed else []
        stop = min(ends, default=self._offset)
        for _, written in self._open.values():
            self.rows += written
        self.rows = sorted(row for row in self.rows if row[0] < stop)
        self.bounds = [*range(self.earliest, stop + 1)]

    def _append(self, producer_id: int) -> None:
        count, is_transactional = self.chance.randrange(1, 6), self.chance.random() < 0.6
        kept = [delta for delta in range(count) if self.chance.random() < 0.8]
        rows = [(self._offset + delta, b"%d" % delta * self.chance.choice((1, 3, 40))) for delta in kept]
        data = batch(
            [record(delta, value) for delta, (_, value) in zip(kept, rows, strict=True)],
            self._offset,
            compression=self.chance.choice(of_magic(2)) if kept else "none",
            last_delta=count - 1,
            attributes=TRANSACTIONAL if is_transactional else 0,
            producer=(producer_id if is_transactional else -1, 0, 0),
        )
        if kept or self.chance.random() < 0.3:
            self._batches.append((self._offset, self._offset + count - 1, data))
        if is_transactional:
            self._open.setdefault(producer_id, (self._offset, []))[1].extend(rows)
        else:
            self.rows += rows
        self._offset += count

    def _end_transaction(self, producer_id: int) -> None:
        first, written = self._open.pop(producer_id)
        is_abort = self.chance.random() < 0.5
        self._batches.append((self._offset, self._offset, marker(self._offset, producer_id, not is_abort)))
        if is_abort:
            aborted = fetch.AbortedTransaction(producer_id=producer_id, first_offset=first)
            self._aborted.append((aborted, self._offset))
        if not (is_abort and self.is_committed):
            self.rows += written
        self._offset += 1

    def response(self, request: fetch.FetchRequest, chance: random.Random, fails: bool) -> Response:
        [asked] = request.topics[0].partitions
        if fails and chance.random() < 0.3:
            return Response(
                request, fetch.FetchResponse(throttle_time_ms=1, responses=()), memoryview(b""), 1
            )
        code = chance.choice(PASSING_CODES) if fails else int(asked.fetch_offset < self.earliest)
        data, last = b"", asked.fetch_offset
        for base, end, content in self._batches if not code else ():
            if end >= asked.fetch_offset and base < self.bounds[-1] and len(data) < asked.partition_max_bytes:
                data, last = data + content, end
        if len(data) > asked.partition_max_bytes and chance.random() < 0.5:
            data += content[: chance.randrange(len(content))] if last != end else b""
        aborted = [item for item, end in self._aborted if end >= asked.fetch_offset]
        partition = fetch.FetchPartitionResponse(
            partition_index=0,
            error_code=code,
            high_watermark=self.bounds[-1],
            last_stable_offset=self.bounds[-1],
            log_start_offset=self.earliest,
            # Also where nobody asked for them, which Apache Kafka does not.
            aborted_transactions=tuple(item for item in aborted if item.first_offset <= last),
            records=memoryview(data),
        )
        topic = fetch.FetchTopicResponse(topic="t", partitions=(partition,))
        return Response(request, fetch.FetchResponse(responses=(topic,)), memoryview(b""))


@dataclass
class RandomBroker:
    """Client, pool and cluster of one read at once. ``failing`` is how often something goes wrong."""

    log: BatchLog
    chance: random.Random
    failing: float
    retention: float
    waiting: list[Any] = field(default_factory=list)

    @property
    def in_flight(self) -> int:
        return len(self.waiting)

    def take(self, _broker: object, _settings: object) -> RandomBroker:
        assert not self.waiting
        return self

    def give_back(self, _client: object) -> None:
        assert not self.waiting

    def close(self) -> None:
        self.waiting.clear()

    def send(self, request: object) -> None:
        if self.chance.random() < self.failing:
            raise ConnectionLost("while it was sent")
        self.waiting.append(request)

    def receive(self) -> Response:
        if self.chance.random() < self.retention:
            self.log.earliest = max(self.log.earliest, self.chance.choice(self.log.bounds))
        if self.chance.random() < self.failing:
            raise ConnectionLost("while it was awaited")
        return self.log.response(self.waiting.pop(0), self.chance, self.chance.random() < self.failing)

    def leaders_of(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Leader]:
        return dict.fromkeys(partitions, LEADER)

    def forget(self, partition: TopicPartition) -> None:
        """Nothing moves."""

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, PartitionBounds]:
        return {tp: PartitionBounds(tp, self.log.earliest, self.log.bounds[-1]) for tp in partitions}

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, self.log.bounds[-1])

    def local_starts(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, self.log.earliest)

    def cleanup_policy(self, topic: str) -> frozenset[str]:  # noqa: ARG002  # there is one topic
        return frozenset(("compact",))


def read(log: BatchLog, chance: random.Random, isolation_level: int) -> None:
    """Read some of the log and compare: all is there but what retention took, once and in order."""
    start, stop = sorted((chance.choice(log.bounds), chance.choice(log.bounds)))
    broker = RandomBroker(log, chance, chance.choice((0.0, 0.05, 0.1)), chance.choice((0.0, 0.0, 0.1)))
    options = FetchOptions(
        fetch_bytes=chance.choice((1, 13, 64, 500, 5000)),
        fetches_in_flight=chance.randrange(1, 6),
        fail_on_data_loss=False,
        isolation_level=isolation_level,
    )
    task = FetchTask(OffsetRange(PARTITION, start, stop), LEADER)
    anything, net = cast(Any, broker), net_modern(5.0, retries=1000, backoff_s=1e-9)
    result: list[Row] = []
    for columns in Fetcher(task, anything, options, net, connections=anything).columns():
        assert columns.values is not None
        result += zip(columns.offset.tolist(), columns.values.to_pylist(), strict=True)
    expected = [row for row in log.rows if start <= row[0] < stop]
    assert result == sorted(set(result))
    assert set(result) <= set(expected)
    assert {row for row in expected if row[0] >= log.earliest} <= set(result)


@pytest.mark.parametrize("isolation_level", [READ_UNCOMMITTED, READ_COMMITTED])
@pytest.mark.slow
def test_batches_of_random_brokers_become_the_rows_of_their_partitions(isolation_level: int) -> None:
    for seed in range(RUNS):
        chance = random.Random(f"batches {seed}")
        read(BatchLog(chance, isolation_level == READ_COMMITTED), chance, isolation_level)
