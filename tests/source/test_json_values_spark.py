"""Values of JSON beside Spark's own: decoded as by ``from_json``, encoded as by ``to_json``."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, to_json
from pyspark.sql.pandas.types import from_arrow_schema

from spark_kafkawire.values.faults import Fault
from spark_kafkawire.values.json.decoding import Decoder
from spark_kafkawire.values.json.encoding import Encoder
from spark_kafkawire.values.json.schema import schema_of
from spark_kafkawire.values.payloads import payloads_of

UTC: Final = dt.timezone.utc
TYPE: Final = pa.struct(
    [
        ("i", pa.int64()),
        ("small", pa.int8()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("ok", pa.bool_()),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("date", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("dec", pa.decimal128(10, 2)),
        ("big", pa.decimal128(38, 10)),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("inner", pa.struct({"a": pa.string(), "b": pa.list_(pa.struct({"c": pa.int16()}))})),
    ]
)
#: Messages that both read, with the same values.
READ: Final = [
    "{}",
    ' { "i" : 1 , "other" : [ {"i": 2} ] } ',
    '{"i": 9223372036854775807, "small": -128}',
    '{"i": 1, "i": 2}',
    '{"d": 1, "f": 1}',
    '{"d": 0.1, "f": 0.1}',
    '{"d": 1.7976931348623157e308, "f": 3.4028235e38}',
    '{"d": 5e-324, "f": 1e-45}',
    '{"d": -0.0}',
    '{"d": 12345678901234567890.123456789, "f": 16777217}',
    '{"d": "NaN", "f": "-Infinity"}',
    '{"d": NaN}',
    '{"ok": true, "s": "x"}',
    '{"s": "\\u00e9\\ud83d\\ude00\\n\\/\\"\\\\"}',
    '{"\\u0073": "escaped name"}',
    '{"s": 1.5}',
    '{"s": true}',
    '{"s": {"a":[1,2,{"b":null}]}}',
    '{"s": ""}',
    '{"bin": "QUI="}',
    '{"bin": "\\/+8="}',
    '{"bin": ""}',
    '{"date": "2024-02-29"}',
    '{"date": "2024-2-9"}',
    '{"date": "1582-10-04"}',
    '{"date": "2024-02-29T10:11:12Z"}',
    '{"at": "2026-01-02T03:04:05Z"}',
    '{"at": "2026-01-02T03:04:05.123456+02:00"}',
    '{"at": "2026-01-02 03:04:05.1"}',
    '{"at": "2026-01-02T03:04:05.123456789Z"}',
    '{"at": "2026-01-02T03:04"}',
    '{"at": "2026-01-02"}',
    '{"at": "1969-12-31T23:59:59.999-05:30"}',
    '{"at": "0001-01-01T00:00:00Z"}',
    '{"at": 1700000000}',
    '{"at": -1}',
    '{"local": "2026-01-02T03:04:05.000001"}',
    '{"local": "2026-01-02"}',
    '{"dec": 1}',
    '{"dec": 1.005}',
    '{"dec": -1.005}',
    '{"dec": "12345678.99"}',
    '{"dec": 1e3}',
    '{"dec": "1E-2"}',
    '{"big": 1234567890123456789012345678.0123456789}',
    '{"big": -0.00000000005}',
    '{"list": []}',
    '{"list": [1, null, 2]}',
    '{"map": {}}',
    '{"map": {"a": 1, "b": null}}',
    '{"inner": {"a": "x", "b": [{"c": 1}, null, {}]}}',
    '{"inner": null, "list": null}',
]
#: Messages of which Spark makes null, or a field that is null.
BAD: Final = [
    '{"i": "1"}',
    '{"i": 9223372036854775808}',
    '{"ok": 1}',
    '{"ok": "true"}',
    '{"d": "1.5"}',
    '{"d": ""}',
    '{"date": "2023-02-29"}',
    '{"date": "x"}',
    '{"at": "2026-01-02T25:00:00Z"}',
    '{"at": "yesterday"}',
    '{"local": "2026-01-02T03:04:05Z"}',
    '{"dec": 123456789.00}',
    '{"dec": "x"}',
    '{"list": {}}',
    '{"list": 1}',
    '{"map": []}',
    '{"inner": 1}',
    '{"i": 01}',
    '{"i": 1,}',
    '{"i": 1',
    "{'i': 1}",
    "",
]


def ours(messages: list[str]) -> tuple[list[Any], list[int]]:
    column = pa.array([each.encode() for each in messages], pa.binary())
    result = Decoder(None, None, TYPE).decode(payloads_of(column))
    return result.column.to_pylist(), result.faults.tolist()


def sparks(spark: SparkSession, messages: list[str]) -> list[Any]:
    struct = from_arrow_schema(pa.schema(list(TYPE)), prefer_timestamp_ntz=True)
    rows = spark.createDataFrame([(row, each) for row, each in enumerate(messages)], "row int, text string")
    table = rows.select("row", from_json(col("text"), struct).alias("value")).orderBy("row").toArrow()
    values: list[Any] = table.column("value").to_pylist()
    return values


def test_messages_have_the_values_of_from_json(spark: SparkSession) -> None:
    values, faults = ours(READ)
    theirs = sparks(spark, READ)
    assert not any(faults), [message for message, fault in zip(READ, faults, strict=True) if fault]
    found = {message: repr(value) for message, value in zip(READ, values, strict=True)}
    assert found == {message: repr(value) for message, value in zip(READ, theirs, strict=True)}
    # Spark keeps the lowest bits of a number that is too large.
    assert ours(['{"small": 200}'])[1] == [Fault.NOT_REPRESENTABLE]


def test_what_from_json_makes_null_is_a_fault(spark: SparkSession) -> None:
    _, faults = ours(BAD)
    empty = dict.fromkeys(each.name for each in TYPE)
    for message, fault, other in zip(BAD, faults, sparks(spark, BAD), strict=True):
        assert fault, message
        # Spark keeps the fields that are good.
        assert other is None or {**other, "i": None} == empty, (message, other)


def test_texts_are_those_of_to_json_and_read_by_it(spark: SparkSession) -> None:
    row = {
        "i": -1,
        "small": 127,
        "d": 0.1,
        "f": 1.5,
        "ok": False,
        "s": 'a"\\/\b\n\x1f\x7fé😀',
        "bin": b"\xff\xfe",
        "date": dt.date(1999, 12, 31),
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "local": dt.datetime(2026, 1, 2, 3, 4, 5, 123000),
        "dec": decimal.Decimal("-1.50"),
        "big": decimal.Decimal("1234567890.0123456789"),
        "list": [1, None],
        "map": [("k", 2.5), ("null", None)],
        "inner": {"a": None, "b": [{"c": 3}, None]},
    }
    column = pa.array([row, {}], TYPE)
    texts = [each.decode() for each in Encoder(schema_of(TYPE, "T"), TYPE).encode(column).to_pylist()]
    table = pa.table({"row": pa.array([0, 1]), "value": column})
    frame = spark.createDataFrame(table).orderBy("row")
    local = col("value.local").cast("timestamp_ntz")
    theirs = [text for (text,) in frame.select(to_json(col("value").withField("local", local))).collect()]
    assert texts[1] == theirs[1] == "{}"
    one, other = json.loads(texts[0]), json.loads(theirs[0])
    # Spark cuts the seconds to three digits.
    assert one.pop("at") == "2026-01-02T03:04:05.678901Z"
    assert other.pop("at") == "2026-01-02T03:04:05.678Z"
    assert one.pop("local") == other.pop("local") + "000"
    assert one == other
    assert list(one) == list(other)
    assert repr(sparks(spark, texts)) == repr(column.to_pylist())
