"""Registrations of brokers in a real ZooKeeper, and every failure to read them."""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final

import pytest
from kazoo.exceptions import NodeExistsError
from kazoo.security import make_digest_acl

from spark_kafkawire.broker import ZooKeeperServer
from spark_kafkawire.cluster.v07 import view as under_test
from spark_kafkawire.cluster.v07.view import current_view, discover
from spark_kafkawire.cluster.v07.zookeeper_client import Tree, read_tree
from spark_kafkawire.errors import MESSAGE_SIZE_MAX, DiscoveryError
from spark_kafkawire.model import Broker, ClusterView, TopicPartition
from spark_kafkawire.net.retry import Bootstrap, RetryPolicy
from spark_kafkawire.options import Discovery, NetOptions
from tests.net.peers import Peer, Script, answering, closed_port, unreachable
from tests.support import golden
from tests.support.noida import NoidaBroker
from tests.support.polling import GRACE_S, freeze, poll
from tests.support.settings import settings_07
from tests.support.tree_writer import TreeWriter

TIMEOUT_S: Final = 10.0
#: Long enough to see that there is no answer, and nothing that a test waits for otherwise.
SHORT_S: Final = 0.5
SECRET: Final = "s3cret"

#: A server's answer to CONNECT: version, session timeout ms, session id, password, not read-only.
SESSION: Final = struct.pack(">iiiqi16s?", 37, 0, 4000, 1, 16, bytes(16), False)


def partitions(topic: str, broker_id: int, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, broker_id) for partition in range(count)]


def fails(discovery: Discovery, timeout_s: float = TIMEOUT_S) -> str:
    """The one line that a failing discovery gives, after the option and the hosts."""
    began_s = time.monotonic()
    with pytest.raises(DiscoveryError) as error:
        discover(discovery, timeout_s)
    assert time.monotonic() - began_s < timeout_s + GRACE_S
    message = str(error.value)
    assert message.isprintable()
    assert len(message) <= MESSAGE_SIZE_MAX
    assert SECRET not in message
    prefix = f"option zookeeper.connect: {discovery.zookeeper_connect}: "
    assert message.startswith(prefix)
    return message.removeprefix(prefix)


# --- what there is ---


def recorded_trees() -> dict[str, list[dict[str, Any]]]:
    stages = golden.read_json("zk_tree.json")["stages"]
    trees = {
        name: stage["tree"] if isinstance(stage, dict) and "tree" in stage else stage
        for name, stage in stages.items()
    }
    return {name: tree for name, tree in trees.items() if isinstance(tree, list) and registered(tree)}


def registered(nodes: list[dict[str, Any]]) -> dict[str, str]:
    """The data of the nodes that tell of live brokers."""
    return {node["path"]: node["data"] for node in nodes if node["path"].startswith("/brokers/ids/")}


RECORDED: Final = recorded_trees()


@pytest.mark.parametrize("stage", RECORDED)
def test_a_recorded_tree_is_read_as_what_it_says(stage: str, tree: TreeWriter) -> None:
    assert len(RECORDED) >= 3
    expected_partitions = []
    for node in RECORDED[stage]:
        if not node["children"]:
            tree.put(node["path"], (node["data"] or "").encode())
        match node["path"].split("/"):
            case ["", "brokers", "topics", topic, broker_id]:
                expected_partitions += partitions(topic, int(broker_id), int(node["data"]))
    expected_brokers = [
        Broker(int(path.rpartition("/")[2]), "127.0.0.1", int(data.rpartition(":")[2]))
        for path, data in registered(RECORDED[stage]).items()
    ]
    view = discover(tree.discovery, TIMEOUT_S)
    assert view == ClusterView(tuple(sorted(expected_brokers)), tuple(sorted(expected_partitions)))


@pytest.mark.parametrize("topic", ["größe-日本", "with space", "a:b*c?=", "100%25", "dots.-_"])
def test_any_name_that_zookeeper_holds_comes_back_as_it_is(topic: str, tree: TreeWriter) -> None:
    tree.put_broker(0)
    tree.put_topic(topic, {0: 2})
    assert discover(tree.discovery, TIMEOUT_S).partitions == tuple(partitions(topic, 0, 2))


