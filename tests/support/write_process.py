"""Processes that write and that a test may kill meanwhile: a Spark, or forks.

    python -m tests.support.write_process [HOME SETTINGS_JSON]

With arguments Spark is in ``HOME`` and has these settings, too; without them each write has a forked driver.
Each line on stdin is a question, an object of JSON, and gets one on stdout that begins with ``ANSWER``.

The rows of a write are ``MARK 0``, ``MARK 1`` and so on. With ``"failing": {"seed": S, "share": 0.4,
"least": 3}`` attempts of tasks before their third fail, each before its first row, between two of them, or
after its last one, as the seed says. With ``"rivalled": FOLDER`` each attempt of the first task waits between
two of its rows until another one has come so far, and notes its number in that folder. Only Spark does these.

Of forks ``DRIVER`` and its process id are told before the answer, which is ``{"killed": true}`` where
somebody killed that process group: planning and commit run in it, the tasks do not, and go on then while they
can.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from tests.support.exactly_once import Task, as_task
from tests.support.local_spark import local_spark

from .local_spark import home_with_byte_code

_ROOT: Final = Path(__file__).parents[2]
#: How long it may take to start, to write, and to end, on a machine with other work, seconds.
WAIT_MAX_S: Final = 900.0


class WriteProcess:
    """This module, which answers questions, started when it is asked first, and again after it was killed."""

    def __init__(self, folder: Path, *argv: str) -> None:
        self._folder = folder
        self._argv = (sys.executable, "-m", "tests.support.write_process", *argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._reported = b""

    @property
    def is_running(self) -> bool:
        """True if it was started and not killed since."""
        return self._process is not None

    def start(self) -> None:
        """Start it where it does not run, and wait until it takes questions."""
        if self._process is not None:
            return
        pipe = subprocess.PIPE
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, cwd=_ROOT, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True
            )
        assert self._answer() is not None, (self._folder / "log").read_text()[-4000:]

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """Its answer; None where it was killed before it gave one."""
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        answer = self._answer()
        if answer is None:
            self._bury()
        return answer

    def kill_driver(self) -> None:
        """End the driver as ``kill -9`` does; its workers find out by themselves."""
        raise NotImplementedError

    def kill_worker(self, client_port: int, draw: random.Random) -> bool:
        """End the Python process that has this port, or any that works for Spark; whether there was one."""
        for process in self._workers(client_port, draw):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                return True
        return False

    def __enter__(self) -> WriteProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(WAIT_MAX_S)
            self._bury()

    def _bury(self) -> None:
        assert self._process is not None
        self._kill_group()
        self._process.wait(WAIT_MAX_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process, self._reported = None, b""

    def _answer(self) -> dict[str, Any] | None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline_s = time.monotonic() + WAIT_MAX_S
        while True:
            line, result, rest = self._reported.partition(b"\n")
            if result:
                self._reported = rest
                if (answer := self._heard(line.decode())) is not None:
                    return answer
                continue
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"no answer in {WAIT_MAX_S:g} s: {(self._folder / 'log').read_text()[-4000:]}"
            if select.select([process.stdout], [], [], left_s)[0]:
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    return None
                self._reported += data

    def _heard(self, line: str) -> dict[str, Any] | None:
        """The answer that a line is."""
        answer: dict[str, Any] | None = json.loads(line[len(ANSWER) :]) if line.startswith(ANSWER) else None
        return answer

    def _kill_group(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _workers(self, client_port: int, draw: random.Random) -> list[psutil.Process]:
        assert self._process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children(recursive=True)
            result = [process for process in children if self._is_worker(process)]
            if not client_port:
                return draw.sample(result, min(1, len(result)))
            return [process for process in result if client_port in _ports_of(process)]
        return []

    def _is_worker(self, process: psutil.Process) -> bool:
        raise NotImplementedError


class SparkWrites(WriteProcess):
    """A driver, Python and JVM, that does one write after the other."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        settings = {"spark.local.dir": str(folder), **settings}
        super().__init__(folder, home_with_byte_code(), json.dumps(settings))

    def kill_driver(self) -> None:
        """End Python and JVM."""
        self._kill_group()

    def _is_worker(self, process: psutil.Process) -> bool:
        """True if a daemon of Spark's has forked the process."""
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = process.parent()
            return parent is not None and all(
                "pyspark.daemon" in item.cmdline() for item in (process, parent)
            )
        return False


