"""Functions on many tasks as Spark jobs."""

from __future__ import annotations

import os
import signal

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.jobs.shell.failures import ExitCode, explained
from spark_kafkawire.jobs.spark.tasks import run_tasks
from spark_kafkawire.model import TopicPartition


def test_results_come_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    tasks = [TopicPartition("t", number) for number in range(5)]
    assert run_tasks(spark, lambda tp: (tp.partition * 10, tp), tasks) == [
        (number * 10, tp) for number, tp in enumerate(tasks)
    ]


def test_no_tasks_are_no_job(spark: SparkSession) -> None:
    assert run_tasks(spark, print, []) == []


def test_an_error_of_a_task_is_told_in_one_line(spark: SparkSession) -> None:
    def fail(_: int) -> None:
        raise DeliveryError("t 0: not there")

    with pytest.raises(PySparkException) as caught:
        run_tasks(spark, fail, [1])
    assert explained(caught.value) == ("t 0: not there", ExitCode.FAILED)


def test_a_python_worker_that_was_killed_is_told_in_one_line_with_what_to_do(spark: SparkSession) -> None:
    def killed(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        run_tasks(spark, killed, [1])
    line, code = explained(caught.value)
    assert code == ExitCode.FAILED
    assert "a Python worker or a JVM of Spark has ended in the middle of a task: it crashed, or was" in line
    assert line.endswith(", and run again")
    assert line.isprintable()