def test_the_partitions_of_a_broker_that_is_not_alive_are_logs_without_a_broker(tree: TreeWriter) -> None:
    tree.put_broker(1)
    brokers = (Broker(1, "127.0.0.1", 9092),)
    assert discover(tree.discovery, TIMEOUT_S) == ClusterView(brokers, ())
    tree.put("/brokers/topics/nobody-holds-it")
    tree.put_topic("t", {0: 1, 1: 2})
    view = discover(tree.discovery, TIMEOUT_S)
    logs = tuple(sorted(partitions("t", 0, 1) + partitions("t", 1, 2)))
    assert view == ClusterView(brokers, logs, ("nobody-holds-it",))
    assert view.topics == ("t",)
    assert view.partitions_of("t") == view.partitions
    assert view.broker(0) is None


@pytest.mark.parametrize(
    ("data", "host", "port"),
    [
        (b"127.0.0.1-1795251453045:127.0.0.1:9071", "127.0.0.1", 9071),
        (b"my-host-1-1795251453045:kafka-1.example.org:9092", "kafka-1.example.org", 9092),
        (b"creator:host:1", "host", 1),
        (b"::1-1795251453045:::1:9092", "::1", 9092),
        (b"fe80:0:0:0:1:2:3:4-1795251453045:fe80:0:0:0:1:2:3:4:65535", "fe80:0:0:0:1:2:3:4", 65535),
        (b"[::1]-1795251453045:[::1]:9092", "::1", 9092),
        (b"my-host-1:x:1/a b-1795251453045:host:9092", "host", 9092),
        (b"creator::1:9092", ":1", 9092),
        (b"creator-1:host-2:3:9092", "host-2:3", 9092),
    ],
)
def test_a_registration_has_creator_first_and_port_last(
    data: bytes, host: str, port: int, tree: TreeWriter
) -> None:
    tree.put("/brokers/ids/0", data)
    assert discover(tree.discovery, TIMEOUT_S).brokers == (Broker(0, host, port),)


def test_a_large_cluster_is_read_within_seconds(tree: TreeWriter) -> None:
    for broker_id in range(10):
        tree.put_broker(broker_id)
    tree.put_many_topics(topic_count=300, broker_count=10)
    view = discover(tree.discovery, 60.0)
    assert len(view.partitions) == 9_000
    assert len(view.topics) == 300


def test_a_dead_host_among_the_hosts_is_no_matter(tree: TreeWriter) -> None:
    tree.put_broker(0)
    discovery = Discovery(zookeeper_connect=f"127.0.0.1:{closed_port().port},{tree.connect}")
    assert len(discover(discovery, TIMEOUT_S).brokers) == 1


class VanishingTree:
    """A tree of which a node goes away after its parent's children were listed."""

    def __init__(self, tree: Tree, parent: str, vanish: Callable[[], None]) -> None:
        self._tree, self._parent, self._vanish = tree, parent, vanish

    def children(self, paths: Iterable[str]) -> Iterator[list[str] | None]:
        asked = list(paths)
        yield from self._tree.children(asked)
        if self._parent in asked:
            self._vanish()

    def data(self, paths: Iterable[str]) -> Iterator[bytes | None]:
        return self._tree.data(paths)


@pytest.mark.parametrize(
    ("parent", "gone", "broker_ids", "log_count"),
    [
        ("/brokers/ids", "/brokers/ids/0", [1], 1),
        ("/brokers/topics/t", "/brokers/topics/t/1", [0, 1], 0),
        ("/brokers/topics", "/brokers/topics/t", [0, 1], 0),
    ],
)
def test_nodes_that_vanish_while_they_are_read_are_left_out(
    parent: str, gone: str, broker_ids: list[int], log_count: int, tree: TreeWriter
) -> None:
    tree.put_broker(0)
    tree.put_broker(1)
    tree.put_topic("t", {1: 1})
    view = read_tree(
        tree.discovery,
        TIMEOUT_S,
        lambda real: under_test._cluster_view(VanishingTree(real, parent, lambda: tree.remove(gone))),  # type: ignore[arg-type]
    )
    assert [broker.id for broker in view.brokers] == broker_ids
    assert len(view.partitions) == log_count


