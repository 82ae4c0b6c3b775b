"""A member of a group of 0.7: claims, sessions, balancing, and groups as large as can be."""

from __future__ import annotations

import contextlib
import logging
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from spark_kafkawire.broker import ZooKeeperServer
from spark_kafkawire.cluster.v07 import member as member_module
from spark_kafkawire.cluster.v07.member import (
    THREADS_COUNT_MAX,
    GroupView,
    Member,
    OwnedPartition,
    assignment,
    java_order,
    subscription,
    thread_counts,
    threads_of,
)
from spark_kafkawire.cluster.v07.zookeeper_client import NODE_BYTES_MAX, SESSION_TIMEOUT_MAX_S
from spark_kafkawire.errors import (
    MESSAGE_SIZE_MAX,
    DiscoveryError,
    KafkaWireError,
    OptionError,
)
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.options import Discovery
from tests.support.cases import for_each
from tests.support.golden import read_json
from tests.support.polling import poll
from tests.support.tree_writer import TreeWriter

TIMEOUT_S: Final = 60.0
RETRY: Final = RetryPolicy(3, 0.1, TIMEOUT_S)
TOPIC: Final = "cc-topic"
NAMES: Final = ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]

Join = Callable[..., Member]


def topic_partition(name: str) -> TopicPartition:
    broker, partition = map(int, name.split("-"))
    return TopicPartition(TOPIC, partition, broker)


