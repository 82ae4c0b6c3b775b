"""Runs of publish that are killed at any moment: in the end every row is in the topic once."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.modern.transactional.write_state import attempt_ids
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.options import WriteOptions
from tests.support import librdkafka
from tests.support.exactly_once import committed
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.short_and_long import short_and_long

from ..drivers import Drivers

COUNT: Final = 2000
#: Every so often a row is like the one before it.
EQUAL_EVERY: Final = 5
#: Kills in a short test, and in a long one.
SHORT, LONG = 2, 6
TIME_MS: Final = 1_700_000_000_000
#: So small that a kill finds many batches sent, and many not.
BATCHES: Final = {"batchBytes": "256", "retryBackoff": "5ms"}


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = f"{tmp_path_factory.mktemp('input')}/rows"
    numbers = spark.range(0, COUNT, 1, 4).selectExpr(f"id - CAST(id % {EQUAL_EVERY} = 0 AS int) AS id")
    columns = ("concat('value ', id) AS body", "map('n', id) AS tags", f"{TIME_MS} + id AS at")
    numbers.selectExpr("CAST(id AS string) AS id", *columns).write.parquet(folder)
    return folder


def expected() -> list[int]:
    return [number - (number % EQUAL_EVERY == 0) for number in range(COUNT)]


def runs_noted(given: dict[str, Any]) -> int:
    """Runs that have recorded where the partitions end, after which they write."""
    return len([*Path(given["state"]).glob("run-*.json")])


def runs_in_transactions(given: dict[str, Any]) -> int:
    """Runs of which a task has begun a transaction."""
    path = Path(given["state"]) / "publication.json"
    if not path.exists():
        return 0
    prefix = f"kafkawire-publish-{json.loads(path.read_text())['publication']}"
    options = WriteOptions.parse(given["options"])
    transactions = Transactions(Metadata(options.discovery.bootstrap_servers, options.net), options.net)
    ids = [each.transactional_id for each in transactions.listed()]
    pattern = re.compile(attempt_ids(prefix))
    return len(
        {id_.removeprefix(prefix).split("-")[2].rpartition(".")[0] for id_ in ids if pattern.fullmatch(id_)}
    )


def await_begun(given: dict[str, Any], before: int, runs_begun: Callable[[dict[str, Any]], int]) -> None:
    """Wait until one more has, or all is done."""
    done = Path(given["state"]) / "done.json"
    poll(lambda: runs_begun(given) > before or done.exists(), "a run to begin", 300.0)


def kill_until_done(
    kills_max: int,
    drivers: Drivers,
    arguments: dict[str, Any],
    publication: Callable[[int], dict[str, Any]],
    seed: str,
    runs_begun: Callable[[dict[str, Any]], int] = runs_noted,
) -> int:
    """Kill so many runs at random moments, one publication after the other; how many there were.

    Every other run is killed when it has begun to write, or is about to: ``runs_begun`` counts them.
    """
    draw = random.Random(seed)
    kills = number = kills_while_writing = 0
    whole_run_s = writing_s = 0.0
    while kills < kills_max:
        given = {**arguments, **publication(number)}
        code = -signal.SIGKILL
        while code != 0:
            begun, began_s = runs_begun(given), time.monotonic()
            child = drivers.start("publish", given)
            # The first two are not killed: the second tells how long the moments are.
            if number > 1 and kills < kills_max:
                if kills % 2:
                    await_begun(given, begun, runs_begun)
                time.sleep(draw.uniform(0, writing_s if kills % 2 else whole_run_s))
                child.signal(signal.SIGKILL)
            elif number <= 1:
                await_begun(given, begun, runs_begun)
                writing_s = -time.monotonic()
            code = drivers.ended(child)
            assert code in (0, -signal.SIGKILL), child.output.read_text()
            # The executors of a driver that was killed end when they notice that it is gone.
            drivers.end_jobs()
            kills += code != 0
            kills_while_writing += code != 0 and runs_begun(given) > begun
            if number <= 1:
                whole_run_s, writing_s = time.monotonic() - began_s, writing_s + time.monotonic()
        number += 1
    assert kills_while_writing > 0
    return number


@pytest.mark.timeout(900)
@short_and_long("kills", short=SHORT, long=LONG)
def test_a_publication_that_is_killed_at_random_moments_is_in_the_topic_once(
    kills: int, noida: NoidaBroker, drivers: Drivers, rows: str, tmp_path: Path
) -> None:
    # Retention goes by the records' own time, and these are old.
    topics: list[str] = []

    def publication(number: int) -> dict[str, Any]:
        topics.append(noida.create_topic(partitions=2, config={"retention.ms": "-1"}))
        options = {**BATCHES, "kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topics[-1]}
        return {
            "options": {**options, "kafka.max.in.flight.requests.per.connection": "1"},
            "state": f"{tmp_path}/{number}",
        }

    columns = {"value": "body", "key": "id", "headers": "tags", "timestamp": "at"}
    arguments = {"input": rows, "columns": columns, "settle_s": 1.0}
    assert kill_until_done(kills, drivers, arguments, publication, "modern") > 2
    wanted = Counter((b"%d" % id, b"value %d" % id, (("n", b"%d" % id),), TIME_MS + id) for id in expected())
    for topic in topics:
        records = [
            record
            for partition in (0, 1)
            for record in librdkafka.consume(noida.bootstrap_servers, topic, partition)
        ]
        found = Counter((record.key, record.value, record.headers, record.timestamp_ms) for record in records)
        assert found == wanted


@pytest.mark.timeout(900)
@pytest.mark.nightly
@pytest.mark.parametrize("kills", [LONG])
def test_a_publication_in_transactions_that_is_killed_at_random_moments_is_in_the_topic_once(
    kills: int, noida: NoidaBroker, drivers: Drivers, rows: str, tmp_path: Path
) -> None:
    topics: list[str] = []

    def publication(number: int) -> dict[str, Any]:
        topics.append(noida.create_topic(partitions=2))
        options = {**BATCHES, "kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topics[-1]}
        return {"options": options, "state": f"{tmp_path}/{number}"}

    arguments = {
        "input": rows,
        "columns": {"value": "body", "key": "id"},
        "settle_s": None,
        "exactly_once": True,
    }
    assert kill_until_done(kills, drivers, arguments, publication, "once", runs_in_transactions) > 2
    wanted = sorted(b"value %d" % id for id in expected())
    for topic in topics:
        assert committed(noida.bootstrap_servers, topic, 2) == wanted


@pytest.mark.timeout(900)
@pytest.mark.nightly
@pytest.mark.parametrize("kills", [LONG])
def test_kafka_0_7_a_publication_that_is_killed_at_random_moments_is_in_the_logs_once(
    kills: int, spark: SparkSession, corpus: EmbeddedCluster, drivers: Drivers, rows: str, tmp_path: Path
) -> None:
    connection = {"zookeeper.connect": corpus.zookeeper_connect}

    def publication(number: int) -> dict[str, Any]:
        options = {**BATCHES, **connection, "topic": f"killed-{kills}-{number}"}
        return {"options": options, "state": f"{tmp_path}/{number}"}

    arguments = {"input": rows, "columns": {"value": "body", "key": "id"}, "settle_s": 1.0}
    count = kill_until_done(kills, drivers, arguments, publication, "0.7")
    assert count > 2
    topics = [f"killed-{kills}-{number}" for number in range(count)]
    reader = spark.read.format("kafkawire").schema("topic string, value binary")
    messages = reader.options(**connection, subscribe=",".join(topics)).load().collect()
    wanted = Counter(b"value %d" % id for id in expected())
    for topic in topics:
        assert Counter(bytes(row.value) for row in messages if row.topic == topic) == wanted