# --- what there is not ---


@pytest.mark.parametrize(
    ("path", "chroot", "reported"),
    [
        (
            "/something-else",
            "",
            "no Kafka broker has registered here (/brokers/ids does not exist): check the chroot (the path "
            "after the hosts)",
        ),
        (
            "/brokers/ids/0",
            "/wrong",
            "the chroot (the path after the hosts) is not in ZooKeeper; correct zookeeper.connect",
        ),
        (
            "/brokers/ids",
            "",
            "no Kafka broker is alive: /brokers/ids is empty; start the brokers, or correct "
            "zookeeper.connect",
        ),
    ],
)
def test_report_a_tree_without_a_live_broker(path: str, chroot: str, reported: str, tree: TreeWriter) -> None:
    tree.put(path)
    assert fails(Discovery(zookeeper_connect=f"{tree.connect}{chroot}")) == reported


def test_a_chroot_that_was_left_out_is_asked_for(zookeeper: ZooKeeperServer) -> None:
    for connect in (zookeeper.connect, f"{zookeeper.connect}/"):
        assert "check the chroot" in fails(Discovery(zookeeper_connect=connect))


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [
        ("/brokers/ids/0", b"", "node /brokers/ids/0 holds '', which is not creator:host:port"),
        ("/brokers/ids/0", b"h:9092", "node /brokers/ids/0 holds 'h:9092', which is not creator:host:port"),
        ("/brokers/ids/0", b"c:h:0", "which is not creator:host:port"),
        ("/brokers/ids/0", b"c:h:65536", "which is not creator:host:port"),
        ("/brokers/ids/0", b"c:h h:1", "which is not creator:host:port"),
        ("/brokers/ids/0", b"\xff\xfe\x00\n", "which is not creator:host:port"),
        ("/brokers/ids/0", b'{"kind":"h","port":9092}', "which is not creator:host:port"),
        ("/brokers/ids/0", b"a\nFATAL b\x1b[31m\x00", "holds 'a\\nFATAL b\\x1b[31m\\x00', which is not"),
        ("/brokers/ids/00", b"c:h:1", "the name of node /brokers/ids/00 is not a broker id"),
        ("/brokers/topics/t/007", b"1", "the name of node /brokers/topics/t/007 is not a broker id"),
        ("/brokers/ids/0", b"x" * 60_000, f"holds '{'x' * 200}… (60000 bytes)', which is"),
        # One regular expression needed the cube of their sizes for these: minutes, then hours.
        ("/brokers/ids/0", b"x-1:" * 16_000 + b"!", "which is not creator:host:port"),
        ("/brokers/ids/0", b"x-1:/" * 13_000 + b":1", "which is not creator:host:port"),
        ("/brokers/ids/0", b"-" * 30_000 + b"1" * 30_000, "which is not creator:host:port"),
        (
            "/brokers/ids/0",
            b"x" * 100_000,
            "node /brokers/ids/0 holds 100000 bytes, and no node of Kafka 0.7",
        ),
        ("/brokers/topics/t/0", b"1" * 65_537, "node /brokers/topics/t/0 holds 65537 bytes"),
        ("/brokers/ids/one", b"c:h:1", "the name of node /brokers/ids/one is not a broker id"),
        ("/brokers/topics/t/one", b"1", "the name of node /brokers/topics/t/one is not a broker id"),
        ("/brokers/topics/t/0", b"", "node /brokers/topics/t/0 holds '', which is not a partition count"),
        ("/brokers/topics/t/0", b"-1", "holds '-1', which is not a partition count"),
        ("/brokers/topics/t/0", b"0", "holds '0', which is not a partition count"),
        ("/brokers/topics/t/0", b"3.5", "which is not a partition count"),
        ("/brokers/topics/t/0", b"99999999999", "which is not a partition count"),
        ("/brokers/topics/t/0", b"999999999", "announces 999999999 partitions or more, at most 250000"),
    ],
)
def test_report_a_node_with_bad_data_by_its_path(
    path: str, data: bytes, message: str, tree: TreeWriter
) -> None:
    tree.put_broker(7)
    tree.put(path, data)
    assert message in fails(tree.discovery)


