"""Drivers and workers of streams are killed at random moments: each program keeps what it promises.

Each commit kills the driver of one program. ``make nightly`` runs all programs: ``KAFKAWIRE_STREAM_KILLS=17
KAFKAWIRE_STREAM_WORKERS=2`` kills each driver so often, and before each time so many workers under each of
its streams, and prints where the kills fell (``pytest -s -k long -o faulthandler_timeout=0``, or pytest ends
after 20 minutes): that are 102 kills of streams into Parquet, and 51 of the one to a topic.
``KAFKAWIRE_ONCE_STREAMS``, ``KAFKAWIRE_ONCE_KILLS`` and ``KAFKAWIRE_ONCE_WORKERS`` are the same of streams
with delivery=exactly-once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.public import encode_message_set
from tests.support import librdkafka, stream_once
from tests.support.embedded import produce, wait_registered
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.short_and_long import short_and_long
from tests.support.sparks import READ_LIMITS
from tests.support.stream_kills import Killer, Stream, stored

KILLS: Final = int(os.environ.get("KAFKAWIRE_STREAM_KILLS", "1"))
#: Workers that are killed under each of the streams before their driver is.
WORKERS: Final = int(os.environ.get("KAFKAWIRE_STREAM_WORKERS", "1"))
SEED: Final = int(os.environ.get("KAFKAWIRE_STREAM_SEED", "1"))

# The deadline grows with the kills, seconds.
pytestmark = [READ_LIMITS, pytest.mark.timeout(max(1200 + 200 * KILLS, stream_once.TIMEOUT_S))]


def killed(streams: dict[str, Stream], folder: Path, kills: int, workers: int) -> dict[str, int]:
    """Kill the driver of these streams, and print where the kills fell; how many records each was sent."""
    killer = Killer(streams, folder, SEED)
    try:
        killer.run(kills, workers)
    finally:
        reported = Counter((kill.query, kill.victim, kill.step) for kill in killer.kills)
        for key, count in sorted(reported.items()):
            print(*key, count, sep="\t")
    return killer.sent


# Bytes: in Parquet each record is there once, in a topic none is lost


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


def check_files(folder: Path, sent: int) -> None:
    """Each record is stored once, and in its log's order."""
    places: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    rows = stored(folder)
    for row in rows:
        partition = (row["topic"], row.get("broker"), row["partition"])
        places.setdefault(partition, []).append((row["offset"], row.get("index", 0)))
    assert all(result == sorted(set(result)) for result in places.values())
    assert sorted(int(row["value"]) for row in rows) == list(range(sent))


@short_and_long(
    "names, kills, workers",
    short=(("v07-parquet",), 1, 0),
    long=(("modern-parquet", "v07-parquet", "modern-topic"), KILLS, WORKERS),
)
def test_files_have_each_record_once_and_topics_all(
    names: Sequence[str], kills: int, workers: int, noida: NoidaBroker, tmp_path: Path
) -> None:
    servers, copy = noida.bootstrap_servers, noida.create_topic()
    with EmbeddedCluster(brokers=2, partitions=2) as v07:
        streams = {
            "modern-parquet": of_noida(noida, {}),
            "v07-parquet": of_v07(v07),
            "modern-topic": of_noida(noida, {"kafka.bootstrap.servers": servers, "topic": copy}),
        }
        sent = killed({name: streams[name] for name in names}, tmp_path, kills, workers)
    for name in names:
        if streams[name].has_files:
            check_files(tmp_path / name, sent[name])
        else:
            result = [int(record.value or b"") for record in librdkafka.consume(servers, copy)]
            print(f"{len(result) - len(set(result))} of {len(set(result))} records are doubled in the topic")
            assert set(result) == set(range(sent[name]))


# delivery=exactly-once: each record of a stream's source is in its target once


@pytest.mark.nightly
def test_exactly_once_streams_have_each_record_once(noida: NoidaBroker, tmp_path: Path) -> None:
    stream_once.kill_and_check(noida.bootstrap_servers, tmp_path)


@pytest.mark.nightly
def test_tasks_that_fail_at_random_leave_each_record_once(noida: NoidaBroker, tmp_path: Path) -> None:
    trouble, settings = {"fails": 0.25}, {"spark.master": "local[2,4]"}
    result = stream_once.trouble_and_check(noida.bootstrap_servers, tmp_path, trouble, settings)
    assert result["failed"]
