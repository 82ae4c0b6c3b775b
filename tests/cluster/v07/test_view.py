"""The view of a cluster of 0.7, and the cluster itself."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker import BrokerServer, Fault, FaultKind
from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.cluster.v07.segments import start_offset, stop_offset
from spark_kafkawire.cluster.v07.view import (
    PARTITION_COUNT_MAX,
    TopicOnBroker,
    partition_codes,
    partitions_of_topics,
    partitions_to_write,
    probe,
    view,
)
from spark_kafkawire.errors import (
    Action,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    DiscoveryError,
    OptionError,
    ProtocolError,
    RequestTimedOut,
    UnknownTopicError,
)
from spark_kafkawire.model import (
    Broker,
    ClusterView,
    Leader,
    PartitionBounds,
    TopicPartition,
)
from spark_kafkawire.options import Discovery, StreamOptions
from spark_kafkawire.planner.stream import StreamPlanner
from spark_kafkawire.planner.stream_offsets import Position
from tests.cluster.v07.producing import produce
from tests.net.peers import STUCK_S, Peer, closed_port, read_frame, stalling
from tests.support.embedded import StartBroker
from tests.support.polling import GRACE_S, poll
from tests.support.settings import net_07
from tests.support.tree_writer import TreeWriter
from tests.support.writing import broker_of

NET: Final = net_07(5.0, retries=2, backoff_s=0.001)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def by_list(*servers: BrokerServer) -> Discovery:
    return Discovery(broker_list=tuple(sorted(broker_of(server) for server in servers)))


def names(partitions: Sequence[TopicPartition]) -> list[str]:
    return [str(tp) for tp in partitions]


def test_a_broker_list_is_a_view_of_brokers_without_logs() -> None:
    brokers = (Broker(0, "a", 1), Broker(1, "b", 2))
    assert view(Discovery(broker_list=brokers), NET) == ClusterView(brokers, ())


def test_a_topic_is_all_configured_partitions_of_the_brokers_that_hold_it(start_broker: StartBroker) -> None:
    servers = [start_broker(0), start_broker(1, {"num.partitions": "5"}), start_broker(2)]
    produce(servers[0], "t", 1)
    produce(servers[1], "t", 4)
    discovery = by_list(*servers)
    result = partitions_of_topics(view(discovery, NET), discovery, ["t"], NET)
    assert names(result) == ["t 0-0", "t 1-0", "t 0-1", "t 1-1", "t 0-2", "t 1-2", "t 1-3", "t 1-4"]


def test_zookeeper_and_the_brokers_say_the_same(start_broker: StartBroker, tree: TreeWriter) -> None:
    tree.put("/chroot-is-there")
    properties = {"zk.connect": tree.connect, "topic.partition.count.map": "five:5"}
    servers = [start_broker(broker_id, properties) for broker_id in range(2)]
    produce(servers[0], "one", 0)
    produce(servers[0], "größe", 2)
    for server in servers:
        produce(server, "five", 3)
        produce(server, "empty", 1, message_set=b"")
    topics = ["one", "größe", "five", "empty"]

    def complete() -> ClusterView | None:
        result = view(tree.discovery, NET)
        return result if len({(tp.topic, tp.broker) for tp in result.partitions}) == len(topics) + 2 else None

    cluster = poll(complete, "the brokers have registered all topics")
    assert cluster
    assert cluster.brokers == tuple(broker_of(server) for server in servers)
    discovery = by_list(*servers)
    probed = partitions_of_topics(view(discovery, NET), discovery, topics, NET)
    assert probed == partitions_of_topics(cluster, tree.discovery, topics, NET) == cluster.partitions
    assert len(probed) == 3 + 3 + 2 * 5 + 2 * 3


@pytest.mark.parametrize("count", [1, 15, 16, 17, 48, 49, 1000])
def test_any_partition_count_is_found(count: int, start_broker: StartBroker) -> None:
    server = start_broker(0, {"num.partitions": str(count)})
    assert probe(broker_of(server), ["t"], NET) == {"t": TopicOnBroker(count, exists=False)}
    assert not server.logs.topics
    produce(server, "t", count - 1)
    assert probe(broker_of(server), ["t", "u"], NET) == {
        "t": TopicOnBroker(count, exists=True),
        "u": TopicOnBroker(count, exists=False),
    }


def test_a_partition_that_is_there_and_empty_counts_as_there(start_broker: StartBroker) -> None:
    server = start_broker()
    produce(server, "t", 0, message_set=b"")
    assert probe(broker_of(server), ["t"], NET)["t"].exists
    partitions = [TopicPartition("t", partition, 0) for partition in (0, 1, 3)]
    assert partition_codes(broker_of(server), partitions, NET) == [1, 0, 3]


def test_a_topic_that_no_broker_holds_is_unknown(start_broker: StartBroker) -> None:
    discovery = by_list(start_broker(0), start_broker(1))
    reported = r"^no broker holds the topic nope; create it, or correct its name$"
    for cluster, found_by in ((view(discovery, NET), discovery), (ClusterView((), ()), ZOOKEEPER)):
        with pytest.raises(UnknownTopicError, match=reported):
            partitions_of_topics(cluster, found_by, ["nope"], NET)


@pytest.mark.parametrize("topic", ["a/b", "..", "x" * 256, "tab\t"])
def test_report_a_topic_name_that_brokers_refuse(topic: str, start_broker: StartBroker) -> None:
    server = start_broker()
    with pytest.raises(BrokerError, match=r"the broker refuses the topic name \(error -1 UNKNOWN\)") as error:
        probe(broker_of(server), ["fine", topic], NET)
    assert error.value.action is Action.FIX_OPTION
    assert len(str(error.value).splitlines()) == 1


REGISTERED: Final = ClusterView(
    (Broker(0, "h", 1),), tuple(TopicPartition(f"topic-{index:03}", 0, 0) for index in range(200))
)
ZOOKEEPER: Final = Discovery(zookeeper_connect="h:2181")


def test_report_an_unknown_topic_with_those_like_it_alone() -> None:
    with pytest.raises(UnknownTopicError) as error:
        partitions_of_topics(REGISTERED, ZOOKEEPER, ["topic-003", "topik-077", "xyz"], NET)
    message = str(error.value)
    assert re.fullmatch(
        r"no broker holds the topic topik-077, xyz; did you mean topic-077, topic-\d+ or topic-\d+\?", message
    )


def test_report_many_unknown_topics_in_short() -> None:
    with pytest.raises(UnknownTopicError) as error:
        partitions_of_topics(REGISTERED, ZOOKEEPER, [f"topik-{index:03}" for index in range(1000)], NET)
    reported, hint = str(error.value).split(" and 990 more; did you mean ")
    assert reported.endswith("topik-009")
    assert len(re.findall(r"topic-\d+", hint)) == 10


@pytest.mark.parametrize("alive", [[1], [0, 1]])
def test_logs_to_write_are_those_of_live_brokers_by_broker_and_then_partition(alive: list[int]) -> None:
    partitions = tuple(
        TopicPartition("t", partition, broker) for partition in range(11) for broker in range(2)
    )
    cluster = ClusterView(tuple(Broker(broker, "h", 1) for broker in alive), partitions)
    assert partitions_of_topics(cluster, ZOOKEEPER, ["t"], NET) == partitions
    expected = [f"t {broker}-{partition}" for broker in alive for partition in range(11)]
    assert names(partitions_to_write(cluster, ZOOKEEPER, ["t"], NET)["t"]) == expected


def test_a_topic_that_zookeeper_does_not_know_yet_is_written_to_partition_0_of_every_broker() -> None:
    cluster = ClusterView((Broker(0, "h", 1), Broker(3, "h", 2)), (TopicPartition("old", 0, 0),))
    to_write = partitions_to_write(cluster, ZOOKEEPER, ["new", "old"], NET)
    assert {topic: names(partitions) for topic, partitions in to_write.items()} == {
        "new": ["new 0-0", "new 3-0"],
        "old": ["old 0-0"],
    }


def test_without_zookeeper_every_configured_partition_can_be_written(start_broker: StartBroker) -> None:
    servers = [start_broker(0), start_broker(1, {"num.partitions": "1"})]
    produce(servers[0], "t", 0)
    discovery = by_list(*servers)
    to_write = partitions_to_write(view(discovery, NET), discovery, ["t", "new"], NET)
    assert names(to_write["t"]) == ["t 0-0", "t 0-1", "t 0-2", "t 1-0"]
    assert names(to_write["new"]) == ["new 0-0", "new 0-1", "new 0-2", "new 1-0"]


# --- brokers that fail ---


def test_a_lost_connection_is_replaced(start_broker: StartBroker) -> None:
    server = start_broker(0, faults=[Fault("MULTIFETCH", nth=1, kind=FaultKind.DROP)])
    assert probe(broker_of(server), ["t"], NET)["t"].partition_count == 3


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (FaultKind.DROP, ConnectionLost),
        (FaultKind.STALL, RequestTimedOut),
        (FaultKind.GARBAGE, ProtocolError),
    ],
)
def test_report_a_broker_that_fails_for_good_with_the_topic(
    fault: FaultKind, kind: type[Exception], start_broker: StartBroker
) -> None:
    server = start_broker(0, faults=[Fault("MULTIFETCH", nth, fault) for nth in range(1, 9)])
    with pytest.raises(kind, match=r"partitions of topic t: broker 0 \(127\.0\.0\.1:"):
        probe(broker_of(server), ["t"], net_07(1, 1, 0.001))


def test_report_a_dead_broker_in_the_list(start_broker: StartBroker) -> None:
    dead = closed_port()
    discovery = Discovery(broker_list=(broker_of(start_broker(0)), dead))
    with pytest.raises(ConnectFailed) as error:
        partitions_of_topics(view(discovery, NET), discovery, ["t"], NET)
    assert f"partitions of topic t: broker 7 (127.0.0.1:{dead.port}): cannot connect" in str(error.value)
    assert "gave up after 3 attempts" in str(error.value)


@pytest.mark.parametrize("count", [0, 1, 15])
def test_fewer_answers_than_partitions_are_a_protocol_error(count: int) -> None:
    short = frame(b"\0\0" + b"\0\0\0\2\0\0" * count)
    with (
        Peer(stalling(short)) as peer,
        pytest.raises(ProtocolError, match=f"16 partitions were requested and {count} came"),
    ):
        probe(peer.broker, ["t"], NET)


def test_a_broker_that_has_every_partition_is_not_believed() -> None:
    def every_partition(connection: socket.socket) -> None:
        while request := read_frame(connection):
            count = int.from_bytes(request[2:4], "big")
            connection.sendall(frame(b"\0\0" + b"\0\0\0\2\0\0" * count))

    began_s = time.monotonic()
    with (
        Peer(every_partition) as peer,
        pytest.raises(DiscoveryError, match="at most 16384 are supported") as error,
    ):
        probe(peer.broker, ["t"], NET)
    assert int(str(error.value).split()[4]) >= PARTITION_COUNT_MAX
    assert time.monotonic() - began_s < GRACE_S


def test_brokers_are_asked_side_by_side() -> None:
    """Each answers once the other is asked too."""
    both_asked = threading.Barrier(2)

    def wait_for_the_other(connection: socket.socket) -> None:
        read_frame(connection)
        both_asked.wait(STUCK_S)
        connection.sendall(frame(b"\0\0" + b"\0\0\0\2\0\x4d" * 16))

    with Peer(wait_for_the_other) as one, Peer(wait_for_the_other) as other:
        brokers = (one.broker, replace(other.broker, id=8))
        with pytest.raises(BrokerError, match="unknown error code 77; see its log"):
            partitions_of_topics(
                ClusterView(brokers, ()), Discovery(broker_list=brokers), ["t"], net_07(retries=0)
            )


PARTITION = TopicPartition("t", 1, 0)
FOUND = PartitionBounds(PARTITION, earliest=100, latest=1000, segment_starts=(100, 400, 700))


@pytest.mark.parametrize(
    ("older", "start", "stop"),
    [
        ((), 100, 400),
        ((100,), 400, 700),
        ((100, 400), 700, None),
        ((100, 400, 700), None, None),
        ((100, 400, 700, 1000), None, None),
        ((100, 400, 700, 1200), None, None),
    ],
)
def test_a_range_has_the_segments_that_may_be_young_enough(
    older: tuple[int, ...], start: int | None, stop: int | None
) -> None:
    assert (start_offset(FOUND, older), stop_offset(FOUND, older)) == (start, stop)


def test_file_times_cut_to_seconds_lose_no_message(start_broker: StartBroker, tmp_path: Path) -> None:
    # Written at 5.9 s, the file may say 5.0 s: a start at 5.5 s must not count it as older.
    server = start_broker(0, {"log.file.size": "5"})
    produce(server, "t", 0)
    produce(server, "t", 0)
    for file in (tmp_path / "broker-0" / "t-0").iterdir():
        os.utime(file, (5, 5))
    partition = TopicPartition("t", 0, 0)
    cluster = V07Cluster(Discovery(broker_list=(broker_of(server),)), net_07())
    bounds = cluster.bounds([partition])
    assert cluster.start_offsets({partition: 5_500}, bounds) == {partition: 0}
    assert cluster.start_offsets({partition: 6_000}, bounds) == {partition: None}
    assert cluster.stop_offsets({partition: 5_500}, bounds) == {partition: None}
    starts = bounds[partition].segment_starts or ()
    assert cluster.stop_offsets({partition: 4_500}, bounds) == {partition: starts[1]}


def test_a_task_knows_its_broker_without_discovery(start_broker: StartBroker) -> None:
    broker = broker_of(start_broker(0))
    cluster = V07Cluster(Discovery(zookeeper_connect="127.0.0.1:1"), net_07(), (broker,))
    gone = TopicPartition("t", 0, 7)
    assert cluster.leaders_of([PARTITION, gone]) == {PARTITION: Leader(broker)}


def test_committed_offsets_are_of_later_brokers() -> None:
    cluster = V07Cluster(Discovery(zookeeper_connect="127.0.0.1:1"), net_07())
    with pytest.raises(OptionError, match=r"'committed' needs kafka\.bootstrap\.servers"):
        cluster.committed_offsets([PARTITION])


def test_a_partition_may_be_cut_where_its_segments_start(start_broker: StartBroker) -> None:
    server = start_broker(0, {"log.file.size": "29"})
    for _ in range(3):
        produce(server, "t", 1)
    partition, empty = TopicPartition("t", 1, 0), TopicPartition("t", 2, 0)
    broker = broker_of(server)
    assert V07Cluster(Discovery(broker_list=(broker,)), net_07()).cut_points([partition, empty]) == {
        partition: (0, 30),
        empty: (),
    }
    options = {"broker.list": f"0:{broker.host}:{broker.port}", "subscribe": "t", "minPartitions": "2"}
    tasks = StreamPlanner(StreamOptions.parse(options)).tasks(
        Position({partition: 0}), Position({partition: 45})
    )
    assert [(task.range.start_offset, task.range.stop_offset) for task in tasks] == [(0, 30), (30, 45)]
