"""Drivers and workers of streams are killed at random moments: in Parquet each record is there once, in a
topic none is lost.

``KAFKAWIRE_STREAM_KILLS=17 KAFKAWIRE_STREAM_WORKERS=2`` kills the driver so often in the long one, and before
each time so many workers under each stream, and prints where the kills fell (``pytest -s -k long -o
faulthandler_timeout=0``, or pytest ends after 20 minutes): that are 102 kills of streams into Parquet, 51 of
the one to a topic. Once is what there is time for with all other tests; the short one has the stream of 0.7.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.message_set.public import encode_message_set
from tests.support import librdkafka
from tests.support.embedded import produce, wait_registered
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.parquet_sink import stored
from tests.support.short_and_long import short_and_long
from tests.support.sparks import READ_LIMITS
from tests.support.stream_kills import Killer, Stream

KILLS: Final = int(os.environ.get("KAFKAWIRE_STREAM_KILLS", "1"))
SEED: Final = int(os.environ.get("KAFKAWIRE_STREAM_SEED", "1"))
#: Workers that are killed under each of the streams before their driver is.
WORKERS: Final = int(os.environ.get("KAFKAWIRE_STREAM_WORKERS", "1"))
#: The test's deadline grows with the kills, seconds.
TIMEOUT_S: Final = 1200 + 200 * KILLS


@pytest.fixture
def v07() -> Iterator[EmbeddedCluster]:
    """Two brokers of 0.7."""
    with EmbeddedCluster(brokers=2, partitions=2) as cluster:
        yield cluster


def of_noida(noida: NoidaBroker, write: dict[str, str]) -> Stream:
    """A stream of a topic of three partitions."""
    topic = noida.create_topic(partitions=3)

    def send(values: list[bytes]) -> None:
        records = [Record(value, partition=number % 3) for number, value in enumerate(values)]
        librdkafka.produce(noida.bootstrap_servers, topic, records)

    read = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic}
    return Stream({**read, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}, write, send)


def of_v07(cluster: EmbeddedCluster) -> Stream:
    """A stream of a topic of two partitions on each of two brokers, with plain and compressed messages."""

    def send(values: list[bytes]) -> None:
        for number in range(4):
            part = encode_message_set(values[number::4], "gzip" if number % 3 else "none")
            produce(cluster, "killed", part, number % 2, number // 2)
        wait_registered(cluster, "killed", brokers=2)

    read = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": "killed"}
    return Stream({**read, "startingOffsets": "earliest", "maxBytesPerTrigger": "1k"}, {}, send)


def check(folder: Path, sent: int) -> None:
    """Each record is stored once, and in its log's order."""
    places: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    rows = stored(folder)
    for row in rows:
        partition = (row["topic"], row.get("broker"), row["partition"])
        places.setdefault(partition, []).append((row["offset"], row.get("index", 0)))
    assert all(found == sorted(set(found)) for found in places.values())
    assert sorted(int(row["value"]) for row in rows) == list(range(sent))


def check_topic(servers: str, topic: str, sent: int) -> None:
    """Each record is in the topic."""
    found = [int(record.value or b"") for record in librdkafka.consume(servers, topic)]
    print(f"{len(found) - len(set(found))} of {len(set(found))} records are doubled in the topic")
    assert set(found) == set(range(sent))


@READ_LIMITS
@pytest.mark.timeout(TIMEOUT_S)
@short_and_long(
    "names, kills, workers",
    short=(("v07-parquet",), 1, 1),
    long=(("modern-parquet", "v07-parquet", "modern-topic"), KILLS, WORKERS),
)
def test_kills_lose_and_double_nothing_in_files_and_lose_nothing_in_topics(
    names: Sequence[str], kills: int, workers: int, noida: NoidaBroker, v07: EmbeddedCluster, tmp_path: Path
) -> None:
    copy = noida.create_topic()
    streams = {
        "modern-parquet": of_noida(noida, {}),
        "v07-parquet": of_v07(v07),
        "modern-topic": of_noida(noida, {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": copy}),
    }
    killer = Killer({name: streams[name] for name in names}, tmp_path, SEED)
    try:
        killer.run(kills, workers)
    finally:
        reported = Counter((kill.query, kill.victim, kill.step) for kill in killer.kills)
        for key, count in sorted(reported.items()):
            print(*key, count, sep="\t")
    for name in names:
        if streams[name].has_files:
            check(tmp_path / name, killer.sent[name])
        else:
            check_topic(noida.bootstrap_servers, copy, killer.sent[name])
