"""Kills of a driver of streams, or of one of its Python processes, again and again, with a report of the step
at which each kill happened.

A kill comes at a random moment after something that Spark writes down in each batch, or brokers are told in
it, so that the kills fall into all of a batch's steps, the short ones too. A driver is killed under all of
its streams, and that is one kill for each; a worker is killed while one of them has something to do, which is
a kill of that one.

    python -m tests.support.stream_kills QUERIES_JSON SETTINGS_JSON HOME FOLDER

is the driver: ``QUERIES_JSON`` is ``{name: {"read": options, "write": options}}``; Spark, with these
settings, is in ``HOME``.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafkawire.changes import changes, merge_changes
from spark_kafkawire.sinks import Route, append_once, fan_out
from tests.support.local_spark import local_spark

from .local_spark import home_with_byte_code
from .polling import poll

ROOT: Final = Path(__file__).parents[2]
#: How long a driver may take to begin, to do a batch, and to end, on a machine with other work, seconds.
WAIT_MAX_S: Final = 900.0
#: What a stream may take besides to read, in the end, what was sent for one more kill, seconds.
REST_S: Final = 60.0
#: Records that are sent before a kill, and then at every interval, seconds, while a query has nothing to do.
SENT_COUNT, MORE_INTERVAL_S = 60, 0.5
#: A kill comes at most so long after what it waits for, seconds: about what a step of a batch takes.
DELAY_MAX_S: Final = 0.15
#: The same of a batch that is appended to tables: about what that takes.
TABLE_DELAY_MAX_S: Final = 3.0
#: The same of what brokers are told: about what a step of a commit takes.
TOLD_DELAY_MAX_S: Final = 0.03

#: The steps of a batch, told apart by what is on the disk.
PLANNING = "planning the next batch"
OFFSETS = "writing its offsets"
TASKS = "planning and starting its tasks"
ROWS = "reading and writing rows"
SINK = "the sink's commit"
DONE = "writing that it is done"
#: Each stream has one; those that tasks run in are shared.
PLANNING_PROCESS = "planning process"
#: ``TASKS`` and ``ROWS``, of a sink that leaves nothing on the disk.
TASKS_AND_ROWS = "planning its tasks, reading and writing"


class Reported(Protocol):
    """Requests of a sink to its brokers about a batch."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The names of what grows with each batch."""
        ...

    def count(self, mark: str) -> int:
        """Count of that mark, as far as it was asked for."""
        ...

    def step(self, batch: int) -> str:
        """The step that a batch is in, which is planned and not done."""
        ...


