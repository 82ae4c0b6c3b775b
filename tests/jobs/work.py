"""Work for runs of each job that are killed, stopped, doubled or misled: in the end each row is there once.

for name in JOBS:
    work = new_work(name)
    work.add()
    drivers.summary(drivers.start(work.job, work.arguments))
    work.check()

And a display of progress for work that waits until a part of it is shown.

halfway = Halfway(COUNT, release=file.touch)
publish(waiting(rows, file), options, halfway)
assert halfway.shown
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.jobs.progress import Work as Counted
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, recorded
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import DEADLINE_S, INTERVAL_S

from .ingest.ingesting import produce, values_of
from .migration.migrating import copied, driver_arguments

_PARTITIONS: Final = 2
JOBS: Final = ("ingest", "publish", "migrate")
_NAMES: Final = itertools.count()


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
    _COUNT: Final = 1000
    _TIME_MS: Final = 1_700_000_000_000

    def __init__(
        self, spark: SparkSession, connection: Mapping[str, str], topic: str, folder: Path, **given: Any
    ) -> None:
        self._spark, self._connection, self._topic = spark, connection, topic
        self.folder = folder
        self._ids = [number - (number % 5 == 0) for number in range(self._COUNT)]
        columns = ("CAST(id AS string) AS id", "concat('value ', id) AS body", "map('n', id) AS tags")
        rows = spark.range(0, self._COUNT, 1, 4).selectExpr("id - CAST(id % 5 = 0 AS int) AS id")
        rows.selectExpr(*columns, f"{self._TIME_MS} + id AS at").write.parquet(f"{folder}-input")
        options = {"batchBytes": "256", "retryBackoff": "5ms"}
        self.arguments: Mapping[str, Any] = {
            "input": f"{folder}-input",
            "columns": {"value": "body", "key": "id"},
            "options": {**options, **connection, "topic": topic},
            "state": str(folder / "state"),
            # What a killed run had under way has ended when the next one begins.
            "settle_s": 0.2,
            **given,
        }

    def add(self) -> None:
        """All there is belongs to one publication."""

    def progress(self) -> int:
        """Count of runs that are about to write."""
        return len([*self.folder.glob("state/run-*.json")])

    def check(self) -> None:
        reader = self._spark.read.format("kafkawire").schema("value binary")
        rows = reader.options(**self._connection, subscribe=self._topic).load().collect()
        assert Counter(bytes(row.value) for row in rows) == Counter(b"value %d" % id for id in self._ids)


class PublishingModern(Publishing):
    """The same with all that a record has, read by librdkafka; ``once`` in transactions, else compared."""

    def __init__(
        self, spark: SparkSession, noida: NoidaBroker, folder: Path, *, once: bool = False, timed: bool = True
    ) -> None:
        # Retention goes by the records' own time, and these are old.
        topic = noida.create_topic(_PARTITIONS, config={"retention.ms": "-1"})
        columns = {"value": "body", "key": "id", "headers": "tags", **({"timestamp": "at"} if timed else {})}
        given: dict[str, Any] = {"settle_s": None, "exactly_once": True} if once else {}
        connection = {"kafka.bootstrap.servers": noida.bootstrap_servers}
        super().__init__(spark, connection, topic, folder, columns=columns, **given)
        self._servers, self._level, self._timed = noida.bootstrap_servers, "read_uncommitted", timed
        if once:
            self._level = "read_committed"
        else:
            self.arguments["options"]["kafka.max.in.flight.requests.per.connection"] = "1"

    def progress(self) -> int:
        """Count of messages, also of open transactions."""
        return sum(librdkafka.offsets(self._servers, self._topic, number)[1] for number in range(_PARTITIONS))

    def records(self) -> list[Record]:
        """All messages."""
        return [
            item
            for number in range(_PARTITIONS)
            for item in librdkafka.consume(self._servers, self._topic, number, isolation_level=self._level)
        ]

    def check(self) -> None:
        wanted = (
            (b"%d" % id, b"value %d" % id, (("n", b"%d" % id),), self._TIME_MS + id) for id in self._ids
        )
        result = ((item.key, item.value, item.headers, item.timestamp_ms) for item in self.records())
        size = 4 if self._timed else 3
        assert Counter(item[:size] for item in result) == Counter(item[:size] for item in wanted)


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


NewWork = Callable[[str], Work]


def new_work_of(
    name: str, spark: SparkSession, corpus: EmbeddedCluster, noida: NoidaBroker, folder: Path
) -> Work:
    """Work of a kind, in an empty folder."""
    match name:
        case "ingest":
            return Ingesting(spark, noida, folder)
        case "publish":
            return PublishingModern(spark, noida, folder)
        case "publish at the time of the clock":
            return PublishingModern(spark, noida, folder, timed=False)
        case "publish exactly once":
            return PublishingModern(spark, noida, folder, once=True)
        case "publish to 0.7":
            topic = f"published-{next(_NAMES)}"
            return Publishing(spark, {"zookeeper.connect": corpus.zookeeper_connect}, topic, folder)
        case _:
            return Migrating(corpus, noida, folder)


class Halfway(Progress):
    """Remembers each count of messages that is more than none and less than all, with the fraction that is
    shown beside it, and calls ``release``."""

    def __init__(self, total: int, release: Callable[[], object] = lambda: None) -> None:
        self.shown: list[tuple[int, float | None]] = []
        self._total, self._release = total, release

    def show(self, what: str, work: Counted) -> None:  # noqa: ARG002
        if 0 < (count := work.messages) < self._total:
            self.shown.append((count, work.fraction))
            self._release()


def waiting(rows: DataFrame, until: Path) -> DataFrame:
    """The rows; after the first ones each task waits until a file is there, for a bounded time."""
    deadline_s, interval_s = DEADLINE_S, INTERVAL_S

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        until_s = time.monotonic() + deadline_s
        for batch in batches:
            yield batch
            while not until.exists() and time.monotonic() < until_s:
                time.sleep(interval_s)

    return rows.mapInArrow(wait, rows.schema)
