"""The recorded logs on their whole way, and `make demo`, which leaves nothing behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.golden import MANIFEST, values_sha256
from tests.support.noida import NoidaBroker

from .arguments import RunHere
from .submitting import ROOT, submit

TOPICS: Final = ("debian-plain", "debian-gzip")


@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_recorded_logs_are_the_same_after_their_way_through_files_and_a_modern_broker(
    spark: SparkSession, corpus: EmbeddedCluster, package: Path, tmp_path: Path, run_here: RunHere
) -> None:
    """The first two jobs as users run them: through spark-submit, with only the zip shipped."""
    new_files = str(tmp_path / "new")

    def run(job: str, *arguments: str) -> None:
        done = submit(package, tmp_path, ROOT / "jobs" / f"{job}.py", *arguments, "--quiet")
        assert done.returncode == 0, done.stderr

    with NoidaBroker() as noida:
        for topic in TOPICS:
            noida.create_topic(partitions=6, name=topic)
        modern = f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}"
        old = f"--option=zookeeper.connect={corpus.zookeeper_connect}"
        # A partition's place among the six of its topic becomes its partition's number.
        place = ("--partition-by", "place=broker * 3 + partition")
        topics = [f"--topic={topic}" for topic in TOPICS]
        run("ingest", old, *topics, "--output", "old", *place)
        columns = ("--topic-column", "topic", "--partition-column", "place", "--value-column", "value")
        run("publish", modern, "--input", "old", *columns)
        code, _, err = run_here("ingest", modern, *topics, "--output", new_files, "--quiet")
        assert (code, err) == (0, "")

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


DEMO = (sys.executable, "jobs/demo.py")


def test_help_needs_nothing_but_the_package(tmp_path: Path) -> None:
    script = shutil.copy(ROOT / "jobs" / "demo.py", tmp_path)
    reported = subprocess.run(
        (sys.executable, script, "--help"), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "usage: demo.py [-h]" in reported.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_demo_reads_counts_writes_reads_back_and_copies_to_a_modern_broker() -> None:
    demo = subprocess.run(DEMO, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert demo.returncode == 0, demo.stderr
    reports = [json.loads(line) for line in demo.stdout.splitlines() if line.startswith("{")]
    assert [report.pop("seconds") > 0 for report in reports] == [True, True]
    assert reports == [
        {"read": 15917, "partitions": 6, "written": 58, "read_back": 58, "match": True},
        {"copied": 15917, "partitions": 6, "read_back": 15917, "match": True},
    ]


@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_nothing_outlives_an_interrupted_demo() -> None:
    with subprocess.Popen(
        DEMO, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as demo:
        assert demo.stdout is not None
        try:
            assert any(line.startswith("quickstart: parsing") for line in demo.stdout)
            started = psutil.Process(demo.pid).children(recursive=True)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()

    assert len(started) > 4, "ZooKeeper, two brokers, Spark and its job"
    _, left = psutil.wait_procs(started, timeout=90)
    assert left == []
    assert demo.returncode == 128 + signal.SIGINT
