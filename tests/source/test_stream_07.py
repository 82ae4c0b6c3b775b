"""Streams from Kafka 0.7, by the embedded broker: byte offsets, segments, brokers that are away."""

from __future__ import annotations

import json
import logging
import re
import shutil
from pathlib import Path

import pytest
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import BrokersMissingError, DataLossError
from spark_kafkawire.records.message_set.public import encode_message_set
from tests.support import zookeeper_tree
from tests.support.debian_plain import COUNT, ENDS, NAMES, SECONDS, TOPIC
from tests.support.embedded import produce, wait_registered
from tests.support.streaming import Checkpoint, Killed, Query, available_now


def options(cluster: EmbeddedCluster, **others: str) -> dict[str, str]:
    return {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": TOPIC, **others}


def places(query: Query) -> list[list[tuple[int, int, int, int]]]:
    """Positions of the rows of each batch: broker, partition, offset, and place in a compressed message."""
    return [
        sorted((row["broker"], row["partition"], row["offset"], row["index"]) for row in rows)
        for rows in query.batches()
    ]


def test_a_stream_reads_each_message_once_and_stands_at_the_byte_after_it(cluster: EmbeddedCluster) -> None:
    checkpoint = Checkpoint()
    [rows] = places(Query(checkpoint, **options(cluster, startingOffsets="earliest")))
    assert len(rows) == len(set(rows)) == COUNT
    assert checkpoint.offsets == [json.dumps({TOPIC: {name: ENDS[name] for name in NAMES}})]
    produce(cluster, TOPIC, encode_message_set([b"one", b"two"]), partition=1, broker=1)
    again = Query(checkpoint, **options(cluster))
    assert again.values() == [[b"one", b"two"]]
    assert again.values() == []


def test_max_bytes_per_trigger_ends_batches_where_segments_start(cluster: EmbeddedCluster) -> None:
    checkpoint = Checkpoint()
    query = Query(checkpoint, **options(cluster, startingOffsets="earliest", maxBytesPerTrigger="1"))
    batches = places(query)
    assert [json.loads(text)[TOPIC] for text in checkpoint.offsets] == [
        {name: SECONDS[name] for name in NAMES},
        {name: ENDS[name] for name in NAMES},
    ]
    assert len({row for rows in batches for row in rows}) == sum(map(len, batches)) == COUNT


def test_a_limited_batch_is_the_same_after_a_crash(cluster: EmbeddedCluster) -> None:
    checkpoint, found = Checkpoint(), []
    given = options(cluster, startingOffsets="earliest", maxBytesPerTrigger="1")
    with pytest.raises(Killed):
        Query(checkpoint, **given).batch("read")
    produce(cluster, TOPIC, encode_message_set([b"late"]))
    query = available_now(checkpoint, **given)
    for rows in query.batches():
        found += [(row["broker"], row["partition"], row["offset"], row["index"]) for row in rows]
    assert len(found) == len(set(found)) == COUNT + 1


def test_a_topic_that_comes_is_read_from_its_start(cluster: EmbeddedCluster) -> None:
    checkpoint = Checkpoint()
    given = options(cluster, subscribePattern="^(debian-plain|new)$")
    del given["subscribe"]
    assert Query(checkpoint, **given).values() == [[]]
    produce(cluster, "new", encode_message_set([b"a", b"b"]), partition=2)
    wait_registered(cluster, "new")
    assert Query(checkpoint, **given).all_values() == [b"a", b"b"]


def test_retention_under_the_query_is_a_data_loss_or_a_warning(
    cluster: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint([json.dumps({TOPIC: dict.fromkeys(NAMES, 0)})], 1)
    cluster.brokers[0].stop()
    first, *_ = sorted((tmp_path / "broker0" / f"{TOPIC}-0").iterdir())
    first.unlink()
    cluster.brokers[0].start()
    gone = SECONDS["0-0"]
    with pytest.raises(
        DataLossError, match=rf"^the batch: {TOPIC} 0-0 at offset 0 on .*up to {gone} are gone"
    ):
        Query(checkpoint, **options(cluster)).batch()
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        [rows] = places(Query(checkpoint, **options(cluster, failOnDataLoss="false")))
    assert any(f"up to {gone} are gone" in record.getMessage() for record in caplog.records)
    assert min(row for row in rows if row[:2] == (0, 0)) == (0, 0, gone, 0)


def begun_anew(cluster: EmbeddedCluster, folder: Path) -> None:
    """The first partition of broker 0 is removed, and a shorter one takes its place."""
    cluster.brokers[0].stop()
    shutil.rmtree(folder / "broker0" / f"{TOPIC}-0")
    cluster.brokers[0].start()
    produce(cluster, TOPIC, encode_message_set([b"anew"]))


def test_a_partition_that_begins_anew_is_a_data_loss_or_a_warning(
    cluster: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    Query(checkpoint, **options(cluster, startingOffsets="earliest")).values()
    begun_anew(cluster, tmp_path)
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


def test_a_topic_that_was_removed_by_hand_is_a_data_loss_or_a_warning(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
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


def test_without_data_loss_a_broker_that_stays_away_is_an_error(cluster: EmbeddedCluster) -> None:
    checkpoint = Checkpoint()
    Query(checkpoint, **options(cluster)).values()
    cluster.brokers[1].stop()
    with pytest.raises(BrokersMissingError, match="broker 1 is not registered"):
        Query(checkpoint, **options(cluster, retries="1")).batch()


def test_where_data_loss_is_borne_the_partitions_of_an_absent_broker_keep_their_places(
    cluster: EmbeddedCluster,
) -> None:
    checkpoint = Checkpoint()
    given = options(cluster, failOnDataLoss="false", retryBackoff="1ms")
    Query(checkpoint, **given).values()
    produce(cluster, TOPIC, encode_message_set([b"away"]), partition=0, broker=1)
    cluster.brokers[1].stop()
    produce(cluster, TOPIC, encode_message_set([b"here"]))
    assert Query(checkpoint, **given).values() == [[b"here"]]
    assert json.loads(checkpoint.offsets[-1])[TOPIC]["1-0"] == ENDS["1-0"]
    cluster.brokers[1].start()
    assert Query(checkpoint, **given).values() == [[b"away"]]
