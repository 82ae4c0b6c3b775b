"""Runs of ingest that are killed at any moment: in the end every message is there, once, in order."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support import librdkafka
from tests.support.golden import read_json
from tests.support.noida import NoidaBroker

from ..submitting import ROOT

TOPIC: Final = "debian-gzip"
MANIFEST: Final = [log for log in read_json("corpus/manifest.json") if log["topic"] == TOPIC]
KILLS: Final = 20
SEED: Final = 7
DRIVER: Final = [sys.executable, "-m", "tests.jobs.driver"]


@pytest.fixture(scope="module")
def jvm() -> Iterator[dict[str, str]]:
    """The environment of driver programs that share a JVM."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*DRIVER, "host"], cwd=ROOT, env=environment, text=True, **pipes) as host:  # type: ignore[call-overload]
        yield {**environment, **json.loads(host.stdout.readline())}
        host.stdin.close()


@pytest.fixture(scope="module")
def topic(spark: SparkSession, corpus: EmbeddedCluster, noida: NoidaBroker) -> str:
    """A topic of the corpus: each of its logs is a partition."""
    name = noida.create_topic(partitions=len(MANIFEST))
    messages = spark.read.format("kafkawire").option("zookeeper.connect", corpus.zookeeper_connect)
    rows = (
        messages.option("subscribe", TOPIC).load().selectExpr("value", "broker * 3 + partition AS partition")
    )
    writer = rows.write.format("kafkawire").mode("append")
    writer.options(**{"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": name}).save()
    return name


@pytest.mark.timeout(900)
def test_twenty_kills_at_random_moments_lose_and_double_nothing(
    spark: SparkSession, noida: NoidaBroker, topic: str, jvm: dict[str, str], tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {
        "connection": {"kafka.bootstrap.servers": noida.bootstrap_servers},
        "selection": {"subscribe": topic},
        "output": str(tmp_path / "measured"),
        "records_max": 2000,
    }

    def run(kill_after_s: float | None) -> dict[str, Any] | None:
        """The summary of a run; None for one that was killed."""
        command = [*DRIVER, "ingest", json.dumps(arguments)]
        with subprocess.Popen(command, cwd=ROOT, env=jvm, stdout=subprocess.PIPE, text=True) as driver:
            try:
                out, _ = driver.communicate(timeout=kill_after_s)
            except subprocess.TimeoutExpired:
                driver.kill()
                return None
            assert driver.returncode == 0
            summary: dict[str, Any] = json.loads(out)
            return summary

    run(None)  # what takes long only once
    began_s = time.monotonic()
    run(None)
    whole_s = time.monotonic() - began_s

    arguments |= {"output": str(tmp_path / "out"), "group": f"g-{topic}"}
    draw = random.Random(SEED)
    kills = 0
    while kills < KILLS:
        # Nothing can happen before Python has loaded pyspark.
        kills += run(whole_s * draw.uniform(0.3, 1.1)) is None
    while (summary := run(None)) and summary["batches"]:
        assert summary["data_loss"] == []

    rows = spark.read.parquet(f"{tmp_path}/out").select("partition", "offset", "value").collect()
    for log in MANIFEST:
        number = log["broker"] * 3 + log["partition"]
        messages = sorted((row.offset, bytes(row.value)) for row in rows if row.partition == number)
        assert [offset for offset, _ in messages] == [*range(log["messages"])]
        assert values_sha256(value for _, value in messages) == log["values_sha256"]
        committed = librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic, number)
        assert committed == log["messages"]


def values_sha256(values: Iterator[bytes]) -> str:
    """As the manifest has it: every value in log order, after its length as an int32."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(len(value).to_bytes(4, "big"))
        digest.update(value)
    return digest.hexdigest()
