"""Checksums and hashes of many values at once, compiled and interpreted: CRC-32, content, murmur2."""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.records import checksum, log_index
from spark_kafkawire.records import rows as rows_module
from spark_kafkawire.records.arrays import byte_array
from spark_kafkawire.records.checksum import (
    crc32_each,
    crc32c_address,
    first_mismatch,
    library_address,
    slice_tables,
)
from spark_kafkawire.records.key_hashes import (
    EARLY,
    EXPECTED,
    LATE,
    UNEXPLAINED,
    by_key,
    by_offset,
    positive_hashes,
)
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.rows import Column
from tests.records.batches import batch, record
from tests.support.cases import for_each
from tests.support.kernels import interpreted_kernels


@pytest.mark.usefixtures("kernels")
def test_the_first_of_the_wrong_checksums_is_named() -> None:
    chance = random.Random(2)
    values = [chance.randbytes(chance.randrange(300)) for _ in range(200)]
    ends = np.cumsum([0, *map(len, values)])
    parts = byte_array(b"".join(values)), ends[:-1].copy(), np.diff(ends)
    right = np.array([zlib.crc32(value) for value in values], np.uint32)
    for _ in range(300):
        crcs = right.copy()
        wrong = sorted(chance.sample(range(len(values)), chance.randrange(1, 6)))
        for row in wrong:
            crcs[row] ^= 1 << chance.randrange(32)
        assert first_mismatch(*parts, crcs) == wrong[0]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("size", [10, 2000])
def test_each_value_gets_its_checksum_whatever_its_size(size: int) -> None:
    values = [random.Random(i).randbytes(size) for i in range(20)]
    offsets = np.arange(0, 20 * size + 1, size)
    # Values need not begin at the start of their buffer, nor end at its end.
    crcs = crc32_each(byte_array(b"##" + b"".join(values) + b"##"), offsets + 2)
    assert crcs.tolist() == [zlib.crc32(value) for value in values]


SIZES = [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 100, 255, 256, 257, 1000, 5000]


def random_values(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(size) for size in chance.sample(SIZES, len(SIZES))]


@pytest.mark.usefixtures("compiled")
def test_the_library_is_called_where_it_can_be() -> None:
    assert library_address()
    assert crc32c_address()
    major, minor = map(int, version("isal").split(".")[:2])
    # Wheels of isal 1.7 and 1.8 have ISA-L without CRC-64.
    assert bool(rows_module._library()) == ((major, minor) >= (1, 9))


@pytest.mark.usefixtures("compiled")
@for_each("library", [library_address(), 0], ids=["library", "tables"])
@for_each("values", [[], [b""], *map(random_values, range(5))])
def test_the_crc_of_each_value_is_that_of_zlib(values: list[bytes], library: int) -> None:
    buf, offsets = byte_array(b"".join(values)), np.cumsum([0, *map(len, values)])
    expected = np.array([zlib.crc32(value) for value in values], np.uint32)
    item: tuple[Any, ...] = (checksum.crc_each, checksum.crc_each.run_interpreted)
    for run in item:
        crcs = np.zeros(len(values), np.uint32)
        run(buf, offsets, slice_tables(), library, crcs)
        assert crcs.tolist() == expected.tolist()
    for check in (checksum.check_each, checksum.check_each.run_interpreted):
        arguments = offsets[:-1].copy(), np.diff(offsets)
        assert check(buf, *arguments, expected, slice_tables(), library) == -1
        for row in range(len(values)):
            wrong = expected.copy()
            wrong[row:] ^= 1 << row
            assert check(buf, *arguments, wrong, slice_tables(), library) == row


