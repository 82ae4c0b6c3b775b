"""Work for runs of each job that are killed, stopped, doubled or misled: in the end each row is there once.

for work in WORKS: ingest, publish, migrate
    work = Ingesting(…)
    work.add()
    drivers.summary(drivers.start(work.job, work.arguments))
    work.check()
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.jobs.ingest.output import OutputOptions
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, recorded
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .ingest.ingesting import produce, values_of
from .migration.migrating import copied, driver_arguments

_PARTITIONS: Final = 2
JOBS: Final = ("ingest", "publish", "migrate")
_NAMES: Final = itertools.count()


def at_length_but(short: str) -> pytest.MarkDecorator:
    """The work of each job in ``make nightly``, and in ``make test`` that of one."""
    jobs = [pytest.param(job, marks=() if job == short else pytest.mark.nightly) for job in JOBS]
    return pytest.mark.parametrize("work", jobs, indirect=True)


class Work(Protocol):
    """Work of the runs of a job, one after the other, in folders of their own."""

    #: A job of ``driver``, and its arguments.
    job: str
    arguments: Mapping[str, Any]
    #: What the runs remember, and write to files.
    folder: Path

    def add(self) -> None:
        """Give the next run something to do."""

    def progress(self) -> int:
        """A number that grows when a run has begun to change something."""

    def check(self) -> None:
        """Assert that all was done, once."""


class Ingesting:
    """A topic that grows."""

    job = "ingest"
    _NEW_COUNT: Final = 100

    def __init__(self, spark: SparkSession, noida: NoidaBroker, folder: Path) -> None:
        self._spark = spark
        self._servers = noida.bootstrap_servers
        self._topic = noida.create_topic(_PARTITIONS)
        self._count = 0
        self.folder = folder
        self.arguments: Mapping[str, Any] = {
            "connection": {"kafka.bootstrap.servers": self._servers},
            "selection": {"subscribe": self._topic},
            "output": str(folder / "out"),
            "group": f"g-{self._topic}",
        }

    def add(self) -> None:
        produce(self._servers, self._topic, range(self._count, self._count + self._NEW_COUNT), _PARTITIONS)
        self._count += self._NEW_COUNT

    def progress(self) -> int:
        """Count of planned batches."""
        return len({path.name.split(".")[0] for path in self.folder.glob("out/_kafkawire/[0-9]*.json")})

    def check(self) -> None:
        assert values_of(self._spark, OutputOptions(str(self.folder / "out"))) == [*range(self._count)]
        for number in range(_PARTITIONS):
            committed = librdkafka.committed_offset(self._servers, f"g-{self._topic}", self._topic, number)
            assert committed == self._count // _PARTITIONS


class Publishing:
    """Rows, some of them equal, of which a run sends some hundred batches."""

    job = "publish"
    _COUNT: Final = 2000

    def __init__(self, spark: SparkSession, noida: NoidaBroker, folder: Path) -> None:
        self._servers = noida.bootstrap_servers
        self.topic = noida.create_topic(_PARTITIONS)
        self.folder = folder
        rows = spark.range(0, self._COUNT, 1, 4).selectExpr("concat('value ', id - id % 5 % 2) AS body")
        self._wanted = Counter(f"value {number - number % 5 % 2}".encode() for number in range(self._COUNT))
        rows.write.parquet(f"{folder}-input")
        options = {"batchBytes": "256", "kafka.max.in.flight.requests.per.connection": "1"}
        self.arguments: Mapping[str, Any] = {
            "input": f"{folder}-input",
            "columns": {"value": "body"},
            "options": {**options, "kafka.bootstrap.servers": self._servers, "topic": self.topic},
            "state": str(folder / "state"),
            # What a killed run had under way has ended when the next one begins.
            "settle_s": 0.2,
        }

    def add(self) -> None:
        """All there is belongs to one publication."""

    def progress(self) -> int:
        """Count of messages."""
        return sum(librdkafka.offsets(self._servers, self.topic, number)[1] for number in range(_PARTITIONS))

    def records(self) -> list[Record]:
        """All messages."""
        numbers = range(_PARTITIONS)
        return [each for number in numbers for each in librdkafka.consume(self._servers, self.topic, number)]

    def check(self) -> None:
        assert Counter(record.value for record in self.records()) == self._wanted


class Migrating:
    """Recorded logs, of which a run copies many pieces."""

    job = "migrate"

    def __init__(self, corpus: EmbeddedCluster, noida: NoidaBroker, folder: Path) -> None:
        self._noida = noida
        self._target = f"worked-{next(_NAMES)}"
        self.folder = folder
        self.arguments: Mapping[str, Any] = driver_arguments(
            corpus, noida, folder / "state", {GZIP_TOPIC: self._target}
        )

    def add(self) -> None:
        """The partitions stay as they were recorded."""

    def progress(self) -> int:
        """Count of times that the state was saved."""
        names = [path.stem for path in self.folder.glob("state/migration-*.json")]
        return max((int(name.rpartition("-")[2]) for name in names), default=0)

    def check(self) -> None:
        assert copied(self._noida, self._target) == recorded()
