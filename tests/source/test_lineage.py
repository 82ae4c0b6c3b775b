"""Lineage of streams and batches: events of a real Spark, checked by OpenLineage's own classes, sent by its
own transports."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafkawire import lineage
from spark_kafkawire.lineage import QueryLineage
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.spark_streams import WAIT_MAX_S, begun, into_noop, run, send, stream
from tests.support.sparks import READ_LIMITS

Event = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of events."""
    return tmp_path / "events.json"


@pytest.fixture
def followed(spark: SparkSession, path: Path) -> Iterator[QueryLineage]:
    client = OpenLineageClient(transport=FileTransport(FileConfig(str(path), append=True)))
    result = lineage.attach(spark, client, namespace="tests", interval_s=0)
    yield result
    result.close()


def events(path: Path, last: str) -> list[Event]:
    """Events in the file, once there is one of the type ``last``."""

    def read() -> list[Event]:
        texts = path.read_text().splitlines() if path.exists() else []
        return [json.loads(text) for text in texts]

    poll(lambda: any(event["eventType"] == last for event in read()), f"an event {last}")
    return read()


def facts(dataset: Event) -> tuple[Any, ...]:
    """Place and columns of a dataset."""
    return (
        dataset["namespace"],
        dataset["name"],
        [item["name"] for item in dataset["facets"]["schema"]["fields"]],
    )


@pytest.mark.usefixtures("followed")
@READ_LIMITS
def test_a_stream_has_a_start_batches_and_an_end(
    spark: SparkSession, noida: NoidaBroker, path: Path, tmp_path: Path
) -> None:
    topic, copy = noida.create_topic(partitions=2), noida.create_topic(partitions=1)
    send(noida, topic, range(20))
    rows = stream(spark, noida, topic, startingOffsets="earliest", maxOffsetsPerTrigger="15")
    writer = rows.select("key", "value").writeStream.format("kafkawire").queryName("copy")
    writer = writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).option("topic", copy)
    query = run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True))
    result = events(path, "COMPLETE")
    assert {event["eventType"] for event in result[1:-1]} == {"RUNNING"}
    assert [result[0]["eventType"], result[-1]["eventType"]] == ["START", "COMPLETE"]
    assert {event["run"]["runId"] for event in result} == {str(query.runId)}
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in result} == {
        ("tests", f"{spark.sparkContext.appName}.copy")
    }
    namespace = f"kafka://{noida.bootstrap_servers}"
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert [facts(item) for item in result[0]["inputs"]] == [(namespace, topic, columns)]
    [read], [written] = result[-1]["inputs"], result[-1]["outputs"]
    assert facts(read) == (namespace, topic, columns)
    assert facts(written) == (namespace, copy, ["key", "value"])
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 20
    offsets = read["inputFacets"]["inputStatistics"]["offsets"]
    assert {name: ends["end"] for name, ends in offsets.items()} == {"0": 20, "1": 0}
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 20


