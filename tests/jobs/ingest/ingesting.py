"""Messages, options and checks that the tests of ingest share."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from spark_kafkawire.jobs.ingest.options import IngestOptions
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.shell.progress import Progress
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

QUIET: Final = Progress(None)


def produce(bootstrap_servers: str, topic: str, values: range, partitions: int = 2) -> None:
    """Messages that hold a number each, the partitions in turn."""
    records = [Record(b'{"n": %d}' % number, partition=number % partitions) for number in values]
    librdkafka.produce(bootstrap_servers, topic, records)


def values_of(spark: SparkSession, output: OutputOptions) -> list[int]:
    """The numbers in the output, sorted; doubled ones twice."""
    rows = spark.read.parquet(output.path).selectExpr("get_json_object(CAST(value AS STRING), '$.n') AS n")
    return sorted(int(row.n) for row in rows.collect())


def options_of(broker: NoidaBroker, topic: str, output: OutputOptions, **options: Any) -> IngestOptions:
    """Options of a run on one topic of a modern broker."""
    connection = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options.pop("connection", {})}
    return IngestOptions(connection, output, {"subscribe": topic}, **options)


class Crash(BaseException):
    """An end of a run at an instruction, as by a kill: nothing of the package catches it."""


def crash(*_: Any) -> None:
    """A step at which the run ends."""
    raise Crash
