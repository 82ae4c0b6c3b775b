"""Options of ``keyOrder``: their values, and the error of each wrong one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import KeyOrder, PartitionerCheck, ReadOptions, StreamOptions
from spark_kafkawire.options.key_order import TopicLayouts
from tests.support.cases import for_each

MODERN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
V07 = {"broker.list": "0:h:1", "subscribe": "t"}
GROWN = '{"t":[{"partitions":2},{"partitions":4,"boundaries":{"0":70,"1":65}}]}'
COUNTS = '{"t":[{"partitions":2},{"partitions":4}]}'
OLD = '{"t":[{"partitions":{"1":1}},{"partitions":{"0":2,"1":1},"boundaries":{"1-0":9}}]}'


def order(base: Mapping[str, str] = MODERN, **given: str) -> KeyOrder:
    result = ReadOptions.parse({**base, "keyOrder": "true", **given}).key_order
    assert result is not None
    return result


def refusal(base: Mapping[str, str] = MODERN, **given: str) -> str:
    with pytest.raises(OptionError) as error:
        ReadOptions.parse({**base, "keyOrder": "true", **given})
    message = str(error.value)
    assert message.isprintable()
    return message


def test_boundaries_are_of_the_partitions_before() -> None:
    assert ReadOptions.parse(MODERN).key_order is None
    assert ReadOptions.parse({**MODERN, "keyOrder": "false"}).key_order is None
    result = order(partitionLayouts=GROWN)
    assert result.topics["t"].counts == (2, 4)
    assert result.topics["t"].boundaries == ({TopicPartition("t", 0): 70, TopicPartition("t", 1): 65},)
    assert (result.check, result.moments_ms) == (PartitionerCheck.STRICT, ())
    assert pickle.loads(pickle.dumps(result)) == result
    given = {**MODERN, "keyOrder": "true", "partitionLayouts": GROWN}
    assert StreamOptions.parse(given).read.key_order == order(partitionLayouts=GROWN)


def test_moments_mean_boundaries_of_topics_that_grew_as_often() -> None:
    result = order(
        partitionLayouts='{"t":[{"partitions":2},{"partitions":4}],"u":[{"partitions":3}]}',
        expansionTimestamp=" 5 ",
    )
    assert (result.moments_ms, result.topics["t"].boundaries) == ((5,), None)
    assert result.topics["u"].counts == (3,)


def test_a_list_of_07_is_that_of_its_brokers() -> None:
    result = order(V07, partitionLayouts=OLD)
    assert [[tp.name for tp in partitions] for partitions in result.topics["t"].lists] == [
        ["1-0"],
        ["0-0", "0-1", "1-0"],
    ]
    assert result.topics["t"].boundaries == ({TopicPartition("t", 0, 1): 9},)
    assert result.check is PartitionerCheck.NONE


@pytest.mark.parametrize("value", ["strict", "true", "false"])
def test_the_check_is_the_one_that_is_asked_for(value: str) -> None:
    assert order(partitionLayouts=GROWN, verifyPartitioner=value).check.value == value


@pytest.mark.parametrize("name", ["partitionLayouts", "expansionTimestamp", "verifyPartitioner"])
def test_what_is_for_the_order_of_keys_alone_is_refused_without_it(name: str) -> None:
    assert refusal(MODERN, keyOrder="false", **{name: "1"}) == (
        f"option {name} is for keyOrder=true: set that, too, or leave it out"
    )


@for_each(
    ("given", "reported"),
    [
        ({}, "option keyOrder: brokers do not record when partitions were added"),
        ({"minPartitions": "8"}, "option minPartitions splits what keyOrder=true reads one after the other"),
        ({"maxRecordsPerPartition": "8"}, "option maxRecordsPerPartition splits"),
        ({"partitionLayouts": COUNTS}, "t grew 1 time, and the ends of its old partitions are missing"),
        (
            {"partitionLayouts": GROWN, "expansionTimestamp": "5"},
            "partitionLayouts has all boundaries: leave",
        ),
        ({"partitionLayouts": COUNTS, "expansionTimestamp": "5,6"}, "grew 1 time by partitionLayouts, and"),
        ({"partitionLayouts": COUNTS, "expansionTimestamp": "6,5"}, "'6,5' is not in the order of time"),
        ({"partitionLayouts": COUNTS, "expansionTimestamp": "x"}, "'x' is not milliseconds since 1970"),
        ({"partitionLayouts": GROWN, "verifyPartitioner": "x"}, "'x' is not false or true or strict"),
    ],
)
def test_report_options_that_contradict_or_lack_each_other(given: dict[str, str], reported: str) -> None:
    assert reported in refusal(MODERN, **given)


def test_moments_or_named_partitions_alone_are_refused() -> None:
    result = order(expansionTimestamp="5,7")
    assert (result.topics, result.moments_ms) == ({}, (5, 7))
    assert refusal(expansionTimestamp="5", verifyPartitioner="false") == (
        "option expansionTimestamp: without partitionLayouts the numbers of partitions are derived from "
        "keys: give partitionLayouts, or leave verifyPartitioner=false out"
    )
    with pytest.raises(
        OptionError, match=r"^option expansionTimestamp: a stream needs partitionLayouts, too"
    ):
        StreamOptions.parse({**MODERN, "keyOrder": "true", "expansionTimestamp": "5"})
    base = {"kafka.bootstrap.servers": "h:1", "assign": '{"t":[0]}'}
    assert refusal(base, partitionLayouts=GROWN) == (
        "option assign: a key may have been in any partition, and keyOrder=true reads them all: name the "
        "topics with subscribe, or leave keyOrder out"
    )


@pytest.mark.parametrize("name", ["expansionTimestamp", "verifyPartitioner"])
def test_07_has_no_times_and_no_keys(name: str) -> None:
    assert f"option {name} does not apply to Kafka 0.7" in refusal(V07, partitionLayouts=OLD, **{name: "5"})


@for_each(
    "text",
    [
        *("", "{}", "[]", "{", '{"t":[{"partitions":NaN}]}'),
        *(
            json.dumps({"t": layouts})
            for layouts in (
                *("2", [], [2], [{"partitions": 2, "offsets": {}}], [{"boundaries": {}}]),
                *([{"partitions": item}] for item in ("2", True, 0, 10**9, {"0": 1})),
                *(
                    [{"partitions": 1}, {"partitions": 2, "boundaries": item}]
                    for item in ([7], {"0": -1}, {"0": 1.5}, {"0": 2**63})
                ),
            )
        ),
    ],
)
def test_malformed_layouts_are_shown_beside_well_formed_ones(text: str) -> None:
    reported = refusal(partitionLayouts=text)
    assert reported.startswith(f"option partitionLayouts: '{text[:1]}")
    assert f"is not of the form {GROWN}" in reported


@for_each(
    ("layouts", "reported"),
    [
        ([(4, None), (2, {"0": 1})], "t: each layout must have all partitions of the one before, and more"),
        ([(2, None), (2, {"0": 1})], "t: each layout must have all partitions of the one before, and more"),
        ([(2, {"0": 1})], "t: the first layout must have no boundaries, only those after it have"),
        ([(2, None), (4, {"0": 1})],
         "t: boundaries must name the 2 partitions of the layout before, 0 to 1, each"),
        ([(1, None), (4, {"0": 1, "1": 1})], "t: boundaries must name the 1 partition of"),
        ([(1, None), (4, {"00": 1})], "t: boundaries must name the 1 partition of"),
        ([(1, None), (2, {"0": 9}), (3, {"0": 8, "1": 0})],
         "t: the boundaries of t 0 run backwards, 9 and 8"),
        ([(1, None), (2, {"0": 9}), (3, None)],
         "t: some layouts after the first have boundaries, the ends"),
    ],
)  # fmt: skip
def test_report_impossible_layouts(layouts: list[tuple[int, dict[str, int] | None]], reported: str) -> None:
    given = [
        {"partitions": count, **({} if boundaries is None else {"boundaries": boundaries})}
        for count, boundaries in layouts
    ]
    assert refusal(partitionLayouts=json.dumps({"t": given})).startswith(
        f"option partitionLayouts: {reported}"
    )


@pytest.mark.parametrize("partitions", [2, {}, {"00": 1}, {"0": 0}, {"x": 1}, {"0": None}])
def test_report_malformed_lists_of_07(partitions: object) -> None:
    reported = refusal(V07, partitionLayouts=json.dumps({"t": [{"partitions": partitions}]}))
    assert 'is not of the form {"t":[{"partitions":{"0":1}}' in reported


# --- Partitions that held the keys of others before: by the layouts alone, and by trying all hashes ---


def modern(*counts: int) -> TopicLayouts:
    return TopicLayouts(
        tuple(tuple(TopicPartition("t", number) for number in range(item)) for item in counts)
    )


def v07(*brokers: dict[int, int]) -> TopicLayouts:
    """Each layout's partitions by broker."""
    return TopicLayouts(
        tuple(
            tuple(
                TopicPartition("t", number, broker)
                for broker in sorted(item)
                for number in range(item[broker])
            )
            for item in brokers
        )
    )


