"""Streams that end, and starts before now or before the end. noida-db is the broker, and the queries go
through the whole source but Spark's JVM, whose part the last test has."""

from __future__ import annotations

import json
import logging
import os
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import DataLossError, OptionError
from spark_kafkawire.records.public import encode_message_set
from tests.support.debian_plain import COUNT, ENDS, SECONDS, TOPIC
from tests.support.embedded import produce
from tests.support.noida import NoidaBroker
from tests.support.reading import PlannedRead
from tests.support.spark_streams import run, send, stream
from tests.support.sparks import READ_LIMITS
from tests.support.streaming import QUICK, Checkpoint, Killed, Query, available_now

T0 = 1_700_000_000_000
NOW: dict[str, str] = {"startingOffsets": "earliest"}


def iso(seconds: int) -> str:
    return datetime.fromtimestamp(T0 / 1000 + seconds, timezone.utc).isoformat()


def numbers(*values: int) -> list[bytes]:
    return sorted(b"%d" % value for value in values)


def options(noida: NoidaBroker, topic: str, **others: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, **QUICK, **others}


def ends(topic: str, *offsets: int) -> str:
    return json.dumps({topic: {str(number): offset for number, offset in enumerate(offsets)}})


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    """Ten records in each of two partitions, at T0 and each second after it."""
    topic = noida.create_topic(partitions=2)
    for second in range(10):
        for partition in range(2):
            send(noida, topic, [10 * partition + second], partition, T0 + 1000 * second)
    return topic


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "spark_kafkawire")
    return caplog


@pytest.mark.parametrize("by", ["time", "times", "offsets"])
def test_a_backfill_runs_in_limited_batches_and_stops(
    noida: NoidaBroker, topic: str, by: str, log: pytest.LogCaptureFixture
) -> None:
    """Each batch has a process of its own, one is killed, and records come after the end all the time."""
    end = {
        "time": {"endingTimestamp": iso(8)},
        "times": {"endingOffsetsByTimestamp": json.dumps({topic: {"0": iso(8), "1": T0 + 7500}})},
        "offsets": {"endingOffsets": ends(topic, 8, 8)},
    }[by]
    given = options(noida, topic, startingTimestamp=iso(2), maxOffsetsPerTrigger="5", **end)
    checkpoint, sizes, values = Checkpoint(), list[int](), list[bytes]()
    for number in range(6):
        if number == 1:
            with pytest.raises(Killed):
                available_now(checkpoint, **given).batch("read")
        rows = available_now(checkpoint, **given).batch() or []
        sizes.append(len(rows))
        values += [row["value"] for row in rows]
        send(noida, topic, [100 + number], number % 2, T0 + 20_000 - 5000 * number)
    assert sizes == [4, 4, 4, 0, 0, 0]
    assert sorted(values) == numbers(*range(2, 8), *range(12, 18))
    assert json.loads(checkpoint.offsets[-1]) == {topic: {"0": 8, "1": 8}}  # no key that is no topic
    name = next(iter(end))
    done = f"option {name} is reached: the query has read 2 partitions to the end; "
    assert done + "the trigger availableNow stops here" in log.messages
    idle = Query(checkpoint, **given)
    log.clear()
    assert [idle.batch() for _ in range(3)] == [None] * 3
    warned = [record.getMessage() for record in log.records if record.levelno == logging.WARNING]
    assert warned == [done + "it stays idle, and the trigger availableNow would stop it"]


def test_an_end_that_no_record_has_reached_is_waited_for(
    noida: NoidaBroker, topic: str, log: pytest.LogCaptureFixture
) -> None:
    checkpoint, given = Checkpoint(), options(noida, topic, **NOW, endingTimestamp=iso(15))
    running = Query(checkpoint, **given)
    assert running.values() == [numbers(*range(20))]
    assert f"{topic} 0 is at 10, and no record of that time or later is there: the query waits" in log.text
    send(noida, topic, [20], 0, T0 + 14_999)
    send(noida, topic, [21], 0, T0 + 15_000)
    send(noida, topic, [22], 0, T0)  # too late: the end is the first record of that time or later
    noida.add_partitions(topic, 3)
    send(noida, topic, [30], 2, T0)
    send(noida, topic, [31], 2, T0 + 99_000)
    assert running.all_values() == numbers(20, 30)
    assert f"option endingTimestamp: {topic} 0 ends at 11" in log.text
    assert Query(checkpoint, **given).all_values() == []
    send(noida, topic, [23], 1, T0 + 15_001)
    assert running.all_values() == []
    assert (
        "option endingTimestamp is reached: the query has read 3 partitions to the end; it stays" in log.text
    )


