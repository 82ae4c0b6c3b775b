"""Registration of brokers in ZooKeeper, against a real ZooKeeper and the recorded trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from spark_kafkawire.broker import BrokerServer, EmbeddedCluster, ZooKeeperServer
from spark_kafkawire.errors import ConnectFailed, DiscoveryError
from tests.support import golden, replay
from tests.support.embedded import StartBroker
from tests.support.message_sets import message
from tests.support.polling import DEADLINE_S, poll
from tests.support.zookeeper_tree import Node, read_tree, recorded_tree


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def chroot(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> str:
    """A connect string of the test's own, to a chroot that is not there yet."""
    return f"{zookeeper.connect}/{request.node.name}"


@pytest.fixture
def client(chroot: str) -> Iterator[KazooClient]:
    client = KazooClient(chroot)
    client.start_async().wait(DEADLINE_S)
    yield client
    client.stop()
    client.close()


@pytest.fixture(scope="module")
def stages() -> dict[str, Any]:
    recorded: dict[str, Any] = golden.read_json("zk_tree.json")["stages"]
    return recorded


def registered(path: str, data: str | None) -> Node:
    return Node(path, data, ephemeral=data is not None)


@pytest.mark.jvm
def test_the_tree_is_the_recorded_one_at_every_stage(stages: dict[str, Any]) -> None:
    properties = {"topic.partition.count.map": "lab-five:5"}
    with EmbeddedCluster(properties=properties) as cluster:
        client = KazooClient(cluster.zookeeper_connect)
        client.start()
        zero, one = cluster.brokers
        assert read_tree(client) == recorded_tree(stages["00_after_start_no_topics"])

        replay.produce(zero.port, ("zk-new", 1), message(b"first"))
        first = recorded_tree(stages["01_after_first_produce_to_broker0_partition1"]["tree"])
        poll(lambda: read_tree(client) == first, "the topic is registered as recorded")

        replay.fetch(zero.port, ("zk-unknown", 0), 0, 100)
        replay.offsets(zero.port, ("zk-unknown", 0), -1, 1)
        replay.produce(zero.port, ("zk-wrong", 3), message(b"wrong partition"))
        replay.produce(one.port, ("zk-new", 0), message(b"second broker"))
        replay.produce(zero.port, ("zk-empty", 0), b"")
        replay.produce(zero.port, ("zk-badcrc", 0), bytes([0, 0, 0, 7, 1, 0, 1, 2, 3, 4, 5]))
        replay.produce(zero.port, ("lab-five", 4), message(b"of five"))
        replay.produce(zero.port, ("zk-größe", 0), message(b"not ASCII"))
        more = recorded_tree(stages["03_more"]["tree"])
        poll(lambda: read_tree(client) == more, "all topics are registered as recorded")
        client.stop()
        client.close()


def test_a_broker_that_stops_is_gone_when_it_has_stopped(
    start_broker: StartBroker, chroot: str, client: KazooClient
) -> None:
    broker = start_broker({"zk.connect": chroot})
    replay.produce(broker.port, ("t", 0), message(b"one"))
    poll(lambda: client.exists("/brokers/topics/t/0"), "the topic is registered")
    broker.stop()
    assert client.get_children("/brokers/ids") == []
    assert client.get_children("/brokers/topics/t") == []


def test_a_broker_that_starts_registers_the_topics_it_has_logs_of(
    start_broker: StartBroker, chroot: str, client: KazooClient
) -> None:
    first = start_broker({"zk.connect": chroot})
    replay.produce(first.port, ("t", 2), message(b"one"))
    first.stop()
    start_broker({"zk.connect": chroot, "num.partitions": "4"})
    assert client.get("/brokers/topics/t/0")[0] == b"4"


