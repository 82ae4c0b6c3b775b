"""The recorded logs on their whole way: Kafka 0.7, Parquet, today's Kafka, and Parquet again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.golden import MANIFEST, values_sha256
from tests.support.noida import NoidaBroker

from .submitting import ROOT, make_zip, submit

TOPICS: Final = ("debian-plain", "debian-gzip", "debian-snappy")
# Three jobs, a quarter of a minute each on an idle machine.


def test_recorded_logs_are_the_same_after_their_way_through_files_and_a_modern_broker(
    spark: SparkSession, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    package = make_zip(tmp_path)

    def run(job: str, *arguments: str) -> None:
        done = submit(package, tmp_path, ROOT / "jobs" / f"{job}.py", *arguments, "--quiet")
        assert done.returncode == 0, done.stderr

    with NoidaBroker() as noida:
        for topic in TOPICS:
            noida.create_topic(partitions=6, name=topic)
        modern = f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}"
        old = f"--option=zookeeper.connect={corpus.zookeeper_connect}"
        # A log's place among the six of its topic becomes its partition's number.
        place = ("--partition-by", "place=broker * 3 + partition")
        topics = [f"--topic={topic}" for topic in TOPICS]
        run("ingest", old, *topics, "--output", "old", *place)
        columns = ("--topic-column", "topic", "--partition-column", "place", "--value-column", "value")
        run("publish", modern, "--input", "old", *columns)
        run("ingest", modern, *topics, "--output", "new")

    logs: dict[tuple[str, int], list[bytes]] = {}
    rows = spark.read.parquet(str(tmp_path / "new")).orderBy("topic", "partition", "offset")
    for row in rows.select("topic", "partition", "value").collect():
        logs.setdefault((row.topic, row.partition), []).append(bytes(row.value))
    assert {name: (len(values), values_sha256(iter(values))) for name, values in logs.items()} == {
        (log["topic"], log["broker"] * 3 + log["partition"]): (log["messages"], log["values_sha256"])
        for log in MANIFEST
        if log["topic"] in TOPICS
    }