@pytest.fixture(autouse=True)
def patient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that a busy machine starves for some seconds is not taken for dead."""
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member.SESSION_TIMEOUT_S", SESSION_TIMEOUT_MAX_S)


@pytest.fixture
def topic(tree: TreeWriter) -> TreeWriter:
    """The topic that the recorded consumers read, on two brokers."""
    tree.put_topic(TOPIC, {0: 3, 1: 3})
    return tree


@pytest.fixture
def join() -> Iterator[Join]:
    """Members that leave with the test; ``join(discovery, threads, ...)``."""
    with contextlib.ExitStack() as stack:

        def joined(
            discovery: Discovery,
            thread_count: int = 1,
            timeout_s: float = TIMEOUT_S,
            retry_timeout_s: float = TIMEOUT_S,
        ) -> Member:
            retry = RetryPolicy(3, 0.1, retry_timeout_s)
            member = Member(discovery, "g", [TOPIC], thread_count, retry, timeout_s)
            stack.callback(member.close)
            return member

        yield joined


@pytest.fixture
def client(topic: TreeWriter) -> Iterator[KazooClient]:
    client = KazooClient(topic.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def owners(client: KazooClient) -> dict[str, str]:
    """Owners of partitions, as the nodes say."""
    result = {}
    for name in NAMES:
        with contextlib.suppress(NoNodeError):
            result[name] = client.get(f"/consumers/g/owners/{TOPIC}/{name}")[0].decode()
    return result


def released(member: Member) -> dict[TopicPartition, OwnedPartition]:
    """The partitions that a member owns; it may release them again."""
    owned = member.hold()
    member.let_go()
    return owned


def names(member: Member) -> list[str]:
    return sorted(item.name for item in released(member))


def test_a_member_writes_what_the_jvm_has_written(topic: TreeWriter, join: Join, client: KazooClient) -> None:
    recorded = {
        node["path"].replace("lab-group", "g"): (node["data"], node["ephemeral"])
        for node in read_json("zk_tree.json")["stages"]["10_consumer1_two_streams"]["tree"]
    }
    [name] = [path.rpartition("/")[2] for path in recorded if path.startswith("/consumers/g/ids/")]
    member = join(topic.discovery, 2)
    owned = member.hold()
    assert member.commit({item: (34, owned[item]) for item in owned}) == []
    assert sorted(item.name for item in owned) == NAMES
    assert {own.offset for own in owned.values()} == {None}

    def tree_of(path: str) -> dict[str, tuple[str | None, bool]]:
        data, stat = client.get(path)
        text = None if data is None else data.decode().replace(member.id, name).replace("lab-group", "g")
        result = {path.replace(member.id, name): (text, bool(stat.ephemeralOwner))}
        for child in client.get_children(path):
            result |= tree_of(f"{path}/{child}")
        return result

    as_recorded = {
        path: (data and data.replace("lab-group", "g"), is_ephemeral)
        for path, (data, is_ephemeral) in recorded.items()
    }
    assert tree_of("/consumers") == as_recorded


def test_members_share_and_a_member_that_leaves_leaves_its_share(
    topic: TreeWriter, join: Join, client: KazooClient
) -> None:
    first = join(topic.discovery)
    assert names(first) == NAMES
    second = join(topic.discovery)
    poll(lambda: len({*owners(client).values()}) == 2 and len(owners(client)) == 6, "two owners")
    shares = {member.id: names(member) for member in (first, second)}
    assert [shares[id_] for id_ in sorted(shares)] == [NAMES[:3], NAMES[3:]]
    second.close()
    poll(lambda: names(first) == NAMES, "the whole topic")
    assert set(owners(client).values()) == {f"{first.id}-0"}


def test_what_is_held_is_given_up_when_it_is_let_go(
    topic: TreeWriter, join: Join, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    first = join(topic.discovery)
    held = first.hold()
    second = join(topic.discovery)
    poll(lambda: second.others or names(second), "the second one's look")
    assert set(owners(client).values()) == {f"{first.id}-0"}
    assert set(second.others.values()) == {f"{first.id}-0"}
    assert first.commit({item: (50, held[item]) for item in held}) == []
    poll(lambda: first._owned.wanted_s is not None, "the first one to know of the second")
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        patch.setattr(member_module, "JVM_WAIT_S", 0.0)
        first.let_go(list(held))
        # No call of the first one's is needed for that.
        poll(lambda: len(second.hold()) == 3, "half of the topic")
        poll(
            lambda: any("other consumers waited" in item.getMessage() for item in list(caplog.records)),
            "a warning",
        )
    assert {own.offset for own in second.hold().values()} == {50}
    assert len(names(first)) == 3


def test_the_thread_of_a_partition_moves_without_giving_it_up(
    topic: TreeWriter, join: Join, client: KazooClient
) -> None:
    """A consumer of two threads whose shares change, as others come before it."""
    member = join(topic.discovery, 2)
    before = member.hold()
    member.let_go()
    client.create("/consumers/g/ids/g_0", b'{ "cc-topic": 1 }', ephemeral=True)
    poll(lambda: len(member.hold()) == 4, "four partitions")
    after = member.hold()
    assert {item: before[item] for item in after} == after
    assert owners(client) == {name: f"{member.id}-{index // 2}" for index, name in enumerate(NAMES[2:])}


@pytest.mark.parametrize("leaves", [True, False])
def test_a_member_takes_its_share_when_a_recorded_consumer_of_the_jvm_gives_it_up(
    leaves: bool, topic: TreeWriter, join: Join, client: KazooClient
) -> None:
    stage = read_json("zk_tree.json")["stages"]["10_consumer1_two_streams"]["tree"]
    nodes = {node["path"].replace("lab-group", "g"): node for node in stage if not node["children"]}
    for path, node in nodes.items():
        data = node["data"].replace("lab-group", "g").encode()
        client.create(path, data, ephemeral=node["ephemeral"], makepath=True)
    [path] = [path for path in nodes if "/ids/" in path]
    jvm = path.rpartition("/")[2]
    member = join(topic.discovery)
    poll(lambda: len(member.others) == 2, "the share of one of three threads")
    assert member.hold() == {}
    # The id begins with g_vm, or with another host's name: where it stands decides what it shall own.
    expected = NAMES[:2] if member.id < jvm else NAMES[4:]
    for name in NAMES:
        if leaves or name in expected:
            client.delete(f"/consumers/g/owners/{TOPIC}/{name}")
    poll(lambda: names(member) == expected, "its share")
    assert {own.offset for own in member.hold().values()} == {34}
    member.let_go()
    if leaves:
        client.delete(path)
        poll(lambda: names(member) == NAMES, "all of the topic")


def test_new_brokers_topics_and_their_ends_are_seen(tree: TreeWriter, join: Join) -> None:
    tree.put("/brokers")
    member = join(tree.discovery)
    assert names(member) == []
    tree.put_topic(TOPIC, {0: 2})
    poll(lambda: names(member) == ["0-0", "0-1"], "a topic that came")
    tree.put_topic(TOPIC, {1: 1})
    poll(lambda: names(member) == ["0-0", "0-1", "1-0"], "a broker that came")
    tree.remove(f"/brokers/topics/{TOPIC}/0")
    poll(lambda: names(member) == ["1-0"], "a broker that went")


@pytest.mark.parametrize(
    ("path", "data", "kind", "reported"),
    [
        ("ids/g_other", b'{"version":1,"subscription":{"t":1}}', OptionError, "a consumer of Kafka 0.8"),
        ("ids/g_other", b'{"t": 1.0}', DiscoveryError, "no consumer of 0.7 can read"),
        (f"offsets/{TOPIC}/0-1", b"here", DiscoveryError, "'here', which is not an offset"),
    ],
)
def test_report_a_group_that_cannot_be_joined(
    path: str, data: bytes, kind: type[KafkaWireError], reported: str, topic: TreeWriter, join: Join
) -> None:
    topic.put(f"/consumers/g/{path}", data)
    with pytest.raises(kind, match=reported) as error:
        join(topic.discovery).hold()
    assert (
        str(error.value)
        .removeprefix(f"option zookeeper.connect: {topic.connect}: ")
        .startswith(f"node /consumers/g/{path} ")
    )


def test_report_a_chroot_that_is_not_there(tree: TreeWriter, join: Join) -> None:
    with pytest.raises(DiscoveryError, match=r"the chroot .* is not in ZooKeeper"):
        join(tree.discovery).hold()


def test_report_a_foreign_owner_that_stays(
    topic: TreeWriter,
    join: Join,
    client: KazooClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member.WARN_AFTER_S", 0.1)
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member.LOOK_SOON_S", 0.1)
    client.create("/consumers/g/ids/another-one", b'{ "cc-topic": 0 }', ephemeral=True, makepath=True)
    topic.put(f"/consumers/g/owners/{TOPIC}/0-1", b"another-one-0")
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        member = join(topic.discovery)
        assert names(member) == [name for name in NAMES if name != "0-1"]
        poll(lambda: caplog.records, "a warning")
    assert (
        "cc-topic 0-1 is assigned to this consumer, but its owner another-one-0"
        in caplog.records[0].getMessage()
    )


# --- a ZooKeeper that breaks ---


@pytest.fixture
def broken(own_zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[TreeWriter]:
    """A tree in a ZooKeeper that the test may stop."""
    with TreeWriter(own_zookeeper.connect, f"/{request.node.name}") as writer:
        writer.put_topic(TOPIC, {0: 3, 1: 3})
        yield writer


def test_a_session_that_expires_is_followed_by_new_claims_and_commits_nothing_of_the_old(
    own_zookeeper: ZooKeeperServer, broken: TreeWriter, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    member = join(broken.discovery)
    before = member.hold()

    def new_claims() -> dict[TopicPartition, OwnedPartition]:
        owned = member.hold()
        return owned if len(owned) == len(before) and not {*owned.values()} & {*before.values()} else {}

    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        own_zookeeper.expire_sessions()
        after = poll(new_claims, "new claims")
    assert sorted(item.name for item in after) == NAMES
    assert member.commit({item: (9, before[item]) for item in before}) == list(before)
    assert member.commit({topic_partition("0-0"): (9, after[topic_partition("0-0")])}) == []
    reported = [record.getMessage() for record in caplog.records if record.name == "spark_kafkawire"]
    assert len([text for text in reported if "was lost, and with it 6 partitions" in text]) == 1


def test_report_a_zookeeper_that_is_away_and_find_the_claims_when_it_is_back(
    own_zookeeper: ZooKeeperServer, broken: TreeWriter, join: Join
) -> None:
    # One that starts may take a connection and never answer it. Who knows one address waits for that as long
    # as the session lives; who knows two of them, half as long.
    twice = Discovery(zookeeper_connect=f"{own_zookeeper.connect},{broken.connect}")
    member = join(twice, timeout_s=1.0, retry_timeout_s=0.5)
    before = member.hold()

    def answer() -> dict[TopicPartition, OwnedPartition]:
        with contextlib.suppress(KafkaWireError):
            return member.hold()
        return {}

    own_zookeeper.stop()
    with pytest.raises(
        KafkaWireError, match=r"option zookeeper.connect: .*(no answer within 1 s|session broke)"
    ):
        member.commit({item: (9, before[item]) for item in before})
    leaving = join(broken.discovery)
    leaving.close()  # in vain, and soon
    own_zookeeper.start()
    after = poll(answer, "an answer")
    assert after == before
    assert member.commit({item: (9, before[item]) for item in before}) == []


def test_report_a_login_that_is_refused(topic: TreeWriter, join: Join) -> None:
    discovery = Discovery(zookeeper_connect=topic.connect, zookeeper_auth=("nothing", "user:s3cret"))
    with pytest.raises(DiscoveryError, match=r"zookeeper\.auth") as error:
        join(discovery, timeout_s=5.0, retry_timeout_s=5.0).hold()
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("path", "data", "reported"),
    [
        (f"owners/{TOPIC}/0-1", b"ghost-0", f"{TOPIC} 0-1 is not read"),
        ("ids/g_0", b'{ "cc-topic": 1 }', "the partitions of that consumer are not read"),
    ],
)
def test_warn_again_and_again_about_partitions_without_a_reader(
    path: str,
    data: bytes,
    reported: str,
    topic: TreeWriter,
    join: Join,
    client: KazooClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nodes that no session holds: their consumer is not alive."""
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member.WARN_AFTER_S", 0.1)
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member.LOOK_SOON_S", 0.1)
    topic.put(f"/consumers/g/{path}", data)

    def warned() -> list[str]:
        return [text for item in list(caplog.records) if reported in (text := item.getMessage())]

    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        member = join(topic.discovery)
        member.hold()
        poll(lambda: len(warned()) >= 2, "two warnings")
    assert warned()[0].startswith(f"group 'g': node /consumers/g/{path} ")
    client.delete(f"/consumers/g/{path}")
    poll(lambda: names(member) == NAMES and member.abandoned == [], "all of the topic")


