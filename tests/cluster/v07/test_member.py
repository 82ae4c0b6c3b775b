"""Members of a group of 0.7 in a real ZooKeeper: what they register, own, give up, lose and commit."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from spark_kafkawire.broker import ZooKeeperServer
from spark_kafkawire.cluster.v07 import ownership
from spark_kafkawire.cluster.v07.kazoo_client import SESSION_TIMEOUT_MAX_S
from spark_kafkawire.cluster.v07.member import Member
from spark_kafkawire.cluster.v07.owned_partition import OwnedPartition
from spark_kafkawire.errors import DiscoveryError, KafkaWireError, OptionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.options import Discovery
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
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member_session.SESSION_TIMEOUT_S", SESSION_TIMEOUT_MAX_S)


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
    found = {}
    for name in NAMES:
        with contextlib.suppress(NoNodeError):
            found[name] = client.get(f"/consumers/g/owners/{TOPIC}/{name}")[0].decode()
    return found


def names(member: Member) -> list[str]:
    """Names of the partitions that a member owns; it may release them again."""
    found = sorted(each.name for each in member.hold())
    member.let_go()
    return found


def test_a_member_writes_what_the_jvm_has_written(topic: TreeWriter, join: Join, client: KazooClient) -> None:
    recorded = {
        node["path"].replace("lab-group", "g"): (node["data"], node["ephemeral"])
        for node in read_json("zk_tree.json")["stages"]["10_consumer1_two_streams"]["tree"]
    }
    [name] = [path.rpartition("/")[2] for path in recorded if path.startswith("/consumers/g/ids/")]
    member = join(topic.discovery, 2)
    owned = member.hold()
    assert member.commit({each: (34, owned[each]) for each in owned}) == []
    assert sorted(each.name for each in owned) == NAMES
    assert {own.offset for own in owned.values()} == {None}

    def tree_of(path: str) -> dict[str, tuple[str | None, bool]]:
        data, stat = client.get(path)
        text = None if data is None else data.decode().replace(member.id, name).replace("lab-group", "g")
        found = {path.replace(member.id, name): (text, bool(stat.ephemeralOwner))}
        for child in client.get_children(path):
            found |= tree_of(f"{path}/{child}")
        return found

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
    assert first.commit({each: (50, held[each]) for each in held}) == []
    poll(lambda: first._owned.is_waited_for, "the first one to know of the second")
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        patch.setattr(ownership, "JVM_WAIT_S", 0.0)
        first.let_go(list(held))
        # No call of the first one's is needed for that.
        poll(lambda: len(second.hold()) == 3, "half of the topic")
        poll(
            lambda: any("other consumers waited" in each.getMessage() for each in list(caplog.records)),
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
    assert {each: before[each] for each in after} == after
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
def test_a_group_that_cannot_be_joined_is_told(
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


def test_a_chroot_that_is_not_there_is_told(tree: TreeWriter, join: Join) -> None:
    with pytest.raises(DiscoveryError, match=r"the chroot .* is not in ZooKeeper"):
        join(tree.discovery).hold()


def test_a_foreign_owner_that_stays_is_told(
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


@pytest.fixture(scope="module")
def own_zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


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
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        own_zookeeper.expire_sessions()
        after = poll(lambda: changed(member.hold(), before), "new claims")
    assert sorted(each.name for each in after) == NAMES
    assert member.commit({each: (9, before[each]) for each in before}) == list(before)
    assert member.commit({topic_partition("0-0"): (9, after[topic_partition("0-0")])}) == []
    reported = [record.getMessage() for record in caplog.records if record.name == "spark_kafkawire"]
    assert len([text for text in reported if "was lost, and with it 6 partitions" in text]) == 1


def changed(
    owned: dict[TopicPartition, OwnedPartition], before: dict[TopicPartition, OwnedPartition]
) -> dict[TopicPartition, OwnedPartition]:
    is_new = len(owned) == len(before) and not {*owned.values()} & {*before.values()}
    return owned if is_new else {}


def test_a_zookeeper_that_is_away_is_told_and_has_kept_the_claims_when_it_is_back(
    own_zookeeper: ZooKeeperServer, broken: TreeWriter, join: Join
) -> None:
    # One that starts may take a connection and never answer it. Who knows one address waits for that as long
    # as the session lives; who knows two of them, half as long.
    twice = Discovery(zookeeper_connect=f"{own_zookeeper.connect},{broken.connect}")
    member = join(twice, timeout_s=1.0, retry_timeout_s=0.5)
    before = member.hold()
    own_zookeeper.stop()
    with pytest.raises(
        KafkaWireError, match=r"option zookeeper.connect: .*(no answer within 1 s|session broke)"
    ):
        member.commit({each: (9, before[each]) for each in before})
    leaving = join(broken.discovery)
    leaving.close()  # in vain, and soon
    own_zookeeper.start()
    after = poll(lambda: answer(member.hold), "an answer")
    assert after == before
    assert member.commit({each: (9, before[each]) for each in before}) == []


def answer(ask: Callable[[], dict[TopicPartition, OwnedPartition]]) -> dict[TopicPartition, OwnedPartition]:
    """Empty while ZooKeeper does not answer."""
    with contextlib.suppress(KafkaWireError):
        return ask()
    return {}


def test_a_login_that_is_refused_is_told(topic: TreeWriter, join: Join) -> None:
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
def test_partitions_that_nobody_reads_are_told_again_and_again(
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
        return [text for each in list(caplog.records) if reported in (text := each.getMessage())]

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
    assert names(member) == [each for each in NAMES if each != "0-1"]
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
