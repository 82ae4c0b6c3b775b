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


#: Has Spark close the sockets of its Python processes that wait for work, as it does after a minute. Private
#: to Spark: the factories of the processes, and the function that they call then.
ENDED = """
from pathlib import Path
from spark_kafkawire.jobs.spark.tasks import run_tasks
from spark_kafkawire.source.datasource import KafkaWireDataSource
from tests.support.local_spark import plain_spark
from tests.support.polling import poll

spark = plain_spark("ended", {{}})
{work}
context = spark.sparkContext
jvm, new_array = context._jvm, context._gateway.new_array
processes = jvm.java.lang.ProcessHandle.current().descendants().toArray()
commands = [(each.pid(), each.parent().get().info().commandLine().orElse("")) for each in processes]
workers = [pid for pid, command_of_parent in commands if "daemon" in command_of_parent]
assert workers
field = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("pythonWorkers")
field.setAccessible(True)
factories = field.get(context._jsc.sc().env())
for factory in jvm.scala.jdk.javaapi.CollectionConverters.asJava(factories).values():
    methods = factory.getClass().getDeclaredMethods()
    [close] = [each for each in methods if each.getName().endswith("cleanupIdleWorkers")]
    close.setAccessible(True)
    close.invoke(factory, new_array(jvm.java.lang.Object, 0))
poll(lambda: not any(Path(f"/proc/{{pid}}").exists() for pid in workers), "the processes to end")
spark.stop()
"""


@pytest.mark.parametrize(
    "work", ["run_tasks(spark, lambda task: task, [1, 2])", "spark.dataSource.register(KafkaWireDataSource)"]
)
def test_processes_that_spark_ends_for_lack_of_work_print_nothing(work: str) -> None:
    program = ENDED.format(work=work)
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
