"""The Spark session of a job, its signals, and what jobs have it do.

    with job_session("ingest") as spark:
        read_ranges(spark, options, ranges)         # exactly given parts of partitions as a DataFrame
        run_tasks(spark, Copier(clusters), tasks)   # a function on many small tasks as one Spark job

The session has the data source in it, also where only the zip was shipped. The JVM hands on the signals
that it gets, and is silent after the first.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar
from zipimport import zipimporter

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_kafkawire.model import OffsetRange
from spark_kafkawire.source.datasource import KafkaWireDataSource
from spark_kafkawire.source.edge import hide_broken_pipes
from spark_kafkawire.source.spark_versions import register

from ..ending import SIGNALS, Handler, handling
from ..state import assigned, by_topic

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


#: Time for Spark's Python processes to end, seconds.
_WORKERS_END_S: Final = 1.0
#: Time for Spark to become silent, seconds. A JVM that is gone does not answer.
_SILENT_WITHIN_S: Final = 1.5


class _JavaHandler:
    """A handler of signals in the JVM, which sends them to this process."""

    class Java:
        implements = ["sun.misc.SignalHandler"]  # noqa: RUF012  # py4j's own form

    def handle(self, java_signal: Any) -> None:
        os.kill(os.getpid(), signal.Signals[f"SIG{java_signal.getName()}"])


@contextlib.contextmanager
def handed_on_by_java(spark: SparkSession) -> Iterator[None]:
    """Send signals of the JVM, such as spark-submit's, to this process until the block ends."""
    context: Any = spark.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    java_signal = context._jvm.sun.misc.Signal
    names = [number.name.removeprefix("SIG") for number in SIGNALS]
    before = {name: java_signal.handle(java_signal(name), _JavaHandler()) for name in names}
    try:
        yield
    finally:
        with contextlib.suppress(Py4JError, OSError):  # the JVM may have ended
            for name, former in before.items():
                java_signal.handle(java_signal(name), former)


@contextlib.contextmanager
def handled_in_session(spark: SparkSession, on_interrupt: Any) -> Iterator[None]:
    """Let the first signal silence Spark, and end its work, until the block ends. ``on_interrupt`` is the
    handler of SIGINT from before the session: that of pyspark calls the JVM while another call waits."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)

    def silent_before(handle: Handler) -> Handler:
        def silence_and_handle(number: int, frame: FrameType | None) -> None:
            # py4j logs each call that ends here.
            logging.getLogger().addHandler(logging.NullHandler())
            silencing = threading.Thread(target=_silence, args=(spark,), daemon=True)
            silencing.start()
            # Spark logs errors of tasks, which fail when their transactions end.
            silencing.join(_SILENT_WITHIN_S)
            handle(number, frame)

        return silence_and_handle

    with handed_on_by_java(spark), handling(silent_before):
        yield


def _silence(spark: SparkSession) -> None:
    with contextlib.suppress(Py4JError, OSError):
        spark.sparkContext.setLogLevel("OFF")
        spark.sparkContext.cancelAllJobs()
        end_python_workers(spark)


def end_python_workers(spark: SparkSession) -> None:
    """End Spark's Python processes on this machine, which print tracebacks if the JVM closes their sockets
    first."""
    jvm: Any = spark.sparkContext._jvm
    with contextlib.suppress(Py4JError, OSError):
        children = [
            child
            for child in jvm.java.lang.ProcessHandle.current().children().toArray()
            if "pyspark.daemon" in child.info().commandLine().orElse("")
        ]
        for child in children:
            child.destroy()
        until_s = time.monotonic() + _WORKERS_END_S
        while any(child.isAlive() for child in children) and time.monotonic() < until_s:
            time.sleep(0.01)


def read_ranges(
    spark: SparkSession,
    connection: Mapping[str, str],
    ranges: Sequence[OffsetRange],
    schema: StructType | str | None = None,
) -> DataFrame:
    """The messages of the ranges, at least one, and no other; ``schema`` is a projection.

    ``connection`` are options of a read without those that select topics and offsets.
    """
    starts = {each.topic_partition: each.start_offset for each in ranges}
    stops = {each.topic_partition: each.stop_offset for each in ranges}
    reader = spark.read.format("kafkawire").options(**connection)
    reader = reader if schema is None else reader.schema(schema)
    return reader.options(
        assign=json.dumps(assigned(starts)),
        startingOffsets=json.dumps(by_topic(starts)),
        endingOffsets=json.dumps(by_topic(stops)),
    ).load()


T = TypeVar("T")
R = TypeVar("R")

_RESULTS: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def run_tasks(spark: SparkSession, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """The result of each task, in their order; each is a Spark task of its own.

    ``function``, the tasks and the results are pickled. ``function`` must allow that Spark runs a failed task
    again, and that a task which Spark has given up still runs.
    """
    if not tasks:
        return []

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hide_broken_pipes()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps(function(tasks[number]))
                yield pa.RecordBatch.from_arrays([[number], [result]], schema=_RESULTS)

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, "number long, result binary")
    results: dict[int, R] = {row.number: pickle.loads(row.result) for row in frame.collect()}
    return [results[number] for number in range(len(tasks))]
