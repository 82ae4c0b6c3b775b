"""The surroundings of a subject: a Spark as users have it, Apache Kafka's own broker, and further Sparks."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import SparkSession

from tests.interop.apache_kafka import ApacheKafka
from tests.support import certificates
from tests.support.local_spark import home_with_byte_code, plain_spark
from tests.support.spark_cluster import SparkCluster

from .ceilings import CountingDataSource, PrebuiltDataSource
from .sources import Side, read_into_nothing

KAFKA: Final = "4.1.1"
#: What all folders of benchmarks are called.
PREFIX: Final = "kafkawire-bench-"
#: What no query takes, with the start of its Spark, seconds; and what no Spark takes to stop.
QUERY_DEADLINE_S: Final = 3600.0
STOP_DEADLINE_S: Final = 60.0
_ROOT: Final = Path(__file__).parents[2]
_EXECUTOR_MEMORY: Final = "1g"
_QUERIES: Final[Mapping[str, Callable[[SparkSession, Side], int | None]]] = {
    "read": lambda spark, side: read_into_nothing(side.batch(spark)),
    "count": lambda spark, side: side.batch(spark).count(),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """The rounds and the size of a subject. Spark and the broker start when they are first asked for."""

    rounds: int
    size: int
    get_session: Callable[[], SparkSession]
    get_servers: Callable[[], str]

    @property
    def spark(self) -> SparkSession:
        """The session, which all subjects of a run share."""
        return self.get_session()

    @property
    def servers(self) -> str:
        """The address of the subject's own broker of Apache Kafka."""
        return self.get_servers()


@contextmanager
def spark_session(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
    """A local session on two cores, as users have it, that knows the ceilings."""
    session = plain_spark("spark-kafkawire benchmarks", {"spark.driver.memory": "2g", **settings})
    try:
        session.dataSource.register(PrebuiltDataSource)
        session.dataSource.register(CountingDataSource)
        yield session
    finally:
        session.stop()


@contextmanager
def kafka() -> Iterator[str]:
    """The address of a broker with full JIT, which serves everybody from the page cache. It shares the
    machine's cores with Spark's JVM and the Python workers, whoever reads and writes."""
    with TemporaryDirectory(prefix=PREFIX) as name:
        tls = Path(name, "tls")
        tls.mkdir()
        with ApacheKafka(KAFKA, Path(name), certificates.make(tls), full_jit=True) as broker:
            yield broker.bootstrap_servers()


class Spark:
    """A session of these settings in a process of its own, from ``with`` on: several are warm at the same
    time. It has these CPUs alone, where some are named."""

    def __init__(self, settings: Mapping[str, str], cpus: Collection[int] = ()) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, self._theirs = context.Pipe()
        arguments = (self._theirs, dict(settings), cpus)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)

    def read(self, side: Side) -> None:
        """Read it into nothing."""
        self._ask("read", side)

    def count(self, side: Side) -> int:
        """Read all of its columns, and count the rows."""
        rows: int = self._ask("count", side)
        return rows

    def __enter__(self) -> Spark:
        self._process.start()
        # Without it nobody notices when the process ends.
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


@contextmanager
def standalone(workers: int) -> Iterator[dict[str, str]]:
    """The settings for a standalone cluster of so many workers, each with a core and an executor of 1 GiB."""
    with TemporaryDirectory(prefix=PREFIX) as folder:
        environ = {"SPARK_HOME": home_with_byte_code()}
        with SparkCluster(Path(folder), environ, workers=workers, memory=_EXECUTOR_MEMORY) as cluster:
            yield {
                "spark.master": cluster.master,
                "spark.executor.memory": _EXECUTOR_MEMORY,
                # The ready-made batches are made by modules of the tests.
                "spark.executorEnv.PYTHONPATH": str(_ROOT),
            }
