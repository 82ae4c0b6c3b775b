"""Metadata of a cluster, and what is followed of it."""

from __future__ import annotations

import pickle
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spark_kafkawire.broker import ZooKeeperServer
from spark_kafkawire.cluster.modern.cluster import ModernCluster
from spark_kafkawire.cluster.modern.metadata import Metadata, Topic
from spark_kafkawire.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    ProtocolError,
    UnknownTopicError,
)
from spark_kafkawire.model import Broker, Leader, PartitionBounds, TopicPartition
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.pool import POOL, Pool
from spark_kafkawire.net.retry import Bootstrap
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.list_offsets import (
    EARLIEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from spark_kafkawire.protocol.modern.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from spark_kafkawire.protocol.modern.minimum_versions import NO_MINIMUM
from spark_kafkawire.protocol.modern.negotiation import ApiVersionsRequest, ApiVersionsResponse
from tests.cluster.modern.clusters import cluster_of
from tests.net.modern_peers import Asked, broker
from tests.net.peers import Peer, Script, closed_port
from tests.support.fake_cluster import BATCH_RECORDS, TOPIC, FakeCluster
from tests.support.log_broker import LEADER_EPOCH, OFFERED
from tests.support.log_server import HOST, LogServer, Sent
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import METADATA, NO_LEADER, MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import GRACE_S
from tests.support.settings import net_modern, servers

NET = net_modern(timeout_s=5.0, backoff_s=0.001)
PARTITION = TopicPartition("t", 0)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close_idle()


def metadata_of(bootstrap_servers: str, pool: Pool, net: NetOptions = NET, **options: Any) -> Metadata:
    return Metadata(servers(bootstrap_servers), net, connections=pool, **options)


def asked_count(cluster: MockCluster) -> int:
    return sum(request.api_key == METADATA for request in cluster.requests())


def test_partitions_and_their_leaders_are_those_of_the_cluster(mock_cluster: MockCluster, pool: Pool) -> None:
    mock_cluster.create_topic("t", partitions=3)
    for partition, broker_id in enumerate((2, 3, 1)):
        mock_cluster.set_leader("t", partition, broker_id)
    metadata = metadata_of(mock_cluster.bootstrap_servers, pool)
    partitions = metadata.partitions_of("t")
    assert partitions == tuple(TopicPartition("t", partition) for partition in range(3))
    assert [metadata.leader_of(tp).broker.id for tp in partitions] == [2, 3, 1]
    ports = {port for server in mock_cluster.bootstrap_servers.split(",") for port in [server.split(":")[1]]}
    assert {str(broker.port) for broker in metadata.brokers} == ports


def test_answers_are_kept_until_they_are_forgotten(mock_cluster: MockCluster, pool: Pool) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 1)
    metadata = metadata_of(mock_cluster.bootstrap_servers, pool)
    mock_cluster.start_request_tracking()
    assert [metadata.leader_of(PARTITION).broker.id for _ in range(3)] == [1, 1, 1]
    mock_cluster.set_leader("t", 0, 2)
    assert metadata.leader_of(PARTITION).broker.id == 1
    assert asked_count(mock_cluster) == 1
    metadata.forget("t")
    assert metadata.leader_of(PARTITION).broker.id == 2
    assert asked_count(mock_cluster) == 2


def test_many_topics_are_asked_for_at_once(mock_cluster: MockCluster, pool: Pool) -> None:
    topics = [f"t{index}" for index in range(5)]
    for topic in topics:
        mock_cluster.create_topic(topic, partitions=2)
    metadata = metadata_of(mock_cluster.bootstrap_servers, pool)
    mock_cluster.start_request_tracking()
    partitions = [TopicPartition(topic, partition) for topic in topics for partition in range(2)]
    assert list(metadata.leaders_of(partitions)) == partitions
    assert asked_count(mock_cluster) == 1


def test_a_partition_without_a_leader_is_waited_for(mock_cluster: MockCluster, pool: Pool) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, 3)
    mock_cluster.push_leader_response("t", 0, NO_LEADER, 1)
    mock_cluster.push_leader_response("t", 0, NO_LEADER, 1)
    assert metadata_of(mock_cluster.bootstrap_servers, pool).leader_of(PARTITION).broker.id == 3