#: Topics that grew up to three times, from later on and from 0.7.
TOPIC_LAYOUTS_GROWN = st.one_of(
    st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True).map(
        lambda counts: modern(*sorted(counts))
    ),
    st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 3), min_size=1), min_size=1, max_size=4).map(
        lambda steps: v07(*_growing(steps))
    ),
)


def _growing(steps: list[dict[int, int]]) -> list[dict[int, int]]:
    """Partitions of each broker after each step, without the steps that bring nothing."""
    result: list[dict[int, int]] = []
    for step in steps:
        held = result[-1] if result else {}
        grown = {broker: max(held.get(broker, 0), step.get(broker, 0)) for broker in held | step}
        if grown != held:
            result.append(grown)
    return result


def hashes(layouts: TopicLayouts) -> range:
    """One of each kind: what a hash does follows from its remainder by the product of all counts."""
    product = 1
    for count in layouts.counts:
        product *= count
    return range(product)


@given(TOPIC_LAYOUTS_GROWN)
def test_parents_are_the_partitions_from_which_some_hash_moves(layouts: TopicLayouts) -> None:
    for layout in range(1, len(layouts.lists)):
        old, new = layouts.lists[layout - 1 : layout + 1]
        moved = {(old[h % len(old)], new[h % len(new)]) for h in range(len(old) * len(new))}
        for partition in new:
            assert set(layouts.parents(layout, partition)) == {
                a for a, b in moved if b == partition and a != b
            }


