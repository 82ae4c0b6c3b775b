"""Kafka 0.7, by the embedded broker: what a real 0.7.2 wrote, streams, the order of keys, and batch reads
that are consumers of a group."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.v07.zookeeper_client import SESSION_TIMEOUT_MAX_S
from spark_kafkawire.errors import (
    BrokersMissingError,
    DataLossError,
    DiscoveryError,
    KafkaWireError,
    OptionError,
    UnknownTopicError,
)
from spark_kafkawire.groups import GroupRead
from spark_kafkawire.records.public import encode_message_set
from tests.net.peers import closed_port
from tests.support import zookeeper_tree
from tests.support.corpus import partitions_of
from tests.support.debian_plain import COUNT, ENDS, NAMES, SECONDS, TOPIC
from tests.support.embedded import produce
from tests.support.golden import values_sha256
from tests.support.reading import PlannedRead
from tests.support.streaming import Checkpoint, Killed, Query, available_now
from tests.support.zookeeper_tree import expire_session

# Partitions that a real Kafka 0.7.2 wrote: every message, in order, byte for byte


@pytest.mark.parametrize("topic", ["debian-plain", "debian-gzip", "debian-snappy"])
@pytest.mark.parametrize(
    "options",
    [{}, {"minPartitions": "40"}, {"fetchBytes": "4KiB"}, {"packSmallPartitions": "true"},
     {"wireFormat": "proposal"}],
    ids=str,
)  # fmt: skip
def test_partitions_have_all_messages(corpus: EmbeddedCluster, topic: str, options: dict[str, str]) -> None:
    where = {"zookeeper.connect": corpus.zookeeper_connect, "subscribe": topic}
    partitions: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
    for row in PlannedRead({**where, **options}).rows():
        of_partition = partitions.setdefault((row["broker"], row["partition"]), [])
        of_partition.append((row["offset"], row["index"], row["value"]))
    expected = {(item["broker"], item["partition"]): item for item in partitions_of(topic)}
    assert set(partitions) == set(expected)
    for name, messages in partitions.items():
        messages.sort(key=lambda message: message[:2])
        assert len(messages) == expected[name]["messages"]
        assert values_sha256(value for _, _, value in messages) == expected[name]["values_sha256"]


# Streams: byte offsets, segments, brokers that are away


def options(cluster: EmbeddedCluster, **others: str) -> dict[str, str]:
    return {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": TOPIC, **others}


def places(query: Query) -> list[list[tuple[int, int, int, int]]]:
    """Positions of the rows of each batch: broker, partition, offset, and place in a compressed message."""
    return [
        sorted((row["broker"], row["partition"], row["offset"], row["index"]) for row in rows)
        for rows in query.batches()
    ]


def test_a_stream_reads_each_message_once_and_ends_at_the_byte_after_it(cluster: EmbeddedCluster) -> None:
    checkpoint = Checkpoint()
    [rows] = places(Query(checkpoint, **options(cluster, startingOffsets="earliest")))
    assert len(rows) == len(set(rows)) == COUNT
    assert checkpoint.offsets == [json.dumps({TOPIC: {name: ENDS[name] for name in NAMES}})]
    produce(cluster, TOPIC, encode_message_set([b"one", b"two"]), partition=1, broker=1)
    again = Query(checkpoint, **options(cluster))
    assert again.values() == [[b"one", b"two"]]
    assert again.values() == []


def test_brokers_of_zookeeper_are_reached_at_mapped_addresses(cluster: EmbeddedCluster) -> None:
    ports = {f"127.0.0.1:{broker.port}": f"localhost:{broker.port}" for broker in cluster.brokers}
    mapped = options(cluster, brokerAddressMap=json.dumps(ports), retries="0")
    assert len(PlannedRead(mapped).rows()) == COUNT
    [first, *_] = ports
    closed = f"127.0.0.1:{closed_port().port}"
    wrong = {**mapped, "brokerAddressMap": json.dumps({**ports, first: closed})}
    location = re.escape(f"broker 0 ({first}) at {closed} (brokerAddressMap): cannot connect")
    with pytest.raises(KafkaWireError, match=location):
        PlannedRead(wrong).rows()
    listed = ",".join(f"{number}:kafka-{number}.svc:9092" for number in range(len(ports)))
    aliases = {f"kafka-{number}.svc:9092": address for number, address in enumerate(ports)}
    given = {"broker.list": listed, "brokerAddressMap": json.dumps(aliases), "subscribe": TOPIC}
    assert len(PlannedRead(given).rows()) == COUNT


def test_a_limited_batch_is_the_same_after_a_crash(cluster: EmbeddedCluster) -> None:
    checkpoint, result = Checkpoint(), []
    given = options(cluster, startingOffsets="earliest", maxBytesPerTrigger="1")
    with pytest.raises(Killed):
        Query(checkpoint, **given).batch("read")
    produce(cluster, TOPIC, encode_message_set([b"late"]))
    query = available_now(checkpoint, **given)
    for rows in query.batches():
        result += [(row["broker"], row["partition"], row["offset"], row["index"]) for row in rows]
    assert len(result) == len(set(result)) == COUNT + 1


def started_again(cluster: EmbeddedCluster, folder: Path) -> None:
    """The first partition of broker 0 is removed, and a shorter one takes its place."""
    cluster.brokers[0].stop()
    shutil.rmtree(folder / "broker0" / f"{TOPIC}-0")
    cluster.brokers[0].start()
    produce(cluster, TOPIC, encode_message_set([b"anew"]))


def test_a_partition_that_starts_again_is_a_data_loss_or_a_warning(
    cluster: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    Query(checkpoint, **options(cluster, startingOffsets="earliest")).values()
    started_again(cluster, tmp_path)
    new_end = len(encode_message_set([b"anew"]))
    loss = f"the end of {TOPIC} 0-0 was changed from {ENDS['0-0']} to {new_end}: "
    with pytest.raises(DataLossError, match=f"^{re.escape(loss)}.*failOnDataLoss=false$"):
        Query(checkpoint, **options(cluster)).batch()
    lenient = Query(checkpoint, **options(cluster, failOnDataLoss="false"))
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert lenient.values() == [[]]  # it stands at the new end: what is before it may have been read
    assert any(record.getMessage().startswith(loss) for record in caplog.records)
    produce(cluster, TOPIC, encode_message_set([b"later"]))
    assert lenient.values() == [[b"later"]]


def test_removed_topic_is_a_data_loss_or_a_warning(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    checkpoint = Checkpoint()
    pattern = {"zookeeper.connect": cluster.zookeeper_connect, "subscribePattern": "^debian-(plain|gzip)$"}
    Query(checkpoint, **pattern).values()
    for broker in cluster.brokers:
        broker.stop()
    for folder in tmp_path.glob(f"broker*/{TOPIC}-*"):
        shutil.rmtree(folder)
    zookeeper_tree.remove_topic(cluster.zookeeper_connect, TOPIC)
    for broker in cluster.brokers:
        broker.start()
    produce(cluster, "debian-gzip", encode_message_set([b"of the other"]))
    with pytest.raises(
        DataLossError, match=rf"^{TOPIC} 0-0 at offset {ENDS['0-0']}, .* and 3 more .* no longer exist"
    ):
        Query(checkpoint, **pattern).batch()
    assert Query(checkpoint, **pattern, failOnDataLoss="false").values() == [[b"of the other"]]


def test_partitions_of_an_absent_broker_keep_their_places(cluster: EmbeddedCluster) -> None:
    checkpoint = Checkpoint()
    given = options(cluster, failOnDataLoss="false", retryBackoff="1ms")
    Query(checkpoint, **given).values()
    produce(cluster, TOPIC, encode_message_set([b"away"]), partition=0, broker=1)
    cluster.brokers[1].stop()
    produce(cluster, TOPIC, encode_message_set([b"here"]))
    assert Query(checkpoint, **given).values() == [[b"here"]]
    assert json.loads(checkpoint.offsets[-1])[TOPIC]["1-0"] == ENDS["1-0"]
    with pytest.raises(BrokersMissingError, match="broker 1 is not registered"):
        Query(checkpoint, **{**given, "failOnDataLoss": "true", "retries": "1"}).batch()
    cluster.brokers[1].start()
    assert Query(checkpoint, **given).values() == [[b"away"]]


# The order of keys, of a topic whose brokers grew by what the user says


def laid_out(
    cluster: EmbeddedCluster, *layouts: dict[str, int], boundaries: Mapping[str, int] = SECONDS
) -> dict[str, str]:
    """Each layout's partitions by broker; a second one begins with the second segments."""
    given: list[dict[str, Any]] = [{"partitions": item} for item in layouts]
    for item in given[1:]:
        old = {f"{broker}-{at}" for broker, count in layouts[0].items() for at in range(count)}
        item["boundaries"] = {name: boundaries[name] for name in sorted(old)}
    return {
        "zookeeper.connect": cluster.zookeeper_connect,
        "subscribe": TOPIC,
        "keyOrder": "true",
        "partitionLayouts": json.dumps({TOPIC: given}),
    }


