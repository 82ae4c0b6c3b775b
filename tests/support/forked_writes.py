"""Writes in Spark's order by forked processes instead of Spark: a driver for each write. Planning, attempts
of tasks, commit and abort run in a process each, two attempts at a time, four for each task.

    python -m tests.support.forked_writes

Questions and answers are those of ``write_driver``, which has a real Spark and needs as many processor
seconds for one driver that was killed as this for a hundred. ``DRIVER`` and its process id are told before
the answer, which is ``{"killed": true}`` where somebody killed that process group: planning and commit run in
it, the tasks do not, and go on then while they can.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from tests.support.exactly_once import Task, as_task
from tests.support.write_driver import ANSWER, BATCH_ROWS

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


def main() -> None:
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
    main()
