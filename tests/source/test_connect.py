"""Batches and streams through Spark Connect: the client has no JVM, and Spark no Python of the client's."""

from __future__ import annotations

import io
import json
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafkawire.progress import showing_progress
from spark_kafkawire.streaming import GroupOffsets, offsets_behind_latest
from tests.support import librdkafka
from tests.support.connect_server import ConnectServer
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import WAIT_MAX_S, started
from tests.support.sparks import READ_LIMITS

if TYPE_CHECKING:  # imported, these refuse a pandas before 2
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession


# A Spark of its own, in which all that is ours is what it is in any other.
pytestmark = [pytest.mark.jvm, pytest.mark.nightly]


@pytest.fixture(scope="module")
def connected() -> Iterator[SparkSession]:
    """A session of Spark Connect; the server finds the source as other Sparks do."""
    with ConnectServer() as server:
        session = server.session()
        yield session
        session.stop()


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    """Two partitions with 0-9, and 10-19."""
    topic = noida.create_topic(partitions=2)
    for partition in range(2):
        records = [
            Record(b"%d" % value, partition=partition) for value in range(10 * partition, 10 * partition + 10)
        ]
        librdkafka.produce(noida.bootstrap_servers, topic, records)
    return topic


def options(noida: NoidaBroker, topic: str, **others: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, **others}


def sink(noida: NoidaBroker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}


def values(frame: DataFrame) -> list[int]:
    return sorted(int(row["value"]) for row in frame.selectExpr("CAST(value AS STRING) value").collect())


def ended(writer: Any) -> StreamingQuery:
    """The query of a writer, whose type pyspark's stubs tell wrongly, once it has read all there is."""

    def run() -> StreamingQuery:
        query: StreamingQuery = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_MAX_S), "the query did not end"
        return query

    return started(run)


def test_show_progress_of_the_server(connected: SparkSession, noida: NoidaBroker, topic: str) -> None:
    rows = connected.read.format("kafkawire").options(**options(noida, topic)).load()
    # The server tells how far it is every two seconds.
    slow = rows.where("reflect('java.lang.Thread', 'sleep', 400L) IS NOT NULL")
    stream = io.StringIO()
    with showing_progress(connected, "reading", stream):  # type: ignore[arg-type]  # as pyspark's users pass it
        assert slow.count() == 20
    begun, *_, done = stream.getvalue().splitlines()  # On a slow machine lines between them.
    assert begun == "kafkawire: reading ..."
    assert re.fullmatch(r"kafkawire: reading: \d of [1-9] tasks(, .*)? in \d+:\d\d", done)


@READ_LIMITS
def test_copied_stream_goes_on(
    connected: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    copy = noida.create_topic()
    given = options(noida, topic, startingOffsets="earliest", maxOffsetsPerTrigger="8")

    def writer() -> Any:
        rows = connected.readStream.format("kafkawire").options(**given).load().select("value")
        writer = rows.writeStream.format("kafkawire").options(**sink(noida, copy))
        return writer.option("checkpointLocation", str(tmp_path))

    query = ended(writer())
    assert [progress.numInputRows for progress in query.recentProgress] == [8, 8, 4]
    [source] = query.recentProgress[-1].sources
    assert json.loads(source.endOffset) == {topic: {"0": 10, "1": 10}}
    assert offsets_behind_latest(source)["maxOffsetsBehindLatest"] == 0
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"20")])
    ended(writer())
    result = librdkafka.consume(noida.bootstrap_servers, copy)
    assert sorted(int(item.value or b"") for item in result) == list(range(21))


def test_group_follows_query(connected: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path) -> None:
    given = options(noida, topic, startingOffsets="earliest", **{"kafka.group.id": f"group of {topic}"})
    group = GroupOffsets(given)
    connected.streams.addListener(group)
    try:
        rows = connected.readStream.format("kafkawire").options(**given).load()
        query = ended(rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)))
        assert group.awaitCommits(query, WAIT_MAX_S)
    finally:
        connected.streams.removeListener(group)
    for partition in range(2):
        result = librdkafka.committed_offset(noida.bootstrap_servers, f"group of {topic}", topic, partition)
        assert result == 10


def test_errors_are_ours(connected: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path) -> None:
    given = options(noida, topic, maxOffsetsPerTrigger="0")
    wrong = connected.readStream.format("kafkawire").options(**given).load()
    with pytest.raises(PySparkException, match="option maxOffsetsPerTrigger: '0' is not a whole number"):
        wrong.printSchema()
    with pytest.raises(PySparkException, match=f"no-such-{topic}"):
        values(connected.read.format("kafkawire").options(**options(noida, f"no-such-{topic}")).load())
    noida.delete_records(topic, 0, 5)
    given = options(noida, topic, startingOffsets=json.dumps({topic: {"0": 3, "1": 0}}))
    rows = connected.readStream.format("kafkawire").options(**given).load()
    with pytest.raises(
        StreamingQueryException, match=rf"offset 3 is not in {topic} 0, which holds \[5, 10\)"
    ):
        ended(rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)))


def test_error_without_the_servers_stack_is_one_line(connected: SparkSession, noida: NoidaBroker) -> None:
    rows = connected.read.format("kafkawire").options(**options(noida, "no-such-topic")).load()
    connected.conf.set("spark.sql.connect.serverStacktrace.enabled", "false")
    try:
        with pytest.raises(PySparkException) as caught:
            rows.collect()
        reported = [line for line in str(caught.value).splitlines() if line.strip()]
    finally:
        connected.conf.unset("spark.sql.connect.serverStacktrace.enabled")
    assert "spark_kafkawire.errors.UnknownTopicError: " in reported[0]
    assert [line.split(":")[0] for line in reported[1:]] == [" SQLSTATE"]
    assert "spark_kafkawire/" not in "".join(traceback.format_exception(caught.value))