def test_an_end_beyond_the_log_is_waited_for_and_a_batch_before_it_is_not(
    noida: NoidaBroker, topic: str, log: pytest.LogCaptureFixture
) -> None:
    limits = {"minOffsetsPerTrigger": "4", "maxTriggerDelay": "1h"}
    running = Query(Checkpoint(), **options(noida, topic, **NOW, **limits, endingOffsets=ends(topic, 13, 10)))
    assert running.values() == [numbers(*range(20))]
    assert running.batch() is None
    assert (
        f"option endingOffsets is ahead: {topic} 0 is at 10, and the end is 13: the query waits" in log.text
    )
    send(noida, topic, [20, 21], 0)
    assert running.values() == []
    noida.add_partitions(topic, 3)
    send(noida, topic, [22, 23], 0)
    send(noida, topic, [30], 2)
    assert running.values() == [numbers(20, 21, 22)]  # there are not four before the end
    assert f"option endingOffsets names no end of {topic} 2, new since the query was planned" in log.text


def test_a_start_after_the_end_is_an_error_and_an_end_before_the_query_moves_nothing(
    noida: NoidaBroker, topic: str, log: pytest.LogCaptureFixture
) -> None:
    for start in ({}, {"startingOffsetsFromEnd": "1"}, {"startingOffsets": ends(topic, 9, 0)}):
        query = Query(Checkpoint(), **options(noida, topic, **start, endingTimestamp=iso(5)))
        with pytest.raises(OptionError, match=rf"{topic} 0 would start at \d+ and end at 5; correct one"):
            query.batch()
    with pytest.raises(OptionError, match=f"option endingOffsets must name exactly.*{topic} 1 is missing"):
        Query(Checkpoint(), **options(noida, topic, **NOW, endingOffsets=ends(topic, 5))).batch()
    checkpoint = Checkpoint()
    Query(checkpoint, **options(noida, topic, **NOW)).values()
    send(noida, topic, [20])
    again = Query(checkpoint, **options(noida, topic, endingOffsets=ends(topic, 5, 10)))
    assert again.values() == []
    assert f"the query is already after the end of {topic} 0, at 10, and the end is 5: nothing" in log.text
    assert Query(checkpoint, **options(noida, topic)).values() == [[b"20"]]


