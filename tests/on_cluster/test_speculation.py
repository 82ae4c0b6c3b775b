"""Streams with delivery=exactly-once on a cluster that runs a slow task's rows twice at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.jobs.submitting import environment
from tests.support.noida import HOST, NoidaBroker
from tests.support.spark_cluster import SparkCluster
from tests.support.stream_once import TIMEOUT_S, trouble_and_check

#: Spark runs no second attempt of a task on the host of the first one.
HOSTS: Final = (HOST, "127.0.0.2")
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