class ForkedWrites(WriteProcess):
    """Writes in Spark's order by forked processes instead of Spark: a driver for each write. Planning,
    attempts of tasks, commit and abort run in a process each, two attempts at a time, four for each task.

    A real Spark needs as many processor seconds for one driver that was killed as this for a hundred.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._driver = 0

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """As any; the process goes on where the driver was killed."""
        answer = super().ask(question)
        self._driver = 0
        return None if answer and "killed" in answer else answer

    def kill_driver(self) -> None:
        """End the process of the write, and what it does itself: a driver's commit dies with it."""
        if self._driver:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._driver, signal.SIGKILL)

    def _heard(self, line: str) -> dict[str, Any] | None:
        if line.startswith(DRIVER):
            self._driver = int(line[len(DRIVER) :])
        return super()._heard(line)

    def _is_worker(self, process: psutil.Process) -> bool:
        """True if the driver has forked the process."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return bool(process.ppid() == self._driver)
        return False


def _ports_of(process: psutil.Process) -> set[int]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return {item.laddr.port for item in process.net_connections("tcp") if item.laddr}
    return set()


ANSWER: Final = "ANSWER "
#: Rows of a batch that a task gets: it takes some of them.
BATCH_ROWS: Final = 5
#: How long an attempt waits for its rival, and between two looks, seconds.
_RIVAL_S, _POLL_S = 300.0, 0.02


def write_by_spark(home: str, settings: dict[str, str]) -> None:
    """Answer the questions until there are no more."""
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS), **settings}
    spark = local_spark("writes that are killed", {"spark.log.level": "OFF", **settings}, home)
    _answer({})
    for line in sys.stdin:
        asked = json.loads(line)
        _answer(_read(spark, asked) if "read" in asked else _write(spark, asked))
    spark.stop()


def _answer(content: dict[str, Any]) -> None:
    print(ANSWER + json.dumps(content), flush=True)


def _read(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    rows = spark.read.format("kafka").options(**asked["read"]).load().selectExpr("cast(value AS string)")
    return {"values": [row[0] for row in rows.collect()]}


def _write(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    tasks = asked["tasks"]
    frame = spark.range(0, tasks * asked["rows"], 1, tasks)
    frame = frame.selectExpr(f"concat('{asked['mark']} ', id) value")
    if "failing" in asked:
        frame = _failing(frame, **asked["failing"])
    if "rivalled" in asked:
        frame = _rivalled(frame, asked["rivalled"])
    try:
        frame.write.format("kafkawire").mode("append").options(**asked["write"]).save()
    except (PySparkException, Py4JError) as error:
        return {"error": str(error)}
    return {"error": None}


def _failing(frame: DataFrame, seed: str, share: float, least: int) -> DataFrame:
    """The rows, of which attempts before number ``least`` fail with that probability."""

    def some_fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        chance = random.Random(f"{seed} {context.partitionId()} {context.attemptNumber()}")
        is_failing = context.attemptNumber() < least and chance.random() < share
        moment = chance.choice(("before", "between", "after")) if is_failing else ""
        if moment == "before":
            raise RuntimeError("this attempt fails before its first row")
        for number, batch in enumerate(batches):
            if moment == "between" and number:
                raise RuntimeError("this attempt fails between two rows")
            yield batch
        if moment:
            raise RuntimeError("this attempt fails after its last row")

    return frame.mapInArrow(some_fail, frame.schema)


def _rivalled(frame: DataFrame, folder: str) -> DataFrame:
    """The rows, between two of which attempts of the first task wait for each other: both have begun their
    transactions by then, and go on at the same time."""

    def waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        stop_s = time.monotonic() + _RIVAL_S
        for number, batch in enumerate(batches):
            if context.partitionId() == 0 and number:
                (Path(folder) / str(context.attemptNumber())).touch()
                while len(list(Path(folder).iterdir())) < 2:
                    assert time.monotonic() < stop_s, "no other attempt of this task begins"
                    time.sleep(_POLL_S)
            yield batch

    return frame.mapInArrow(waits, frame.schema)


DRIVER: Final = "DRIVER "
_SCHEMA: Final = StructType([StructField("value", BinaryType())])
_AT_ONCE: Final = 2
#: What each task would load by itself.
_LOADED: Final = ("pandas", "pyarrow.compute", "pyarrow.pandas_compat")
#: Attempts of a task: when the last one fails the write does.
_ATTEMPTS_MAX: Final = 4


class Failed(Exception):
    """Error that a process raised, or its end without a result."""


class Forked:
    """A process that does ``work``; what comes of it is read from ``pipe``."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.pipe, reported = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BrokenPipeError), open(reported, "wb") as out:
                out.write(pickle.dumps(_outcome(work)))
            os._exit(0)
        os.close(reported)

    def result(self) -> Any:
        """Value that it returned. Raises ``Failed``."""
        with open(self.pipe, "rb") as reported:
            data = reported.read()
        os.waitpid(self.pid, 0)
        if not data:
            raise Failed("the process is gone")
        is_error, value = pickle.loads(data)
        if is_error:
            raise Failed(value)
        return value