def test_a_long_name_of_a_live_consumer_is_found_among_those_that_are_registered(
    topic: TreeWriter, join: Join, client: KazooClient
) -> None:
    """Names are cut where they are shown."""
    name = "g_" + "h" * 300
    client.create(f"/consumers/g/ids/{name}", b'{ "cc-topic": 0 }', ephemeral=True, makepath=True)
    topic.put(f"/consumers/g/owners/{TOPIC}/0-1", f"{name}-0".encode())
    member = join(topic.discovery)
    assert names(member) == [item for item in NAMES if item != "0-1"]
    assert member.abandoned == []


def test_a_member_that_looks_again_and_again_watches_each_node_once(topic: TreeWriter, join: Join) -> None:
    member = join(topic.discovery)
    for _ in range(5):
        member._stirred.set()
        member.hold()
    watchers = member._session._client
    for paths in (watchers._data_watchers, watchers._child_watchers):
        assert paths
        assert {len(callbacks) for callbacks in paths.values()} <= {0, 1}


STAGES = read_json("zk_tree.json")["stages"]
#: The topics that the recorded consumers read, with the partitions of each broker.
PARTITIONS = {"cc-topic": {0: 3, 1: 3}, "cc-comp": {0: 3}, "mix-topic": {0: 3, 1: 3}}
#: A member that a test of the recorder's registered, and that claimed nothing.
SILENT = "aa-python"