def read(given: dict[str, str]) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """The partitions of each Spark partition, and all rows."""
    result = PlannedRead(given)
    names = [[task.range.topic_partition.name for task in part.tasks] for part in result.partitions]
    return names, result.rows()


def test_a_broker_that_came_later_is_read_after_those_before(corpus: EmbeddedCluster) -> None:
    names, rows = read(laid_out(corpus, {"0": 3}, {"0": 3, "1": 3}))
    assert names == [["0-0", "1-0"], ["0-1", "1-1"], ["0-2", "1-2"]]
    assert len(rows) == COUNT
    for row in rows:
        name = f"{row['broker']}-{row['partition']}"
        assert row["layout"] == (row["broker"] == 1 or row["offset"] >= SECONDS[name])


def test_a_stream_reads_a_new_broker_after_the_old_one(corpus: EmbeddedCluster) -> None:
    given = laid_out(corpus, {"0": 3}, {"0": 3, "1": 3})
    running = Query(Checkpoint(), startingOffsets="earliest", maxBytesPerTrigger="1", **given)
    first, second = running.batch(), running.batch()
    assert first is not None
    assert second is not None
    # A batch ends where a segment does, which is the boundary: from there on both are read.
    assert {(row["broker"], row["layout"]) for row in first} <= {(0, 0), (1, 1)}
    assert {row["broker"] for row in first + second} == {0, 1}
    read_up_to = {row["partition"] for row in first if row["broker"] == 0}
    assert {row["partition"] for row in first if row["broker"] == 1} <= read_up_to


