"""Functions on many tasks as Spark jobs."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.jobs.shell.failures import ExitCode, explained
from spark_kafkawire.jobs.spark.tasks import run_tasks
from spark_kafkawire.model import TopicPartition


def test_results_come_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    tasks = [TopicPartition("t", number) for number in range(5)]
    assert run_tasks(spark, lambda log: (log.partition * 10, log), tasks) == [
        (number * 10, log) for number, log in enumerate(tasks)
    ]


def test_no_tasks_are_no_job(spark: SparkSession) -> None:
    assert run_tasks(spark, print, []) == []


def test_an_error_of_a_task_is_told_in_one_line(spark: SparkSession) -> None:
    def fail(_: int) -> None:
        raise DeliveryError("t 0: not there")

    with pytest.raises(PySparkException) as caught:
        run_tasks(spark, fail, [1])
    assert explained(caught.value) == ("t 0: not there", ExitCode.FAILED)
