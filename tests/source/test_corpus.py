"""Partitions that a real Kafka 0.7.2 wrote: every message, in order, byte for byte, however they are read."""

from __future__ import annotations

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.corpus import partitions_of
from tests.support.embedded import produce, wait_registered
from tests.support.golden import values_sha256
from tests.support.reading import PlannedRead


@pytest.mark.parametrize("topic", ["debian-plain", "debian-gzip", "debian-snappy"])
@pytest.mark.parametrize(
    "options",
    [{}, {"minPartitions": "40"}, {"fetchBytes": "4KiB"}, {"packSmallPartitions": "true"},
     {"wireFormat": "proposal"}],
    ids=str,
)  # fmt: skip
def test_every_partition_has_the_messages_of_the_manifest(
    corpus: EmbeddedCluster, topic: str, options: dict[str, str]
) -> None:
    where = {"zookeeper.connect": corpus.zookeeper_connect, "subscribe": topic}
    partitions: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
    for row in PlannedRead({**where, **options}).rows():
        of_partition = partitions.setdefault((row["broker"], row["partition"]), [])
        of_partition.append((row["offset"], row["index"], row["value"]))
    expected = {(each["broker"], each["partition"]): each for each in partitions_of(topic)}
    assert set(partitions) == set(expected)
    for name, messages in partitions.items():
        messages.sort(key=lambda message: message[:2])
        assert len(messages) == expected[name]["messages"]
        assert values_sha256(value for _, _, value in messages) == expected[name]["values_sha256"]


def test_a_topic_without_messages_has_no_task(corpus: EmbeddedCluster) -> None:
    produce(corpus, "empty", b"")
    wait_registered(corpus, "empty")
    where = {"zookeeper.connect": corpus.zookeeper_connect, "subscribe": "empty"}
    assert PlannedRead(where).partitions == []
