"""Queries of ``format("kafka")`` run on ``format("kafkawire")``: Spark's own connector is the judge.

    python -m tests.interop.test_spark_connector ANSWERS < QUESTIONS

The questions are an object of JSON, and the file of the answers gets one::

    {"servers": "h:9092", "jars": ["a.jar"],
     "reads": [OPTIONS], "writes": [{"columns": [SQL], "options": OPTIONS}]}
    {"reads": [{"kafka": ANSWER, "kafkawire": ANSWER}], "writes": [...]}

An answer is ``{"schema": ..., "rows": [...]}``, or ``{"error": ...}`` where the connector raised one. Each
write fills a topic of its own, named in its option ``topic``, to which ``-kafka`` or ``-kafkawire`` is added,
and is read back by Spark's connector; its rows are those of ``_COUNT`` numbers ``id``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.local_spark import local_spark

from .apache_kafka import ApacheKafka
from .versions import answers_of, needed_connector, newest

_TIMEOUT_S: Final = 400.0

T0: Final = 1_750_000_000_000
COMMITTED: Final = {"kafka.isolation.level": "read_committed"}


def _json(**by_topic: dict[str, int]) -> str:
    return json.dumps(by_topic)


def _of(topic: str, **options: str) -> dict[str, str]:
    return {"subscribe": topic, **options}


#: ``plain`` has partitions of 100, 100 and 0 records, ``time`` of 100, a second apart; ``lost`` begins at 30.
READS: Final[list[dict[str, str]]] = [
    _of("plain"),
    _of("plain", includeHeaders="true"),
    _of(" plain , time,,"),
    _of("plain,plain"),
    {"assign": '{"plain":[0,2]}'},
    {"assign": '{"plain":[0,9]}'},
    {"subscribePattern": "^(plain|time)$"},
    {"subscribePattern": "(?i)^PLA"},
    {"subscribePattern": "^no-such"},
    {"SUBSCRIBE": "plain", "INCLUDEHEADERS": "TRUE"},
    _of("plain", startingOffsets=" EARLIEST ", endingOffsets="Latest"),
    _of("plain", startingOffsets=_json(plain={"0": 10, "1": -2, "2": 0})),
    _of("plain", endingOffsets=_json(plain={"0": 10, "1": -1, "2": 0})),
    _of("plain", startingOffsets=_json(plain={"0": 100, "1": 100, "2": 0})),
    _of(
        "plain",
        startingOffsets=_json(plain={"0": 999, "1": 7, "2": 0}),
        endingOffsets=_json(plain={"0": 999, "1": 7, "2": 0}),
    ),
    _of("time", startingTimestamp=str(T0 + 50_000)),
    _of("time", startingTimestamp=str(T0 + 50_001), endingTimestamp=str(T0 + 70_000)),
    _of("time", endingTimestamp=str(T0 + 900_000)),
    _of("time", startingTimestamp=str(T0 + 900_000), startingOffsetsByTimestampStrategy="latest"),
    _of("time", startingOffsetsByTimestamp=_json(time={"0": T0 + 60_000}), startingOffsets="earliest"),
    _of(
        "time", startingOffsetsByTimestamp=_json(time={"0": T0 + 60_000}), startingTimestamp=str(T0 + 90_000)
    ),
    _of("time", endingOffsetsByTimestamp=_json(time={"0": T0 + 60_000})),
    _of("time", startingTimestamp=str(T0 + 50_000), endingOffsets=_json(time={"0": 55})),
    _of("plain,time", minPartitions="11"),
    _of("plain", minPartitions="7", maxRecordsPerPartition="13"),
    _of("stamped"),
    _of("transactions"),
    _of("transactions", **COMMITTED),
    _of("transactions", minPartitions="5", **COMMITTED),
    _of(
        "transactions",
        startingOffsets=_json(transactions={"0": 5}),
        endingOffsets=_json(transactions={"0": 27}),
        **COMMITTED,
    ),
    _of("lost"),
    _of("lost", startingOffsets=_json(lost={"0": 0}), failOnDataLoss="false"),
    _of(
        "lost",
        startingOffsets=_json(lost={"0": 0}),
        endingOffsets=_json(lost={"0": 20}),
        failOnDataLoss="false",
    ),
    _of("plain", groupIdPrefix="mine"),
    _of("plain", maxOffsetsPerTrigger="1"),
    _of("plain", **{"kafka.group.id": "mine", "kafka.max.poll.records": "3", "kafka.fetch.min.bytes": "1"}),
    _of("plain", **{"kafka.max.partition.fetch.bytes": "100", "kafka.fetch.max.bytes": "100"}),
    _of("plain", **{"kafka.key.serializer": "x", "kafka.no.such.property": "x", "kafka.client.rack": "a"}),
]

REFUSED_READS: Final[list[dict[str, str]]] = [
    {},
    _of(""),
    _of("no-such-topic"),
    _of("plain", assign='{"plain":[0]}'),
    {"assign": '{"no-such-topic":[0]}'},
    {"subscribePattern": "["},
    _of("plain", startingOffsets="latest"),
    _of("plain", endingOffsets="earliest"),
    _of("plain", startingOffsets=_json(plain={"0": 10, "1": 10})),
    _of("plain", startingOffsets=_json(plain={"0": -1, "1": 0, "2": 0})),
    _of("plain", endingOffsets=_json(plain={"0": -2, "1": -1, "2": -1})),
    _of(
        "plain",
        endingOffsets=_json(plain={"0": 500, "1": -1, "2": -1}),
        **{"kafkaConsumer.pollTimeoutMs": "1000"},
    ),
    _of("plain", startingOffsets=_json(plain={"0": 101, "1": 0, "2": 0}), failOnDataLoss="false"),
    _of("time", startingTimestamp=str(T0 + 900_000)),
    _of("time", startingOffsetsByTimestamp=_json(time={"0": T0, "1": T0})),
    _of("plain", minPartitions="0"),
    _of("lost", startingOffsets=_json(lost={"0": 0})),
    _of("plain", failOnDataLoss="perhaps"),
    _of("plain", **{"kafka.auto.offset.reset": "earliest"}),
    _of("plain", **{"kafka.value.deserializer": "x"}),
    _of("plain", **{"kafka.enable.auto.commit": "true"}),
    _of("plain", **{"kafka.isolation.level": "x"}),
]

BYTES: Final = ("cast(concat('k', id) as binary) key", "cast(concat('v', id) as binary) value")
HEADERS: Final = "array<struct<key:string,value:binary>>"
NULL_HEADER: Final = "named_struct('key', '', 'value', cast(null as binary))"
NAMELESS_HEADER: Final = "named_struct('key', cast(null as string), 'value', cast('1' as binary))"
ONE_HEADER: Final = "named_struct('key', 'a', 'value', cast('1' as binary))"
WRITES: Final[list[tuple[tuple[str, ...], dict[str, str]]]] = [
    (BYTES, {}),
    (("concat('k', id) key", "concat('v', id) value"), {}),
    (("if(id % 3 = 0, null, concat('k', id)) key", "if(id % 5 = 0, null, 'v') value"), {}),
    (("concat('v', id) value",), {}),
    (("'\u20ac\U0001f600' key", "'\u00e4' value"), {}),
    (("repeat('k', 70000) key", "'v' value"), {}),
    ((*BYTES, f"array({ONE_HEADER}, {ONE_HEADER}, {NULL_HEADER}) headers"), {}),
    ((*BYTES, f"cast(null as {HEADERS}) headers"), {}),
    ((*BYTES, f"cast(array() as {HEADERS}) headers"), {}),
    ((*BYTES, "cast(id % 3 as int) partition"), {}),
    ((*BYTES, "if(id % 2 = 0, 1, null) partition"), {}),
    ((*BYTES, "'ignored' topic"), {}),
    ((*BYTES, "1 another"), {}),
    (BYTES, {"kafka.acks": "1", "kafka.compression.type": "gzip", "kafka.linger.ms": "1"}),
    (BYTES, {"kafka.acks": "-1", "kafka.batch.size": "100", "kafka.compression.type": "zstd"}),
    (BYTES, {"kafka.enable.idempotence": "false", "kafka.max.in.flight.requests.per.connection": "1"}),
]
REFUSED_WRITES: Final[list[tuple[tuple[str, ...], dict[str, str]]]] = [
    (("'k' key",), {}),
    (("id value",), {}),
    (("id key", "'v' value"), {}),
    ((*BYTES, "array(named_struct('key', 'a', 'value', '1')) headers"), {}),
    ((*BYTES, f"array({NAMELESS_HEADER}) headers"), {}),
    ((*BYTES, "id partition"), {}),
    ((*BYTES, "-1 partition"), {}),
    (("repeat('x', 2000000) value",), {}),
    (BYTES, {"kafka.key.serializer": "x"}),
    (BYTES, {"kafka.acks": "7"}),
    (BYTES, {"kafka.acks": "1", "kafka.enable.idempotence": "true"}),
]


@pytest.fixture(scope="module")
def answers(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Answers of both connectors to everything above."""
    jars = needed_connector()
    servers = kafka.bootstrap_servers()
    _fill(servers)
    writes = []
    for number, (columns, options) in enumerate([*WRITES, *REFUSED_WRITES]):
        for name in ("kafka", "kafkawire"):
            librdkafka.create_topic(servers, partitions=3, name=f"w{number}-{name}")
        writes.append({"columns": columns, "options": {**options, "topic": f"w{number}"}})
    questions = {"servers": servers, "jars": jars, "reads": [*READS, *REFUSED_READS], "writes": writes}
    folder = tmp_path_factory.mktemp("answers")
    answered: dict[str, list[dict[str, Any]]] = answers_of(
        "test_spark_connector", questions, folder, _TIMEOUT_S
    )
    return answered