def test_all_is_registered_again_after_the_session_is_lost(
    start_broker: StartBroker, zookeeper: ZooKeeperServer, chroot: str, client: KazooClient
) -> None:
    broker = start_broker({"zk.connect": chroot})
    replay.produce(broker.port, ("t", 0), message(b"one"))
    poll(lambda: client.exists("/brokers/topics/t/0"), "the topic is registered")
    before = read_tree(client), client.get("/brokers/ids/0")[0]
    zookeeper.expire_sessions()
    poll(
        lambda: client.connected and client.exists("/brokers/ids/0") and read_tree(client) == before[0],
        "all is registered again",
    )
    assert client.get("/brokers/ids/0")[0] != before[1]


@pytest.mark.jvm
def test_a_broker_outlives_a_restart_of_zookeeper(start_broker: StartBroker) -> None:
    with ZooKeeperServer() as zookeeper:
        broker = start_broker({"zk.connect": zookeeper.connect})
        zookeeper.kill()
        replay.produce(broker.port, ("t", 0), message(b"while ZooKeeper is down"))
        zookeeper.start()
        client = KazooClient(zookeeper.connect)
        client.start()
        poll(lambda: client.exists("/brokers/topics/t/0"), "the topic is registered in the end")
        client.stop()
        client.close()


@pytest.mark.jvm
def test_a_broker_stops_while_zookeeper_is_down(start_broker: StartBroker) -> None:
    with ZooKeeperServer() as zookeeper:
        broker = start_broker({"zk.connect": zookeeper.connect})
        zookeeper.kill()
        replay.produce(broker.port, ("t", 0), message(b"while ZooKeeper is down"))
        broker.stop()


@pytest.mark.jvm
def test_a_killed_broker_starts_again_before_its_session_has_run_out() -> None:
    with EmbeddedCluster(1, properties={"zk.sessiontimeout.ms": "60000"}) as cluster:
        (broker,) = cluster.brokers
        replay.produce(broker.port, ("t", 0), message(b"one"))
        client = KazooClient(cluster.zookeeper_connect)
        client.start()
        path = "/brokers/topics/t/0"
        poll(lambda: client.exists(path), "the topic is registered")
        old_session = client.get(path)[1].ephemeralOwner
        broker.kill()
        assert client.exists("/brokers/ids/0")
        broker.start()
        assert client.get("/brokers/ids/0")[0].endswith(f":{broker.address}".encode())
        assert client.get(path)[1].ephemeralOwner != old_session
        client.stop()
        client.close()


@pytest.mark.jvm
def test_a_killed_broker_is_gone_when_its_session_has_run_out() -> None:
    with EmbeddedCluster(2, properties={"zk.sessiontimeout.ms": "1000"}) as cluster:
        client = KazooClient(cluster.zookeeper_connect)
        client.start()
        cluster.brokers[1].kill()
        poll(lambda: client.get_children("/brokers/ids") == ["0"], "the session has run out")
        client.stop()
        client.close()


def test_a_second_broker_of_the_same_id_does_not_start(
    start_broker: StartBroker, chroot: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    start_broker({"zk.connect": chroot})
    with pytest.raises(DiscoveryError, match=r"another broker is registered as /\w+/brokers/ids/0"):
        start_broker({"zk.connect": chroot, "log.dir": str(tmp_path_factory.mktemp("other"))})


def test_a_topic_name_that_zookeeper_refuses_is_served_until_the_next_start(
    start_broker: StartBroker, chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker({"zk.connect": chroot})
    replay.produce(broker.port, ("rocket-🚀", 0), message(b"poison"))
    assert replay.fetch(broker.port, ("rocket-🚀", 0), 0, 100) == message(b"poison")
    poll(lambda: "ZooKeeper refuses the name" in caplog.text, "the broker logs it")
    broker.stop()
    with pytest.raises(DiscoveryError, match=r"remove its folders from log\.dir"):
        start_broker({"zk.connect": chroot})


def test_a_broker_without_zookeeper_in_reach_does_not_start(start_broker: StartBroker) -> None:
    with BrokerServer(start_broker().config) as other:
        unused = f"127.0.0.1:{other.port}"
    with pytest.raises(ConnectFailed, match=f"ZooKeeper {unused} did not answer in 200 ms"):
        start_broker({"zk.connect": unused, "zk.connectiontimeout.ms": "200"})
