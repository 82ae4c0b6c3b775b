"""The partition of each row, and the order in which partitions get rows that choose none."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.clients.writing.partitioner import (
    RUN_BYTES_MIN,
    STRATEGIES,
    Ids,
    Partitioner,
    StickyPartitions,
    crc32_hashes,
)
from spark_kafkawire.clients.writing.rows import Rows
from spark_kafkawire.clients.writing.v07 import V07WritePartitions
from spark_kafkawire.errors import RowError
from spark_kafkawire.model import Broker, ClusterView, TopicPartition
from spark_kafkawire.options import Discovery
from spark_kafkawire.records.key_hashes import positive_hashes
from spark_kafkawire.records.rows import Records
from tests.support.cases import for_each
from tests.support.settings import net_07
from tests.support.writing import binary

BROKERS = (Broker(0, "localhost", 1), Broker(1, "localhost", 2))
#: In the order in which keys count them: by broker, then by partition.
NAMES = ["0-0", "0-1", "0-2", "1-0", "1-1"]


def topic_partition(name: str, topic: str = "t") -> TopicPartition:
    broker, partition = name.split("-")
    return TopicPartition(topic, int(partition), int(broker))


def targets(*extra: TopicPartition) -> V07WritePartitions:
    partitions = tuple(sorted([*(topic_partition(name) for name in NAMES), *extra]))
    return V07WritePartitions(
        ClusterView(BROKERS, partitions), Discovery(zookeeper_connect="localhost"), net_07()
    )


def rows_of(values: pa.Array, topic: str | pa.Array, **columns: pa.Array) -> Rows:
    return Rows(Records(values), topic, **columns)


class InOrder(random.Random):
    """Draws what is there, in its order, from the ``first`` on."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self._first = first

    def sample(self, population: Any, k: int, **_: object) -> list[Any]:
        assert k == len(population)
        first = self._first % max(k, 1)
        return [*population[first:], *population[:first]]


def partitioner_of(
    partitions: V07WritePartitions | None = None,
    first: int = 0,
    strategy: str = "murmur2",
    run_bytes_max: int = RUN_BYTES_MIN,
) -> Partitioner:
    """One that begins with the log of that index, and goes on in the order of the list."""
    return Partitioner(partitions or targets(), InOrder(first), STRATEGIES[strategy], run_bytes_max)


def split(partitioner: Partitioner, rows: Rows) -> dict[str, list[bytes]]:
    result: dict[str, list[bytes]] = {}
    for part, records in partitioner.split(rows):
        result.setdefault(f"{part}", []).extend(records.values.to_pylist())
    return result


def int32(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int32())


def full(sign: bytes) -> bytes:
    """A value that fills a first run."""
    return sign * RUN_BYTES_MIN


def test_rows_without_keys_stay_with_a_partition_until_it_has_its_run_of_bytes() -> None:
    partitioner = partitioner_of()
    small = [split(partitioner, rows_of(binary([b"a", b"b"]), "t")) for _ in range(6)]
    assert small == [{"t 0-0": [b"a", b"b"]}] * 6
    # A row that its log has no room for any more is a run of its own.
    large = [split(partitioner, rows_of(binary([full(b"a"), b"b"]), "t")) for _ in range(3)]
    names = [f"t {NAMES[at]}" for at in (1, 2, 3, 4, 2, 4)]  # the last ones by the fewest bytes
    assert large == [{names[at]: [full(b"a")], names[at + 1]: [b"b"]} for at in (0, 2, 4)]


def test_a_batch_of_many_runs_goes_on_where_it_lies() -> None:
    values = binary([b"%0100d" % number for number in range(10_000)])
    parts = partitioner_of(run_bytes_max=1 << 20).split(rows_of(values, "t"))
    assert [f"{tp.broker}-{tp.partition}" for tp, _ in parts[:7]] == [*NAMES, *NAMES[:2]]
    assert len(parts) < 50
    assert pa.concat_arrays([records.values for _, records in parts]).equals(values)
    memory = {records.values.buffers()[2].address for _, records in parts}
    assert memory == {values.buffers()[2].address}, "values were copied"


def test_logs_beyond_65536_are_distinguished() -> None:
    """Rows are sorted by 16-bit numbers where there are no more partitions."""
    extra = [TopicPartition("t", number, 1) for number in range(2, 65_540)]
    partitioner = partitioner_of(targets(*extra), first=65_534, strategy="roundrobin")
    values = [b"a", b"b", b"c", b"d"]
    first = 65_534 - len(NAMES) + 2
    wanted = {f"t 1-{first + number}": [value] for number, value in enumerate(values)}
    assert split(partitioner, rows_of(binary(values), "t")) == wanted


