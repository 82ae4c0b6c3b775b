"""The shares of a group of 0.7: the same as those of JVM consumers, and each partition once."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.cluster.v07.balancing import (
    THREADS_COUNT_MAX,
    GroupView,
    assignment,
    java_order,
    subscription,
    thread_counts,
    threads_of,
)
from spark_kafkawire.errors import (
    MESSAGE_SIZE_MAX,
    DiscoveryError,
    KafkaWireError,
    OptionError,
)
from spark_kafkawire.model import TopicPartition
from tests.support.cases import for_each
from tests.support.golden import read_json

STAGES = read_json("zk_tree.json")["stages"]
#: The topics that the recorded consumers read, with the partitions of each broker.
PARTITIONS = {"cc-topic": {0: 3, 1: 3}, "cc-comp": {0: 3}, "mix-topic": {0: 3, 1: 3}}
#: A member that a test of the recorder's registered, and that claimed nothing.
SILENT = "aa-python"


def nodes_of(stage: str, kind: str) -> dict[str, str]:
    """The data of a recorded stage's nodes of consumers, ``ids`` or ``owners``."""
    found: Any = STAGES[stage]
    tree = found["tree"] if isinstance(found, dict) else found
    nodes = {node["path"]: node["data"] for node in tree if not node["children"] and node["data"]}
    return {
        path: data
        for path, data in nodes.items()
        if path.startswith("/consumers/") and path.split("/")[3] == kind
    }


#: All that have owners: of one consumer and of two, of threads, filters, two topics, and foreign writings.
RECORDED = [
    stage
    for stage in STAGES
    if stage >= "10" and isinstance(STAGES[stage], (dict, list)) and "foreign" not in stage
    if "tree" in STAGES[stage] and nodes_of(stage, "owners")
]


def test_stages_of_all_kinds_are_compared() -> None:
    assert len(RECORDED) >= 12
    assert {stage[:2] for stage in RECORDED} >= {
        "10",
        "11",
        "13",
        "15",
        "16",
        "17",
        "40",
    }


@for_each("stage", RECORDED)
def test_the_recorded_consumers_of_the_jvm_own_what_the_rule_gives_them(
    stage: str,
) -> None:
    counts = {
        path.rpartition("/")[2]: thread_counts(path, data.encode(), topics_of(stage))
        for path, data in nodes_of(stage, "ids").items()
    }
    view = GroupView(counts, {topic: PARTITIONS[topic] for topic in topics_of(stage)})
    owned = {
        (path.split("/")[4], path.split("/")[5]): owner for path, owner in nodes_of(stage, "owners").items()
    }
    shared = {
        (tp.topic, tp.name): thread
        for consumer in counts
        if not consumer.endswith(SILENT)
        for tp, thread in view.share_of(consumer).items()
    }
    assert shared == owned


def topics_of(stage: str) -> list[str]:
    """The topics of the lab that a stage had to do with: filters are tried against all of them."""
    return ["mix-topic"] if stage.startswith("40") else ["cc-comp", "cc-topic"]


NAMES = st.text(st.characters(min_codepoint=33, exclude_categories=["Cs"]), min_size=1, max_size=4)


#: Ids of which some begin others, up to a hyphen or beyond it.
IDS = st.lists(
    st.sampled_from(["a", "b", "-", "1", "10", "\uff5e", "\U0001f600"]), min_size=1, max_size=5
).map("".join)


def listed(parts: set[str], counts: dict[str, int]) -> dict[str, tuple[str, ...]]:
    """The shares of all threads, as ZookeeperConsumerConnector.rebalance of Kafka 0.7.2 counts them: from the
    sorted list of all threads."""
    threads = sorted(
        (thread for consumer, count in counts.items() for thread in threads_of(consumer, count)),
        key=java_order,
    )
    names = sorted(parts, key=java_order)
    count = len(names) // len(threads) if threads else 0
    more = len(names) % len(threads) if threads else 0
    shares = {}
    for place, thread in enumerate(threads):
        start = count * place + min(place, more)
        shares[thread] = tuple(names[start : start + count + (0 if place + 1 > more else 1)])
    return shares


