"""Mistakes of users: what Python prints of each is a line of ours, a few of Spark's, and no frame of ours."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_kafkawire import in_key_order
from spark_kafkawire.broker import EmbeddedCluster
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import WAIT_MAX_S, send, started
from tests.support.sparks import STREAM_SINKS

#: Lines of Spark's own that may be around ours: frames of the driver, and what it says of the step.
SPARKS_MAX: Final = 12
#: Until 3.11, Python prints the frame that raises an error again.
OURS_MAX: Final = 0 if sys.version_info >= (3, 11) else 1
#: What follows in the text of a stream's error is the plan of the user's own query.
PLAN: Final = "Logical Plan:"

#: Nothing listens there, and nobody is waited for.
NOBODY: Final = {"kafka.bootstrap.servers": "127.0.0.1:1", "brokerDownTimeout": "0s", "retries": "0"}
LARGE: Final = "REPEAT('x', 2000000) AS value"


@dataclass(frozen=True)
class Place:
    """Session, brokers and folder of the mistakes."""

    spark: SparkSession
    modern: Mapping[str, str]
    old: Mapping[str, str]
    topic: str
    folder: Path


#: What a user's program does at a place.
Program = Callable[[Place], object]


def read(*schema: str, at: str = "modern", **options: str) -> Program:
    """A batch read of the topic."""

    def run(place: Place) -> object:
        reader = place.spark.read.format("kafkawire").options(**given(place, at, options, "subscribe"))
        return (reader.schema(*schema) if schema else reader).load().collect()

    return run


def write(*columns: str, mode: str = "append", at: str = "modern", **options: str) -> Program:
    """A batch write of a row to the topic."""

    def run(place: Place) -> None:
        writer = place.spark.range(1).selectExpr(*columns or ("'v' AS value",)).write.format("kafkawire")
        writer.options(**given(place, at, options, "topic")).mode(mode).save()

    return run


def stream(at: str = "modern", **options: str) -> Program:
    """A stream of the topic to nowhere."""

    def run(place: Place) -> object:
        rows = place.spark.readStream.format("kafkawire")
        return ended(place, rows.options(**given(place, at, options, "subscribe")).load(), "noop")

    return run


def sink(*columns: str, **options: str) -> Program:
    """A stream to the topic."""

    def run(place: Place) -> object:
        rows = lines(place).selectExpr(*columns)
        return ended(place, rows, "kafkawire", **given(place, "modern", options, "topic"))

    return run


def swapped_back(place: Place) -> object:
    """A read of the ZooKeeper of 0.7 as if it were a modern broker."""
    where = {"kafka.bootstrap.servers": place.old["zookeeper.connect"].partition("/")[0]}
    return read(at="nowhere", **where)(place)


def view(place: Place) -> object:
    """A view without brokers."""
    return place.spark.sql("CREATE TEMPORARY VIEW mistaken USING kafkawire OPTIONS (subscribe 't')")


def lines(place: Place) -> DataFrame:
    """A stream of a line."""
    folder = place.folder / "in"
    folder.mkdir(exist_ok=True)
    (folder / "lines").write_text("v\n")
    return place.spark.readStream.text(str(folder))


def given(place: Place, at: str, options: Mapping[str, str], topic: str) -> dict[str, str]:
    """The options at a place, its topic as the option ``topic``; without those that are empty."""
    where = {"modern": place.modern, "old": place.old, "nowhere": {}}[at]
    merged = {**where, topic: place.topic if at == "modern" else "debian-gzip", **options}
    return {name: value.replace("TOPIC", place.topic) for name, value in merged.items() if value}


def ended(place: Place, rows: DataFrame, sink: str, **options: str) -> object:
    """A query of what there is, which goes on until it ends."""

    def attempt() -> object:
        writer = rows.writeStream.format(sink).options(**options)
        writer = writer.option("checkpointLocation", str(place.folder / "checkpoint"))
        return writer.trigger(availableNow=True).start().awaitTermination(WAIT_MAX_S)

    return started(attempt)


MISTAKES: Final[Mapping[str, tuple[Program, str]]] = {
    # A batch read: options, columns, brokers, topics and offsets.
    "read: misspelled": (read(failOnDataLos="false"), "OptionError: unknown option failondatalos"),
    "read: column": (read("value BINARY, valeu BINARY"), "OptionError: schema: there is no column 'v"),
    "read: servers": (read(**NOBODY), "ConnectFailed: .*127.0.0.1:1"),
    "read: data loss": (
        read(startingOffsets='{"TOPIC":{"0":700}}', endingOffsets='{"TOPIC":{"0":710}}'),
        "DataLossError: .*700",
    ),
    # Kafka 0.7, and SQL.
    "0.7: its ZooKeeper": (swapped_back, "ProtocolError: .*: this is a ZooKeeper, not a broker; set "),
    "SQL: view": (view, "OptionError: set exactly one of the options kafka.bootstrap"),
    # A batch write.
    "write: mode": (write(mode="overwrite"), 'OptionError: mode "overwrite"'),
    "write: large row": (write(LARGE), "RowError: .* its record of 2000087 bytes is larger"),
    # Streams.
    "stream: topic": (
        stream(subscribe="no-such-stream", brokerDownTimeout="0s"),
        "UnknownTopicError: .*no-such",
    ),
    "sink: type": (sink("1 AS value"), "OptionError: schema: value attribute unsupported type int"),
    # On the driver.
    "in_key_order": (lambda location: in_key_order(location.spark.range(1)), "OptionError: in_key_order"),
}


class Refusing(DataSource):
    """A stream that does nothing but fail."""

    @classmethod
    def name(cls) -> str:
        return "refusing"

    def schema(self) -> str:
        return "value STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002
        return RefusingReader()


class RefusingReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, str]:
        # What Spark's own setting sets, though not in the processes of streams.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise ValueError("refused")

    # Spark before 4.2 begins with this one.
    def latestOffset(self) -> dict[str, str]:  # type: ignore[override]
        return self.initialOffset()

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        raise AssertionError(partition)


@pytest.fixture
def place(spark: SparkSession, noida: NoidaBroker, corpus: EmbeddedCluster, tmp_path: Path) -> Place:
    topic = noida.create_topic()
    send(noida, topic, range(3))
    modern = {"kafka.bootstrap.servers": noida.bootstrap_servers}
    return Place(spark, modern, {"zookeeper.connect": corpus.zookeeper_connect}, topic, tmp_path)


@pytest.fixture(scope="module")
def stream_floor(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Lines of Spark's own around the error of a stream: of the least that fails, without its frames."""
    spark.dataSource.register(Refusing)
    location = Place(spark, {}, {}, "", tmp_path_factory.mktemp("refusing"))
    rows = spark.readStream.format("refusing").load()
    error = ended_with(location, lambda location: ended(location, rows, "noop"))
    return len(spark_lines(error, "ValueError: refused"))


