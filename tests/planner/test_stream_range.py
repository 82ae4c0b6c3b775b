"""Ends of streams by time, in logs that grow while they are asked, and in each run of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.cluster.v07.segments import stop_offset
from spark_kafkawire.model import PartitionBounds, TopicPartition
from spark_kafkawire.options import EARLIEST, LimitKind, OffsetLimit, OffsetLimits, StreamOptions
from spark_kafkawire.planner.limits import at_time, start_of
from spark_kafkawire.planner.stream_range import QueryEnd

A, OLD = TopicPartition("t", 0), TopicPartition("t", 0, 0)
END_MS = 50
OPTIONS = StreamOptions.parse(
    {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "endingTimestamp": str(END_MS)}
).read


class Log:
    """The log of a partition as a list of times; ``between`` come after its bounds were requested."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.between: list[int] = []
        self.lookups = 0

    def select(self) -> dict[TopicPartition, PartitionBounds]:
        return self.bounds()

    def bounds(self) -> dict[TopicPartition, PartitionBounds]:
        return {A: PartitionBounds(A, 0, len(self.times))}

    def ask(self, question: Callable[[Any], Any]) -> Any:
        self.lookups += 1
        self.times += self.between
        return question(self)

    def stop_offsets(
        self, times_ms: Mapping[TopicPartition, int], _: object
    ) -> Mapping[TopicPartition, int | None]:
        return {
            tp: next((at for at, item in enumerate(self.times) if item >= ms), None)
            for tp, ms in times_ms.items()
        }


class OldLog(Log):
    """A log of 0.7: each record has a byte, and a segment has three; its time is that of its last record."""

    def segments(self) -> dict[int, int]:
        return {at: self.times[: at + 3][-1] for at in range(0, len(self.times), 3)}

    def bounds(self) -> dict[TopicPartition, PartitionBounds]:
        return {OLD: PartitionBounds(OLD, 0, len(self.times), tuple(self.segments()))}

    def stop_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Any
    ) -> Mapping[TopicPartition, int | None]:
        older = [at for at, last_ms in self.segments().items() if last_ms < times_ms[OLD]]
        return {OLD: stop_offset(bounds[OLD], older)}


times = st.lists(st.integers(0, 100), max_size=4)


@given(st.lists(st.tuples(times, times, st.booleans()), max_size=12), st.booleans())
def test_whenever_a_query_looks_and_starts_again_it_reads_to_the_same_offset(
    steps: list[tuple[list[int], list[int], bool]], is_old: bool
) -> None:
    log = OldLog() if is_old else Log()
    [partition] = log.bounds()
    end, position, lookups = QueryEnd(OPTIONS, log), 0, 0
    if is_old:  # a broker's clock does not go back
        clock = iter(sorted(item for before, between, _ in steps for item in (*before, *between)))
        steps = [
            ([next(clock) for _ in before], [next(clock) for _ in more], new) for before, more, new in steps
        ]
    for before, log.between, is_new in [*steps, ([], [], True)]:
        log.times += before
        seen = log.bounds()
        end = QueryEnd(OPTIONS, log) if is_new else end
        log.lookups = 0
        reached = end.limited({partition: position}, seen, ())[partition].latest
        if not log.lookups:
            log.times += log.between
        assert position <= reached <= seen[partition].latest
        position = reached
        log.lookups = 0
        end.limited({partition: position}, seen, ())
        lookups += log.lookups
    first = next((at for at, item in enumerate(log.times) if item >= END_MS), len(log.times))
    expected = min((first // 3 + 1) * 3, len(log.times)) if is_old else first
    assert (position, lookups) == (expected, 0)  # a poll that finds nothing new asks nothing


def test_times_before_now_and_offsets_before_the_end_are_inside_of_the_log() -> None:
    ages = {A: OffsetLimit(LimitKind.AGE, -600), OLD: EARLIEST}
    result = at_time(OffsetLimits("o", by_partition=ages), 1000).by_partition
    assert result == {A: OffsetLimit(LimitKind.TIMESTAMP, 400), OLD: EARLIEST}
    assert at_time(OffsetLimits("o", for_all=ages[A]), 7).for_all == OffsetLimit(LimitKind.TIMESTAMP, 0)
    for count, start in ((0, 9), (2, 7), (4, 5), (5, 5), (1 << 62, 5)):
        limits = OffsetLimits("o", for_all=OffsetLimit(LimitKind.FROM_END, count))
        assert start_of(limits, PartitionBounds(A, 5, 9), {}, latest_if_no_match=False).offset == start
