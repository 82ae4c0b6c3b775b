"""Typed keys and values through Spark: batches and streams of real brokers, and a registry that may fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.message_set.public import encode_message_set
from spark_kafkawire.values.registry_frame import guid_header
from tests.support import librdkafka
from tests.support.avro_messages import V1, V2, V3, framed, payload, record
from tests.support.embedded import produce
from tests.support.fake_registry import FakeRegistry, raw, slow, status
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import run, started

from .task_errors import message_of

#: One try, and a short deadline: brokerDownTimeout bounds the retries where ``retries`` is not set.
BOUNDED: Final = {"retries": "0", "requestTimeout": "10s"}
PAGE: Final = b"<html><body>Sign in</body></html>"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as running:
        yield running


def options_of(noida: NoidaBroker, registry: FakeRegistry, topic: str, **changes: str) -> dict[str, str]:
    base = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, **BOUNDED}
    return {**base, "valueFormat": "avro", "schema.registry.url": registry.url, **changes}


def load(spark: SparkSession, options: dict[str, str], schema: str | None = None) -> DataFrame:
    reader = spark.read.format("kafkawire").options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


def topic_of(noida: NoidaBroker, *records: Record | bytes | None, partitions: int = 1) -> str:
    topic = noida.create_topic(partitions=partitions)
    sent = [each if isinstance(each, Record) else Record(each) for each in records]
    librdkafka.produce(noida.bootstrap_servers, topic, sent)
    return topic


def values_of(rows: Sequence[Row]) -> list[Any]:
    return [None if row.value is None else row.value.asDict(recursive=True) for row in rows]


def refusal(spark: SparkSession, options: dict[str, str], schema: str | None = None) -> str:
    with pytest.raises(PySparkException) as error:
        load(spark, options, schema).collect()
    return message_of(error.value)


def order(id: int, title: str, note: str | None = None, count: int = 7) -> dict[str, Any]:
    return {"id": id, "title": title, "note": note, "count": count}


@pytest.fixture
def orders(noida: NoidaBroker, registry: FakeRegistry) -> str:
    """Messages of three versions and a tombstone in two partitions; all versions are in the registry."""
    topic = noida.create_topic(partitions=2)
    v1, v2, v3 = (registry.add(f"{topic}-value", text) for text in (V1, V2, V3))
    records = [
        Record(framed(v1, V1, {"id": 1, "name": "a"}), b"k"),
        Record(framed(v2, V2, {"id": 2, "name": "ß", "note": "n"})),
        Record(None, b"k"),
        Record(framed(v3, V3, {"id": 2**40, "title": "c", "note": None, "count": 3}), partition=1),
        Record(framed(v1, V1, {"id": 4, "name": ""}), partition=1),
    ]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    return topic


def test_messages_of_three_versions_have_the_columns_of_the_latest(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, orders: str
) -> None:
    frame = load(spark, options_of(noida, registry, orders))
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,title:string,note:string,count:int>"
    )
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    rows = frame.orderBy("partition", "offset").collect()
    assert values_of(rows) == [
        order(1, "a"), order(2, "ß", "n"), None, order(2**40, "c", None, 3), order(4, "")
    ]  # fmt: skip
    assert [bytes(row.key) if row.key else None for row in rows] == [b"k", None, b"k", None, None]
    # The driver asks once for the latest version, and a process of tasks once for each writer's schema.
    asked = [request for request in registry.requests if "latest" in request]
    assert asked == [f"GET /subjects/{orders}-value/versions/latest"]
    assert sorted(set(registry.requests) - {*asked}) == [f"GET /schemas/ids/{number}" for number in (1, 2, 3)]
    selected = frame.where("value.count = 7").select("value.title", "value.note", "offset")
    assert sorted(selected.collect()) == [("", None, 1), ("a", None, 0), ("ß", "n", 1)]


def test_a_users_schema_names_the_fields_and_needs_no_registry_to_plan(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, orders: str
) -> None:
    given = options_of(noida, registry, orders)
    frame = load(spark, given, "offset bigint, value struct<id:bigint>, partition int, valueSchemaId int")
    assert registry.requests == []
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert values_of(rows) == [{"id": 1}, {"id": 2}, None, {"id": 2**40}, {"id": 4}]
    assert [row.valueSchemaId for row in rows] == [1, 2, None, 3, 1]
    assert not any("subjects" in request for request in registry.requests)
    registry.requests.clear()
    assert load(spark, given, "offset bigint").count() == 5
    assert registry.requests == []
    # A schema of the options adds its defaults and aliases.
    frame = load(spark, {**given, "valueSchema": V3}, "value struct<count:bigint, title:string>")
    assert sorted(row.value.title for row in frame.where("value.count = 7").collect()) == ["", "a", "ß"]


@pytest.mark.parametrize(
    ("changes", "schema", "message"),
    [
        ({"subscribe": "nowhere"}, None, "schema registry: the latest version of subject nowhere-value: "),
        ({"valueSchemaVersion": "9"}, None, "version 9 of subject"),
        ({"valueSubject": "proto"}, None, "valueFormat: avro is set, and version 1 of subject 'proto' in the "
         "schema registry is PROTOBUF"),
        ({"subscribe": "a,b"}, None, "option valueSubject: 2 topics have no one schema by subject"),
        ({"subjectNameStrategy": "RecordName"}, None, "option subjectNameStrategy: RecordName needs a"),
        ({"valueSchema": '{"type": "recrod"}'}, None, "option valueSchema: the Avro schema: the type 'recr"),
        ({"valueSubject": "broken"}, None, "option valueSchemaVersion: version 1 of subject 'broken': the "
         "Avro schema is not JSON"),
        ({"valueSchema": V1}, "value struct<idd:int>", "schema: column 'value': the Avro record Order has no "
         "field idd"),
        ({"valueSchema": V1}, "value struct<name:int>", "schema: column 'value': the Avro field name cannot "
         "be read as int32"),
        ({}, "value struct<id:int> NOT NULL", "schema: column 'value' may hold nulls; leave NOT NULL out"),
        ({}, "_corrupt_record string", "schema: there is no column '_corrupt_record'; set badRecords=null"),
        ({}, "keySchemaId int", "schema: there is no column 'keySchemaId'; set keyFormat=avro"),
        ({"valueFormat": "avro", "valueSchema": "/missing.avsc"}, None, "cannot be read on the driver"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_on_the_driver(
    spark: SparkSession,
    noida: NoidaBroker,
    registry: FakeRegistry,
    changes: dict[str, str],
    schema: str | None,
    message: str,
) -> None:
    registry.add("proto", 'syntax = "proto3";', "PROTOBUF")
    registry.add("broken", "{")
    options = {**options_of(noida, registry, "orders"), **changes}
    assert message in refusal(spark, options, schema)


def test_keys_values_and_ids_in_headers(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    long, text = registry.add("ids", '"long"'), registry.add("names", V1)
    header = (("__value_schema_id", guid_header(registry.guid(text))),)
    topic = topic_of(
        noida,
        Record(payload(V1, {"id": 1, "name": "a"}), framed(long, '"long"', 5), header),
        Record(None, framed(long, '"long"', -6)),
        Record(framed(text, V1, {"id": 2, "name": "b"}), None),
    )
    given = options_of(
        noida,
        registry,
        topic,
        keyFormat="avro",
        keySubject="ids",
        valueSubject="names",
        valueSchemaVersion="1",
    )
    rows = load(spark, given).collect()
    assert [(row.key, row.value and row.value.name) for row in rows] == [(5, "a"), (-6, None), (None, "b")]
    texts = options_of(noida, registry, topic_of(noida, Record("ä".encode(), b"k")), valueFormat="string")
    assert [(row.key, row.value) for row in load(spark, {**texts, "keyFormat": "string"}).collect()] == [
        ("k", "ä")
    ]


def test_nested_values_have_sparks_types(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": ["null", "string"]}]}
    fields = [
        ("texts", {"type": "array", "items": ["null", "string"]}),
        ("inners", {"type": "map", "values": inner}),
        ("date", {"type": "int", "logicalType": "date"}),
        ("moment", {"type": "long", "logicalType": "timestamp-millis"}),
        ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}),
        ("four", {"type": "fixed", "name": "Four", "size": 4}),
        ("any", ["null", "long", "string"]),
        ("flag", ["null", "boolean"]),
    ]
    schema = record(*fields)
    number = registry.add("all", schema)
    moment = datetime(2026, 11, 25, 18, 0, 0, 123000, timezone.utc)
    values = {
        "texts": ["a", None, ""],
        "inners": {"k": {"x": None}, "": {"x": "ß"}},
        "date": date(1969, 12, 31),
        "moment": moment,
        "local": datetime(2026, 1, 2, 3, 4, 5, 678),
        "colour": "BLUE",
        "four": b"\0\1\2\3",
        "any": "text",
        "flag": True,
    }
    topic = topic_of(
        noida, framed(number, schema, values), None, framed(number, schema, {**values, "any": 5})
    )
    frame = load(spark, options_of(noida, registry, topic, valueSubject="all"))
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<texts:array<string>,inners:map<string,struct<x:string>>,date:date,moment:timestamp,"
        "local:timestamp_ntz,colour:string,four:binary,any:struct<member0:bigint,member1:string>,flag:boolean>"
    )
    milliseconds = int(moment.timestamp() * 1000)
    rows = frame.selectExpr("value", f"value.moment = timestamp_millis({milliseconds}) same").collect()
    first, tombstone, last = values_of(rows)
    assert tombstone is None
    assert {**first, "moment": None, "four": bytes(first["four"])} == {
        **values, "moment": None, "any": {"member0": None, "member1": "text"}
    }  # fmt: skip
    assert last["any"] == {"member0": 5, "member1": None}
    assert [row.same for row in rows] == [True, None, True]


def test_plain_json_needs_columns_and_no_registry(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = topic_of(noida, b'{"id": 1, "tags": ["a"], "more": {}}', None, b'{"tags": null}', b"<json>")
    given = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, **BOUNDED}
    given |= {"valueFormat": "json", "schemaIdFrom": "none", "badRecords": "drop"}
    rows = load(spark, given, "value struct<id:bigint,tags:array<string>>").collect()
    assert values_of(rows) == [{"id": 1, "tags": ["a"]}, None, {"id": None, "tags": None}]
    assert "json needs a schema: name the fields with .schema(), or set valueSchema" in refusal(spark, given)
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
    frame = load(spark, {**given, "valueSchema": schema})
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint>"
    assert values_of(frame.collect()) == [{"id": 1}, None]


def test_bad_records_are_errors_nulls_or_left_out(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    number = registry.add("orders", V1)
    good = framed(number, V1, {"id": 1, "name": "a"})
    topic = topic_of(noida, good, good[:-1] + b"\xff", None, framed(77, V1, {"id": 1, "name": "a"}), good)
    given = options_of(noida, registry, topic, valueSubject="orders")
    assert (
        f"{topic} 0 at offset 1: the value cannot be decoded (schema id 1): field name: a string is not UTF-8"
        "; to read on, set badRecords=null, which keeps its bytes, or badRecords=drop"
    ) in refusal(spark, given)
    frame = load(spark, {**given, "badRecords": "null"})
    assert frame.columns[-1] == "_corrupt_record"
    assert frame.schema["_corrupt_record"].dataType.simpleString() == (
        "struct<bytes:binary,reason:string,schemaId:int,startOffset:bigint,endOffset:bigint>"
    )
    rows = frame.collect()
    assert values_of(rows) == [{"id": 1, "name": "a"}, None, None, None, {"id": 1, "name": "a"}]
    corrupt = [
        row._corrupt_record and (bytes(row._corrupt_record.bytes), *row._corrupt_record[1:]) for row in rows
    ]
    assert corrupt == [
        None,
        (good[:-1] + b"\xff", "value: field name: a string is not UTF-8", 1, 1, 2),
        None,
        (framed(77, V1, {"id": 1, "name": "a"}), "value: the registry has no schema of this id", 77, 3, 4),
        None,
    ]
    dropped = load(spark, {**given, "badRecords": "drop"})
    assert [row.offset for row in dropped.collect()] == [0, 2, 4]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(500), "it answers with HTTP status 500"),
        (status(200, PAGE), "its answer is not a JSON object"),
        (status(404, PAGE), "check the path in schema.registry.url"),
        (raw(b""), "ends early"),
        (slow(60), "within 1 s"),
    ],
)
def test_a_registry_that_fails_ends_the_read_and_no_record_is_bad(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, fault: Any, message: str
) -> None:
    number = registry.add("orders", V1)
    topic = topic_of(noida, framed(number, V1, {"id": 1, "name": "a"}))
    given = options_of(noida, registry, topic, valueSubject="orders", badRecords="drop", requestTimeout="1s")
    registry.faults.append(fault)
    assert message in refusal(spark, given)
    frame = load(spark, given, "value struct<id:int>")
    registry.faults.append(fault)
    with pytest.raises(PySparkException) as error:
        frame.collect()
    assert f"{topic} 0: value: schema registry: schema id {number}: gave up" in message_of(error.value)
    assert message in message_of(error.value)
    assert values_of(frame.collect()) == [{"id": 1}]


def test_a_registry_that_is_away_is_named(spark: SparkSession, noida: NoidaBroker) -> None:
    with FakeRegistry() as gone:
        given = options_of(noida, gone, "orders")
    found = refusal(spark, given)
    assert "schema registry: the latest version of subject orders-value: gave up after 1 attempt" in found
    assert gone.url in found


def test_a_login_reaches_the_tasks_and_is_shown_nowhere(
    spark: SparkSession, noida: NoidaBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "s3cret-of-the-registry"
    with FakeRegistry(users={"me": secret}) as registry:
        number = registry.add("orders", V1)
        topic = topic_of(noida, framed(number, V1, {"id": 1, "name": "a"}))
        given = options_of(noida, registry, topic, valueSubject="orders")
        login = {"basic.auth.user.info": f"me:{secret}"}
        frame = load(spark, {**given, **login})
        assert values_of(frame.collect()) == [{"id": 1, "name": "a"}]
        frame.explain(extended=True)
        plans = frame._jdf.queryExecution().toString()
        wrong = refusal(spark, {**given, "basic.auth.user.info": f"me:{secret}!"})
    assert "it refuses the login: HTTP status 401" in wrong
    printed = capfd.readouterr()
    for text in (plans, wrong, printed.out, printed.err, repr(frame)):
        assert secret not in text


# Streams


def streamed(spark: SparkSession, options: dict[str, str], folder: Path) -> list[Any]:
    """The values of all rows that a query has written so far, after a run over what there is."""
    frame = spark.readStream.format("kafkawire").options(**options, startingOffsets="earliest").load()
    rows = frame.select("offset", "value.*").writeStream.format("json")
    rows = rows.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    run(rows, str(folder / "rows"))
    found = spark.read.json(str(folder / "rows")).orderBy("offset").collect()
    return [row.asDict() for row in found]


def test_a_stream_takes_a_new_schema_when_it_starts_again(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    v1 = registry.add(f"{topic}-value", V1)
    one = Record(framed(v1, V1, {"id": 1, "name": "a"}))
    librdkafka.produce(noida.bootstrap_servers, topic, [one, Record(None)])
    given = options_of(noida, registry, topic, badRecords="drop")
    assert streamed(spark, given, tmp_path) == [
        {"offset": 0, "id": 1, "name": "a"},
        {"offset": 1, "id": None, "name": None},
    ]
    v2 = registry.add(f"{topic}-value", V2)
    two = Record(framed(v2, V2, {"id": 2, "name": "b", "note": "n"}))
    librdkafka.produce(noida.bootstrap_servers, topic, [two, Record(b"bad"), one])
    assert streamed(spark, given, tmp_path) == [
        {"offset": 0, "id": 1, "name": "a", "note": None},
        {"offset": 1, "id": None, "name": None, "note": None},
        {"offset": 2, "id": 2, "name": "b", "note": "n"},
        {"offset": 4, "id": 1, "name": "a", "note": None},
    ]


def test_a_query_ends_at_a_new_field_if_it_is_to_and_the_next_start_takes_it(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    v1 = registry.add(f"{topic}-value", V1)
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(framed(v1, V1, {"id": 1, "name": "a"}))])
    given = options_of(noida, registry, topic, avroSchemaEvolutionMode="restart")
    frame = spark.readStream.format("kafkawire").options(**given, startingOffsets="earliest").load()
    v2 = registry.add(f"{topic}-value", V2)
    two = framed(v2, V2, {"id": 2, "name": "b", "note": "n"})
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(two)])

    def ended() -> str:
        rows = frame.writeStream.format("noop").trigger(availableNow=True)
        query = rows.option("checkpointLocation", str(tmp_path / "first")).start()
        with pytest.raises(StreamingQueryException) as error:
            query.awaitTermination()
        if "failed to connect back" in str(error.value):
            raise error.value
        return message_of(error.value)

    assert started(ended).endswith(
        f"schema id {v2} has the field note, which version 1 of subject '{topic}-value' of this query lacks; "
        "load it and start it again, to take the new schema (avroSchemaEvolutionMode=restart)"
    )
    assert [row["note"] for row in streamed(spark, given, tmp_path)] == [None, "n"]


# Kafka 0.7


def test_messages_of_07_have_ids_in_front(
    spark: SparkSession, cluster: EmbeddedCluster, registry: FakeRegistry
) -> None:
    number = registry.add("typed-value", V1)
    messages = [framed(number, V1, {"id": each, "name": "a"}) for each in range(3)]
    produce(cluster, "typed", encode_message_set(messages), partition=0, broker=0)
    given = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": "typed", "valueFormat": "avro"}
    frame = load(spark, {**given, "schema.registry.url": registry.url})
    assert sorted(row.value.id for row in frame.select("value", "nextOffset").collect()) == [0, 1, 2]
