"""Sail, a Spark without a JVM: what works there, and what is refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tests.support.installing import build_wheel
from tests.support.noida import NoidaBroker

from .environments import Environment

SAIL: Final = "pysail==0.7.2"
#: pyspark-client 4.2 converts no timestamp without a time zone, and Sail passes none.
CLIENTS: Final = ("pyspark-client==4.1.3", "pyspark-client==4.2.0")

PROGRAM: Final = """
import sys
from pysail.spark import SparkConnectServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_kafkawire import KafkaWireDataSource

servers, topic, copy, folder = sys.argv[1:]
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
spark.dataSource.register(KafkaWireDataSource)
options = {"kafka.bootstrap.servers": servers}

def read(topic, **more):
    return spark.read.format("kafkawire").options(**options, subscribe=topic, **more)

def write(rows, **more):
    rows.write.format("kafkawire").mode("append").options(**options, **more).save()

def stream(format, **more):
    source = spark.readStream.format("kafkawire").options(**options, subscribe=topic)
    rows = source.option("startingOffsets", "earliest").load().select("value")
    query = rows.writeStream.format(format).options(**more).start()
    assert query.awaitTermination(60)

def stream_to_topic():
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    more = {"topic": copy, "checkpointLocation": folder}
    rows.writeStream.format("kafkawire").options(**options, **more).start()

def attempt(name, action):
    try:
        action()
    except PySparkException as error:
        print(name, "refused", str(error).replace("\\n", " "))
    else:
        print(name, "worked")

write(spark.range(20).selectExpr("CAST(id AS STRING) AS value"), topic=topic)
rows = read(topic).load()
print("schema", rows.schema.simpleString())
print("values", sorted(int(row.value) for row in rows.select("value").collect()) == list(range(20)))
print("projection", read(topic).schema("value binary, offset bigint").load().columns)
rows.createOrReplaceTempView("events")
print("filtered", spark.sql("SELECT * FROM events WHERE CAST(value AS STRING) LIKE '1%'").count())
write(rows.select("key", "value"), topic=copy)
print("copied", read(copy).load().count())
attempt("exactly-once", lambda: write(rows.select("value"), topic=copy, delivery="exactly-once"))
attempt("missing", lambda: read("no-such-topic").load().count())
view = "CREATE TEMPORARY VIEW source USING kafkawire OPTIONS (subscribe 'events')"
attempt("view", lambda: spark.sql(view))
attempt("readStream", lambda: stream("console"))
attempt("copy", lambda: stream("kafkawire", **options, topic=copy, checkpointLocation=folder))
attempt("writeStream", stream_to_topic)
print("unchanged", read(copy).load().count())
attempt("batch", lambda: stream("kafkawire", **options, topic=copy))
print("doubled", read(copy).load().count())
found = read(copy, includeHeaders="true").load()
columns = "CAST('k' AS BINARY) AS key, CAST('v' AS BINARY) AS value"
header = "ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST('x' AS BINARY))) AS headers"
write(spark.sql(f"SELECT {columns}, {header}"), topic=copy)
[row] = found.where("headers IS NOT NULL").collect()
print("headers", [(header.key, bytes(header.value)) for header in row.headers])
print("later", found.count())
"""


@pytest.fixture(scope="module", params=CLIENTS)
def lines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, noida: NoidaBroker
) -> Mapping[str, str]:
    """Lines that the program prints, by their first word."""
    folder = tmp_path_factory.mktemp("sail")
    sail = Environment(folder / "venv", SAIL, request.param, "pandas<3", build_wheel(folder))
    topics = noida.create_topic(partitions=2), noida.create_topic(partitions=2)
    reported = sail.run(PROGRAM, noida.bootstrap_servers, *topics, str(folder / "checkpoint"))
    return dict(line.split(" ", 1) for line in reported.splitlines())


def test_batches_are_read_and_written(lines: Mapping[str, str]) -> None:
    assert lines["schema"].startswith(
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    )
    assert lines["values"] == "True"
    assert lines["projection"] == "['value', 'offset']"
    assert lines["filtered"] == "11"
    assert lines["copied"] == "20"
    assert lines["headers"] == "[('h', b'x')]"
    assert "no broker holds the topic no-such-topic" in lines["missing"]


def test_each_action_of_a_dataframe_reads_up_to_the_end_of_the_log(lines: Mapping[str, str]) -> None:
    assert lines["later"] == "41"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("exactly-once", "delivery=exactly-once needs tasks with numbers of their own"),
        ("view", "the data source path must be specified"),
        ("readStream", "only supports streaming data"),
        ("copy", "option checkpointLocation is for writeStream, not for a write"),
        ("writeStream", "unsupported extension node for streaming: PythonWriteNode"),
    ],
)
def test_what_does_not_work_is_refused(lines: Mapping[str, str], name: str, reason: str) -> None:
    assert lines[name].startswith("refused ")
    assert reason in lines[name]
    assert lines["unchanged"] == "20"


def test_a_stream_without_a_checkpoint_is_one_batch(lines: Mapping[str, str]) -> None:
    assert (lines["batch"], lines["doubled"]) == ("worked", "40")
