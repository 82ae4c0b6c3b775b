"""Spark for jobs: the session, progress from its stages, files of Hadoop, and what the examples share.

    with job_session("ingest") as spark:
        read_ranges(spark, options, ranges)         # exactly given parts of partitions as a DataFrame
        run_tasks(spark, Copier(clusters), tasks)   # a function on many small tasks as one Spark job
        with progress.work("writing", messages_total=15917) as work, watching(spark, work):
            frame.write...

The session has the data source in it, also where only the zip was shipped. The JVM hands on the signals
that it gets, and is silent after the first.

Executors report finished tasks at once, and running ones with each heartbeat
(``spark.executor.heartbeatInterval``, 10 s). Rows of running tasks come from the metrics of a query's plan:
those of its stages lose their names in a heartbeat where driver and executor are one process (``local[*]``).
Bytes are those of stages. The driver counts all in a thread of its own, which may lag behind the end of a
Spark job.

``Files`` are those of any file system that Spark's Hadoop knows (``file:``, ``hdfs:``, ``s3a:``, ...). It
must rename a file or folder in one step, and list a closed file at once. Local disks do, but have a class of
their own (``LocalFiles``). HDFS does. For object stores see their connector; S3 renames a folder in many
steps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import pickle
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zipimport import zipimporter

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_kafkawire.errors import LOG, printable
from spark_kafkawire.model import OffsetRange
from spark_kafkawire.source.datasource import KafkaWireDataSource
from spark_kafkawire.source.edge import hide_broken_pipes
from spark_kafkawire.source.spark_versions import register

from .command_line import JobParser, warnings_on_stderr
from .ending import SIGNALS, ExitCode, Handler, failures, handling, reason_of
from .files import FileError, FileSystem, LocalFiles, is_there, printable_path
from .progress import LOOK_INTERVAL_S, Work, repeating
from .state import group_by_topic, list_assigned

if TYPE_CHECKING:
    from spark_kafkawire.lineage import JobTopics, QueryLineage

#: What sends the lineage of the job that runs.
_LINEAGE: Final[ContextVar[QueryLineage | None]] = ContextVar("lineage", default=None)
#: Seconds between two looks at child processes.
_CHILD_LOOK_S: Final = 0.1
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
    with _start_session(builder) as spark:
        with handle_in_session(spark, handler):
            _lead_streams_to_the_package(spark.sparkContext)
            register(spark, KafkaWireDataSource)
            # Spark has looked for other sources in a process that it keeps, and that it ends after a minute
            # with a traceback: where only the zip was shipped it has no code of ours.
            end_python_workers(spark)
            with sending_lineage(spark):
                yield spark
        end_python_workers(spark)


@contextlib.contextmanager
def sending_lineage(spark: SparkSession) -> Iterator[None]:
    """Sends OpenLineage events of the job's queries if OpenLineage is configured by its own variables, and
    its library is installed: they may be those of a whole cluster."""
    is_wanted = os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() != "true"
    if not is_wanted or not any(name.startswith("OPENLINEAGE_") for name in os.environ):
        yield
        return
    try:
        from spark_kafkawire import lineage
    except ModuleNotFoundError as error:
        LOG.warning("the job sends no lineage: %s", error)
        yield
        return
    attached = lineage.attach(spark)
    token = _LINEAGE.set(attached)
    try:
        yield
    finally:
        _LINEAGE.reset(token)
        attached.close()


@contextlib.contextmanager
def job_lineage(job: str) -> Iterator[JobTopics | None]:
    """The lineage of a job that moves records in tasks of its own, which Spark's plans do not name: the job
    records its topics there. None without lineage."""
    attached = _LINEAGE.get()
    if attached is None:
        yield None
        return
    with attached.job(job) as topics:
        yield topics


def _start_session(builder: SparkSession.Builder) -> SparkSession:
    """The session. A signal ends the JVM that starts, and raises after that: Python loses errors that are
    raised while it forks, and a JVM whose start nobody awaits never ends."""
    asked: list[tuple[Handler, int]] = []
    is_over = threading.Event()

    def end_children() -> None:
        while not is_over.wait(_CHILD_LOOK_S):
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
def hand_on_signals_of_java(spark: SparkSession) -> Iterator[None]:
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
def handle_in_session(spark: SparkSession, on_interrupt: Any) -> Iterator[None]:
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

    with hand_on_signals_of_java(spark), handling(silent_before):
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
    starts = {item.topic_partition: item.start_offset for item in ranges}
    stops = {item.topic_partition: item.stop_offset for item in ranges}
    reader = spark.read.format("kafkawire").options(**connection)
    reader = reader if schema is None else reader.schema(schema)
    return reader.options(
        assign=json.dumps(list_assigned(starts)),
        startingOffsets=json.dumps(group_by_topic(starts)),
        endingOffsets=json.dumps(group_by_topic(stops)),
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


#: Nodes of a plan that take rows from sources begin so, and the metric in which they count them.
_SCANS: Final = ("Scan ", "BatchScan ", "MicroBatchScan")
_SCANNED: Final = "number of output rows"
#: Time for the driver to count the last tasks, milliseconds. After it the totals may be too low.
_COUNTED_WITHIN_MS: Final = 10_000


@contextlib.contextmanager
def watching(spark: SparkSession, work: Work) -> Iterator[None]:
    """Report to ``work`` the progress of the Spark jobs that this thread runs in the block."""
    context = spark.sparkContext
    # Several Python processes may share a JVM, one after the other or at once, as notebooks do. A tag leaves
    # the thread's job group, which may be the user's, as it is.
    tag = f"kafkawire-{uuid.uuid4().hex}"
    context.addJobTag(tag)

    def look() -> None:
        # Missing progress must never stop the job.
        with contextlib.suppress(Py4JError):
            # Spark's Python does not pass this one on.
            job_ids = context._jsc.sc().statusTracker().getJobIdsForTag(tag)
            work.set_to(*_total_stages(spark, job_ids))

    try:
        with repeating(look, LOOK_INTERVAL_S):
            yield
            with contextlib.suppress(Py4JError):
                context._jsc.sc().listenerBus().waitUntilEmpty(_COUNTED_WITHIN_MS)
    finally:
        context.removeJobTag(tag)


@contextlib.contextmanager
def watching_batches(
    spark: SparkSession, work: Work, run_id: str, done: Callable[[], tuple[int, int]]
) -> Iterator[None]:
    """Report to ``work`` the rows of a run of a streaming query. ``done`` returns the number of its last
    finished batch and the rows up to that one, to which the rows of the running batch are added."""
    context = spark.sparkContext
    tracker = context.statusTracker()

    def look() -> None:
        batch, messages = done()
        with contextlib.suppress(Py4JError):
            # A run is the job group of its batches. pyspark 4.3 fails to report a query that has job tags.
            running = _list_running(context, tracker.getJobIdsForGroup(run_id))
            unreported = [job_id for job_id in running if _batch_of(context, job_id) > batch]
            messages += sum(_count_scanned(spark, query) for query in _queries_of(context, unreported))
        work.set_to(messages, 0, 0, 0)

    with repeating(look, LOOK_INTERVAL_S):
        yield


def _total_stages(spark: SparkSession, job_ids: Iterable[int]) -> tuple[int, int, int, int]:
    """Rows from sources, bytes, finished tasks and all tasks of these jobs."""
    context = spark.sparkContext
    tracker = context.statusTracker()
    job_ids = [*job_ids]
    stage_ids: set[int] = set()
    for job_id in job_ids:
        job = tracker.getJobInfo(job_id)
        stage_ids.update(job.stageIds if job else ())
    # Private to Spark's Scala packages, and all that knows records and bytes while a stage runs.
    store: Any = context._jsc.sc().statusStore()
    stages = {item: stage for item in stage_ids if (stage := store.lastStageAttempt(item)).numTasks()}
    started = {item: stage for item, stage in stages.items() if stage.status().toString() != "SKIPPED"}
    records = {item: stage.inputRecords() for item, stage in started.items()}
    return (
        sum(records.values()) + _count_unreported(spark, job_ids, records),
        sum(max(stage.inputBytes(), stage.outputBytes()) for stage in started.values()),
        sum(stage.numCompleteTasks() for stage in started.values()),
        sum(stage.numTasks() for stage in started.values()),
    )


def _count_unreported(spark: SparkSession, job_ids: Iterable[int], records: Mapping[int, int]) -> int:
    """Rows that running queries have taken from sources, and that are not in the ``records`` of stages."""
    count = 0
    with contextlib.suppress(Py4JError):
        context = spark.sparkContext
        for query in _queries_of(context, _list_running(context, job_ids)):
            stages = _queries(spark).execution(query).get().stages()
            reported = sum(records.get(stage, 0) for stage in _each(spark, stages))
            count += max(_count_scanned(spark, query) - reported, 0)
    return count


def _list_running(context: SparkContext, job_ids: Iterable[int]) -> set[int]:
    return {*context.statusTracker().getActiveJobsIds()}.intersection(job_ids)


def _queries_of(context: SparkContext, job_ids: Iterable[int]) -> set[int]:
    """SQL queries that these jobs are part of."""
    store: Any = context._jsc.sc().statusStore()
    of_jobs = [store.jobWithAssociatedSql(job_id)._2() for job_id in job_ids]
    return {query.get() for query in of_jobs if query.isDefined()}


def _count_scanned(spark: SparkSession, query: int) -> int:
    """Rows that a query has taken from sources so far."""
    values = _queries(spark).executionMetrics(query)
    result = [
        values.get(metric.accumulatorId())
        for node in _each(spark, _queries(spark).planGraph(query).allNodes())
        if node.name().startswith(_SCANS)
        for metric in _each(spark, node.metrics())
        if metric.name() == _SCANNED
    ]
    return sum(int(re.sub(r"\D", "", value.get()) or 0) for value in result if value.isDefined())


def _queries(spark: SparkSession) -> Any:
    return spark._jsparkSession.sharedState().statusStore()


def _each(spark: SparkSession, values: Any) -> Iterable[Any]:
    """The elements of a collection of Scala's."""
    jvm: Any = spark.sparkContext._jvm
    elements: Iterable[Any] = jvm.scala.jdk.javaapi.CollectionConverters.asJava(values)
    return elements