LATER_BEGINS: Final = (
    "brokers of Kafka 0.8 or later have registered here; zookeeper.connect is for Kafka 0.7: set "
    "kafka.bootstrap.servers="
)


@pytest.mark.parametrize(
    ("registrations", "reported"),
    [
        # As 0.8.2, 0.9, 2.4 and 3.9 write them.
        (['{"jmx_port":-1,"timestamp":"1427800000000","host":"h","version":1,"port":9092}'], "h:9092"),
        (
            [
                '{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092","SSL://h:9093"],"host":"h",'
                '"version":2,"port":9092}',
                '{"jmx_port":-1,"timestamp":"1","endpoints":["SSL://i:9093","PLAINTEXT://i:9094"],"host":"i",'
                '"version":2,"port":9094}',
            ],
            "h:9092,i:9094",
        ),
        (
            [
                '{"listener_security_protocol_map":{"OUT":"SASL_SSL"},"endpoints":["OUT://[fd00::1]:9092"],'
                '"jmx_port":-1,"host":null,"timestamp":"1","port":-1,"version":4}'
            ],
            "[fd00::1]:9092 and kafka.security.protocol=SASL_SSL",
        ),
        (
            [
                '{"features":{},"listener_security_protocol_map":{"IN":"PLAINTEXT"},"endpoints":'
                f'["IN://b{number}:9092"],"jmx_port":-1,"port":9092,"host":"b'
                f'{number}","version":5,"timestamp":"1"}}'
                for number in range(5)
            ],
            "b0:9092,b1:9092,b2:9092",
        ),
        (['{"host":"fd00::2","port":9092}'], "[fd00::2]:9092"),
        (['{"host":7,"endpoints":[1,{}],"port":"x\\n"}'], "HOST:PORT"),
    ],
)
def test_report_brokers_of_later_kafka_with_the_option_that_finds_them(
    registrations: list[str], reported: str, tree: TreeWriter
) -> None:
    for number, data in enumerate(registrations):
        tree.put(f"/brokers/ids/{number}", data.encode())
    tree.put("/brokers/topics/t/partitions/0/state", b"{}")
    assert fails(tree.discovery) == f"{LATER_BEGINS}{reported} instead"


def test_report_a_broker_in_place_of_zookeeper_soon_with_its_option(noida: NoidaBroker) -> None:
    began_s = time.monotonic()
    reported = fails(Discovery(zookeeper_connect=f"127.0.0.1:1,{noida.bootstrap_servers}/kafka"), 600.0)
    assert time.monotonic() - began_s < GRACE_S
    assert reported == (
        f"{noida.bootstrap_servers} is a broker of Kafka 0.10 or later, not a ZooKeeper; zookeeper.connect "
        f"is for Kafka 0.7: set kafka.bootstrap.servers={noida.bootstrap_servers} instead"
    )


def test_report_an_http_server_in_the_place_of_zookeeper_soon() -> None:
    def http(connection: socket.socket) -> None:
        connection.recv(1 << 10)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    with playing(http) as address:
        reported = fails(Discovery(zookeeper_connect=f"{address.host}:{address.port}"), 600.0)
    assert (
        reported
        == f"{address.host}:{address.port} is an HTTP server, not a ZooKeeper; correct the host and the port"
    )


# --- no ZooKeeper, or one that does not let us in ---


def silent(connection: socket.socket) -> None:
    while connection.recv(1 << 10):
        pass


def session_then(data: bytes) -> Script:
    def script(connection: socket.socket) -> None:
        answering(SESSION)(connection)
        connection.recv(1 << 10)
        connection.sendall(data)
        silent(connection)

    return script