def test_a_key_picks_from_the_list_sorted_by_broker_and_partition() -> None:
    keys = [b"k%d" % number for number in range(200)]
    parts = split(partitioner_of(), rows_of(binary(keys), "t", keys=binary(keys)))
    for number, name in enumerate(NAMES):
        own = [
            key
            for key, location in zip(keys, positive_hashes(binary(keys)) % len(NAMES), strict=True)
            if location == number
        ]
        assert parts[f"t {name}"] == own


@for_each("name", STRATEGIES)
def test_broker_and_partition_name_the_log_and_beat_every_partitioner(name: str) -> None:
    values = binary([b"a", b"b", b"c"])
    rows = rows_of(values, "t", keys=values, brokers=int32([1, 0, 1]), partitions=int32([1, 2, 1]))
    assert split(partitioner_of(strategy=name), rows) == {"t 1-1": [b"a", b"c"], "t 0-2": [b"b"]}


def test_a_partition_or_a_broker_alone_goes_round_what_it_has() -> None:
    rows = rows_of(binary([b"a", b"b"]), "t", partitions=int32([1, 2]))
    partitioner = partitioner_of()
    firsts = [split(partitioner, rows) for _ in range(3)]
    assert firsts == [{f"t {name}": [b"a"], "t 0-2": [b"b"]} for name in ("0-1", "1-1", "0-1")]
    rows = rows_of(binary([b"a"]), "t", brokers=int32([1]))
    assert [list(split(partitioner, rows)) for _ in range(3)] == [["t 1-0"], ["t 1-1"], ["t 1-0"]]


def test_null_broker_and_partition_leave_the_choice_to_key_and_turn() -> None:
    values = binary([b"foobar", b"turn", b"named"])
    rows = rows_of(
        values,
        "t",
        keys=binary([b"foobar", None, None]),
        brokers=int32([None, None, 0]),
        partitions=int32([None, None, 2]),
    )
    by_key = NAMES[(-790332482 & 0x7FFFFFFF) % len(NAMES)]
    assert by_key not in ("1-1", "0-2")
    assert split(partitioner_of(first=4), rows) == {
        "t 0-2": [b"named"],
        f"t {by_key}": [b"foobar"],
        "t 1-1": [b"turn"],
    }


@pytest.mark.parametrize(
    ("brokers", "partitions", "what"),
    [
        ([None, 1], [None, 2], "no partition 2 on broker 1"),
        ([None, None], [0, 3], "no partition 3;"),
        ([None, None], [0, -1], "no partition -1;"),
        ([0, 2], [None, None], "no broker 2;"),
    ],
)
def test_a_partition_that_is_not_there_is_a_row_error(
    brokers: list[int | None], partitions: list[int | None], what: str
) -> None:
    rows = rows_of(binary([b"a", b"b"]), "t", brokers=int32(brokers), partitions=int32(partitions))
    with pytest.raises(RowError, match=what) as raised:
        partitioner_of().split(rows)
    assert str(raised.value).startswith("row 1: topic 't' has no")
    assert "it has 5 partitions, 0-0, 0-1, 0-2, 1-0, 1-1 (broker-partition)" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_topic_column_sends_each_row_to_its_topic() -> None:
    partitioner = partitioner_of(targets(topic_partition("0-0", "u"), topic_partition("1-0", "u")))
    rows = rows_of(binary([b"a", b"b", b"c", b"d"]), pa.array(["u", "t", "u", "t"]))
    assert split(partitioner, rows) == {"u 0-0": [b"a", b"c"], "t 0-0": [b"b", b"d"]}
    # A topic's run is filled by its own rows.
    split(partitioner, rows_of(binary([full(b"e")]), "t"))
    assert split(partitioner, rows) == {"u 0-0": [b"a", b"c"], "t 0-2": [b"b", b"d"]}


def test_keys_count_the_partitions_of_their_own_topic() -> None:
    keys = binary([b"k%d" % number for number in range(50)] * 2)
    topics = pa.array(["t"] * 50 + ["u"] * 50)
    partitioner = partitioner_of(targets(topic_partition("0-0", "u"), topic_partition("1-0", "u")))
    parts = split(partitioner, rows_of(keys, topics, keys=keys))
    alone = split(partitioner_of(), rows_of(keys.slice(0, 50), "t", keys=keys.slice(0, 50)))
    assert {name: values for name, values in parts.items() if name.startswith("t ")} == alone
    assert len(parts["u 0-0"]) + len(parts["u 1-0"]) == 50


