"""Writes and streams with delivery=exactly-once on a cluster that runs a slow task's rows twice at the same
time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional.write_state import attempt_ids
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.options import WriteOptions
from tests.jobs.submitting import environment
from tests.support import librdkafka
from tests.support.exactly_once import committed
from tests.support.noida import HOST, NoidaBroker
from tests.support.spark_cluster import SparkCluster
from tests.support.stream_once import TIMEOUT_S, trouble_and_check
from tests.support.write_process import SparkWrites

#: Spark runs no second attempt of a task on the host of the first one.
HOSTS: Final = (HOST, "127.0.0.2")
PARTITIONS: Final = 2
#: As soon as another task is done, one that takes much longer gets its second attempt.
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.task.maxFailures": "4",
    "spark.executor.memory": "512m",
}


@pytest.mark.timeout(TIMEOUT_S)
def test_tasks_that_are_run_twice_at_the_same_time_and_fail_neither_lose_nor_double_a_record(
    noida: NoidaBroker, tmp_path: Path
) -> None:
    with SparkCluster(tmp_path, environment(tmp_path), hosts=HOSTS) as cluster:
        settings = {**SPECULATION, "spark.master": cluster.master}
        found = trouble_and_check(noida.bootstrap_servers, tmp_path, {"fails": 0.15, "lags": 0.25}, settings)
    assert found["failed"]
    assert found["beside"]


def test_two_attempts_of_a_task_that_write_at_the_same_time_leave_each_row_once(
    noida: NoidaBroker, tmp_path: Path
) -> None:
    servers, attempts = noida.bootstrap_servers, tmp_path / "attempts"
    topic = librdkafka.create_topic(servers, PARTITIONS)
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "batchBytes": "1KiB"}
    options |= {"delivery": "exactly-once", "kafka.transactional.id": topic}
    write = {"write": options, "mark": "row", "tasks": 3, "rows": 20}
    with SparkCluster(tmp_path, environment(tmp_path), hosts=HOSTS) as cluster:
        for folder in (attempts, tmp_path / "spark"):
            folder.mkdir()
        settings = {**SPECULATION, "spark.master": cluster.master}
        with SparkWrites(tmp_path / "spark", settings) as process:
            first = process.ask({**write, "rivalled": str(attempts)})
            found = committed(servers, topic, PARTITIONS)
            # Another run of the same write finds all there.
            second = process.ask(write)
    assert (first, second) == ({"error": None}, {"error": None})
    assert len(list(attempts.iterdir())) == 2
    assert begun(servers, topic) >= 4, "two attempts of one task had transactions"
    assert sorted(found) == sorted(b"row %d" % number for number in range(60))
    assert committed(servers, topic, PARTITIONS) == found


def begun(servers: str, name: str) -> int:
    """Count of the attempts of a write that have begun a transaction."""
    options = WriteOptions.parse({"kafka.bootstrap.servers": servers})
    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    listed = Transactions(metadata, options.net).listed()
    pattern = attempt_ids(name)
    return sum(1 for each in listed if re.fullmatch(pattern, each.transactional_id))