def test_an_end_that_is_deleted_is_a_data_loss(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    given = options(noida, topic, **NOW, endingTimestamp=iso(6), maxOffsetsPerTrigger="4")
    Query(checkpoint, **given).batch()
    noida.delete_records(topic, 0, 8)
    with pytest.raises(DataLossError, match=f"{topic} 0"):
        Query(checkpoint, **given).values()
    lenient = Query(checkpoint, **given, failOnDataLoss="false")
    assert lenient.all_values() == numbers(*range(12, 16))
    # Nothing proves that the query was complete.
    noida.delete_records(topic, 1, 9)
    with pytest.raises(DataLossError, match=f"{topic} 1"):
        Query(checkpoint, **given).values()
    assert Query(checkpoint, **given, failOnDataLoss="false").all_values() == []


@pytest.mark.parametrize("by", ["time", "times"])
def test_a_start_before_now_is_pinned_in_the_first_batch(
    noida: NoidaBroker, by: str, log: pytest.LogCaptureFixture
) -> None:
    topic, now_ms = noida.create_topic(partitions=2), time.time_ns() // 1_000_000
    for minutes in (90, 50, 20):
        send(noida, topic, [minutes], 0, now_ms - 60_000 * minutes)
    send(noida, topic, [180], 1, now_ms - 60_000 * 180)  # quiet since: nothing of the last hour, and no error
    times = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": "-1 hour", "1": "-30m"}})}
    start = {"startingTimestamp": "-1 hour"} if by == "time" else times
    assert [row["value"] for row in PlannedRead(options(noida, topic, **start)).rows()] == [b"50", b"20"]
    assert f"{next(iter(start))}, resolved at {datetime.now(timezone.utc):%Y-%m-%d}" in log.text
    assert f": {topic} 0 at 1, {topic} 1 at 1" in log.text
    with pytest.raises(OptionError, match="no offset matched"):
        PlannedRead(options(noida, topic, **start, startingOffsetsByTimestampStrategy="error")).rows()
    assert PlannedRead(options(noida, topic, startingTimestamp="-95 min", endingTimestamp="-1h")).rows()
    checkpoint = Checkpoint()
    with pytest.raises(Killed):
        Query(checkpoint, **options(noida, topic, **start)).batch("written")
    send(noida, topic, [1], 1)
    # As if the clock had moved by two hours: the checkpoint has the start.
    again = Query(checkpoint, **options(noida, topic, startingTimestamp="-1 s"))
    assert again.values() == [[], numbers(50, 20, 1)]


def test_a_start_before_the_end_counts_offsets_of_each_partition(noida: NoidaBroker, topic: str) -> None:
    for start, expected in (
        ("3", [7, 8, 9, 17, 18, 19]),
        (ends(topic, 1, 0), [9]),
        ("1000", range(20)),
    ):
        given = options(noida, topic, startingOffsetsFromEnd=start)
        assert sorted(row["value"] for row in PlannedRead(given).rows()) == numbers(*expected)
    checkpoint, given = Checkpoint(), options(noida, topic, startingOffsetsFromEnd="2")
    with pytest.raises(Killed):
        available_now(checkpoint, **given).batch("written")
    send(noida, topic, [20])
    assert available_now(checkpoint, **given).values() == [[], numbers(8, 9, 18, 19, 20)]


def test_a_stream_of_07_ends_with_the_segment_that_has_the_time(
    cluster: EmbeddedCluster, log_dirs: list[Path], log: pytest.LogCaptureFixture
) -> None:
    for folder in (result for item in log_dirs for result in item.glob(f"{TOPIC}-*")):
        for number, file in enumerate(sorted(folder.glob("*.kafka")), 1):
            os.utime(file, (1000 * number, 1000 * number))
    where = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": TOPIC, **NOW}
    checkpoint = Checkpoint()
    first = {**where, "endingTimestamp": "1970-01-01T00:10:00Z", "maxBytesPerTrigger": "1"}
    rows = [len(batch) for _ in range(3) for batch in [available_now(checkpoint, **first).batch()] if batch]
    assert len(rows) == 1
    assert json.loads(checkpoint.offsets[-1])[TOPIC] == SECONDS
    last = Query(checkpoint, **where, endingTimestamp="1970-01-01T00:20:00Z")  # in the segment that grows
    assert rows[0] + sum(map(len, last.values())) == COUNT
    assert json.loads(checkpoint.offsets[-1])[TOPIC] == ENDS
    assert "no record of that time or later is there: the query waits (6 partitions)" in log.text

    produce(cluster, TOPIC, encode_message_set([b"now"]))
    recent = Checkpoint()
    Query(recent, **{**where, "startingOffsets": "", "startingTimestamp": "-1 week"}).batch()
    assert json.loads(recent.offsets[0])[TOPIC] == {**ENDS, "0-0": SECONDS["0-0"]}
    inside = json.dumps({TOPIC: dict.fromkeys(ENDS, 5)})
    with pytest.raises(OptionError, match="option endingOffsets: 5 is not a message boundary of"):
        Query(Checkpoint(), **where, endingOffsets=inside).values()


@READ_LIMITS
def test_spark_stops_at_the_end(spark: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path) -> None:
    for _ in range(2):
        rows = stream(spark, noida, topic, **NOW, endingTimestamp=iso(6), maxOffsetsPerTrigger="8")
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
        run(writer.trigger(availableNow=True), str(tmp_path / "out"))
        send(noida, topic, [20], 0, T0)
    values = spark.read.parquet(str(tmp_path / "out")).selectExpr("CAST(CAST(value AS STRING) AS INT)")
    assert sorted(value for [value] in values.collect()) == [*range(6), *range(10, 16)]