@for_each(
    ("topics", "fault"),
    [
        ([b"t", b"a/b", b"t"], r"row 1: topic 'a/b': the brokers refuse the character U\+002F"),
        ([b"t", None, b"t\xff"], r"row 2: topic is not UTF-8; correct it, or set the option topic$"),
    ],
)
def test_a_topic_that_brokers_or_spark_cannot_have_is_a_row_error(
    topics: list[bytes | None], fault: str
) -> None:
    with pytest.raises(RowError, match=f"^{fault}"):
        split(partitioner_of(), rows_of(binary([b"a"] * 3), binary(topics).view(pa.string())))


def test_rows_go_round_the_list_one_by_one_with_roundrobin_whatever_their_keys() -> None:
    partitioner = partitioner_of(first=3, strategy="roundrobin")
    values = binary([b"a", b"b", b"c"])
    rows = rows_of(values, "t", keys=binary([b"same", b"same", None]))
    assert split(partitioner, rows) == {"t 1-0": [b"a"], "t 1-1": [b"b"], "t 0-0": [b"c"]}
    assert split(partitioner, rows) == {"t 0-1": [b"a"], "t 0-2": [b"b"], "t 1-0": [b"c"]}


def test_runs_go_round_the_list_with_sticky_whatever_their_keys() -> None:
    partitioner = partitioner_of(first=3, strategy="sticky")
    rows = rows_of(binary([b"a", b"b", full(b"c")]), "t", keys=binary([b"one", b"two", None]))
    assert split(partitioner, rows) == {"t 1-0": [b"a", b"b"], "t 1-1": [full(b"c")]}
    # Keys are bytes, too, where they are stored.
    stored = Rows(Records(binary([b"a", b"b"]), binary([full(b"k"), None])), "t")
    assert split(partitioner, stored) == {"t 0-0": [b"a"], "t 0-1": [b"b"]}


def test_only_rows_that_name_no_partition_fill_a_run() -> None:
    partitioner = partitioner_of()
    values = binary([full(b"a"), full(b"b"), b"c", b"d"])
    keys, partitions = binary([None, b"foobar", None, None]), int32([1, None, None, None])
    rows = rows_of(values, "t", keys=keys, partitions=partitions, brokers=int32([1, None, None, None]))
    parts = split(partitioner, rows)
    assert parts["t 1-1"] == [full(b"a")]
    assert parts["t 0-0"] == [b"c", b"d"]


def test_each_topic_counts_its_own_rows_with_roundrobin() -> None:
    partitioner = partitioner_of(
        targets(topic_partition("0-0", "u"), topic_partition("1-0", "u")), strategy="roundrobin"
    )
    rows = rows_of(binary([b"a", b"b", b"c", b"d", b"e"]), pa.array(["u", "t", "u", "u", "t"]))
    assert split(partitioner, rows) == {
        "u 0-0": [b"a", b"d"],
        "u 1-0": [b"c"],
        "t 0-0": [b"b"],
        "t 0-1": [b"e"],
    }
    assert split(partitioner, rows_of(binary([b"f"]), "u")) == {"u 1-0": [b"f"]}


def test_consistent_picks_by_crc_32_and_puts_all_null_keys_in_one_partition() -> None:
    keys = [b"123456789", b"a", b"", None]
    partitioner = partitioner_of(first=3, strategy="consistent")
    parts = split(partitioner, rows_of(binary([b"1", b"2", b"3", b"4"]), "t", keys=binary(keys)))
    places = [zlib.crc32(key or b"") % len(NAMES) for key in keys]
    assert places == [2, 2, 0, 0]
    assert parts == {"t 0-2": [b"1", b"2"], "t 0-0": [b"3", b"4"]}
    assert split(partitioner, rows_of(binary([b"5"]), "t")) == {"t 0-0": [b"5"]}


def test_consistent_random_sends_null_and_empty_keys_in_turn() -> None:
    keys = binary([b"123456789", b"", None])
    rows = rows_of(binary([b"1", b"2", b"3"]), "t", keys=keys)
    parts = split(partitioner_of(first=3, strategy="consistent_random"), rows)
    assert parts == {"t 0-2": [b"1"], "t 1-0": [b"2", b"3"]}


def test_an_empty_batch_has_no_parts_and_takes_no_turn() -> None:
    partitioner = partitioner_of()
    empty = rows_of(binary([]), "t", keys=binary([]), brokers=int32([]), partitions=int32([]))
    assert partitioner.split(empty) == []
    assert split(partitioner, rows_of(binary([b"a"]), "t")) == {"t 0-0": [b"a"]}