@pytest.mark.usefixtures("compiled")
@for_each("seed", range(5))
def test_the_first_batch_with_a_wrong_crc_is_found(seed: int) -> None:
    batches = [batch([record(0, value)], offset) for offset, value in enumerate(random_values(seed))]
    chance, index = random.Random(seed), index_batches(b"".join(batches))
    rows = np.array(chance.sample(range(len(batches)), len(batches) // 2))
    for wrong in ((), range(len(batches)), chance.sample(range(len(batches)), 3)):
        data = index.buf.copy()
        for row in wrong:
            data[chance.randrange(21, len(batches[row])) + index.table[row, log_index.POS]] ^= 1
        expected = next((location for location, row in enumerate(rows.tolist()) if row in wrong), -1)
        for run in (log_index.first_wrong_crc, log_index.first_wrong_crc.run_interpreted):
            assert run(data, index.table, rows, crc32c_address()) == expected


#: Rows of topic, key and value.
Row = tuple[bytes, bytes | None, bytes | None]
ROWS: Final[list[Row]] = [
    (b"t", b"k%d" % (number % 7) if number % 3 else None, b"v" * (number % 40) + b"%d" % number or None)
    for number in range(100)
] + [(b"t", None, None), (b"t", b"", None), (b"t", None, b""), (b"t", b"", b"")]


def sum_of(rows: list[Row], partitions: list[int] | None = None) -> int:
    columns = [Column.of(pa.array(item, pa.binary()), "c") for item in zip(*rows, strict=True)]
    given = None if partitions is None else np.array(partitions, np.int64)
    return rows_module.content_sum(columns[0], columns[1:], len(rows), given)


@pytest.mark.usefixtures("compiled")
@for_each("order", range(5))
def test_the_sum_is_the_same_in_any_order_and_in_every_way_to_compute_it(order: int) -> None:
    rows = random.Random(order).sample(ROWS, len(ROWS))
    expected = sum_of(ROWS)
    assert 0 <= expected < 1 << 64
    assert sum_of(rows) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_library", lambda: 0)
        assert sum_of(rows) == expected
        with interpreted_kernels():
            assert sum_of(rows) == expected
    with interpreted_kernels():
        assert sum_of(rows) == expected


@pytest.mark.usefixtures("compiled")
def test_sums_are_of_parts_topics_and_partitions() -> None:
    assert (sum_of(ROWS[:30]) + sum_of(ROWS[30:])) % (1 << 64) == sum_of(ROWS)
    [topics, *columns] = [Column.of(pa.array(item, pa.binary()), "c") for item in zip(*ROWS, strict=True)]
    one = Column.of(pa.array([b"t"], pa.binary()), "c")
    assert rows_module.content_sum(one, columns, len(ROWS)) == rows_module.content_sum(
        topics, columns, len(ROWS)
    )
    sums = {sum_of([A, B], partitions) for partitions in ([0, 0], [0, 1], [1, 0], [1, 1], [2, 0])}
    assert len(sums) == 5
    assert sum_of([A, B], [0, 0]) == sum_of([A, B])


A: Final = (b"t", b"k1", b"12345678")
B: Final = (b"t", b"k2", b"87654321")


@pytest.mark.usefixtures("compiled")
@for_each(
    "other",
    [
        [A],
        [A, B, B],
        [A, A],
        [(b"t", b"k2", A[2]), (b"t", b"k1", B[2])],
        [(b"u", *A[1:]), B],
        [(b"t", b"12345678", b"k1"), B],
        [(b"t", b"k112345678", None), B],
        [(b"t", None, b"k112345678"), B],
        [(b"t", b"k11", b"2345678"), B],
        [(b"t", b"k1", b"12345679"), B],
        [(b"t", b"k1", b"12345679"), (b"t", b"k2", b"87654320")],
        [(b"t", b"", b"12345678"), B],
        [(b"t", None, b"12345678"), B],
        [(b"tk", b"1", b"12345678"), B],
    ],
)
def test_other_rows_have_another_sum(other: list[Row]) -> None:
    assert sum_of(other) != sum_of([A, B])


# Source: org.apache.kafka.common.utils.UtilsTest.testMurmur2.
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
# Made with the Java client for 1,000 partitions; kafka-python's test_murmur2_java_compatibility.
JAVA_PARTITIONS = {b"": 681, b"a": 524, b"ab": 434, b"abc": 107, b"123456789": 566, b"\x00 ": 742}


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


@pytest.mark.usefixtures("kernels")
def test_hashes_and_partitions_are_those_of_the_java_client() -> None:
    hashes = positive_hashes(binary(list(JAVA_HASHES)))
    assert hashes.tolist() == [java & 0x7FFFFFFF for java in JAVA_HASHES.values()]
    hashes = positive_hashes(binary(list(JAVA_PARTITIONS)))
    assert (hashes % 1000).tolist() == list(JAVA_PARTITIONS.values())
    keys = binary([b"before", b"foobar", b"21", b"after"])
    assert positive_hashes(keys.slice(1, 2)).tolist() == positive_hashes(binary([b"foobar", b"21"])).tolist()


def test_no_keys_and_empty_keys_are_hashed() -> None:
    assert positive_hashes(binary([])).tolist() == []
    assert len(set(positive_hashes(binary([b"", b""])).tolist())) == 1


# --- The layouts of records by offsets and by keys: the same row by row, in the order of producers ---

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True).map(sorted)


def of_row(hash_: int, keyed: bool, layout: int, partition: int, counts: list[int]) -> tuple[int, int]:
    """The rule, for one record."""
    fits = [item for item, count in enumerate(counts) if hash_ % count == partition]
    if not keyed or layout in fits:
        return layout, EXPECTED
    if older := [item for item in fits if item < layout]:
        return older[-1], LATE
    return (fits[0], EARLY) if fits else (layout, UNEXPLAINED)


@given(COUNTS, st.integers(0, 8), st.data())
def test_all_rows_at_once_are_each_alone(counts: list[int], partition: int, data: st.DataObject) -> None:
    hashes = st.one_of(st.integers(0, 71), st.integers(0, 2**31 - 1))  # small ones fit more often
    row = st.tuples(hashes, st.booleans(), st.integers(0, len(counts) - 1))
    rows = data.draw(st.lists(row, max_size=20))
    result, kinds = by_key(
        np.array([hash_ for hash_, _, _ in rows], np.int64),
        np.array([keyed for _, keyed, _ in rows], np.bool_),
        np.array([layout for _, _, layout in rows], np.int32),
        partition,
        counts,
    )
    assert [result.dtype, kinds.dtype] == [np.dtype(np.int32), np.dtype(np.uint8)]
    assert list(zip(result.tolist(), kinds.tolist(), strict=True)) == [
        of_row(*item, partition, counts) for item in rows
    ]


def test_a_record_before_its_boundary_is_of_the_oldest_layout_that_explains_it() -> None:
    keyed, before = np.ones(2, np.bool_), np.zeros(2, np.int32)
    result, kinds = by_key(np.array([6, 7]), keyed, before, 0, [4, 6, 12, 3])
    assert (result.tolist(), kinds.tolist()) == ([1, 0], [EARLY, UNEXPLAINED])
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
        result = defaultdict(list)
        for _, partition, at in sorted(rows):
            key, number = self.logs[partition][at]
            result[key].append(number)
        return result


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
    result = defaultdict(list)
    for partition in sorted(topic.logs):
        for key, number in topic.logs[partition]:
            result[key].append(number)
    assert all(numbers == sorted(numbers) for numbers in result.values())