@given(st.sets(NAMES, max_size=30), st.dictionaries(IDS, st.integers(0, 25), max_size=6))
def test_each_partition_has_one_thread_and_shares_differ_by_one_at_most(
    parts: set[str], counts: dict[str, int]
) -> None:
    shares = {
        thread: names for consumer in counts for thread, names in assignment(parts, counts, consumer).items()
    }
    assert shares == listed(parts, counts)
    in_order = [part for thread in sorted(shares, key=java_order) for part in shares[thread]]
    assert in_order == (sorted(parts, key=java_order) if shares else [])
    sizes = [len(names) for names in shares.values()]
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_threads_of_others_are_counted_and_not_listed() -> None:
    """Three million threads of 300 small nodes took 16 s and 644 MiB."""
    others = {f"g_host-{number}": {"t": THREADS_COUNT_MAX} for number in range(300)}
    view = GroupView({"g_a": {"t": 1}, **others}, {"t": {0: 3}})
    tracemalloc.start()
    try:
        assert view.share_of("g_a") == {TopicPartition("t", 0, 0): "g_a-0"}
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.dictionaries(st.sampled_from("tuv"), st.integers(0, 3)),
        max_size=4,
    ),
    st.dictionaries(
        st.sampled_from("tuv"),
        st.dictionaries(st.integers(0, 12), st.integers(1, 12), max_size=3),
    ),
)
def test_members_that_see_the_same_own_every_partition_of_their_topics_once(
    counts: dict[str, dict[str, int]], partitions: dict[str, dict[int, int]]
) -> None:
    view = GroupView(counts, partitions)
    shares = [view.share_of(consumer) for consumer in counts]
    owned = [tp for share in shares for tp in share]
    read = {topic for each in counts.values() for topic, count in each.items() if count}
    assert sorted(owned) == sorted(
        TopicPartition(topic, number, broker)
        for topic in read & partitions.keys()
        for broker, count in partitions[topic].items()
        for number in range(count)
    )
    assert all(
        thread.rpartition("-")[0] == consumer
        for consumer, share in zip(counts, shares, strict=True)
        for thread in share.values()
    )


def test_partitions_and_threads_are_sorted_as_java_sorts_strings() -> None:
    two = {"g_b": 1, "g_a": 1}
    assert assignment(["0-2", "0-10", "0-1"], two, "g_a") == {"g_a-0": ("0-1", "0-10")}
    assert assignment(["0-2", "0-10", "0-1"], two, "g_b") == {"g_b-0": ("0-2",)}
    # Java compares halves of what is beyond U+FFFF: they come before U+FF5E.
    beyond = {"\uff5e": 1, "\U0001f600": 1}
    assert assignment(["p"], beyond, "\U0001f600") == {"\U0001f600-0": ("p",)}
    assert assignment(["p"], beyond, "\uff5e") == {"\uff5e-0": ()}


def test_a_subscription_is_written_as_the_jvm_writes_it() -> None:
    [recorded] = [data for path, data in nodes_of("10_consumer1_two_streams", "ids").items()]
    assert subscription(["cc-topic"], 2).decode() == recorded
    assert subscription(["größe", "b"], 1).decode() == '{ "größe": 1,"b": 1 }'
    [two] = nodes_of("17_two_topics", "ids").values()
    assert thread_counts("/ids/c", two.encode(), []) == {"cc-topic": 1, "cc-comp": 2}


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("*2*cc-.*", ["cc-comp", "cc-topic"]),
        ("*2*cc-comp,lab", ["cc-comp", "lab"]),
        ("*2*'cc-comp | lab'", ["cc-comp", "lab"]),
        ("*2*cc", []),
        ("!2!cc-.*", ["lab"]),
        ("*2*cc-(?=t).*|lab", ["cc-topic", "lab"]),
    ],
)
def test_a_filter_takes_topics_whose_whole_names_match_as_in_java(text: str, topics: list[str]) -> None:
    found = thread_counts("/ids/c", text.encode(), ["lab", "cc-topic", "cc-comp"])
    assert found == dict.fromkeys(topics, 2)


@for_each(
    "text",
    [
        '{"t": 1.0}',
        "mix-topic",
        "",
        "[1]",
        "3",
        '{"t": true}',
        '{"t": -1}',
        '{"t": 99999}',
        "*9*(",
        "*99999*a",
        "[" * 9999,
    ],
)
def test_what_no_consumer_can_share_by_is_told_with_its_node(text: str) -> None:
    assert "node /consumers/g/ids/c" in fault(DiscoveryError, text)


def test_a_consumer_of_08_is_told() -> None:
    text = '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1400000000000"}'
    assert "a consumer of Kafka 0.8" in fault(OptionError, text)


def fault(kind: type[KafkaWireError], text: str) -> str:
    with pytest.raises(kind) as error:
        thread_counts("/consumers/g/ids/c", text.encode(), ["t"])
    message = str(error.value)
    assert message.isprintable()
    assert len(message) < MESSAGE_SIZE_MAX
    return message
