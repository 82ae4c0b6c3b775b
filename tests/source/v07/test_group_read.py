"""A batch read that is a consumer of a group of 0.7: it claims, reads, commits and leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession
from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.v07.kazoo_client import SESSION_TIMEOUT_MAX_S
from spark_kafkawire.errors import DiscoveryError, OptionError, UnknownTopicError
from spark_kafkawire.groups import GroupRead
from tests.support.debian_plain import COUNT, ENDS, TOPIC
from tests.support.zookeeper_tree import expire_session


@pytest.fixture(autouse=True)
def patient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that a busy machine starves for some seconds is not taken for dead."""
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member_session.SESSION_TIMEOUT_S", SESSION_TIMEOUT_MAX_S)


@pytest.fixture
def client(corpus_zookeeper: KazooClient) -> Iterator[KazooClient]:
    yield corpus_zookeeper
    corpus_zookeeper.delete("/consumers", recursive=True)


@pytest.fixture
def options(corpus: EmbeddedCluster) -> dict[str, str]:
    connect = corpus.zookeeper_connect
    return {"zookeeper.connect": connect, "subscribe": TOPIC, "kafka.group.id": "g"}


def offsets(client: KazooClient) -> dict[str, int]:
    """Offsets that the group has committed."""
    root = f"/consumers/g/offsets/{TOPIC}"
    names = client.get_children(root) if client.exists(root) else []
    return {name: int(client.get(f"{root}/{name}")[0]) for name in names}


def test_a_batch_claims_reads_commits_and_leaves(
    spark: SparkSession, client: KazooClient, options: dict[str, str]
) -> None:
    with GroupRead(options) as share:
        rows = share.load(spark)
        assert rows.count() == COUNT
        assert len(client.get_children(f"/consumers/g/owners/{TOPIC}")) == 6
        assert offsets(client) == {}
        assert rows.select("broker", "partition").distinct().count() == 6
    assert offsets(client) == ENDS
    assert (
        client.get_children(f"/consumers/g/owners/{TOPIC}") == client.get_children("/consumers/g/ids") == []
    )
    with GroupRead(options) as share:
        assert share.load(spark).count() == 0


def test_two_batches_at_once_share_the_topic(
    spark: SparkSession, client: KazooClient, options: dict[str, str]
) -> None:
    client.create("/consumers/g/ids/g_0", b'{ "debian-plain": 1 }', ephemeral=True, makepath=True)
    with GroupRead(options) as share:
        rows = share.load(spark).select("broker", "partition").distinct().collect()
    assert {f"{row['broker']}-{row['partition']}" for row in rows} == {"1-0", "1-1", "1-2"}
    assert offsets(client) == {name: end for name, end in ENDS.items() if name.startswith("1")}
    client.set("/consumers/g/ids/g_0", b'{ "debian-plain": 9 }')
    with GroupRead(options) as share:
        assert share.load(spark).count() == 0, "the other one has enough threads for all"
    client.delete("/consumers/g/ids/g_0")


def test_a_topic_that_no_broker_has_is_an_error_and_no_share_without_rows(
    client: KazooClient, options: dict[str, str]
) -> None:
    reported = (
        r"^group 'g': no broker has registered topic 'none' in ZooKeeper within 0\.5 s "
        r"\(brokerDownTimeout\): check"
    )
    with (
        pytest.raises(UnknownTopicError, match=reported),
        GroupRead({**options, "subscribe": f"{TOPIC},none", "brokerDownTimeout": "500ms"}),
    ):
        pass
    assert client.get_children("/consumers/g/ids") == []


def test_partitions_that_nobody_reads_are_an_error(client: KazooClient, options: dict[str, str]) -> None:
    path = f"/consumers/g/owners/{TOPIC}/0-1"
    client.create(path, b"ghost-0", makepath=True)
    reported = (
        rf"^group 'g': node {path} names the owner 'ghost-0', .* {TOPIC} 0-1 is not read; remove such a node"
    )
    with pytest.raises(DiscoveryError, match=reported), GroupRead({**options, "brokerDownTimeout": "500ms"}):
        pass
    assert client.get_children("/consumers/g/ids") == []


def test_a_session_that_is_lost_while_the_share_is_read_is_an_error(
    corpus: EmbeddedCluster, client: KazooClient, options: dict[str, str]
) -> None:
    share = GroupRead(options)
    share.__enter__()
    [member] = client.get_children("/consumers/g/ids")
    session_id = client.get(f"/consumers/g/ids/{member}")[1].ephemeralOwner
    expire_session(corpus.zookeeper_connect, session_id)
    with pytest.raises(DiscoveryError, match=r"lost during the read, so 6 of its partitions"):
        share.__exit__(None, None, None)
    assert offsets(client) == {}


def test_the_option_alone_is_an_error_that_says_what_to_use(options: dict[str, str]) -> None:
    source = KafkaWireDataSource({**options, "groupMembership": "join"})
    with pytest.raises(OptionError, match=r"option groupMembership is for streams: .* use GroupRead"):
        source.reader(source.schema())


@pytest.mark.parametrize(
    ("others", "reported"),
    [
        ({"groupMembership": "none"}, "GroupRead always joins a group"),
        ({"kafka.group.id": "a/b"}, "option kafka.group.id: 'a/b' is not the name of a node"),
        ({"startingOffsets": "committed"}, "option startingOffsets: with groupMembership=join"),
    ],
)
def test_options_that_contradict_are_refused(
    others: dict[str, str], reported: str, options: dict[str, str]
) -> None:
    with pytest.raises(OptionError, match=reported):
        GroupRead({**options, **others})
