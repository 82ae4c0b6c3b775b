"""Messages of Debezium as rows, judged by the rows of the database that Debezium read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_kafkawire.changes import changes, latest_per_key
from spark_kafkawire.errors import OptionError
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import run

from .debezium import (
    ITEM,
    ORDER,
    envelope,
    in_order,
    produced,
    read,
    recorded,
    selected,
    unwrapped,
)

ORDERS, ITEMS = "shop.public.orders", "shop.public.items"


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


@pytest.mark.parametrize(
    ("recording", "value"), [("envelope", envelope(ORDER)), ("unwrapped", unwrapped(ORDER))]
)
def test_the_last_changes_are_the_rows_of_the_table(
    spark: SparkSession, noida: NoidaBroker, recording: str, value: str
) -> None:
    read_rows = read(spark, noida, produced(noida, recording, ORDERS), value)
    last = latest_per_key(changes(read_rows), "id", order_by="_sequence")
    result = rows_of(last.drop("_op", "_deleted", "_sequence", "_ts"))
    assert in_order(result, "id") == in_order(selected("orders"), "id")


@pytest.mark.parametrize(
    ("recording", "value"),
    [("envelope", envelope(ITEM)), ("schemas", f"struct<payload:{envelope(ITEM)}>")],
)
def test_the_last_changes_after_a_truncate_are_the_rows_of_the_table(
    spark: SparkSession, noida: NoidaBroker, recording: str, value: str
) -> None:
    """The key has two columns, one of which changes. A column is new in the last message."""
    rows = changes(read(spark, noida, produced(noida, recording, ITEMS), value))
    [truncate] = rows.where("_op = 't'").collect()
    assert (truncate.order_id, truncate.line, truncate._deleted) == (None, None, False)
    later = rows.where(F.col("_sequence.offset") > truncate._sequence.offset)
    last = latest_per_key(later, ["order_id", "line"], order_by="_sequence")
    result = rows_of(last.drop("_op", "_deleted", "_sequence", "_ts"))
    assert in_order(result, "order_id", "line") == in_order(selected("items"), "order_id", "line")


def test_each_change_has_its_operation_time_and_place_in_the_log(
    spark: SparkSession, noida: NoidaBroker
) -> None:
    topic = produced(noida, "envelope", ORDERS)
    rows = changes(read(spark, noida, topic, envelope(ORDER)), before=True).orderBy("_sequence")
    assert rows.columns[-5:] == ["_op", "_deleted", "_sequence", "_ts", "_before"]
    assert rows.schema["_sequence"].dataType.simpleString() == (
        "struct<lsn:bigint,topic:string,partition:int,offset:bigint>"
    )
    messages = [json.loads(item.value) if item.value else None for item in recorded("envelope", ORDERS)]
    expected = [
        (
            (item["before"] if item["op"] == "d" else item["after"])["id"],
            item["op"],
            item["op"] == "d",
            (item["source"]["lsn"], topic, 0, offset),
            item["source"]["ts_us"],
            item["before"] and item["before"]["customer"],
        )
        for offset, item in enumerate(messages)
        if item is not None
    ]
    seen = rows.selectExpr(
        "id", "_op", "_deleted", "_sequence", "unix_micros(_ts) AS us", "_before.customer"
    ).collect()
    assert [tuple(row) for row in seen] == expected
    assert {row._op for row in seen} == {"r", "c", "u", "d"}


def test_tombstones_and_heartbeats_are_left_out_and_counted(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = produced(noida, "envelope", ORDERS)
    beats = produced(noida, "envelope", "__debezium-heartbeat.shop", f"__debezium-heartbeat.{topic}")
    reader = spark.readStream.format("kafkawire").schema(
        f"value {envelope(ORDER)}, topic string, partition int, offset bigint"
    )
    stream = reader.options(
        **{"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": f"{topic},{beats}"},
        valueFormat="json",
        startingOffsets="earliest",
    ).load()
    query = run(changes(stream).writeStream.format("noop").trigger(availableNow=True))
    [observed] = [
        row
        for progress in query.recentProgress
        for name, row in progress["observedMetrics"].items()
        if name.startswith("kafkawire_changes_") and row["tombstones"]
    ]
    tombstones = sum(item.value is None for item in recorded("envelope", ORDERS))
    assert tombstones == 3
    assert observed["tombstones"] == tombstones
    assert observed["heartbeats"] == len(recorded("envelope", "__debezium-heartbeat.shop")) > 0


def test_a_topic_without_rows_is_an_error_that_names_it(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = produced(noida, "envelope", ORDERS)
    made = produced(noida, "envelope", "shop.transaction", f"{topic}.transaction")
    rows = changes(read(spark, noida, topic, envelope(ORDER), made))
    with pytest.raises(PySparkException, match=rf"topic {made} .*transaction metadata; subscribe to topics"):
        rows.select("id").collect()
    named = read(spark, noida, made, "struct<status:string,id:string,event_count:bigint>")
    with pytest.raises(OptionError, match="transaction metadata and no rows"):
        changes(named)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("struct<ddl:string,tableChanges:string,databaseName:string>", "are schema changes and no rows"),
        ("struct<a:int>", "neither op and after nor __deleted, but a$"),
        ("struct<a:int,__op:string>", "deletes are lost: set delete.tombstone.handling.mode=rewrite"),
        ("struct<after:string,op:string>", "after has the type string"),
        ("struct<after:struct<a:int>,op:string>", "have no before"),
        (envelope("_ts int"), "has a column _ts"),
        ("string", "value has the type string: read the topic with valueFormat"),
    ],
)
def test_values_of_another_form_are_an_error(spark: SparkSession, value: str, words: str) -> None:
    schema = f"value {value}, topic string, partition int, offset bigint"
    with pytest.raises(OptionError, match=words):
        changes(spark.createDataFrame([], schema))


def test_rows_without_their_offset_are_an_error(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="no column offset"):
        changes(spark.createDataFrame([], f"value {envelope(ITEM)}, topic string, partition int"))


def message(**fields: Any) -> Record:
    """A message of the one column ``a``."""
    return Record(json.dumps({"op": "c", "before": None, **fields}).encode())


def value_of(source: str) -> str:
    return f"struct<before:struct<a:string>,after:struct<a:string>,source:{source},op:string>"


def test_a_message_that_could_not_be_decoded_is_no_tombstone(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    valid = message(after={"a": "x"}, source={"ts_ms": 1})
    librdkafka.produce(noida.bootstrap_servers, topic, [valid, Record(b"{")])
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, "badRecords": "null"}
    location = "topic string, partition int, offset bigint, _corrupt_record struct<reason:string>"
    schema = f"value {value_of('struct<ts_ms:bigint>')}, {location}"
    rows = spark.read.format("kafkawire").schema(schema).options(**options, valueFormat="json").load()
    with pytest.raises(PySparkException, match=rf"topic {topic} partition 0 offset 1: .*not be decoded"):
        changes(rows).select("_op").collect()
    assert [row.a for row in changes(rows.where("_corrupt_record IS NULL")).collect()] == ["x"]


@pytest.mark.parametrize(
    ("value", "given", "words"),
    [
        (value_of("struct<ts_ms:bigint>"), {"after": None}, "has op c and no after"),
        (value_of("struct<ts_ms:bigint>"), {"op": "d", "after": None}, "has op d and no before"),
        (f"struct<payload:{value_of('struct<ts_ms:bigint>')}>", {"payload": None}, "no change of a row"),
        ("struct<a:string,__deleted:string>", {"a": "x"}, "no change of a row"),
        ("struct<a:string,__deleted:string,__op:string>", {"a": "x", "__op": "u"}, "no change of a row"),
    ],
)
def test_a_message_without_its_row_is_an_error(
    spark: SparkSession, noida: NoidaBroker, value: str, given: Any, words: str
) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [message(**given)])
    with pytest.raises(PySparkException, match=rf"topic {topic} partition 0 offset 0: .*{words}"):
        changes(read(spark, noida, topic, value)).select("_op").collect()


def test_a_column_that_the_database_did_not_log_is_an_error(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    unknown = message(op="u", after={"a": "__debezium_unavailable_value"}, source={"ts_ms": 1})
    librdkafka.produce(noida.bootstrap_servers, topic, [unknown])
    rows = read(spark, noida, topic, value_of("struct<ts_ms:bigint>"))
    words = rf"topic {topic} partition 0 offset 0: column a is unavailable: set REPLICA IDENTITY FULL"
    with pytest.raises(PySparkException, match=words):
        changes(rows).select("_op").collect()
    [kept] = changes(rows, unavailable=None).collect()
    assert kept.a == "__debezium_unavailable_value"


@pytest.mark.parametrize(
    ("source", "earlier", "later"),
    [
        (
            "struct<file:string,pos:bigint,row:int>",
            {"file": "mysql-bin.999999", "pos": 500, "row": 3},
            {"file": "mysql-bin.1000000", "pos": 4, "row": 0},
        ),
        (
            "struct<commit_lsn:string,change_lsn:string,event_serial_no:bigint>",
            {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": None, "event_serial_no": None},
            {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000ac0:0001"},
        ),
        ("struct<scn:string>", {"scn": "999"}, {"scn": "1000"}),
        ("struct<ts_ms:bigint>", {"ts_ms": 999}, {"ts_ms": 1000}),
        ("struct<name:string>", None, None),
    ],
)
def test_changes_have_the_order_of_the_database(
    spark: SparkSession, noida: NoidaBroker, source: str, earlier: Any, later: Any
) -> None:
    """The later change comes first, unless there are only offsets to tell."""
    topic = noida.create_topic()
    one, two = (
        message(after={"a": name}, source=location) for name, location in (("one", earlier), ("two", later))
    )
    librdkafka.produce(noida.bootstrap_servers, topic, [one, two] if earlier is None else [two, one])
    rows = read(spark, noida, topic, value_of(source))
    assert [row.a for row in changes(rows).orderBy("_sequence").collect()] == ["one", "two"]
    by_offset = [row.a for row in changes(rows, position=()).orderBy("_sequence").collect()]
    assert by_offset == (["one", "two"] if earlier is None else ["two", "one"])
    with pytest.raises(OptionError, match="no field 'gtid'"):
        changes(rows, position=["gtid"])


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_changes_of_a_registry_are_those_of_json(spark: SparkSession, noida: NoidaBroker, form: str) -> None:
    """Messages of Debezium that are written with a schema of a registry, and read with it."""
    given = read(spark, noida, produced(noida, "envelope", ITEMS), envelope("order_id int, line int"))
    topic = noida.create_topic()
    with FakeRegistry() as registry:
        options = {
            "kafka.bootstrap.servers": noida.bootstrap_servers,
            "schema.registry.url": registry.url,
            "valueFormat": form,
        }
        written = given.coalesce(1).sortWithinPartitions("offset").select("key", "value")
        writer = written.write.format("kafkawire").mode("append").options(**options, topic=topic)
        writer.option("autoRegisterSchemas", "true").save()
        typed = spark.read.format("kafkawire").options(**options, subscribe=topic).load()
        names = ("order_id", "line", "_op", "_deleted", "_sequence.lsn", "_sequence.offset", "_ts")
        result, expected = (changes(item).select(*names).collect() for item in (typed, given))
    assert len(expected) > 10
    assert sorted(result, key=str) == sorted(expected, key=str)