def _fill(servers: str) -> None:
    forever = {"retention.ms": "-1"}
    for topic, partitions in {"plain": 3, "time": 1, "transactions": 1, "lost": 1}.items():
        librdkafka.create_topic(servers, partitions, topic, forever)
    librdkafka.create_topic(servers, 1, "stamped", {"message.timestamp.type": "LogAppendTime"})
    librdkafka.produce(
        servers,
        "plain",
        [
            Record(
                value=None if number % 7 == 0 else b"%d" % number,
                key=None if number % 5 == 0 else b"k%d" % number,
                headers=(("h", b"1"), ("h", None), ("g", b"\xff")) if number % 3 == 0 else (),
                timestamp_ms=T0 + number,
                partition=number % 2,
            )
            for number in range(200)
        ],
        "lz4",
    )
    spaced = [Record(b"%d" % number, timestamp_ms=T0 + 1000 * number) for number in range(100)]
    for topic in ("time", "lost", "stamped"):
        librdkafka.produce(servers, topic, spaced)
    librdkafka.delete_records(servers, "lost", 0, 30)
    for number in range(4):
        end = librdkafka.abort if number % 2 else librdkafka.commit
        end(servers, "transactions", [Record(b"%d" % number)] * 10)


def _pairs(kind: str, first: int, count: int) -> Iterator[Any]:
    return (pytest.param(kind, first + number, id=f"{kind}-{first + number}") for number in range(count))