def _outcome(work: Callable[[], Any]) -> tuple[bool, Any]:
    try:
        return False, work()
    except Exception as error:
        return True, f"{type(error).__name__}: {error}"


def write_by_forks() -> None:
    """Answer the questions until there are no more."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's would not survive a fork
    for module in _LOADED:
        importlib.import_module(module)
    print(ANSWER + "{}", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        driver = Forked(lambda asked=asked: _driven(asked))  # type: ignore[misc]
        print(f"{DRIVER}{driver.pid}", flush=True)
        try:
            content = driver.result()
        except Failed:
            content = {"killed": True}
        print(ANSWER + json.dumps(content), flush=True)


def _driven(asked: dict[str, Any]) -> dict[str, Any]:
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        made = Forked(lambda: KafkaWireDataSource(asked["write"]).writer(_SCHEMA, False)).result()
    except Failed as error:
        return {"error": str(error)}
    messages: list[Any] = [None] * asked["tasks"]
    try:
        _run_tasks(made, asked, messages)
        Forked(lambda: made.commit(messages)).result()
    except Failed as error:
        with contextlib.suppress(Failed):
            Forked(lambda: made.abort(messages)).result()
        return {"error": str(error)}
    return {"error": None}


def _run_tasks(made: Any, asked: dict[str, Any], messages: list[Any]) -> None:
    """Fill in what each task tells. Raises ``Failed`` when one has failed too often, after the others."""
    waiting = [(task, 0) for task in range(asked["tasks"])]
    running: dict[int, tuple[Forked, int, int]] = {}
    failure: Failed | None = None
    while running or (waiting and failure is None):
        while waiting and len(running) < _AT_ONCE and failure is None:
            task, attempt = waiting.pop(0)
            work = _attempt(made, asked, task, attempt)
            forked = Forked(work)
            running[forked.pipe] = forked, task, attempt
        for pipe in select.select([*running], [], [])[0]:
            forked, task, attempt = running.pop(pipe)
            try:
                messages[task] = forked.result()
            except Failed as error:
                if attempt + 1 < _ATTEMPTS_MAX:
                    waiting.append((task, attempt + 1))
                else:
                    failure = error
    if failure is not None:
        raise failure


def _attempt(made: Any, asked: dict[str, Any], task: int, attempt: int) -> Callable[[], Any]:
    def work() -> Any:
        os.setpgid(0, 0)
        first = task * asked["rows"]
        values = [f"{asked['mark']} {first + number}".encode() for number in range(asked["rows"])]
        batches = [
            pa.RecordBatch.from_pydict({"value": pa.array(values[at : at + BATCH_ROWS], pa.binary())})
            for at in range(0, len(values), BATCH_ROWS)
        ]
        # No other attempt has the number.
        with as_task(Task(task, task * _ATTEMPTS_MAX + attempt)):
            return made.write(iter(batches))

    return work


if __name__ == "__main__":
    if sys.argv[1:]:
        write_by_spark(sys.argv[1], json.loads(sys.argv[2]))
    else:
        write_by_forks()
