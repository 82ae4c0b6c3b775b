"""Jobs on a standalone cluster that knows nothing but the zip, and loses a worker in the middle."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.jobs.migration.migrating import copied
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, partitions_of, recorded
from tests.support.golden import values_sha256
from tests.support.noida import NoidaBroker

from .losing import Losing

pytestmark = pytest.mark.timeout(600)

FILE_COUNT: Final = 24
ROWS_PER_FILE: Final = 500
ROW_COUNT: Final = FILE_COUNT * ROWS_PER_FILE


def test_ingest_writes_each_message_once(
    spark: SparkSession, corpus: EmbeddedCluster, losing: Losing, tmp_path: Path
) -> None:
    output = tmp_path / "out-of-topic"

    def a_task_is_done() -> bool:
        return any(output.glob("_kafkawire/unfinished/*/_temporary/0/task_*"))

    summary = losing.run(
        "ingest.py",
        *("--option", f"zookeeper.connect={corpus.zookeeper_connect}", "--topic", GZIP_TOPIC),
        *("--output", str(output)),
        in_the_middle=a_task_is_done,
    )
    assert summary["messages"] == sum(partition["messages"] for partition in partitions_of())
    rows = spark.read.parquet(str(output)).collect()
    for partition in partitions_of():
        own = [
            row
            for row in rows
            if (row.broker, row.partition) == (partition["broker"], partition["partition"])
        ]
        own.sort(key=lambda row: (row["offset"], row["index"]))
        assert values_sha256(bytes(row.value) for row in own) == partition["values_sha256"]


def test_migrate_copies_each_message_once_and_in_order(
    corpus: EmbeddedCluster, noida: NoidaBroker, losing: Losing, tmp_path: Path
) -> None:
    target = noida.create_topic(partitions=len(partitions_of()))
    state = tmp_path / "state"

    def some_is_copied() -> bool:
        return any(end_of(noida, target, number) for number in range(len(partitions_of())))

    summary = losing.run(
        "migrate.py",
        f"--source-option=zookeeper.connect={corpus.zookeeper_connect}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
        *("--topic", GZIP_TOPIC, "--map", f"{GZIP_TOPIC}={target}", "--state", str(state)),
        # Several pieces of each partition, each of several batches.
        *("--piece-bytes", "60000", "--target-option", "batchBytes=8KiB"),
        in_the_middle=some_is_copied,
    )
    assert (summary["logs"], summary["failed"]) == (len(partitions_of()), [])
    assert summary["messages"] + summary["messages_found"] == sum(
        partition["messages"] for partition in partitions_of()
    )
    reported = [(each["messages"], each["sha256"], each["equal"]) for each in summary["partitions"]]
    assert reported == [
        (each["target_messages"], each["target_sha256"], True) for each in summary["partitions"]
    ]
    assert copied(noida, target, len(partitions_of())) == recorded(GZIP_TOPIC)


def test_publish_writes_each_row_once_however_often_it_is_run(
    noida: NoidaBroker, losing: Losing, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in range(FILE_COUNT):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        (rows / f"{number}.json").write_text("".join(f'{{"id": {each}}}\n' for each in ids))
    arguments = (
        f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}",
        *("--input", str(rows), "--format", "json", "--schema", "id long", "--topic", topic),
        *("--state", str(tmp_path / "state")),
    )
    losing.run("publish.py", *arguments, in_the_middle=lambda: end_of(noida, topic) > 0)
    assert published(noida, topic) == Counter(range(ROW_COUNT))
    assert losing.run_undisturbed("publish.py", *arguments)["messages"] == 0
    assert published(noida, topic) == Counter(range(ROW_COUNT))


def published(noida: NoidaBroker, topic: str) -> Counter[int]:
    """Count of each row in the topic."""
    records = librdkafka.consume(noida.bootstrap_servers, topic)
    return Counter(json.loads(record.value or b"")["id"] for record in records)


def end_of(noida: NoidaBroker, topic: str, partition: int = 0) -> int:
    return librdkafka.offsets(noida.bootstrap_servers, topic, partition)[1]