@contextmanager
def playing(script: Script) -> Iterator[Broker]:
    with Peer(script) as peer:
        yield peer.broker


def response(xid: int, body: bytes, error: int = 0) -> bytes:
    return struct.pack(">iiqi", 16 + len(body), xid, 1, error) + body


@pytest.mark.slow
@pytest.mark.parametrize(
    ("peer", "message"),
    [
        (nullcontext(closed_port()), "Connection refused"),
        (nullcontext(Broker(0, "no-such-host.invalid", 2181)), "Cannot resolve no-such-host.invalid"),
        (unreachable(), "Connection timed out"),
        (playing(silent), "socket time-out during read"),
        (playing(answering(b"")), "socket connection broken"),
        (playing(answering(b"\x7f\xff\xff\xffx")), "an answer of 2147483647 bytes, at most 67108864 are"),
        (playing(answering(b"\xff\xff\xff\xff")), "invalid server response"),
        (playing(answering(b"\0\0\0\0")), "invalid server response"),
        (playing(session_then(b"")), ""),
        (playing(session_then(response(77, b""))), "xids do not match"),
        (playing(session_then(b"\0\0\0\3abc")), "this is not a ZooKeeper"),
        (playing(session_then(response(1, b"\x7f\xff\xff\xff"))), "/brokers/ids is not ZooKeeper's"),
        (playing(session_then(response(1, b"\0\0\0\1\0\0\0\2\xff\xfe"))), "/brokers/ids is not ZooKeeper's"),
        (playing(session_then(response(1, b"", error=-4711))), "this is not a ZooKeeper"),
    ],
)  # fmt: skip
def test_report_another_server_in_place_of_zookeeper_at_the_deadline(
    peer: AbstractContextManager[Broker], message: str
) -> None:
    with peer as address:
        reported = fails(Discovery(zookeeper_connect=f"{address.host}:{address.port}"), 4 * SHORT_S)
    assert message in reported
    bounds = r"within 2 s \((bootstrapTimeout, )?requestTimeout, brokerDownTimeout\)"
    assert re.search(bounds, reported) or "not ZooKeeper's" in reported


@pytest.mark.slow
def test_a_zookeeper_that_never_answered_is_an_error_sooner_than_one_that_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with unreachable() as address:
        discovery = Discovery(zookeeper_connect=f"{address.host}:{address.port}")
        bootstrap = Bootstrap(discovery.place, timeout_s=1.5)
        net = NetOptions(settings_07(), RetryPolicy(retry_timeout_s=600.0, bootstrap=bootstrap))
        began_s = time.monotonic()
        with pytest.raises(DiscoveryError, match=r"no answer within 1\.5 s \(bootstrapTimeout, "):
            current_view(discovery, net)
    assert time.monotonic() - began_s < 1.5 + GRACE_S
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith(f"option zookeeper.connect: {discovery.zookeeper_connect}: no session yet")
    assert warning.endswith(
        "trying again for up to 1.5 s (bootstrapTimeout, requestTimeout, brokerDownTimeout)"
    )
    assert net.known.discovery_timeout_s == 600.0


def test_a_zookeeper_that_has_answered_is_known(served: ZooKeeperServer) -> None:
    discovery = Discovery(zookeeper_connect=served.connect)
    bootstrap = Bootstrap(discovery.place, timeout_s=60.0)
    net = NetOptions(settings_07(), RetryPolicy(retry_timeout_s=600.0, bootstrap=bootstrap))
    assert net.discovery_timeout_s == 60.0
    current_view(discovery, net)
    assert net.discovery_timeout_s == 600.0


def test_a_protected_tree_is_read_with_the_right_credential_only(tree: TreeWriter) -> None:
    acl = [make_digest_acl("me", SECRET, all=True)]
    tree.log_in(f"me:{SECRET}")
    tree.put("/brokers/ids/0", b"c:h:1", acl=acl)
    tree.put("/brokers/topics/t/0", b"2", acl=acl)

    def with_auth(credential: str) -> Discovery:
        return Discovery(zookeeper_connect=tree.connect, zookeeper_auth=("digest", credential))

    assert discover(with_auth(f"me:{SECRET}"), TIMEOUT_S).partitions == tuple(partitions("t", 0, 2))
    denied = "ZooKeeper denies access to /brokers/ids; check the option zookeeper.auth"
    assert fails(tree.discovery) == denied
    assert fails(with_auth(f"me:not-{SECRET}")) == denied
    assert fails(with_auth(f"you:{SECRET}")) == denied


