"""The layouts of records by offsets and by keys: row by row the same, and the order that producers gave."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.records.key_hashes import EARLY, EXPECTED, LATE, UNEXPLAINED, by_key, by_offset

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True).map(sorted)


def of_row(hash_: int, keyed: bool, layout: int, partition: int, counts: list[int]) -> tuple[int, int]:
    """The rule, for one record."""
    fits = [each for each, count in enumerate(counts) if hash_ % count == partition]
    if not keyed or layout in fits:
        return layout, EXPECTED
    if older := [each for each in fits if each < layout]:
        return older[-1], LATE
    return (fits[0], EARLY) if fits else (layout, UNEXPLAINED)


@given(COUNTS, st.integers(0, 8), st.data())
def test_all_rows_at_once_are_each_alone(counts: list[int], partition: int, data: st.DataObject) -> None:
    hashes = st.one_of(st.integers(0, 71), st.integers(0, 2**31 - 1))  # small ones fit more often
    row = st.tuples(hashes, st.booleans(), st.integers(0, len(counts) - 1))
    rows = data.draw(st.lists(row, max_size=20))
    found, kinds = by_key(
        np.array([hash_ for hash_, _, _ in rows], np.int64),
        np.array([keyed for _, keyed, _ in rows], np.bool_),
        np.array([layout for _, _, layout in rows], np.int32),
        partition,
        counts,
    )
    assert [found.dtype, kinds.dtype] == [np.dtype(np.int32), np.dtype(np.uint8)]
    assert list(zip(found.tolist(), kinds.tolist(), strict=True)) == [
        of_row(*each, partition, counts) for each in rows
    ]


def test_a_record_before_its_boundary_is_of_the_oldest_layout_that_explains_it() -> None:
    keyed, before = np.ones(2, np.bool_), np.zeros(2, np.int32)
    found, kinds = by_key(np.array([6, 7]), keyed, before, 0, [4, 6, 12, 3])
    assert (found.tolist(), kinds.tolist()) == ([1, 0], [EARLY, UNEXPLAINED])
    assert 6 % 3 == 0, "a later one would, too"


@pytest.mark.parametrize(
    ("first", "boundaries", "expected"),
    [(0, [], [0, 0, 0, 0]), (0, [2], [0, 0, 1, 1]), (1, [1, 1], [1, 3, 3, 3]), (2, [0, 9], [3, 3, 3, 3])],
)
def test_an_layout_begins_at_its_boundary(first: int, boundaries: list[int], expected: list[int]) -> None:
    assert by_offset(np.arange(4), first, boundaries).tolist() == expected


@dataclass
class Topic:
    """A topic that grows under producers which learn late of it, at the latest when it grows again."""

    counts: list[int]
    logs: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    boundaries: list[dict[int, int]] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    written: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def grow(self) -> None:
        if len(self.boundaries) + 1 < len(self.counts):
            stood = {number: len(self.logs[number]) for number in range(self.counts[len(self.boundaries)])}
            for producer in range(PRODUCERS):
                self.known[producer] = len(self.boundaries)
            self.boundaries.append(stood)

    def learn(self, producer: int) -> None:
        self.known[producer] = len(self.boundaries)

    def write(self, key: int) -> None:
        count = self.counts[self.known[key % PRODUCERS]]
        self.logs[key % count].append((key, self.written[key]))
        self.written[key] += 1

    def in_order(self, *, by_keys: bool) -> dict[int, list[int]]:
        """Numbers of each key's records, in the order of layout, partition and offset."""
        rows = []
        for partition, records in self.logs.items():
            first = next(layout for layout, count in enumerate(self.counts) if partition < count)
            begins = [stood[partition] for stood in self.boundaries[first:]]
            layouts = by_offset(np.arange(len(records)), first, begins)
            if by_keys:
                hashes = np.array([key for key, _ in records], np.int64)
                counts = self.counts[: len(self.boundaries) + 1]
                layouts, kinds = by_key(hashes, np.ones(len(records), np.bool_), layouts, partition, counts)
                assert not np.isin(kinds, (EARLY, UNEXPLAINED)).any()
            rows += [(layout, partition, at) for at, layout in enumerate(layouts.tolist())]
        found = defaultdict(list)
        for _, partition, at in sorted(rows):
            key, number = self.logs[partition][at]
            found[key].append(number)
        return found


PRODUCERS = 3
#: Write a key, let a producer learn, or (None) add partitions.
STEPS = st.lists(
    st.one_of(st.tuples(st.just("write"), st.integers(0, 35)), st.tuples(st.just("learn"), st.integers(0, 2)),
              st.just(("grow", 0))), max_size=80
)  # fmt: skip


def run(counts: list[int], steps: list[tuple[str, int]], *, late: bool = True) -> Topic:
    topic = Topic(counts)
    for step, which in steps:
        if step == "write":
            topic.write(which)
        elif step == "learn":
            topic.learn(which)
        else:
            topic.grow()
        if not late:
            for producer in range(PRODUCERS):
                topic.learn(producer)
    return topic


@given(COUNTS, STEPS)
def test_by_keys_each_key_is_in_order_for_late_ones(counts: list[int], steps: list[tuple[str, int]]) -> None:
    for numbers in run(counts, steps).in_order(by_keys=True).values():
        assert numbers == sorted(numbers)


@given(COUNTS, STEPS)
def test_by_offsets_keys_are_in_order_where_all_learn(
    counts: list[int], steps: list[tuple[str, int]]
) -> None:
    for numbers in run(counts, steps, late=False).in_order(by_keys=False).values():
        assert numbers == sorted(numbers)


def test_by_offsets_a_late_producer_takes_a_key_out_of_order() -> None:
    """The model sees what is to be seen: 4 to 6 partitions move the hash 6 from 2 to 0."""
    steps = [("grow", 0), ("write", 6), ("learn", 0), ("write", 6)]
    topic = run([4, 6], steps)
    assert topic.in_order(by_keys=False)[6] == [1, 0]
    assert topic.in_order(by_keys=True)[6] == [0, 1]


@given(st.sampled_from([[2, 4], [1, 3, 6], [3, 6, 12], [2, 8]]), STEPS)
def test_parents_read_before_their_children_give_the_order_without_any_boundary(
    counts: list[int], steps: list[tuple[str, int]]
) -> None:
    topic = run(counts, steps)
    found = defaultdict(list)
    for partition in sorted(topic.logs):
        for key, number in topic.logs[partition]:
            found[key].append(number)
    assert all(numbers == sorted(numbers) for numbers in found.values())
