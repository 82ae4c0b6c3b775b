"""Batches of a stream that are limited by bytes, over logs whose records have drawn sizes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.model import PartitionBounds, SizeSample, TopicPartition
from spark_kafkawire.options import StreamLimits
from spark_kafkawire.planner.record_sizes import BatchLimit

SAMPLE_BYTES = 16 << 10


class Log:
    """Records of one partition: their sizes by offset. Compaction has removed the other offsets."""

    def __init__(self, sizes: Mapping[int, int], latest: int) -> None:
        self.sizes, self.latest = sizes, latest

    def bytes_between(self, start: int, stop: int) -> int:
        return sum(self.sizes.get(offset, 0) for offset in range(start, stop))

    def sample(self, offset: int) -> SizeSample | None:
        """The first records from an offset on, as a broker has them: one at least, and no more bytes than a
        fetch asks for."""
        size, last = 0, None
        for item in range(offset, self.latest):
            if item in self.sizes:
                if last is not None and size + self.sizes[item] > SAMPLE_BYTES:
                    break
                size, last = size + self.sizes[item], item
        return None if last is None else SizeSample(size, last + 1 - offset)


def log_of(*sizes: int) -> Log:
    return Log(dict(enumerate(sizes)), len(sizes))


class Query:
    """A stream over these logs. ``asked`` counts its samples."""

    def __init__(self, logs: Iterable[Log], bytes_max: int, size_max: int | None = None) -> None:
        self.logs = {TopicPartition("t", number): log for number, log in enumerate(logs)}
        self.asked = 0
        limits = StreamLimits(size_max=size_max, bytes_max=bytes_max)
        self._limit = BatchLimit(limits, lambda question: question(self))  # type: ignore[arg-type]
        self._at = dict.fromkeys(self.logs, 0)

    def sample_sizes(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, SizeSample]:
        self.asked += len(offsets)
        result = {tp: self.logs[tp].sample(offset) for tp, offset in offsets.items()}
        return {tp: item for tp, item in result.items() if item is not None}

    def sizes(self) -> Iterator[int]:
        """Bytes of batch after batch, to the end of the logs. Each reads on where the last one ended."""
        bounds = {tp: PartitionBounds(tp, 0, log.latest) for tp, log in self.logs.items()}
        while any(self._at[tp] < log.latest for tp, log in self.logs.items()):
            ends = self._limit.ends(self._at, bounds)
            assert ends.keys() == self._at.keys()
            assert all(self._at[tp] < ends[tp] or ends[tp] == log.latest for tp, log in self.logs.items())
            yield sum(log.bytes_between(self._at[tp], ends[tp]) for tp, log in self.logs.items())
            self._at = ends


RECORDS = st.dictionaries(st.integers(0, 400), st.integers(1, 60_000), max_size=60)


@given(logs=st.lists(RECORDS, min_size=1, max_size=12), bytes_max=st.integers(1, 1 << 21))
def test_every_record_is_in_one_batch_whatever_the_sizes_and_the_gaps(
    logs: list[dict[int, int]], bytes_max: int
) -> None:
    query = Query([Log(sizes, 420) for sizes in logs], bytes_max)
    assert sum(query.sizes()) == sum(sum(sizes.values()) for sizes in logs)


@given(seed=st.integers(0, 1 << 30), bytes_max=st.integers(60_000, 200_000), step=st.integers(1, 9))
def test_batches_are_near_the_limit_where_sizes_are_alike(seed: int, bytes_max: int, step: int) -> None:
    records = random.Random(seed).choices(range(50, 1_500), k=3_000)
    # Compaction has left every ``step``-th record of one partition.
    left = {at: size for at, size in enumerate(records) if at % step == 0}
    *whole, _ = Query([log_of(*records), Log(left, 3_000)], bytes_max).sizes()
    assert whole
    assert all(bytes_max / 2 < size < bytes_max * 2 for size in whole), whole


def test_one_size_is_met() -> None:
    result = list(Query([log_of(*[100] * 5_000)] * 3, 30_000).sizes())
    assert result == [30_000] * 50
    assert list(Query([log_of(*[100] * 5_000)] * 3, 30_000, size_max=150).sizes()) == [15_000] * 100


def test_sizes_that_grow_or_shrink_a_hundred_times_are_followed() -> None:
    small, large, bytes_max = [100] * 40_000, [10_000] * 4_000, 1 << 20
    grown = list(Query([log_of(*small, *large)], bytes_max).sizes())
    assert max(grown) < 2 * bytes_max
    shrunk = list(Query([log_of(*large, *small)], bytes_max).sizes())
    assert max(shrunk) < 2 * bytes_max
    assert len(shrunk) < 55  # 43 if all were known


def test_records_of_one_topic_may_be_larger_than_the_limit() -> None:
    assert list(Query([log_of(*[50_000] * 3)], 10).sizes()) == [50_000] * 3


def test_without_a_sample_batches_are_small() -> None:
    query = Query([Log({}, 1_000)], 100 << 20)
    assert list(query.sizes()) == [0] * 10  # as if each record had 1 MiB


def test_a_query_without_a_backlog_samples_one_partition_and_asks_for_no_more() -> None:
    query = Query([log_of(*[100] * 1_000) for _ in range(20)], 1 << 30)
    assert list(query.sizes()) == [2_000_000]
    assert query.asked == 24  # nothing was known
    query.logs = {tp: log_of(*[100] * 1_100) for tp in query.logs}
    assert list(query.sizes()) == [200_000]
    assert query.asked == 24 + 3