#: 99.9 % of the sums of squares that chance makes are below, by degrees of freedom.
CHI_SQUARE_MAX = {2: 13.82, 11: 31.26}


def turns_of(partitions: int, seed: int = 0, run_bytes_max: int = 1 << 20) -> StickyPartitions:
    return StickyPartitions(range(partitions), run_bytes_max, random.Random(seed))


def sizes(count: int, size: int) -> Ids:
    return np.full(count, size, np.int64)


def chi_square(counts: Counter[int], partitions: int) -> float:
    """Distance of the counts from equal ones."""
    expected = sum(counts.values()) / partitions
    return sum((counts[partition] - expected) ** 2 / expected for partition in range(partitions))


def spread(turns: StickyPartitions, batch: Ids) -> Ids:
    """The log of each row of a batch."""
    runs = turns.runs(batch)
    stops = np.array([stop for _, stop in runs])
    return np.repeat([partition for partition, _ in runs], np.diff(stops, prepend=0))


@pytest.mark.parametrize("partitions", [3, 12])
def test_many_small_writes_are_spread_as_chance_would_have_it(partitions: int) -> None:
    counts = Counter(turns_of(partitions, seed).runs(sizes(10, 100))[0][0] for seed in range(1500))
    assert 0 < chi_square(counts, partitions) < CHI_SQUARE_MAX[partitions - 1]


