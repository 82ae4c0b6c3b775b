"""Sparks in processes of their own, which read what they are told to: several are warm at the same time.

with Spark({"spark.master": "local[1]"}, cpus={0}) as spark:
    spark.read(side)
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.sql import SparkSession

from tests.support.local_spark import home_with_byte_code
from tests.support.spark_cluster import SparkCluster

from ..backlog import Side, read_into_nothing
from ..session import spark_session

#: What no query takes, with the start of its Spark, seconds; and what no Spark takes to stop.
QUERY_DEADLINE_S: Final = 3600.0
STOP_DEADLINE_S: Final = 60.0
_ROOT: Final = Path(__file__).parents[3]
_EXECUTOR_MEMORY: Final = "1g"
_QUERIES: Final[Mapping[str, Callable[[SparkSession, Side], int | None]]] = {
    "read": lambda spark, side: read_into_nothing(side.batch(spark)),
    "count": lambda spark, side: side.batch(spark).count(),
}


class Spark:
    """A session of these settings from ``with`` on; it has these CPUs alone, where some are named."""

    def __init__(self, settings: Mapping[str, str], cpus: Collection[int] = ()) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, dict(settings), cpus), daemon=True)
        self._theirs = theirs

    def read(self, side: Side) -> None:
        """Read it into nothing."""
        self._ask("read", side)

    def count(self, side: Side) -> int:
        """Read all of its columns, and count the rows."""
        rows: int = self._ask("count", side)
        return rows

    def __enter__(self) -> Spark:
        self._process.start()
        # Else nobody would be told when the process ends.
        self._theirs.close()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._connection.close()
        self._process.join(STOP_DEADLINE_S)
        self._process.kill()

    def _ask(self, *question: Any) -> Any:
        """Its answer. Raises what the query raised, and ``EOFError`` where the process has ended."""
        self._connection.send(question)
        if not self._connection.poll(QUERY_DEADLINE_S):
            raise TimeoutError(f"no answer after {QUERY_DEADLINE_S:g} s: {question}")
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def standalone(workers: int) -> Iterator[dict[str, str]]:
    """The settings for a standalone cluster of so many workers, each with a core and an executor of 1 GiB."""
    with TemporaryDirectory(prefix="kafkawire-bench-") as folder:
        environ = {"SPARK_HOME": home_with_byte_code()}
        with SparkCluster(Path(folder), environ, workers=workers, memory=_EXECUTOR_MEMORY) as cluster:
            yield {
                "spark.master": cluster.master,
                "spark.executor.memory": _EXECUTOR_MEMORY,
                # The ready-made batches are made by modules of the tests.
                "spark.executorEnv.PYTHONPATH": str(_ROOT),
            }


def _serve(connection: Connection, settings: Mapping[str, str], cpus: Collection[int]) -> None:
    """Answer queries until nobody asks any more."""
    if cpus:
        os.sched_setaffinity(0, cpus)
    with spark_session(settings) as spark:
        while True:
            try:
                kind, side = connection.recv()
            except EOFError:
                return
            try:
                connection.send(_QUERIES[kind](spark, side))
            except Exception as error:
                connection.send(RuntimeError(str(error)))