# A batch read that is a consumer of a group: it claims, reads, commits and leaves


@pytest.fixture(autouse=True)
def patient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that a busy machine starves for some seconds is not taken for dead."""
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member.SESSION_TIMEOUT_S", SESSION_TIMEOUT_MAX_S)


@pytest.fixture
def client(corpus_zookeeper: KazooClient) -> Iterator[KazooClient]:
    yield corpus_zookeeper
    corpus_zookeeper.delete("/consumers", recursive=True)


@pytest.fixture
def grouped(corpus: EmbeddedCluster) -> dict[str, str]:
    connect = corpus.zookeeper_connect
    return {"zookeeper.connect": connect, "subscribe": TOPIC, "kafka.group.id": "g"}


def offsets(client: KazooClient) -> dict[str, int]:
    """Offsets that the group has committed."""
    root = f"/consumers/g/offsets/{TOPIC}"
    names = client.get_children(root) if client.exists(root) else []
    return {name: int(client.get(f"{root}/{name}")[0]) for name in names}


def test_batch_commits_and_leaves(spark: SparkSession, client: KazooClient, grouped: dict[str, str]) -> None:
    with GroupRead(grouped) as share:
        rows = share.load(spark)
        assert rows.count() == COUNT
        assert len(client.get_children(f"/consumers/g/owners/{TOPIC}")) == 6
        assert offsets(client) == {}
        assert rows.select("broker", "partition").distinct().count() == 6
    assert offsets(client) == ENDS
    assert (
        client.get_children(f"/consumers/g/owners/{TOPIC}") == client.get_children("/consumers/g/ids") == []
    )
    with GroupRead(grouped) as share:
        assert share.load(spark).count() == 0


def test_two_batches_share_topic(spark: SparkSession, client: KazooClient, grouped: dict[str, str]) -> None:
    client.create("/consumers/g/ids/g_0", b'{ "debian-plain": 1 }', ephemeral=True, makepath=True)
    with GroupRead(grouped) as share:
        rows = share.load(spark).select("broker", "partition").distinct().collect()
    assert {f"{row['broker']}-{row['partition']}" for row in rows} == {"1-0", "1-1", "1-2"}
    assert offsets(client) == {name: end for name, end in ENDS.items() if name.startswith("1")}
    client.delete("/consumers/g/ids/g_0")


def test_topic_that_no_broker_has_is_an_error(client: KazooClient, grouped: dict[str, str]) -> None:
    reported = (
        r"^group 'g': no broker has registered topic 'none' in ZooKeeper within 0\.5 s "
        r"\(brokerDownTimeout\): check"
    )
    with (
        pytest.raises(UnknownTopicError, match=reported),
        GroupRead({**grouped, "subscribe": f"{TOPIC},none", "brokerDownTimeout": "500ms"}),
    ):
        pass
    assert client.get_children("/consumers/g/ids") == []


def test_lost_session_error(corpus: EmbeddedCluster, client: KazooClient, grouped: dict[str, str]) -> None:
    share = GroupRead(grouped)
    share.__enter__()
    [member] = client.get_children("/consumers/g/ids")
    session_id = client.get(f"/consumers/g/ids/{member}")[1].ephemeralOwner
    expire_session(corpus.zookeeper_connect, session_id)
    with pytest.raises(DiscoveryError, match=r"lost during the read, so 6 of its partitions"):
        share.__exit__(None, None, None)
    assert offsets(client) == {}


def test_the_option_alone_is_an_error_that_says_what_to_use(grouped: dict[str, str]) -> None:
    source = KafkaWireDataSource({**grouped, "groupMembership": "join"})
    with pytest.raises(OptionError, match=r"option groupMembership is for streams: .* use GroupRead"):
        source.reader(source.schema())


def test_contradicting_options(grouped: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="GroupRead always joins a group"):
        GroupRead({**grouped, "groupMembership": "none"})