def nodes_of(stage: str, kind: str) -> dict[str, str]:
    """The data of a recorded stage's nodes of consumers, ``ids`` or ``owners``."""
    result: Any = STAGES[stage]
    tree = result["tree"] if isinstance(result, dict) else result
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
    assert {stage[:2] for stage in RECORDED} >= {"10", "11", "13", "15", "16", "17", "40"}


@for_each("stage", RECORDED)
def test_the_recorded_consumers_of_the_jvm_own_what_the_rule_gives_them(stage: str) -> None:
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


TEXTS = st.text(st.characters(min_codepoint=33, exclude_categories=["Cs"]), min_size=1, max_size=4)


#: Ids of which some begin others, up to a hyphen or beyond it.
ID_TEXTS = st.lists(
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
    for location, thread in enumerate(threads):
        start = count * location + min(location, more)
        shares[thread] = tuple(names[start : start + count + (0 if location + 1 > more else 1)])
    return shares


@example({"0-0", "0-1", "0-2", "0-3", "0-4"}, {"c": 12, "c-1": 2})
@given(st.sets(TEXTS, max_size=30), st.dictionaries(ID_TEXTS, st.integers(0, 25), max_size=6))
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
        st.sampled_from("abcd"), st.dictionaries(st.sampled_from("tuv"), st.integers(0, 3)), max_size=4
    ),
    st.dictionaries(
        st.sampled_from("tuv"), st.dictionaries(st.integers(0, 12), st.integers(1, 12), max_size=3)
    ),
)
def test_members_that_see_the_same_own_every_partition_of_their_topics_once(
    counts: dict[str, dict[str, int]], partitions: dict[str, dict[int, int]]
) -> None:
    view = GroupView(counts, partitions)
    shares = [view.share_of(consumer) for consumer in counts]
    owned = [tp for share in shares for tp in share]
    read = {topic for item in counts.values() for topic, count in item.items() if count}
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
    result = thread_counts("/ids/c", text.encode(), ["lab", "cc-topic", "cc-comp"])
    assert result == dict.fromkeys(topics, 2)


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
        '{"t": ' + "9" * 5_000 + "}",
        f'{{"t": 1, "u": {THREADS_COUNT_MAX + 1}}}',
        "*9*(",
        "*99999*a",
        "[" * 9999,
    ],
)
def test_report_an_invalid_subscription_with_its_node(text: str) -> None:
    reported = r"^node /consumers/g/ids/c.*(no consumer of 0\.7 can read|not a supported regular expression)"
    with pytest.raises(DiscoveryError, match=reported) as error:
        thread_counts("/consumers/g/ids/c", text.encode(), ["t"])
    assert str(error.value).isprintable()
    assert len(str(error.value)) < MESSAGE_SIZE_MAX