def test_show_no_credential_where_zookeeper_is_down() -> None:
    down = f"127.0.0.1:{closed_port().port}"
    fails(Discovery(zookeeper_connect=down, zookeeper_auth=("digest", f"me:{SECRET}")), SHORT_S)


def test_nothing_is_logged_and_no_credential_at_any_level(
    tree: TreeWriter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    tree.put_broker(0)
    caplog.clear()
    discovery = Discovery(zookeeper_connect=tree.connect, zookeeper_auth=("digest", f"me:{SECRET}"))
    discover(discovery, TIMEOUT_S)
    assert SECRET not in caplog.text
    assert not [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]


# --- sessions that end ---


def reading_after(disturb: Callable[[], None]) -> tuple[list[int], Callable[[Tree], ClusterView]]:
    """A way to read the tree that is disturbed in its middle, the first time."""
    turns: list[int] = []

    def read(tree: Tree) -> ClusterView:
        next(tree.children(["/brokers/ids"]))
        turns.append(len(turns))
        if len(turns) == 1:
            disturb()
        return under_test._cluster_view(tree)

    return turns, read


@pytest.fixture
def served(own_zookeeper: ZooKeeperServer) -> ZooKeeperServer:
    """A ZooKeeper with one broker that holds one topic, for tests that do it harm."""
    with TreeWriter(own_zookeeper.connect) as writer, suppress(NodeExistsError):  # of an earlier test
        writer.put_broker(0)
        writer.put_topic("t", {0: 3})
    return own_zookeeper


def test_replace_an_expired_session_and_read_everything_again(served: ZooKeeperServer) -> None:
    turns, read = reading_after(served.expire_sessions)
    view = read_tree(Discovery(zookeeper_connect=served.connect), TIMEOUT_S, read)
    assert view.partitions == tuple(partitions("t", 0, 3))
    assert len(turns) == 2


def test_a_zookeeper_restarted_while_it_is_read_gives_all_there_is(served: ZooKeeperServer) -> None:
    def restart() -> None:
        served.kill()
        served.start()

    _, read = reading_after(restart)
    view = read_tree(Discovery(zookeeper_connect=served.connect), 60.0, read)
    assert view.partitions == tuple(partitions("t", 0, 3))


@pytest.mark.parametrize("end", ["frozen", "killed"])
def test_report_a_zookeeper_lost_while_it_is_read_at_the_deadline(end: str, served: ZooKeeperServer) -> None:
    def disturb() -> None:
        assert served.pid
        if end == "killed":
            served.kill()
        else:
            freeze(served.pid)

    _, read = reading_after(disturb)
    began_s = time.monotonic()
    with pytest.raises(DiscoveryError, match=r"no answer within 2 s \(requestTimeout, brokerDownTimeout\)"):
        read_tree(Discovery(zookeeper_connect=served.connect), 2.0, read)
    assert time.monotonic() - began_s < 2.0 + GRACE_S


def open_sockets() -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except FileNotFoundError:
            continue
    return count


def test_a_session_leaves_no_thread_and_no_socket_behind(tree: TreeWriter) -> None:
    tree.put_broker(0)
    threads, sockets = threading.active_count(), open_sockets()
    for _ in range(3):
        discover(tree.discovery, TIMEOUT_S)
    fails(Discovery(zookeeper_connect=f"{tree.connect}/wrong"))
    fails(Discovery(zookeeper_connect=f"127.0.0.1:{closed_port().port}"), SHORT_S)
    poll(lambda: threading.active_count() <= threads, "the threads have ended")
    poll(lambda: open_sockets() <= sockets, "the sockets are closed")
