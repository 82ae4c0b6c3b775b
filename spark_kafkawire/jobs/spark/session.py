"""The Spark session of a job, with the data source in it, also where only the zip was shipped.

with job_session("ingest") as spark:
    spark.read.format("kafkawire")
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final
from zipimport import zipimporter

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_kafkawire.source.datasource import KafkaWireDataSource
from spark_kafkawire.source.spark_versions import register

from ..shell.interruption import Handler, handling
from .signals import end_python_workers, handled_in_session

#: Seconds between two looks at child processes.
_LOOK_INTERVAL_S: Final = 0.1
#: Settings that suit jobs, unless spark-submit sets them.
_DEFAULTS: Final = {
    # The terminal is the job's: its progress, and one line for an error.
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # An error in a Python worker is one line, the source's own.
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    # Rows of running tasks are counted with each heartbeat.
    "spark.executor.heartbeatInterval": "2s",
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
    handler = signal.getsignal(signal.SIGINT)
    with _started(builder) as spark:
        with handled_in_session(spark, handler):
            _lead_streams_to_the_package(spark.sparkContext)
            register(spark, KafkaWireDataSource)
            # Spark has looked for other sources in a process that it keeps, and that it ends after a minute
            # with a traceback: where only the zip was shipped it has no code of ours.
            end_python_workers(spark)
            yield spark
        end_python_workers(spark)


def _started(builder: SparkSession.Builder) -> SparkSession:
    """The session. A signal ends the JVM that starts, and raises after that: Python loses errors that are
    raised while it forks, and a JVM whose start nobody awaits never ends."""
    asked: list[tuple[Handler, int]] = []
    is_over = threading.Event()

    def end_children() -> None:
        while not is_over.wait(_LOOK_INTERVAL_S):
            for children in Path("/proc/self/task").glob("*/children"):
                for child in children.read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(child), signal.SIGKILL)

    def noting(former: Handler) -> Handler:
        def note(number: int, _frame: FrameType | None) -> None:
            logging.getLogger().addHandler(logging.NullHandler())  # py4j logs calls that fail
            if not asked:
                threading.Thread(target=end_children, daemon=True).start()
            asked.append((former, number))

        return note

    try:
        with handling(noting):
            return builder.getOrCreate()
    finally:
        is_over.set()
        if asked:
            former, number = asked[0]
            former(number, None)


def _lead_streams_to_the_package(context: SparkContext) -> None:
    """Let the process that plans a stream, on the driver, find the zip that this is in.

    Spark 4.3 has it look for ``--py-files`` in a folder that it never fills (``streaming_job``). Its
    environment is that of the context when the data source is registered.
    """
    loader = __spec__.loader if __spec__ else None
    if isinstance(loader, zipimporter):
        paths = [loader.archive, context.environment.get("PYTHONPATH", "")]
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