@newest
@pytest.mark.parametrize(
    ("kind", "number"), [*_pairs("reads", 0, len(READS)), *_pairs("writes", 0, len(WRITES))]
)
def test_both_connectors_do_the_same(
    answers: dict[str, list[dict[str, Any]]], kind: str, number: int
) -> None:
    theirs, ours = answers[kind][number]["kafka"], answers[kind][number]["kafkawire"]
    assert "error" not in theirs, theirs
    assert ours == theirs


@newest
@pytest.mark.parametrize(
    ("kind", "number"),
    [*_pairs("reads", len(READS), len(REFUSED_READS)), *_pairs("writes", len(WRITES), len(REFUSED_WRITES))],
)
def test_both_connectors_refuse_the_same(
    answers: dict[str, list[dict[str, Any]]], kind: str, number: int
) -> None:
    theirs, ours = answers[kind][number]["kafka"], answers[kind][number]["kafkawire"]
    assert "error" in theirs, theirs
    assert "spark_kafkawire.errors." in ours["error"], ours


FORMATS: Final = ("kafka", "kafkawire")
_COUNT: Final = 300
#: What both connectors raise, by way of Spark or of the JVM; any other error is a mistake of this program.
_ERRORS: Final = (PySparkException, Py4JError)


def _read(spark: SparkSession, name: str, servers: str, options: dict[str, str]) -> dict[str, Any]:
    try:
        frame = _loaded(spark, name, servers, options)
        return {"schema": frame.schema.jsonValue(), "rows": _sorted(frame.collect())}
    except _ERRORS as error:
        return {"error": str(error)}


def _write(spark: SparkSession, name: str, servers: str, write: dict[str, Any]) -> dict[str, Any]:
    frame = spark.range(0, _COUNT, 1, 3).selectExpr(*write["columns"])
    options = {**write["options"], "topic": f"{write['options']['topic']}-{name}"}
    try:
        where = frame.write.format(name).mode("append").option("kafka.bootstrap.servers", servers)
        where.options(**options).save()
    except _ERRORS as error:
        return {"error": str(error)}
    written = _loaded(spark, "kafka", servers, {"subscribe": options["topic"], "includeHeaders": "true"})
    # Which partition rows without a key go to is the producer's choice.
    kept = written.selectExpr("key", "value", "headers", "if(key is null, null, partition) partition")
    return {"schema": None, "rows": _sorted(kept.collect())}


def _loaded(spark: SparkSession, name: str, servers: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(name).option("kafka.bootstrap.servers", servers).options(**options).load()


def _sorted(rows: Iterable[Row]) -> list[str]:
    return sorted(json.dumps([_shown(value) for value in row]) for row in rows)


def _shown(value: Any) -> str:
    return bytes(value).hex() if isinstance(value, bytearray) else str(value)


def main() -> None:
    """Answer the questions."""
    asked = json.load(sys.stdin)
    spark = local_spark("side by side", {"spark.jars": ",".join(asked["jars"]), "spark.log.level": "OFF"})
    answers = {
        kind: [{name: do(spark, name, asked["servers"], item) for name in FORMATS} for item in asked[kind]]
        for kind, do in (("reads", _read), ("writes", _write))
    }
    spark.stop()
    Path(sys.argv[1]).write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
