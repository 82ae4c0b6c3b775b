"""Functions on many tasks as Spark jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.jobs.shell.failures import ExitCode, explained
from spark_kafkawire.jobs.spark.tasks import run_tasks
from spark_kafkawire.model import TopicPartition

from ..submitting import ROOT


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


#: Closes the sockets of Spark's Python processes while these wait for work, as Spark does after a minute.
#: Their parents, which would end them at the same time, are frozen.
ENDED = """
import os, signal
from pathlib import Path
from spark_kafkawire.jobs.spark.tasks import run_tasks
from spark_kafkawire.source.datasource import KafkaWireDataSource
from tests.support.local_spark import plain_spark
from tests.support.polling import poll

spark = plain_spark("ended", {{}})
{work}
jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current()
children = jvm.children().toArray()
parents = [child.pid() for child in children if "pyspark.daemon" in child.info().commandLine().orElse("")]
workers = [child.pid() for child in jvm.descendants().toArray() if child.parent().get().pid() in parents]
assert workers
for pid in parents:
    os.kill(pid, signal.SIGSTOP)
spark.stop()
try:
    poll(lambda: not any(Path(f"/proc/{{pid}}").exists() for pid in workers), "the processes to end")
finally:
    for pid in parents:
        os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.parametrize(
    "work", ["run_tasks(spark, lambda task: task, [1, 2])", "spark.dataSource.register(KafkaWireDataSource)"]
)
def test_processes_that_spark_ends_for_lack_of_work_print_nothing(work: str) -> None:
    program = ENDED.format(work=work)
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