@pytest.mark.usefixtures("followed")
def test_batches_have_columns_offsets_and_counts(
    spark: SparkSession, noida: NoidaBroker, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, copy = noida.create_topic(partitions=1), noida.create_topic(partitions=1)
    send(noida, topic, range(20))
    servers = {"kafka.bootstrap.servers": noida.bootstrap_servers}
    rows = spark.read.format("kafkawire").options(
        **servers, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":5}}}}', endingOffsets="latest"
    )
    caplog.set_level(logging.INFO, "spark_kafkawire")
    typed = rows.option("valueFormat", "string").load().select("value", "topic")
    typed.selectExpr("value").write.format("kafkawire").options(
        **servers, topic=copy, valueFormat="string"
    ).mode("append").save()
    started, ended = events(path, "COMPLETE")
    assert [started["eventType"], ended["eventType"]] == ["START", "COMPLETE"]
    assert started["eventTime"] < ended["eventTime"]
    assert ended["job"]["name"].endswith(f".append.{topic}.{copy}")
    assert ended["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    [read], [written] = ended["inputs"], ended["outputs"]
    statistics = read["inputFacets"]["inputStatistics"]
    assert (statistics["rowCount"], statistics["offsets"]) == (15, {"0": {"start": 5, "end": 20}})
    assert statistics["size"] > 0
    line = f"batch read of {topic}: 15 rows ({statistics['size']} bytes of columns) of 1 partition in "
    assert [item for item in caplog.messages if item.startswith(line)]
    fields = {item["name"]: item["type"] for item in read["facets"]["schema"]["fields"]}
    assert (fields["value"], fields["offset"]) == ("string", "bigint")
    assert facts(written) == (f"kafka://{noida.bootstrap_servers}", copy, ["value"])
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 15


def test_a_closed_lineage_is_silent(
    spark: SparkSession, noida: NoidaBroker, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = OpenLineageClient(transport=FileTransport(FileConfig(str(path), append=True)))
    first = lineage.attach(spark, client)
    first.close()
    second = lineage.attach(spark, client)  # the JVM calls one after the other
    rows = spark.read.format("kafkawire").option("kafka.bootstrap.servers", noida.bootstrap_servers)
    rows.option("subscribe", noida.create_topic(partitions=1)).load().collect()
    assert [event["eventType"] for event in events(path, "COMPLETE")] == ["START", "COMPLETE"]
    second.close()
    assert "lineage" not in caplog.text


@pytest.mark.usefixtures("followed")
def test_failures_have_their_first_line(spark: SparkSession, noida: NoidaBroker, path: Path) -> None:
    topic = noida.create_topic(partitions=1)
    send(noida, topic, range(2))
    rows = spark.read.format("kafkawire").option("kafka.bootstrap.servers", noida.bootstrap_servers)
    with pytest.raises(PySparkException):
        rows.option("subscribe", topic).load().selectExpr("raise_error('stopped here')").collect()
    failed = events(path, "FAIL")[-1]
    assert [item["name"] for item in failed["inputs"]] == [topic]
    message = failed["run"]["facets"]["errorMessage"]["message"]
    assert "stopped here" in message
    assert "\n" not in message


@pytest.mark.usefixtures("followed")
@READ_LIMITS
def test_a_stream_that_fails_and_queries_of_other_sources(
    spark: SparkSession, noida: NoidaBroker, path: Path, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=1)
    send(noida, topic, range(2))
    spark.range(3).collect()
    failing = stream(spark, noida, topic, startingOffsets="earliest").selectExpr(
        "raise_error('stopped here')"
    )
    query = (
        failing.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    )
    with pytest.raises(PySparkException):
        query.awaitTermination(WAIT_MAX_S)
    result = events(path, "FAIL")
    assert [event["eventType"] for event in result] == ["START", "FAIL"]
    assert [item["name"] for item in result[-1]["inputs"]] == [topic]
    assert result[-1]["job"]["name"].endswith(str(query.id))


@READ_LIMITS
def test_a_server_gets_the_events_and_one_that_is_missing_is_a_warning(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[Event] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    topic = noida.create_topic(partitions=1)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic}
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        config = HttpConfig(f"http://127.0.0.1:{server.server_port}", retry={"total": 0})
        result = lineage.attach(spark, OpenLineageClient(transport=HttpTransport(config)))
        query = begun(into_noop(spark, options, tmp_path / "first"))
        query.stop()
        poll(lambda: bool(got) and got[-1]["eventType"] == "COMPLETE", "the end to arrive")
        result.close()
        server.shutdown()
    assert got[0]["eventType"] == "START"
    result = lineage.attach(spark, OpenLineageClient(transport=HttpTransport(config)))
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        begun(into_noop(spark, options, tmp_path / "second")).stop()
        poll(lambda: "was not sent" in caplog.text, "a warning")
        result.close()