@given(TOPIC_LAYOUTS_GROWN.filter(lambda layouts: layouts.is_in_turn))
def test_in_turn_every_hash_goes_up_the_partitions_of_one_family(layouts: TopicLayouts) -> None:
    for h in hashes(layouts):
        way = [partitions[h % len(partitions)] for partitions in layouts.lists]
        assert [layouts.first(tp) for tp in way] == sorted(map(layouts.first, way))
        assert all(a == b or layouts.first(a) < layouts.first(b) for a, b in pairwise(way))
        assert {layouts.family(tp) for tp in way} == {way[0]}


@given(TOPIC_LAYOUTS_GROWN.filter(lambda layouts: not layouts.is_in_turn))
def test_out_of_turn_some_hash_moves_to_a_partition_that_was_there_before(layouts: TopicLayouts) -> None:
    ways = ([partitions[h % len(partitions)] for partitions in layouts.lists] for h in hashes(layouts))
    assert any(
        way[layout] != way[layout - 1] and layouts.first(way[layout]) < layout
        for way in ways
        for layout in range(1, len(way))
    )


def test_a_merged_partition_has_all_its_parents() -> None:
    layouts = modern(4, 6)
    assert [tp.partition for tp in layouts.parents(1, TopicPartition("t", 0))] == [2]
    assert [tp.partition for tp in layouts.parents(1, TopicPartition("t", 4))] == [0, 2]
    assert [layouts.first(TopicPartition("t", number)) for number in range(6)] == [0, 0, 0, 0, 1, 1]