@pytest.mark.parametrize(("total", "rows"), [(1 << 20, 10), (20 << 20, 10), (200 << 20, 10_000)])
def test_one_write_gives_each_partition_as_much_except_for_a_run(total: int, rows: int) -> None:
    turns, given = turns_of(3), np.zeros(3)
    for _ in range(total // 1000 // rows):
        given += 1000 * np.bincount(spread(turns, sizes(rows, 1000)), minlength=3)
    assert given.max() - given.min() <= max(RUN_BYTES_MIN, min(total // 16, 1 << 20))


def test_batches_of_two_sizes_in_turn_fill_logs_alike() -> None:
    turns, given = turns_of(2, run_bytes_max=RUN_BYTES_MIN), np.zeros(2)
    for number in range(1000):
        size = 8_500 if number % 2 else 16_000
        given[spread(turns, sizes(1, size))] += size
    assert given.max() - given.min() <= RUN_BYTES_MIN


def test_rows_that_fit_a_run_are_of_one_partition_as_if_they_were_cut() -> None:
    turns, others = turns_of(5), turns_of(5)
    for size in (100, 9_000, 200, 16_000, 300):
        assert turns.whole(size) == others.runs(sizes(1, size))[0][0]
    assert turns.whole(1 << 20) is None


def test_a_run_is_16_kib_first_and_a_batch_at_last() -> None:
    turns = turns_of(3)
    lengths = [np.diff([0, *(stop for _, stop in turns.runs(sizes(10_000, 1024)))]) for _ in range(10)]
    assert set(lengths[0][:10].tolist()) <= {15, 16}
    assert lengths[-1].tolist() == [1000] * 10


def test_a_run_does_not_go_on_in_the_next_batch_once_it_is_about_full() -> None:
    turns = turns_of(3)
    first, second, third = (turns.runs(sizes(1, size)) for size in (7000, 2000, 100))
    assert first == second != third


@given(
    st.lists(st.lists(st.integers(1, 1 << 22), max_size=30), max_size=5),
    st.integers(1, 5),
    st.integers(1, 1 << 21),
)
def test_no_run_is_larger_than_it_may_be_except_for_one_row(
    batches: list[list[int]], partitions: int, most: int
) -> None:
    turns = StickyPartitions(range(partitions), most, random.Random(1))
    for batch in batches:
        start = 0
        for partition, stop in turns.runs(np.array(batch, np.int64)):
            assert 0 <= partition < partitions
            assert stop == start + 1 or sum(batch[start:stop]) <= max(most, RUN_BYTES_MIN)
            start = stop
        assert start == len(batch)


def test_one_by_one_each_row_goes_to_the_next_log_in_the_order_of_its_seed() -> None:
    orders = [turns_of(12, seed).one_by_one(24).tolist() for seed in (0, 1, 2, 0)]
    for order in orders:
        assert sorted(order[:12]) == [*range(12)]
        assert order[:12] == order[12:]
    assert orders[0] == orders[3]
    assert len(set(map(tuple, orders))) == 3


def given_to(turns: StickyPartitions, batches: int, rooms: Sequence[int] | None, size: int = 1000) -> Ids:
    """Bytes that each partition gets of so many batches of 100 rows, while there is always such room."""
    given = np.zeros(len(rooms or [0] * 3), np.int64)
    for _ in range(batches):
        turns.update_load(rooms)
        given += size * np.bincount(spread(turns, sizes(100, size)), minlength=len(given))
    return given


@pytest.mark.parametrize("rooms", [[5, 5, 1], [1, 3, 2, 4], [100, 0, 50], [0, 0, 7]])
def test_logs_get_as_much_as_their_brokers_have_room(rooms: list[int]) -> None:
    rooms = [room << 20 for room in rooms]
    given = given_to(turns_of(len(rooms)), 2000, rooms)
    shares = given / given.sum() - np.array(rooms) / sum(rooms)
    assert abs(shares).max() < 0.03
    assert not given[np.array(rooms) == 0].any()


@pytest.mark.parametrize("rooms", [None, [0, 0, 0], [1 << 20] * 3])
def test_without_a_difference_nothing_is_different(rooms: list[int] | None) -> None:
    turns, others = turns_of(3), turns_of(3)
    for rows in (10, 1000, 7, 5000, 100_000):
        turns.update_load(rooms)
        assert turns.runs(sizes(rows, 100)) == others.runs(sizes(rows, 100))


def test_a_partition_that_had_no_room_makes_up_for_nothing_later() -> None:
    turns = turns_of(3)
    given_to(turns, 100, [1 << 20, 0, 1 << 20])
    later = given_to(turns, 600, None)
    assert later.max() - later.min() <= 2 << 20


def test_a_slow_log_gets_its_part_again_once_it_is_not_slow() -> None:
    turns = turns_of(3)
    slow = given_to(turns, 300, [8 << 20, 1 << 20, 8 << 20])
    assert slow[1] < slow.min(initial=slow.max(), where=np.array([True, False, True])) / 4
    later = given_to(turns, 1000, None)
    # It still owes what its last run cost, which is the room of the fastest at most, and each has had a run.
    assert later.max() - later.min() <= (8 << 20) + (1 << 20)


def test_a_run_is_no_longer_than_the_room_of_its_log() -> None:
    turns = turns_of(2)
    turns.runs(sizes(1000, 20_000))  # its runs are of 1 MiB now
    turns.update_load([4 << 20, 100_000])
    runs = turns.runs(sizes(2000, 10_000))
    starts = [0, *(stop for _, stop in runs)]
    lengths = [stop - start for (partition, stop), start in zip(runs, starts, strict=False) if partition == 1]
    assert lengths
    assert max(lengths[1:]) <= 10


def test_a_run_ends_once_its_log_has_no_room() -> None:
    turns = turns_of(2)
    first = turns.whole(100)
    assert turns.whole(100) == first
    turns.update_load([int(partition != first) for partition in range(2)])
    assert turns.whole(100) != first


#: The check value of CRC-32 (its catalogue's "123456789"), and zlib's of the others.
CRCS = {b"": 0, b"123456789": 0xCBF43926, b"a": 0xE8B7BE43, b"\x00": 0xD202EF8D}


def test_a_null_key_hashes_as_an_empty_one_whatever_lies_under_it() -> None:
    assert crc32_hashes(binary(list(CRCS))).tolist() == list(CRCS.values())
    hidden = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x02"), *binary([b"hidden", b"a"]).buffers()[1:]]
    )
    assert hidden.to_pylist() == [None, b"a"]
    assert crc32_hashes(hidden).tolist() == [0, CRCS[b"a"]]
    assert crc32_hashes(binary([])).tolist() == []


@settings(deadline=None)  # the kernels may be compiled in between
@given(st.lists(st.none() | st.binary(max_size=40), max_size=20), st.integers(0, 5))
def test_a_slice_hashes_as_its_keys_do(keys: list[bytes | None], start: int) -> None:
    expected = [zlib.crc32(key or b"") for key in keys[start:]]
    assert crc32_hashes(binary(keys).slice(start)).tolist() == expected


@pytest.mark.parametrize(
    ("name", "keyed", "without_keys"),
    [
        ("murmur2", [True, True, False], None),
        ("consistent", [True, True, True], [True, True, True]),
        ("consistent_random", [True, False, False], None),
        ("roundrobin", None, None),
        ("sticky", None, None),
    ],
)
def test_a_partitioner_tells_which_rows_choose_by_their_key(
    name: str, keyed: list[bool] | None, without_keys: list[bool] | None
) -> None:
    def listed(keys: pa.Array | None) -> list[bool] | None:
        chooses = STRATEGIES[name].keyed(keys, 3)
        return None if chooses is None else chooses.tolist()

    assert listed(binary([b"key", b"", None])) == keyed
    assert listed(None) == without_keys
