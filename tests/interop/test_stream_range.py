"""Starts and ends by time, as Apache Kafka and librdkafka find them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from datetime import datetime, timezone

from tests.support import librdkafka
from tests.support.foreign import CODECS, Record
from tests.support.reading import read
from tests.support.streaming import QUICK, Checkpoint, Query, available_now

from .apache_kafka import ApacheKafka
from .versions import replicated

PARTITIONS = 3


@replicated
def test_a_backfill_has_the_offsets_that_librdkafka_finds(kafka: ApacheKafka) -> None:
    """Inside of compressed batches, with times that go back, while later and earlier records come."""
    servers, chance, now_ms = kafka.bootstrap_servers(), random.Random(7), time.time_ns() // 1_000_000
    topic = librdkafka.create_topic(servers, PARTITIONS)

    def send(codec: str, ages: Iterable[int]) -> None:
        times = [now_ms - 60_000 * age + chance.randrange(-200_000, 1) for age in ages]
        records = [Record(b"", partition=chance.randrange(PARTITIONS), timestamp_ms=ms) for ms in times]
        librdkafka.produce(servers, topic, records, codec, linger_ms=50)

    for number, codec in enumerate(CODECS):
        send(codec, (300 - 60 * number - item // 4 for item in range(240)))
    first, last = (
        librdkafka.offsets_at(servers, topic, PARTITIONS, now_ms - 60_000 * age) for age in (200, 90)
    )
    begin, end = (datetime.fromtimestamp(now_ms / 1000 - 60 * age, timezone.utc) for age in (200, 90))
    given = {"startingTimestamp": begin.isoformat(timespec="milliseconds"), "maxOffsetsPerTrigger": "100"}
    given |= {"endingTimestamp": end.isoformat(timespec="milliseconds"), "kafka.bootstrap.servers": servers}
    checkpoint, result = Checkpoint(), list[tuple[int, int]]()
    while (rows := available_now(checkpoint, subscribe=topic, **given).batch()) is not None:
        result += [(row["partition"], row["offset"]) for row in rows]
        send("none", range(260, 10, -10))
    assert sorted(result) == [
        (item, at) for item in range(PARTITIONS) for at in range(first[item], last[item])
    ]
    assert (len(checkpoint.offsets), len(result) > 400) == (5, True)


@replicated
def test_a_recreated_topic_has_an_end_of_its_own(kafka: ApacheKafka) -> None:
    servers, now_ms = kafka.bootstrap_servers(), time.time_ns() // 1_000_000
    end = datetime.fromtimestamp((now_ms - 60_000) / 1000, timezone.utc).isoformat(timespec="milliseconds")
    topic = librdkafka.create_topic(servers)

    def send(*ages: int) -> None:
        sent = [Record(b"%d" % age, timestamp_ms=now_ms - 60_000 * age) for age in ages]
        librdkafka.produce(servers, topic, sent)

    send(9, 8, 7, 1, 6)
    given = {"startingOffsets": "earliest", "endingTimestamp": end, "failOnDataLoss": "false"}
    running = Query(Checkpoint(), kafka__bootstrap__servers=servers, subscribe=topic, **QUICK, **given)
    assert running.values() == [[b"7", b"8", b"9"]]
    librdkafka.delete_topic_and_wait(servers, topic)
    librdkafka.create_topic(servers, name=topic)
    send(5, 4, 3, 2, 1, 6)
    assert running.all_values() == [b"2", b"3", b"4", b"5"]


@replicated
def test_ten_minutes_ago_is_where_librdkafka_finds_it(kafka: ApacheKafka) -> None:
    servers, now_ms = kafka.bootstrap_servers(), time.time_ns() // 1_000_000
    topic = librdkafka.create_topic(servers, 2)
    # The clock may go on by nine minutes.
    records = [Record(b"", partition=0, timestamp_ms=now_ms - 60_000 * age) for age in (90, 30, 20, 0)]
    librdkafka.produce(servers, topic, [*records, Record(b"", partition=1, timestamp_ms=now_ms - 3_600_000)])
    assert librdkafka.offsets_at(servers, topic, 2, now_ms - 600_000) == [3, -1]
    for start, offsets in (
        ({"startingTimestamp": "-10 minutes"}, [(0, 3)]),
        ({"startingTimestamp": "-1 h", "endingTimestamp": "-10 min"}, [(0, 1), (0, 2)]),
        ({"startingOffsetsFromEnd": "2"}, [(0, 2), (0, 3), (1, 0)]),
    ):
        rows = read(servers, subscribe=topic, **start)
        assert sorted((row["partition"], row["offset"]) for row in rows) == offsets