@dataclass(frozen=True, slots=True)
class Stream:
    """A query: the options of its ``read`` and its ``write``, the latter without a topic for Parquet files,
    and what appends records to what it reads. ``told`` knows more of its batches than is on the disk;
    ``trouble`` is the driver's. A ``write`` with ``tables`` appends to tables of a ``format``,
    and one with ``merge`` merges changes of a ``schema``."""

    read: dict[str, str]
    write: dict[str, str]
    send: Callable[[list[bytes]], None]
    reported: Reported | None = None
    trouble: Mapping[str, float] | None = None

    @property
    def has_files(self) -> bool:
        """True if the query writes Parquet files by Spark's own sink."""
        return "topic" not in self.write and not self.has_tables

    @property
    def has_tables(self) -> bool:
        """True if the query writes to tables by ``foreachBatch``."""
        return "tables" in self.write or "merge" in self.write


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: its victim, and the step of the query at that moment."""

    query: str
    victim: str
    step: str
    batch: int


class Batches:
    """Batches of the query in a folder, as its files record them."""

    def __init__(self, folder: Path, has_files: bool, reported: Reported | None, slow: bool = False) -> None:
        self._folder, self._has_files, self._reported, self._is_slow = folder, has_files, reported, slow
        self._logs = ("checkpoint/offsets", "checkpoint/commits", *(["out/_spark_metadata"] * has_files))

    def step(self) -> tuple[str, int]:
        """The step that the query is in, and its batch."""
        done, planned = (self._last("checkpoint/commits"), self._last("checkpoint/offsets"))
        if planned == done:
            return (OFFSETS if self._is_being_written("checkpoint/offsets") else PLANNING), planned + 1
        if self._last("out/_spark_metadata") == planned or self._is_being_written("checkpoint/commits"):
            return DONE, planned
        if self._is_being_written("out/_spark_metadata"):
            return SINK, planned
        if self._reported is not None:
            return self._reported.step(planned), planned
        if not self._has_files:
            return TASKS_AND_ROWS, planned
        return (ROWS if self._has_begun_files(planned) else TASKS), planned

    def begun(self) -> int:
        """Count of starts of the query."""
        file = self._folder / "runs"
        return file.read_text().count("\n") if file.exists() else 0

    @property
    def is_idle(self) -> bool:
        """True if all batches that were planned are done."""
        return self._last("checkpoint/commits") == self._last("checkpoint/offsets") >= 0

    @property
    def marks(self) -> tuple[str, ...]:
        """Names of what grows: Spark's logs, and the requests to brokers."""
        return (*self._logs, *(self._reported.marks if self._reported is not None else ()))

    def count(self, mark: str) -> int:
        """Count of that mark: the last batch, for a log."""
        if self._reported is not None and mark in self._reported.marks:
            return self._reported.count(mark)
        return self._last(mark)

    def delay_max_s(self, mark: str) -> float:
        """Longest delay of a kill after a mark."""
        if self._is_slow and mark == "checkpoint/offsets":
            return TABLE_DELAY_MAX_S
        return DELAY_MAX_S if mark in self._logs else TOLD_DELAY_MAX_S

    def _names(self, folder: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(self._folder / folder)
        return []

    def _last(self, folder: str) -> int:
        names = (name.removesuffix(".compact") for name in self._names(folder))
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _is_being_written(self, folder: str) -> bool:
        """True if there is a file of a batch that has no name yet; those of killed drivers stay for ever."""
        last = self._last(folder)
        names = (name.split(".") for name in self._names(folder) if name.endswith(".tmp"))
        return any(int(name[1]) > last for name in names if name[0] == "" and name[1].isdecimal())

    def _has_begun_files(self, batch: int) -> bool:
        """True if tasks of this batch, and of this query, have begun files."""
        with contextlib.suppress(FileNotFoundError):
            files = (self._folder / "runs", self._folder / "checkpoint" / "offsets" / str(batch))
            since_ns = max(file.stat().st_mtime_ns for file in files)
            return (self._folder / "out").stat().st_mtime_ns > since_ns
        return False


class Driver:
    """The driver in a process group of its own, with all that it starts."""

    def __init__(
        self, streams: Mapping[str, Stream], folder: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        queries = {
            name: {"read": stream.read, "write": stream.write, "trouble": stream.trouble}
            for name, stream in streams.items()
        }
        argv = [sys.executable, "-m", "tests.support.stream_kills"]
        argv += [json.dumps(queries), json.dumps(settings or {}), home_with_byte_code(), str(folder)]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    @property
    def is_running(self) -> bool:
        """True if it was not killed and has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End all of it as ``kill -9`` does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(WAIT_MAX_S)

    def kill_a_worker(self, draw: random.Random) -> str:
        """End one of the Python processes that Spark has started; which one, and nothing if there is none."""
        with contextlib.suppress(psutil.NoSuchProcess):
            result = [
                (role, process)
                for process in psutil.Process(self._process.pid).children(recursive=True)
                if (role := _role(process))
            ]
            role = draw.choice(sorted({role for role, _ in result}) or [""])
            if of_role := [process for item, process in result if item == role]:
                draw.choice(of_role).kill()
                return role
        return ""

    def await_end(self, kills: int) -> None:
        """Wait until it has read all there is, which grows with the kills before."""
        deadline_s = WAIT_MAX_S + REST_S * kills
        assert self._process.wait(deadline_s) == 0, (self._folder / "log").read_text()[-4000:]


def _role(process: psutil.Process) -> str | None:
    """Role of a process that Spark has started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        words = process.cmdline()
        if any("python_streaming_source_runner" in word for word in words):
            return PLANNING_PROCESS
        if "pyspark.daemon" in words:
            parent = process.parent()
            is_forked = parent is not None and "pyspark.daemon" in parent.cmdline()
            return "task's worker" if is_forked else "workers' parent"
    return None


@contextlib.contextmanager
def driver(
    streams: Mapping[str, Stream], folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Driver]:
    """A driver until the block ends, one way or the other."""
    running = Driver(streams, folder, settings)
    try:
        yield running
    finally:
        running.kill()


class Killer:
    """Sends records to streams and kills them: each by some workers, then all by their driver, and so on."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        folder: Path,
        seed: int,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._streams, self._folder, self._settings = streams, folder, settings
        self._draw = random.Random(seed)
        self._batches = {
            name: Batches(folder / name, stream.has_files, stream.reported, stream.has_tables)
            for name, stream in streams.items()
        }
        #: How many records were sent to each.
        self.sent = dict.fromkeys(streams, 0)
        self.kills: list[Kill] = []

    def run(
        self, driver_kills: int, workers_per_driver: int, before_end: Callable[[], None] = lambda: None
    ) -> None:
        """Kill so many drivers, and before each so many workers of each stream; let the last one end, which
        has what comes in ``before_end``, too."""
        for _ in range(driver_kills):
            with driver(self._streams, self._folder, self._settings) as running:
                for name in [*self._streams] * workers_per_driver:
                    self._kill_a_worker(running, name)
                for name in self._streams:
                    self._some(name)
                self._await_moment(running, self._draw.choice([*self._streams]))
                running.kill()
                result = {name: batches.step() for name, batches in self._batches.items()}
            self.kills += [Kill(name, "driver", *location) for name, location in result.items()]
        before_end()
        (self._folder / "complete").touch()
        with driver(self._streams, self._folder, self._settings) as running:
            running.await_end(driver_kills)

    def _kill_a_worker(self, running: Driver, name: str) -> None:
        """Kill one of the Python processes while a stream has something to do."""
        victim = ""
        while not victim:
            self._await_moment(running, name)
            places = {item: batches.step() for item, batches in self._batches.items()}
            begun = {item: batches.begun() for item, batches in self._batches.items()}
            victim = running.kill_a_worker(self._draw)
        if victim == PLANNING_PROCESS:  # of which stream, tells who is started again
            name = poll(lambda: self._begun_since(begun), f"a stream begun after {begun}", WAIT_MAX_S)
        self.kills.append(Kill(name, victim, *places[name]))

    def _begun_since(self, before: Mapping[str, int]) -> str:
        return next((item for item, count in before.items() if self._batches[item].begun() > count), "")

    def _await_moment(self, running: Driver, name: str) -> None:
        """Until a stream writes something down, and a random while longer."""
        batches = self._batches[name]
        mark = self._draw.choice(batches.marks)
        before = batches.count(mark)
        self._some(name)
        looked_s = time.monotonic()

        def has_come() -> bool:
            nonlocal looked_s
            if time.monotonic() >= looked_s + MORE_INTERVAL_S:
                if batches.is_idle:
                    self._some(name)
                looked_s = time.monotonic()
            return not running.is_running or batches.count(mark) > before

        poll(has_come, f"{name}: {mark} after {before}", WAIT_MAX_S)
        assert running.is_running, (self._folder / "log").read_text()[-4000:]
        time.sleep(self._draw.uniform(0, batches.delay_max_s(mark)))  # the random moment

    def _some(self, name: str) -> None:
        begin = self.sent[name]
        self.sent[name] += SENT_COUNT
        self._streams[name].send([b"%d" % value for value in range(begin, begin + SENT_COUNT)])


Options = dict[str, dict[str, Any]]

#: What a killed worker had to do is tried once more within the batch.
MASTER: Final = "local[2,2]"
#: How often it looks for queries that have failed, seconds.
INTERVAL_S: Final = 0.1
#: How long an attempt lags that does: Spark runs another one beside it meanwhile, where it is told to.
LAG_S: Final = 6.0


def main(queries: dict[str, Options], settings: dict[str, str], home: str, folder: Path) -> None:
    """Run streams, and each again when it fails, until the test marks the end.

    Options without a topic are for Parquet files in ``FOLDER/name/out``. With ``"trouble"``, which tells how
    likely it is that an attempt of a task ``fails`` or ``lags``, attempts are files in
    ``FOLDER/name/attempts``, and those that failed say so. Whenever a query begins it writes a line to
    ``FOLDER/name/runs``, whenever one fails the reason to ``FOLDER/name/failures``, and it ends when
    ``FOLDER/complete`` is there and all that there is has been read.
    """
    spark = local_spark("streams that are killed", {"spark.master": MASTER, **settings}, home)
    running: dict[str, StreamingQuery] = {}
    is_complete = False
    while not is_complete:
        is_complete = (folder / "complete").exists()
        for name, options in queries.items():
            if name not in running:
                try:
                    running[name] = _started(spark, options, folder / name)
                except (PySparkException, Py4JJavaError) as failure:  # who helped to plan it was killed
                    _note(folder / name / "failures", str(failure).splitlines()[0])
                    is_complete = False
        time.sleep(INTERVAL_S)
        for name, query in list(running.items()):
            error = _failure(query, is_complete)
            if error is not None:
                _note(folder / name / "failures", str(error).splitlines()[0])
                del running[name]
                is_complete = False
    spark.stop()


def _failure(query: StreamingQuery, is_complete: bool) -> Exception | None:
    """Why a query has ended; None while it goes on, or once it has read all that there is."""
    try:
        if is_complete:
            query.processAllAvailable()
    except StreamingQueryException as error:
        return error
    return query.exception()


def _started(spark: SparkSession, options: Options, folder: Path) -> StreamingQuery:
    folder.mkdir(exist_ok=True)
    _note(folder / "runs", "run")
    reader = spark.readStream.format("kafkawire").options(**options["read"])
    schema = options["write"].get("schema")
    rows = reader.load() if schema is None else changes(reader.schema(schema).load())
    if "topic" in options["write"]:
        values = _troubled(rows.select("value"), options.get("trouble"), folder / "attempts")
        written = values.writeStream.format("kafkawire").options(**options["write"])
    elif "tables" in options["write"]:
        written = rows.writeStream.foreachBatch(_into_tables(**options["write"]))
    elif "merge" in options["write"]:
        written = rows.writeStream.foreachBatch(merge_changes(**json.loads(options["write"]["merge"])))
    else:
        written = rows.writeStream.format("parquet").option("path", str(folder / "out"))
    query = written.option("checkpointLocation", str(folder / "checkpoint")).start()
    # One after the other: all queries of one Python source share a map in Spark's JVM, and those that fill it
    # at the same time may break it for good ("Task serialization failed: Illegal size of collection").
    while query.isActive and not query.recentProgress:
        time.sleep(INTERVAL_S)
    return query


def _into_tables(tables: str, format: Any) -> Callable[[DataFrame, int], None]:
    """Append the numbers in the values to tables, named by their topics in JSON; ``*`` is of all topics."""
    routes = {
        topic: Route(
            append_once(table, format=format), lambda rows: rows.selectExpr("bigint(string(value)) n")
        )
        for topic, table in json.loads(tables).items()
    }
    return routes["*"].take if "*" in routes else fan_out(routes)


def _troubled(rows: DataFrame, trouble: dict[str, float] | None, folder: Path) -> DataFrame:
    """The same rows, by attempts of tasks that now and then lag, or fail when all their rows are out."""
    if trouble is None:
        return rows
    folder.mkdir(exist_ok=True)
    fails, lags = trouble.get("fails", 0), trouble.get("lags", 0)

    def attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number, batch = context.attemptNumber(), context.getLocalProperty("streaming.sql.batchId")
        file = folder / f"{batch}.{context.partitionId()}.{number}"
        file.touch()
        yield from batches
        if not number and random.random() < lags:
            time.sleep(LAG_S)
        if random.random() < fails:
            file.write_text("failed")
            raise RuntimeError("a task that fails at random")

    return rows.mapInArrow(attempt, rows.schema)


def _note(file: Path, line: str) -> None:
    with file.open("a") as lines:
        print(line, file=lines)


def stored(folder: Path) -> list[dict[str, Any]]:
    """The rows of the files that Spark's sink has committed, in the order of their batches."""
    names: dict[int, list[str]] = {}
    for file in (folder / "out" / "_spark_metadata").glob("[0-9]*"):
        batch, _, compact = file.name.partition(".")
        paths = [json.loads(line)["path"] for line in file.read_text().splitlines()[1:]]
        if compact:
            names = {at: result for at, result in names.items() if at > int(batch)}
        names[int(batch)] = paths
    compacts = [
        int(file.name.partition(".")[0]) for file in (folder / "out/_spark_metadata").glob("*.compact")
    ]
    names = {at: paths for at, paths in names.items() if at >= max(compacts, default=-1)}
    files = [path.removeprefix("file://") for at in sorted(names) for path in names[at]]
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