def test_a_partition_that_never_gets_a_leader_is_an_error(mock_cluster: MockCluster, pool: Pool) -> None:
    """After the retries, or at the end of the time of who asks."""
    mock_cluster.create_topic("t")
    mock_cluster.set_leader("t", 0, NO_LEADER)
    for timeout_s, backoff_s, within_s, begin in (
        (0.5, 0.001, None, r"gave up after \d+ attempts in 0\.[5-9] s .*: "),
        (300.0, 300.0, 0.3, "^"),
    ):
        net = net_modern(timeout_s=timeout_s, backoff_s=backoff_s)
        within = Deadline.after(within_s) if within_s else None
        with pytest.raises(BrokerError, match=f"{begin}t 0: the partition has no leader at the moment"):
            metadata_of(mock_cluster.bootstrap_servers, pool, net).leader_of(PARTITION, within)


@pytest.mark.parametrize("topic_error", [3, 5])
def test_a_topic_that_is_being_made_is_waited_for(
    mock_cluster: MockCluster, pool: Pool, topic_error: int
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.push_request_errors(METADATA, topic_error, topic_error)
    assert metadata_of(mock_cluster.bootstrap_servers, pool).partitions_of("t") == (PARTITION,)


def test_a_created_topic_that_no_broker_hears_of_is_an_error(mock_cluster: MockCluster, pool: Pool) -> None:
    net = net_modern(timeout_s=0.5, backoff_s=0.001)
    mock_cluster.set_topic_error("t", 3)
    with pytest.raises(UnknownTopicError, match=r"gave up after \d+ attempts in 0\.[5-9] s"):
        metadata_of(mock_cluster.bootstrap_servers, pool, net).refresh(["t"], are_created=True)


@pytest.mark.parametrize(
    ("topic_error", "message"),
    [(29, "the user is not authorized for this operation"), (17, "the broker refuses the topic name")],
)
def test_a_topic_that_is_refused_is_an_error_at_once(
    mock_cluster: MockCluster, pool: Pool, topic_error: int, message: str
) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_topic_error("t", topic_error)
    mock_cluster.start_request_tracking()
    with pytest.raises(BrokerError, match=rf"^topic 't' on .*: {message}"):
        metadata_of(mock_cluster.bootstrap_servers, pool).partitions_of("t")
    assert asked_count(mock_cluster) == 1


def test_bootstrap_servers_are_tried_in_turn(mock_cluster: MockCluster, pool: Pool) -> None:
    mock_cluster.create_topic("t")
    nobody = closed_port()
    both = f"{nobody.host}:{nobody.port},{mock_cluster.bootstrap_servers}"
    assert metadata_of(both, pool, net_modern(retries=0)).partitions_of("t") == (PARTITION,)


def test_no_server_that_answers_is_one_line_that_says_what_was_tried(pool: Pool) -> None:
    nobody = closed_port()
    with pytest.raises(
        ConnectFailed,
        match=rf"^gave up after 4 .*kafka.bootstrap.servers: no server answers; .*bootstrap server "
        rf"\({nobody.host}:{nobody.port}\): cannot connect: Connection refused; check that it is running",
    ):
        metadata_of(f"{nobody.host}:{nobody.port}", pool).topics()


def first_contact(server: Broker, timeout_s: float) -> NetOptions:
    """The options of a process that has never heard of the cluster."""
    net = net_modern(timeout_s=5.0, backoff_s=0.001, retry_timeout_s=600.0)
    bootstrap = Bootstrap(f"kafka.bootstrap.servers={server.host}:{server.port}", timeout_s=timeout_s)
    return replace(net, retry=replace(net.retry, bootstrap=bootstrap))


def test_report_a_zookeeper_in_the_place_of_a_broker_soon(zookeeper: ZooKeeperServer, pool: Pool) -> None:
    server = Broker(-1, zookeeper.host, zookeeper.port)
    began_s = time.monotonic()
    with pytest.raises(ProtocolError) as error:
        metadata_of(zookeeper.connect, pool, first_contact(server, 600.0)).topics()
    assert time.monotonic() - began_s < GRACE_S
    assert str(error.value) == (
        f"kafka.bootstrap.servers={zookeeper.connect}: no server answers; the last one that was tried: "
        f"{server}: this is a ZooKeeper, not a broker; set kafka.bootstrap.servers to the host and port of a "
        "broker; for Kafka 0.7 set zookeeper.connect"
    )


def http(connection: socket.socket) -> None:
    connection.recv(1 << 10)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("script", "kind", "reported"),
    [
        (http, ProtocolError, r"it begins with b'HTTP'; is this the port of a Kafka"),
        (socket.socket.close, ConnectionLost, r"does this port need another kafka\.security\.protocol"),
    ],
)
def test_report_another_server_in_the_place_of_a_broker_by_what_it_does(
    pool: Pool, script: Script, kind: type[KafkaWireError], reported: str
) -> None:
    with Peer(script) as peer:
        address = f"{peer.broker.host}:{peer.broker.port}"
        with pytest.raises(kind, match=reported):
            metadata_of(address, pool, first_contact(peer.broker, 1.0)).topics()


