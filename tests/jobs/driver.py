"""A driver program that can be killed for little: its JVM, which takes seconds to start, stays.

    python -m tests.jobs.driver host                    starts the JVM; stdout tells how to reach it
    python -m tests.jobs.driver ingest '{"output": …}'  runs ingest in it
    python -m tests.jobs.driver publish                 forks runs of publish in it (``forking``)

Killing a driver program in the middle leaves its Spark job running, as executors of a cluster go on for a
while when their driver is gone.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_kafkawire.jobs.ingest.options import IngestOptions
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.publish.options import PublishOptions
from spark_kafkawire.jobs.publish.report import report
from spark_kafkawire.jobs.publish.rows import MessageColumns, messages
from spark_kafkawire.jobs.publish.run import publish as publish_rows
from spark_kafkawire.jobs.shell.progress import Progress
from spark_kafkawire.source.datasource import KafkaWireDataSource
from tests.support.polling import poll

from .forking import serve


def host() -> None:
    """Start Spark, tell the address of its JVM, and end with stdin."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    with builder.config("spark.log.level", "OFF").getOrCreate() as spark:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        parameters = gateway.gateway_parameters
        address = {
            "PYSPARK_GATEWAY_PORT": str(parameters.port),
            "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
        }
        print(json.dumps(address), flush=True)
        sys.stdin.read()


def session() -> SparkSession:
    """A session in the JVM that the environment names."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    scala_context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(scala_context)
    spark = SparkSession(SparkContext(gateway=gateway, jsc=context))
    spark.dataSource.register(KafkaWireDataSource)
    return spark


def ingest(arguments: str) -> None:
    """Run ingest in the JVM that the environment names; its summary goes to stdout."""
    given = json.loads(arguments)
    options = IngestOptions(given.pop("connection"), OutputOptions(given.pop("output")), **given)
    spark = session()
    print(json.dumps(Ingest(spark, options, Progress(None)).run()), flush=True)
    # The JVM and its context belong to the host.
    os._exit(0)


def publish(given: dict[str, Any], output: str) -> None:
    """Run publish in the JVM that the environment names; its summary goes to a file.

    The executors of a driver that was killed end when they notice that it is gone. Here they notice
    when the next one begins.
    """
    try:
        spark = session()
        end_jobs(spark)
        rows = messages(spark.read.parquet(given["input"]), MessageColumns(**given["columns"]))
        options = PublishOptions.parse(given["options"], state=given["state"], settle_s=given["settle_s"])
        published = publish_rows(rows, options, Progress(None))
        Path(output).write_text(json.dumps(report(published, sys.stdout, as_json=True)))
        os._exit(0)
    except BaseException:
        Path(output).write_text(traceback.format_exc())
        os._exit(1)


def end_jobs(spark: SparkSession) -> None:
    """End all that Spark runs, and wait until it has."""
    context: Any = spark.sparkContext._jsc.sc()
    context.cancelAllJobs()

    def is_idle() -> bool:
        executors = context.statusTracker().getExecutorInfos()
        return not any(executor.numRunningTasks() for executor in executors)

    poll(is_idle, "the tasks of the driver that was killed to end", 120.0)


if __name__ == "__main__":
    if sys.argv[1] == "host":
        host()
    elif sys.argv[1] == "publish":
        serve(publish)
    else:
        ingest(sys.argv[2])
