"""``jobs/ingest.py`` on a standalone cluster that knows nothing but the zip, and loses a worker."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.jobs.submitting import ROOT, environment, submit_command
from tests.jobs.test_ingest_killed import MANIFEST, TOPIC, values_sha256
from tests.support.polling import poll
from tests.support.spark_cluster import SparkCluster


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    spark: SparkSession, corpus: EmbeddedCluster, cluster: SparkCluster, workplace: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    command = submit_command(
        workplace / "spark_kafkawire.zip",
        ROOT / "jobs" / "ingest.py",
        *("--option", f"zookeeper.connect={corpus.zookeeper_connect}", "--topic", TOPIC),
        *("--output", str(output), "--json", "--quiet"),
        master=cluster.master,
        conf={"spark.executor.memory": "512m"},
    )
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(workplace),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        finished = "_kafkawire/unfinished/*/_temporary/0/task_*"
        poll(lambda: any(output.glob(finished)) or job.poll() is not None, "a task is done", 200)
        assert not (output / "batch=0").exists()
        cluster.kill_worker(0)
        out, err = job.communicate()
    assert job.returncode == 0, err
    assert json.loads(out)["messages"] == sum(log["messages"] for log in MANIFEST)
    rows = spark.read.parquet(str(output)).collect()
    for log in MANIFEST:
        own = [row for row in rows if (row.broker, row.partition) == (log["broker"], log["partition"])]
        own.sort(key=lambda row: (row["offset"], row["index"]))
        assert values_sha256(bytes(row.value) for row in own) == log["values_sha256"]
