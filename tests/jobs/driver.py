"""A driver program that can be killed for little: its JVM, which takes seconds to start, stays.

    python -m tests.jobs.driver host                    starts the JVM; stdout tells how to reach it
    python -m tests.jobs.driver ingest '{"output": …}'  runs ingest in it

Killing a driver program in the middle leaves its Spark job running, as executors of a cluster go on for a
while when their driver is gone.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_kafkawire.jobs.ingest import Ingest
from spark_kafkawire.jobs.ingest_options import IngestOptions
from spark_kafkawire.jobs.ingest_output import OutputOptions
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.source.datasource import KafkaWireDataSource


def host() -> None:
    """Start Spark, tell the address of its JVM, and end with stdin."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
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


def ingest(arguments: str) -> None:
    """Run ingest in the JVM that the environment names; its summary goes to stdout."""
    given = json.loads(arguments)
    options = IngestOptions(given.pop("connection"), OutputOptions(given.pop("output")), **given)
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    scala_context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(scala_context)
    spark = SparkSession(SparkContext(gateway=gateway, jsc=context))
    spark.dataSource.register(KafkaWireDataSource)
    print(json.dumps(Ingest(spark, options, Progress(None)).run()), flush=True)
    # The JVM and its context belong to the host.
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "host":
        host()
    else:
        ingest(sys.argv[2])
