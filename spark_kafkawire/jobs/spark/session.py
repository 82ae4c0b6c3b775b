"""The Spark session of a job, with the data source in it, also where only the zip was shipped.

with job_session("ingest") as spark:
    spark.read.format("kafkawire")
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final
from zipimport import zipimporter

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_kafkawire.source.datasource import KafkaWireDataSource
from spark_kafkawire.source.spark_versions import register

#: Settings that suit jobs, unless spark-submit sets them.
_DEFAULTS: Final = {
    # The terminal is the job's: its progress, and one line for an error.
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # An error in a Python worker is one line, the source's own.
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    # The faster way between the JVM and its Python workers.
    "spark.python.unix.domain.socket.enabled": "true",
    # Times of messages are printed, and used for partition columns, in UTC on every machine.
    "spark.sql.session.timeZone": "UTC",
}


@contextlib.contextmanager
def job_session(job: str) -> Iterator[SparkSession]:
    """The session that spark-submit configured; it ends with the block.

    Spark looks for data sources in the folders of ``sys.path`` and not in zips, so ours is
    registered.
    """
    given = SparkConf()
    defaults = {key: value for key, value in _DEFAULTS.items() if not given.contains(key)}
    builder = SparkSession.builder.appName(f"kafkawire {job}")
    for key, value in defaults.items():
        builder = builder.config(key, value)
    with builder.getOrCreate() as spark:
        _lead_streams_to_the_package(spark.sparkContext)
        register(spark, KafkaWireDataSource)
        yield spark


def _lead_streams_to_the_package(context: SparkContext) -> None:
    """Let the process that plans a stream, on the driver, find the zip that this is in.

    Spark 4.3 has it look for ``--py-files`` in a folder that it never fills (``streaming_job``). Its
    environment is that of the context when the data source is registered.
    """
    loader = __spec__.loader if __spec__ else None
    if isinstance(loader, zipimporter):
        paths = [loader.archive, context.environment.get("PYTHONPATH", "")]
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
