"""The recorded logs on their whole way: Kafka 0.7, Parquet, today's Kafka, and Parquet again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.golden import MANIFEST, values_sha256
from tests.support.noida import NoidaBroker
from tests.support.short_and_long import short_and_long

from .arguments import RunHere
from .submitting import ROOT, submit

TOPICS: Final = ("debian-plain", "debian-gzip")


@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
@short_and_long("is_submitted", short=False, long=True)
def test_recorded_logs_are_the_same_after_their_way_through_files_and_a_modern_broker(
    is_submitted: bool,
    spark: SparkSession,
    corpus: EmbeddedCluster,
    package: Path,
    tmp_path: Path,
    run_here: RunHere,
) -> None:
    """At length, the first two jobs as users run them: through spark-submit, with only the zip shipped."""
    old_files = "old" if is_submitted else str(tmp_path / "old")
    new_files = str(tmp_path / "new")

    def run(job: str, *arguments: str, is_submitted: bool = is_submitted) -> None:
        if is_submitted:
            done = submit(package, tmp_path, ROOT / "jobs" / f"{job}.py", *arguments, "--quiet")
            assert done.returncode == 0, done.stderr
        else:
            code, _, err = run_here(job, *arguments, "--quiet")
            assert (code, err) == (0, "")

    with NoidaBroker() as noida:
        for topic in TOPICS:
            noida.create_topic(partitions=6, name=topic)
        modern = f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}"
        old = f"--option=zookeeper.connect={corpus.zookeeper_connect}"
        # A partition's place among the six of its topic becomes its partition's number.
        place = ("--partition-by", "place=broker * 3 + partition")
        topics = [f"--topic={topic}" for topic in TOPICS]
        run("ingest", old, *topics, "--output", old_files, *place)
        columns = ("--topic-column", "topic", "--partition-column", "place", "--value-column", "value")
        run("publish", modern, "--input", old_files, *columns)
        run("ingest", modern, *topics, "--output", new_files, is_submitted=False)

    partitions: dict[tuple[str, int], list[bytes]] = {}
    rows = spark.read.parquet(new_files).orderBy("topic", "partition", "offset")
    for row in rows.select("topic", "partition", "value").collect():
        partitions.setdefault((row.topic, row.partition), []).append(bytes(row.value))
    assert {name: (len(values), values_sha256(iter(values))) for name, values in partitions.items()} == {
        (partition["topic"], partition["broker"] * 3 + partition["partition"]): (
            partition["messages"],
            partition["values_sha256"],
        )
        for partition in MANIFEST
        if partition["topic"] in TOPICS
    }