def _batch_of(context: SparkContext, job_id: int) -> int:
    """The number of the batch that a job of a streaming query is of, by its description; -1 if unknown."""
    store: Any = context._jsc.sc().statusStore()
    description = store.job(job_id).description()
    match = re.search(r"batch = (\d+)", description.get()) if description.isDefined() else None
    return int(match[1]) if match else -1


class Files:
    """Files by path, each by the file system that it is of."""

    def __init__(self, spark: SparkSession) -> None:
        self._hadoop = HadoopFiles(spark)
        self._local = LocalFiles()

    def _at(self, path: str) -> tuple[FileSystem, str]:
        local = self._hadoop.local_path(path)
        return (self._hadoop, path) if local is None else (self._local, local)

    def exists(self, path: str) -> bool:
        files, path = self._at(path)
        return files.exists(path)

    def names(self, folder: str) -> list[str]:
        files, folder = self._at(folder)
        return files.names(folder)

    def read(self, path: str) -> str:
        files, path = self._at(path)
        return files.read(path)

    def create(self, path: str, text: str) -> None:
        files, path = self._at(path)
        files.create(path, text)

    def rename(self, source: str, target: str) -> None:
        (files, source), (_, target) = self._at(source), self._at(target)
        files.rename(source, target)

    def make_folder(self, path: str) -> None:
        files, path = self._at(path)
        files.make_folder(path)

    def remove(self, path: str) -> None:
        files, path = self._at(path)
        files.remove(path)

    def sync(self, folder: str) -> None:
        files, folder = self._at(folder)
        files.sync(folder)

    def local_path(self, path: str) -> str | None:
        return self._hadoop.local_path(path)