@pytest.mark.slow
@pytest.mark.parametrize(("answers", "asked"), [(b"", 3), (b"\0\0\0\4junk", 0)])
def test_a_server_is_asked_for_its_kind_three_times_and_only_where_it_closes(
    pool: Pool, answers: bytes, asked: int
) -> None:
    began: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        began.append(connection.recv(1 << 10)[:4])
        connection.sendall(answers)

    with Peer(serve) as peer:
        address = f"{peer.broker.host}:{peer.broker.port}"
        with pytest.raises(KafkaWireError):
            metadata_of(address, pool, first_contact(peer.broker, 2.0)).topics()
    assert began.count(b"srvr") == asked
    assert len(began) > (3 if asked else 0)


def test_a_cluster_that_moved_as_a_whole_is_found_by_its_bootstrap_servers(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as moved, LogServer({"t": [MemoryLog()]}) as first:
        metadata = metadata_of(f"{first.bootstrap_servers},{moved.bootstrap_servers}", pool)
        assert metadata.leader_of(PARTITION).broker.port == first.port
        first.close()
        metadata.forget("t")
        assert metadata.leader_of(PARTITION).broker.port == moved.port


def naming(server: LogServer, **changes: Any) -> dict[str, Any]:
    """Let a server change its Metadata by the fields of the result, which the test may change."""
    server.broker.alter(MetadataRequest, lambda honest, _: replace(honest, **changes))
    return changes


def at(*servers: LogServer) -> tuple[MetadataBroker, ...]:
    """Brokers 0, 1, ... at the addresses of servers."""
    return tuple(MetadataBroker(node_id=id_, host=HOST, port=item.port) for id_, item in enumerate(servers))


def _closing(api: Api, frame: bytes) -> Sent:
    return Sent(b"", "close") if api is modern.METADATA else Sent(frame)


@contextmanager
def moved(pool: Pool, after_s: float | None) -> Iterator[tuple[Metadata, LogServer, LogServer]]:
    """A client whose only known broker is an old one, that one, and a bootstrap server that names another."""
    with LogServer({"t": [MemoryLog()]}) as new, LogServer({"t": [MemoryLog()]}) as old:
        named = naming(new, brokers=at(old))
        net = replace(NET, rebootstrap_after_s=after_s, retry=replace(NET.retry, retries=1))
        metadata = metadata_of(new.bootstrap_servers, pool, net)
        assert metadata.leader_of(PARTITION).broker.port == old.port
        new.lie = _closing
        metadata.refresh(["t"])  # the old broker is the last one that answered
        new.lie, named["brokers"] = None, at(new)
        metadata.forget("t")
        yield metadata, old, new


def test_a_broker_that_asks_for_it_sends_the_client_to_the_bootstrap_servers(
    pool: Pool, subtests: pytest.Subtests
) -> None:
    for after_s in (300.0, None):
        with subtests.test(after_s=after_s), moved(pool, after_s) as (metadata, old, new):
            naming(old, error_code=ErrorCode.REBOOTSTRAP_REQUIRED, brokers=(), topics=())
            if after_s is None:
                with pytest.raises(BrokerError, match=r"asks .* to bootstrap again .*strategy=none forbids"):
                    metadata.leader_of(PARTITION)
                continue
            for _ in range(3):
                assert metadata.leader_of(PARTITION).broker.port == new.port
                metadata.forget("t")
            # Once before it moved, and once to hear that it did.
            assert old.requests.count(modern.METADATA) == 2


def test_a_cluster_that_asks_for_it_again_and_again_is_one_error(pool: Pool) -> None:
    with moved(pool, 300.0) as (metadata, old, new):
        for item in (old, new):
            naming(item, error_code=ErrorCode.REBOOTSTRAP_REQUIRED, brokers=(), topics=())
        before = new.requests.count(modern.METADATA)
        with pytest.raises(
            BrokerError, match=r"^gave up after 2 attempts in .*: Metadata of bootstrap server"
        ):
            metadata.leader_of(PARTITION)
        assert (old.requests.count(modern.METADATA), new.requests.count(modern.METADATA)) == (2, before + 2)


def test_an_answer_of_another_cluster_is_refused(pool: Pool) -> None:
    with moved(pool, 300.0) as (metadata, old, new):
        old.close()
        named = naming(new, cluster_id="another")
        with pytest.raises(BrokerError, match=r", cluster 'another', not 'log-broker' as before: the"):
            metadata.leader_of(PARTITION)
        named["cluster_id"] = "log-broker"
        assert metadata.leader_of(PARTITION).broker.port == new.port


def test_known_brokers_that_failed_for_long_are_not_asked_before_the_bootstrap_servers(
    pool: Pool, subtests: pytest.Subtests
) -> None:
    for after_s, asked in ((300.0, 4), (0.0, 2)):
        with subtests.test(after_s=after_s), moved(pool, after_s) as (metadata, old, new):
            old.lie = new.lie = _closing
            with pytest.raises(ConnectionLost):  # of two attempts
                metadata.leader_of(PARTITION)
            new.lie = None
            assert metadata.leader_of(PARTITION).broker.port == new.port
            assert old.requests.count(modern.METADATA) == asked


def test_brokers_check_that_they_are_the_ones_that_are_meant(pool: Pool) -> None:
    """A broker moved to the address of another one, which asks for a new look at the cluster."""
    with LogServer({"t": [MemoryLog()]}) as new, LogServer({"t": [MemoryLog()]}) as old:
        settings = replace(NET.connection, bootstrap_servers=(Broker(-1, HOST, new.port),))
        BROKER_VERSIONS.learn_cluster_id(settings, "log-broker")
        net = replace(NET, connection=settings)
        metadata = Metadata(settings.bootstrap_servers, net, connections=pool)
        code = ErrorCode.REBOOTSTRAP_REQUIRED

        def checked(honest: ApiVersionsResponse, asked: ApiVersionsRequest) -> ApiVersionsResponse:
            is_meant = asked.node_id in (-1, 7)
            return honest if is_meant else replace(honest, error_code=code, api_keys=())

        asked = old.broker.alter(ApiVersionsRequest, checked)
        naming(new, brokers=at(old))
        leader = metadata.leader_of(PARTITION).broker
        with pytest.raises(BrokerError, match=r"^broker 0 \S+: ApiVersions: the broker asks"):
            pool.take(leader, settings)
        assert [(item.cluster_id, item.node_id) for item in asked] == [("log-broker", 0)]
        of_tasks = net.adapt_to_brokers(NO_MINIMUM).connection
        assert of_tasks.cluster_id == "log-broker"
        with pool.lend(replace(leader, id=7), of_tasks):
            assert (asked[-1].cluster_id, asked[-1].node_id) == ("log-broker", 7)
        # The client that knows the old address asks the bootstrap server instead.
        count = new.requests.count(modern.METADATA)
        metadata._last_server = leader
        metadata.refresh(["t"])
        assert new.requests.count(modern.METADATA) == count + 1


def test_topics_keep_their_ids_in_a_write(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        kept, free = (metadata_of(server.bootstrap_servers, pool) for _ in range(2))
        kept.keep_ids()
        for item in (kept, free):
            item.refresh(["t"])
        server.broker.topic_ids["t"] = uuid.UUID(int=9)
        free.refresh(["t"])
        with pytest.raises(
            BrokerError, match=r"^topic 't' was deleted and created again: its id was \S+, and is"
        ):
            kept.refresh(["t"])


def test_questions_share_a_connection(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        metadata = metadata_of(server.bootstrap_servers, pool)
        for _ in range(3):
            metadata.topics()
        assert server.requests == [modern.API_VERSIONS, *[modern.METADATA] * 3]


def test_a_broker_that_is_still_starting_is_asked_again(mock_cluster: MockCluster, pool: Pool) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_broker_down(-1)
    with pytest.raises(ConnectFailed):
        metadata_of(mock_cluster.bootstrap_servers, pool).partitions_of("t")
    mock_cluster.set_broker_up(-1)
    assert metadata_of(mock_cluster.bootstrap_servers, pool).partitions_of("t") == (PARTITION,)


def test_topic_ids_and_epochs_come_with_the_leader(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        leader = metadata_of(server.bootstrap_servers, pool).leader_of(PARTITION)
        assert leader == Leader(server.broker.broker, LEADER_EPOCH, server.broker.topic_id("t"))
        assert pickle.loads(pickle.dumps(leader)) == leader


@pytest.mark.parametrize("version", range(modern.METADATA.versions.max + 1))
def test_every_version_tells_the_leader(pool: Pool, version: int) -> None:
    offered = {**OFFERED, modern.METADATA.key: VersionRange(version, version)}
    with LogServer({"other": [MemoryLog()], "t": [MemoryLog()] * 2}, offered=offered) as server:
        metadata = metadata_of(server.bootstrap_servers, pool)
        assert metadata.leader_of(TopicPartition("t", 1)).broker == server.broker.broker
        assert [topic.name for topic in metadata.topics()] == ["other", "t"]
        with pytest.raises(UnknownTopicError, match=r"topic 'nope' on .*no such partition"):
            metadata.partitions_of("nope")


@pytest.mark.parametrize(
    ("version", "creates", "names"), [(3, False, None), (3, True, ["t"]), (4, False, ["t"])]
)
def test_brokers_that_create_what_they_are_asked_for_are_asked_for_all(
    pool: Pool, version: int, creates: bool, names: list[str] | None
) -> None:
    offered = {**OFFERED, modern.METADATA.key: VersionRange(0, version)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        asked = server.broker.alter(MetadataRequest, lambda honest, _: honest)
        metadata = metadata_of(server.bootstrap_servers, pool, creates_topics=creates)
        assert metadata.partitions_of("t") == (PARTITION,)
    [request] = asked
    assert names == (None if request.topics is None else [topic.name for topic in request.topics])
    assert request.allow_auto_topic_creation == (version < 4 or creates)


def test_a_partition_that_the_topic_has_not_is_unknown(noida: NoidaBroker, pool: Pool) -> None:
    topic = noida.create_topic(partitions=2)
    metadata = metadata_of(noida.bootstrap_servers, pool)
    with pytest.raises(UnknownTopicError, match=rf"{topic} 7: the topic has only 2 partitions, from 0 on: "):
        metadata.leader_of(TopicPartition(topic, 7))
    noida.add_partitions(topic, 8)
    assert metadata.leader_of(TopicPartition(topic, 7)).broker.port == noida.port


def test_internal_topics_are_marked(noida: NoidaBroker, pool: Pool) -> None:
    noida.create_topic(name="seen")
    result = {topic.name: topic.is_internal for topic in metadata_of(noida.bootstrap_servers, pool).topics()}
    assert result["seen"] is False
    assert result["__consumer_offsets"] is True


def test_a_read_creates_no_topic(noida: NoidaBroker, pool: Pool) -> None:
    with pytest.raises(UnknownTopicError):
        metadata_of(noida.bootstrap_servers, pool).partitions_of("never-made")
    assert "never-made" not in {topic.name for topic in metadata_of(noida.bootstrap_servers, pool).topics()}


def answering_topics(server: LogServer, *answers: MetadataTopic) -> None:
    """The next descriptions of a topic; the last one stays."""
    left = list(answers)
    server.broker.answer_with(MetadataTopic, lambda _: left.pop(0) if len(left) > 1 else left[0])


def test_wait_for_and_list_a_topic_without_partitions(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        whole = server.broker.topic("t")
        answering_topics(server, replace(whole, partitions=()), whole)
        metadata = metadata_of(server.bootstrap_servers, pool)
        assert metadata.partitions_of("t") == (PARTITION,)
        answering_topics(server, replace(whole, partitions=()))
        assert metadata.topics() == (Topic("t"),)


@pytest.mark.parametrize("known", [(0, 2), (1,), (2, 5, 0, 1)])
def test_wait_for_a_partition_that_is_not_listed_and_then_fail(pool: Pool, known: tuple[int, ...]) -> None:
    # ZooKeeper's clusters tell nothing of a new partition whose replicas were never alive.
    with LogServer({"t": [MemoryLog()] * 6}) as server:
        whole = server.broker.topic("t")
        part = replace(whole, partitions=tuple(whole.partitions[index] for index in known))
        answering_topics(server, part, part, whole)
        assert len(metadata_of(server.bootstrap_servers, pool).partitions_of("t")) == 6
        answering_topics(server, part)
        hasty = metadata_of(server.bootstrap_servers, pool, net_modern(timeout_s=0.2, backoff_s=0.001))
        with pytest.raises(
            BrokerError,
            match=rf"gave up after .* topic t on .*, which describes only {len(known)} of its partitions: ",
        ):
            hasty.partitions_of("t")


def test_a_topic_that_was_just_created_is_waited_for_longer_than_the_retries(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        unknown, whole = server.broker.topic("nope"), server.broker.topic("t")
        metadata = metadata_of(server.bootstrap_servers, pool)
        answering_topics(server, *[replace(unknown, name="t")] * 7, whole)
        with pytest.raises(UnknownTopicError, match=r"gave up after 4 attempts"):
            metadata.refresh(["t"])
        answering_topics(server, *[replace(unknown, name="t")] * 7, whole)
        metadata.refresh(["t"], are_created=True)
        assert metadata.known_leaders([PARTITION])


def test_impossible_partitions_are_a_protocol_error(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        whole = server.broker.topic("t")
        wrong = (replace(whole.partitions[0], partition_index=-7),)
        answering_topics(server, replace(whole, partitions=wrong))
        with pytest.raises(ProtocolError, match="it gives the partition -7 of t, but the minimum is 0"):
            metadata_of(server.bootstrap_servers, pool).partitions_of("t")


def test_a_broker_that_knows_no_broker_yet_is_asked_again(pool: Pool) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        lonely = iter([(), ()])
        asked = server.broker.alter(
            MetadataRequest, lambda honest, _: replace(honest, brokers=next(lonely, honest.brokers))
        )
        assert metadata_of(server.bootstrap_servers, pool).partitions_of("t") == (PARTITION,)
        assert len(asked) == 3


NOT_LEADER = 6


@dataclass
class Log:
    """The only partition of a cluster of two brokers, and what they answer about it."""

    leader: int = 0
    listed_leader: int = 0
    start: int = 0
    end: int = 10
    throttle_time_ms: int = 0
    ports: list[int] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)

    def metadata(self, _: Asked) -> MetadataResponse:
        """Metadata that may be older than the leader."""
        leader = self.listed_leader
        partition = MetadataPartition(
            error_code=0, partition_index=0, leader_id=leader, replica_nodes=(0, 1), isr_nodes=(0, 1)
        )
        self.listed_leader = self.leader
        brokers = (
            MetadataBroker(node_id=number, host="127.0.0.1", port=port)
            for number, port in enumerate(self.ports)
        )
        topic = MetadataTopic(error_code=0, name="t", partitions=(partition,))
        return MetadataResponse(brokers=tuple(brokers), topics=(topic,))

    def list_offsets(self, broker: int, asked: Asked) -> ListOffsetsResponse:
        """An offset, or an error of a broker that is not the leader."""
        time = asked.request.topics[0].partitions[0].timestamp
        self.times.append((broker, time))
        offset = self.start if time == EARLIEST_TIMESTAMP else self.end
        error_code = 0 if broker == self.leader else NOT_LEADER
        result = ListOffsetsPartitionResponse(partition_index=0, error_code=error_code, offset=offset)
        topic = ListOffsetsTopicResponse(name="t", partitions=(result,))
        return ListOffsetsResponse(topics=(topic,), throttle_time_ms=self.throttle_time_ms)


@contextmanager
def followed(log: Log) -> Iterator[ModernCluster]:
    """The cluster of a log, after its first poll."""
    with ExitStack() as stack:
        for number in range(2):

            def offsets(asked: Asked, number: int = number) -> ListOffsetsResponse:
                return log.list_offsets(number, asked)

            peer = stack.enter_context(Peer(broker({"Metadata": log.metadata, "ListOffsets": offsets})))
            log.ports.append(peer.broker.port)
        stack.callback(POOL.close_idle)
        cluster = cluster_of(f"127.0.0.1:{log.ports[0]}")
        assert polled(cluster) == PartitionBounds(PARTITION, log.start, log.end)
        yield cluster


def polled(cluster: ModernCluster) -> PartitionBounds:
    """The bounds of a poll."""
    return cluster.follow_bounds(cluster.partitions_of(["t"]))[PARTITION]


def test_an_end_that_moves_back_is_seen_at_once() -> None:
    log = Log(start=5)
    with followed(log) as cluster:
        for end in (9, 7, 10, 5):
            log.end = end
            assert polled(cluster) == PartitionBounds(PARTITION, 5, end)


def test_a_start_that_retention_moves_is_not_asked_for_until_the_end_passes_it() -> None:
    log = Log()
    with followed(log) as cluster:
        log.times.clear()
        log.start, log.end = 8, 12
        assert polled(cluster).latest == 12
        assert EARLIEST_TIMESTAMP not in [time for _, time in log.times]


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_leader_that_moves_is_asked_instead(is_listed: bool) -> None:
    log = Log()
    with followed(log) as cluster:
        polled(cluster)
        log.leader, log.end = 1, 20
        log.listed_leader = 1 if is_listed else 0
        log.times.clear()
        assert polled(cluster).latest == 20
        assert [number for number, _ in log.times][-1] == 1
        log.end = 21
        log.times.clear()
        assert polled(cluster).latest == 21
        assert {number for number, _ in log.times} == {1}


def test_responses_that_differ_in_their_throttle_time_alone_are_the_same_bounds() -> None:
    log = Log()
    with followed(log) as cluster:
        first = polled(cluster)
        log.throttle_time_ms = 1
        assert polled(cluster) == first
        log.throttle_time_ms, log.end = 0, 11
        assert polled(cluster).latest == 11
        log.end = 10
        assert polled(cluster) == first


def test_a_new_connection_to_the_leader_is_asked_and_read_again() -> None:
    log = Log()
    with followed(log) as cluster:
        polled(cluster)
        POOL.close_idle()
        log.end = 15
        assert polled(cluster).latest == 15
        POOL.close_idle()
        assert polled(cluster).latest == 15


@pytest.mark.slow
def test_a_poll_asks_for_ends_alone_and_builds_nothing_without_news() -> None:
    with FakeCluster(partitions=20, brokers=2) as fake:
        cluster = cluster_of(fake.bootstrap)
        cluster.follow_bounds(cluster.partitions_of([TOPIC]))
        before = cluster.follow_bounds(cluster.partitions_of([TOPIC]))
        fake.requests()
        assert cluster.follow_bounds(cluster.partitions_of([TOPIC])) is before
        assert fake.requests() == {"Metadata": 1, "ListOffsets": 2}
        fake.grow(3)
        after = cluster.follow_bounds(cluster.partitions_of([TOPIC]))
        assert list(after) == list(before)
        for tp in before:
            assert after[tp].latest == before[tp].latest + (BATCH_RECORDS if tp.partition < 3 else 0)
        assert after == cluster.bounds(list(after))


@pytest.mark.slow
def test_a_forgotten_topic_is_asked_for_again() -> None:
    with FakeCluster(partitions=4, brokers=2) as fake:
        cluster = cluster_of(fake.bootstrap)
        first = cluster.follow_bounds(cluster.partitions_of([TOPIC]))
        cluster.forget(TopicPartition(TOPIC, 0))
        fake.grow(4)
        result = cluster.follow_bounds(cluster.partitions_of([TOPIC]))
        assert {item.latest for item in result.values()} == {2 * BATCH_RECORDS}
        assert {item.latest for item in first.values()} == {BATCH_RECORDS}