def ended_with(place: Place, run: Program) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the class is Spark's
        run(place)
    return caught.value


def printed(error: BaseException) -> list[str]:
    """Lines that Python prints of an error that ends a program, without the program's own frames
    and blank lines."""
    reported = traceback.TracebackException.from_exception(error)
    of_spark = [frame for frame in reported.stack if str(Path(__file__).parents[1]) not in frame.filename]
    reported.stack = traceback.StackSummary.from_list(of_spark)
    return [line for line in "".join(reported.format()).splitlines() if line.strip()]


def spark_lines(error: BaseException, ours: str) -> list[str]:
    """The lines of that before and after the one that has ``ours``, without the plan of a stream."""
    lines = printed(error)
    [index] = [number for number, line in enumerate(lines) if ours in line]
    plan = lines.index(PLAN) if PLAN in lines else len(lines)
    return [*lines[:index], *lines[index + 1 : plan]]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=STREAM_SINKS if "sink" in name else ()) for name in MISTAKES]
)
def test_a_mistake_is_one_line_of_ours_and_few_of_sparks(place: Place, stream_floor: int, name: str) -> None:
    run, line = MISTAKES[name]
    error = ended_with(place, run)
    lines = printed(error)
    [ours] = [line for line in lines if "spark_kafkawire.errors." in line]
    assert re.search(rf"spark_kafkawire\.errors\.{line}", ours)
    frames = [line for line in lines if "spark_kafkawire/" in line and line.strip().startswith('File "')]
    assert len(frames) <= OURS_MAX, frames
    sparks = spark_lines(error, ours)
    assert len(sparks) <= (stream_floor if "[STREAM_FAILED]" in ours else SPARKS_MAX), sparks