IDS: Final = "/consumers/g/ids"
#: The group: 300 members with 33 threads each, and two partitions for each thread.
MEMBERS: Final = 300
THREADS: Final = 33
BROKERS: Final = dict.fromkeys(range(10), 1_980)


@pytest.fixture
def others(tree: TreeWriter) -> Iterator[KazooClient]:
    """A client whose session holds the nodes of the other members."""
    tree.put(IDS)
    client = KazooClient(tree.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def register(others: KazooClient, names: list[str], data: bytes) -> None:
    for pending in [others.create_async(f"{IDS}/{name}", data, ephemeral=True) for name in names]:
        pending.get()


class CountedMember(Member):
    """A member that lists its requests to ZooKeeper, as operation and path."""

    def __init__(self, discovery: Discovery, thread_count: int) -> None:
        self.requests: list[tuple[str, str]] = []
        super().__init__(discovery, "g", ["t"], thread_count, RETRY, TIMEOUT_S)

    def count(self) -> None:
        """List requests from now on."""
        client = self._session._client
        for name in ("get", "get_children", "create", "set", "delete", "exists"):
            setattr(client, f"{name}_async", self._listed(name, getattr(client, f"{name}_async")))

    def _listed(self, name: str, send: Any) -> Any:
        def listed(path: str, *arguments: Any, **named: Any) -> Any:
            self.requests.append((name, path))
            return send(path, *arguments, **named)

        return listed

    def registrations_read(self) -> set[str]:
        """Names of the other members whose nodes were requested."""
        names = {
            path.removeprefix(f"{IDS}/") for name, path in self.requests if name == "get" and IDS in path
        }
        return names - {self.id}


@contextlib.contextmanager
def joined(tree: TreeWriter, thread_count: int = 1) -> Iterator[CountedMember]:
    member = CountedMember(tree.discovery, thread_count)
    member.count()
    try:
        yield member
    finally:
        member.close()


def test_a_member_of_a_large_group_reads_each_node_once_and_then_what_changes(
    tree: TreeWriter, others: KazooClient
) -> None:
    tree.put_topic("t", BROKERS)
    names = [f"g_{number:03}" for number in range(MEMBERS - 1)]
    register(others, names, subscription(["t"], THREADS))
    with joined(tree, THREADS) as member:
        owned = member.hold()
        counts = {name: {"t": THREADS} for name in (*names, member.id)}
        expected = GroupView(counts, {"t": BROKERS}).share_of(member.id)
        assert set(owned) == set(expected)
        assert len(owned) == 2 * THREADS
        # Twice for nodes whose parents are missing, and as much again for a second look.
        most = MEMBERS + len(BROKERS) + 2 * 5 * len(owned) + 50
        assert len(member.requests) <= most
        assert len(member.registrations_read()) == MEMBERS - 1
        member.let_go()
        before = len(member.requests)
        others.delete(f"{IDS}/{names[0]}")
        # Partitions move from the first members to the others, and so does one of this member's, or more.
        del counts[names[0]]
        expected = GroupView(counts, {"t": BROKERS}).share_of(member.id)
        poll(lambda: set(released(member)) == set(expected), "the share of a smaller group")
        member.requests = member.requests[before:]
        assert member.registrations_read() == set()


def test_members_that_come_together_are_seen_in_one_look(
    tree: TreeWriter, others: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "LOOK_PAUSE_S", 10 * TIMEOUT_S)
    tree.put_topic("t", {0: 100})
    with joined(tree) as member:
        assert len(released(member)) == 100
        for number in range(99):
            register(others, [f"g_{number:03}"], subscription(["t"], 1))
        poll(member._stirred.is_set, "the event")
        poll(lambda: len(released(member)) == 1, "the share of one of a hundred")
        looks = [path for name, path in member.requests if name == "get_children" and path == IDS]
        assert len(looks) <= 10
        assert len(member.registrations_read()) == 99


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"[" * 60_000, "no consumer of 0.7 can read"),
        (b'{"t": 1, "' + b"u" * NODE_BYTES_MAX + b'": 1}', f"than {NODE_BYTES_MAX}: is this another program"),
    ],
)
def test_a_registration_that_no_group_has_is_one_line(
    data: bytes, reported: str, tree: TreeWriter, others: KazooClient
) -> None:
    tree.put_topic("t", {0: 3})
    register(others, ["g_other"], data)
    assert f"{IDS}/g_other" in (message := fault_of(tree))
    assert reported in message


def test_more_consumers_or_bytes_than_a_group_has_are_one_line(
    tree: TreeWriter, others: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.put_topic("t", {0: 3})
    register(others, [f"g_{number}" for number in range(20)], subscription(["t"], 1))
    with monkeypatch.context() as patch:
        patch.setattr(member_module, "CONSUMERS_COUNT_MAX", 20)
        assert f"node {IDS} registers 21 consumers, and a group has at most 20" in fault_of(tree)
    monkeypatch.setattr(member_module, "REGISTRATIONS_BYTES_MAX", 100)
    assert f"the nodes in {IDS} hold more than 100 bytes" in fault_of(tree)


def fault_of(tree: TreeWriter) -> str:
    with joined(tree) as member, pytest.raises(DiscoveryError) as error:
        member.hold()
    message = str(error.value)
    assert message.isprintable()
    assert len(message) <= MESSAGE_SIZE_MAX
    return message