class HadoopFiles:
    """Files of Hadoop's file systems, this machine's among them."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        return bool(self._call("exists", path))

    def names(self, folder: str) -> list[str]:
        if not self.exists(folder):
            return []
        return sorted(status.getPath().getName() for status in self._call("listStatus", folder))

    def read(self, path: str) -> str:
        stream = self._call("open", path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        except Py4JJavaError as error:
            raise _file_error("read", path, error) from error
        finally:
            stream.close()

    def create(self, path: str, text: str) -> None:
        folder, _, name = path.rpartition("/")
        unfinished = f"{folder}/.{name}.{uuid.uuid4().hex}.unfinished"
        stream = self._call("create", unfinished, True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
            stream.close()
        except Py4JJavaError as error:
            raise _file_error("write", path, error) from error
        self.rename(unfinished, path)

    def rename(self, source: str, target: str) -> None:
        if self.exists(target):
            raise is_there(target)
        if not self._call("rename", source, self._path(target)):
            raise FileError(
                f"cannot rename {printable_path(source)} to {printable_path(target)}: may this user write "
                "there?"
            )
        # If the target was created as a folder meanwhile, Hadoop has moved the source into it.
        inside = f"{target}/{source.rpartition('/')[2]}"
        is_folder = self._call("getFileStatus", target).isDirectory()
        if is_folder and self.exists(inside):
            self.remove(inside)
            raise FileError(f"{printable_path(target)} was created meanwhile: does another run write here?")

    def local_path(self, path: str) -> str | None:
        where = self._path(path)
        try:
            files = where.getFileSystem(self._conf)
            if str(files.getUri().getScheme()) != "file":
                return None
            return str(files.makeQualified(where).toUri().getPath())
        except Py4JJavaError as error:
            raise _file_error("find", path, error) from error

    def make_folder(self, path: str) -> None:
        if not self._call("mkdirs", path):
            raise FileError(f"{printable_path(path)}: cannot make the folder: may this user write there?")

    def remove(self, path: str) -> None:
        self._call("delete", path, True)

    def sync(self, folder: str) -> None:
        """Do nothing: the file system keeps closed files."""

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _call(self, method: str, path: str, *arguments: Any) -> Any:
        try:
            where = self._path(path)
            return getattr(where.getFileSystem(self._conf), method)(where, *arguments)
        except Py4JJavaError as error:
            raise _file_error(method, path, error) from error


def _file_error(method: str, path: str, error: Py4JJavaError) -> FileError:
    return FileError(f"{printable_path(path)}: cannot {method}: {printable(reason_of(error))}")


def example_parser(job: str, description: str | None) -> JobParser:
    """The command line of an example, which names a topic of Kafka 0.7."""
    parser = JobParser(job, description)
    parser.add_argument(
        "--zookeeper",
        required=True,
        metavar="HOST:PORT[,HOST:PORT...][/CHROOT]",
        help="the ZooKeeper that the Kafka 0.7 brokers are registered in",
    )
    parser.add_argument("--topic", required=True, help="the topic to read, whole")
    return parser


def run_example(
    parser: JobParser, run: Callable[[SparkSession, argparse.Namespace], Mapping[str, Any]]
) -> ExitCode:
    """Run an example and print its report; ``FAILED`` where ``match`` of that is false."""
    arguments = parser.parse_args()
    try:
        with warnings_on_stderr(parser), job_session(parser.job) as spark:
            report = run(spark, arguments)
    except failures() as error:
        return parser.report(error)
    print(json.dumps(report), flush=True)
    return ExitCode.DONE if report["match"] else ExitCode.FAILED


def read_topic(spark: SparkSession, zookeeper: str, topic: str) -> DataFrame:
    """All messages that a topic of Kafka 0.7 holds now."""
    return (
        spark.read.format("kafkawire")
        .option("zookeeper.connect", zookeeper)
        .option("subscribe", topic)
        .load()
    )
