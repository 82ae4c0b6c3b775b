"""Typed keys and values of a task: groups of schemas, faults, frames, and what the registry is asked."""

from __future__ import annotations

import io
import json
import logging
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.clients.reading import typed_values
from spark_kafkawire.clients.reading.typed_values import TypedTask, TypedValues
from spark_kafkawire.clients.writing.typed_values import ColumnEncoding, TypedRows
from spark_kafkawire.errors import (
    CorruptDataError,
    KafkaWireError,
    OptionError,
    RowError,
    TransportError,
)
from spark_kafkawire.kept import forget_all
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import BadRecords, ReadOptions, TypedOptions
from spark_kafkawire.records.arrow import CORRUPT_TYPE
from spark_kafkawire.records.columns import HEADERS, Columns
from spark_kafkawire.values.formats import FixedSchema
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support.avro_messages import V1, V2, V3, framed, payload, record
from tests.support.fake_registry import FakeRegistry, cut, guid_header, slow, status

PARTITION: Final = TopicPartition("orders", 3)
#: What a request of these tests may take: one try, and a short deadline.
BOUNDED: Final = {"retries": "0", "requestTimeout": "10s"}
ORDER: Final = pa.struct(
    [("id", pa.int64()), ("title", pa.string()), ("note", pa.string()), ("count", pa.int32())]
)
READER: Final = {"value": FixedSchema(V3)}
PAGE: Final = b"<html><body>Sign in</body></html>"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as running:
        yield running


def options_of(registry: FakeRegistry | None, **changes: str) -> TypedOptions:
    url = {} if registry is None else {"schema.registry.url": registry.url}
    base = {"kafka.bootstrap.servers": "h:9092", "subscribe": "orders", **BOUNDED, **url}
    result = ReadOptions.parse({**base, "valueFormat": "avro", **changes}).typed
    assert result is not None
    return result


def columns_of(values: Sequence[bytes | None], **others: Any) -> Columns:
    numbers = np.arange(100, 100 + len(values))
    keys = others.pop("keys", None)
    return Columns(
        numbers,
        values=pa.array(values, pa.binary()),
        keys=None if keys is None else pa.array(keys, pa.binary()),
        **others,
    )


def typed(
    options: TypedOptions, fields: dict[str, pa.DataType], schemas: dict[str, FixedSchema] | None = None
) -> TypedValues:
    task = pickle.loads(pickle.dumps(TypedTask(options, schemas or {})))
    return TypedValues(PARTITION, task, pa.schema(list(fields.items())))


def rows_of(values: TypedValues, columns: Columns) -> list[dict[str, Any]]:
    batch = values.build(columns)
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def order(id: int, title: str, note: str | None = None, count: int = 7) -> dict[str, Any]:
    return {"id": id, "title": title, "note": note, "count": count}


def test_three_versions_in_one_topic_become_rows_of_one_schema_in_their_order(registry: FakeRegistry) -> None:
    v1, v2, v3 = (registry.add("orders-value", text) for text in (V1, V2, V3))
    messages = [
        framed(v2, V2, {"id": 2, "name": "b", "note": "n"}),
        framed(v1, V1, {"id": 1, "name": "ä"}),
        None,
        framed(v3, V3, {"id": 2**40, "title": "c", "note": None, "count": -1}),
        framed(v1, V1, {"id": 4, "name": ""}),
    ]
    values = typed(
        options_of(registry), {"offset": pa.int64(), "value": ORDER, "valueSchemaId": pa.int32()}, READER
    )
    assert values.wanted == {"offset", "value", "headers"}
    expected = [order(2, "b", "n"), order(1, "ä"), None, order(2**40, "c", None, -1), order(4, "")]
    ids = [v2, v1, None, v3, v1]
    for start in range(5):
        result = rows_of(values, columns_of(messages[start:]))
        assert [row["value"] for row in result] == expected[start:]
        assert [row["valueSchemaId"] for row in result] == ids[start:]
        assert [row["offset"] for row in result] == list(range(100, 105 - start))
    assert sorted(registry.requests) == [f"GET /schemas/ids/{number}" for number in (v1, v2, v3)]


def test_fields_that_the_type_lacks_are_not_decoded_and_their_order_is_free(registry: FakeRegistry) -> None:
    nested = record(("a", "int"), ("inner", {"type": "record", "name": "I", "fields": [
        {"name": "x", "type": "string"}, {"name": "y", "type": "double"}]}), ("z", "bytes"))  # fmt: skip
    number = registry.add("orders-value", nested)
    message = framed(number, nested, {"a": 1, "inner": {"x": "x", "y": 0.5}, "z": b"z"})
    of = pa.struct([("inner", pa.struct([("y", pa.float64())])), ("a", pa.int64())])
    for schemas in ({}, {"value": FixedSchema(nested)}):
        values = typed(options_of(registry), {"value": of}, schemas)
        assert rows_of(values, columns_of([message])) == [{"value": {"inner": {"y": 0.5}, "a": 1}}]


def test_without_the_column_no_message_is_decoded_and_no_registry_asked(registry: FakeRegistry) -> None:
    values = typed(options_of(registry), {"offset": pa.int64()}, READER)
    assert values.wanted == {"offset"}
    assert rows_of(values, Columns(np.arange(2))) == [{"offset": 0}, {"offset": 1}]
    assert typed(options_of(registry), {}).build(Columns(np.arange(2))).num_rows == 2
    ids = typed(options_of(registry), {"valueSchemaId": pa.int32()})
    assert rows_of(ids, columns_of([b"\0\0\0\1\0", None, b"\0\0\0\0\7rest"])) == [
        {"valueSchemaId": number} for number in (256, None, 7)
    ]
    assert registry.requests == []


def test_keys_and_values_are_typed_each_by_its_format(registry: FakeRegistry) -> None:
    long = registry.add("orders-key", '"long"')
    options = options_of(registry, keyFormat="avro", valueFormat="string")
    fields = {"value": pa.string(), "key": pa.int64(), "keySchemaId": pa.int32(), "topic": pa.string()}
    values = typed(options, fields, {"key": FixedSchema('"long"')})
    columns = columns_of(["ä".encode(), None, b""], keys=[framed(long, '"long"', -5), None, None])
    assert rows_of(values, columns) == [
        {"value": "ä", "key": -5, "keySchemaId": long, "topic": "orders"},
        {"value": None, "key": None, "keySchemaId": None, "topic": "orders"},
        {"value": "", "key": None, "keySchemaId": None, "topic": "orders"},
    ]
    assert rows_of(values, columns_of([None])) == [
        {"value": None, "key": None, "keySchemaId": None, "topic": "orders"}
    ]


def test_ids_and_guids_come_from_headers_too(registry: FakeRegistry) -> None:
    number = registry.add("orders-value", '"int"')
    guid = guid_header(registry.guid(number))
    headers = pa.array(
        [
            [("h", b"1"), ("__value_schema_id", guid)],
            [("__value_schema_id", b"\0" + number.to_bytes(4, "big"))],
            None,
        ],
        HEADERS,
    )
    messages = [payload('"int"', 1), payload('"int"', 2), framed(number, '"int"', 3)]
    fields = {"value": pa.int32(), "_corrupt_record": CORRUPT_TYPE}
    for source, third in (("auto", 3), ("header", None)):
        values = typed(options_of(registry, schemaIdFrom=source, badRecords="null"), fields)
        result = rows_of(values, columns_of(messages, headers=headers))
        assert [row["value"] for row in result] == [1, 2, third]
    assert result[2]["_corrupt_record"]["reason"] == "value: the message does not begin with a schema id"
    prefix = typed(options_of(registry, schemaIdFrom="prefix", badRecords="drop"), fields)
    assert prefix.wanted == {"value"}
    assert [row["value"] for row in rows_of(prefix, columns_of(messages, headers=headers))] == [3]


def test_messages_without_ids_have_the_schema_of_the_options() -> None:
    options = options_of(None, schemaIdFrom="none", valueSchema=V1)
    values = typed(options, {"value": pa.struct([("name", pa.string())])}, {"value": FixedSchema(V1)})
    assert values.wanted == {"value"}
    result = rows_of(values, columns_of([payload(V1, {"id": 1, "name": "a"}), None]))
    assert result == [{"value": {"name": "a"}}, {"value": None}]


def test_json_is_read_by_names_without_a_request(registry: FakeRegistry) -> None:
    fields = {
        "value": pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
        "_corrupt_record": CORRUPT_TYPE,
    }
    messages = [b'{"b": ["x", null], "c": 1}', None, b'{"a": 5', b'{"a": 7}']
    expected = [{"a": None, "b": ["x", None]}, None, None, {"a": 7, "b": None}]
    plain = options_of(None, valueFormat="json", schemaIdFrom="none", badRecords="null")
    result = rows_of(typed(plain, fields), columns_of(messages))
    assert [row["value"] for row in result] == expected
    assert result[2]["_corrupt_record"] == {
        "bytes": b'{"a": 5', "reason": "value: field a: the message is not valid JSON", "schemaId": None,
        "startOffset": 102, "endOffset": 103,
    }  # fmt: skip
    framed_messages = [item if item is None else b"\0\0\0\0" + bytes([7 + row]) + item
                       for row, item in enumerate(messages)]  # fmt: skip
    options = options_of(registry, valueFormat="json", badRecords="null")
    values = typed(options, {**fields, "valueSchemaId": pa.int32()})
    result = rows_of(values, columns_of(framed_messages))
    assert [row["value"] for row in result] == expected
    assert [row["valueSchemaId"] for row in result] == [7, None, 9, 10]
    assert result[2]["_corrupt_record"]["schemaId"] == 9
    assert registry.requests == []


# Bad records


def bad_messages(registry: FakeRegistry) -> list[bytes | None]:
    """Good ones at offsets 100 and 106, a tombstone at 101, bad ones between."""
    good = registry.add("orders-value", V1)
    proto = registry.add("moments-value", 'syntax = "proto3"; message M {}', "PROTOBUF")
    other = registry.add("others-value", record(("x", "int"), name="Other"))
    message = framed(good, V1, {"id": 1, "name": "a"})
    return [
        message,
        None,
        message[:-1],
        message[:-1] + b"\xff",
        framed(999, V1, {"id": 1, "name": "a"}),
        b"{}",
        message,
        framed(proto, V1, {"id": 1, "name": "a"}),
        framed(other, '"int"', 1),
    ]


REASONS: Final = {
    102: "field title: a length or a count is negative or larger than the message",
    103: "field title: a string is not UTF-8",
    104: "the registry has no schema of this id",
    105: "the message does not begin with a schema id",
    107: "the message's schema cannot be resolved to the reader's schema: it is PROTOBUF, and not AVRO",
    108: "the message's schema cannot be resolved to the reader's schema",
}


def test_null_keeps_the_bytes_of_a_bad_record_and_its_reason(registry: FakeRegistry) -> None:
    messages = bad_messages(registry)
    fields = {"value": ORDER, "offset": pa.int64(), "_corrupt_record": CORRUPT_TYPE}
    values = typed(options_of(registry, badRecords="null"), fields, READER)
    result = rows_of(values, columns_of(messages))
    good = [row["offset"] for row in result if row["value"] is not None]
    assert good == [100, 106]
    corrupt = {row["offset"]: row["_corrupt_record"] for row in result if row["_corrupt_record"] is not None}
    assert {offset: row["reason"] for offset, row in corrupt.items()} == {
        offset: f"value: {reason}" for offset, reason in REASONS.items()
    }
    assert {offset: row["bytes"] for offset, row in corrupt.items()} == {
        offset: messages[offset - 100] for offset in REASONS
    }
    assert [row["schemaId"] for row in corrupt.values()] == [1, 1, 999, None, 2, 3]
    assert rows_of(values, columns_of([None, messages[0]]))[1]["_corrupt_record"] is None


@pytest.mark.parametrize("offset", REASONS)
def test_fail_names_the_place_the_schema_the_field_and_the_remedy(
    registry: FakeRegistry, offset: int
) -> None:
    messages = bad_messages(registry)
    values = typed(options_of(registry), {"value": ORDER}, READER)
    valid = [item for number, item in enumerate(messages, 100) if number not in REASONS or number == offset]
    location = [number for number in range(100, 109) if number not in REASONS or number == offset].index(
        offset
    )
    with pytest.raises(CorruptDataError) as error:
        values.build(columns_of(valid))
    schema_id = {102: 1, 103: 1, 104: 999, 105: None, 107: 2, 108: 3}[offset]
    of = f" (schema id {schema_id})" if schema_id else ""
    assert str(error.value) == (
        f"orders 3 at offset {100 + location}: the value cannot be decoded{of}: {REASONS[offset]}; "
        "if every value fails, correct valueFormat or schemaIdFrom; to read on, set badRecords=null, "
        "which keeps its bytes, or badRecords=drop"
    )
    assert error.value.offset == 100 + location
    assert not error.value.retriable


def test_drop_counts_what_it_leaves_out_and_warns_once(
    registry: FakeRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    values = typed(options_of(registry, badRecords="drop"), {"offset": pa.int64(), "value": ORDER}, READER)
    messages = bad_messages(registry)
    for _ in range(2):
        assert [row["offset"] for row in rows_of(values, columns_of(messages))] == [100, 101, 106]
    assert values.build(columns_of(messages[2:3])).num_rows == 0
    assert caplog.messages == []
    values.report()
    assert caplog.messages == [
        "badRecords=drop left out 13 records of orders 3, the first: orders 3 at offset 102: the value "
        f"cannot be decoded (schema id 1): {REASONS[102]}; if every value fails, correct valueFormat or "
        "schemaIdFrom"
    ]
    caplog.clear()
    valid = typed(options_of(registry, badRecords="drop"), {"value": ORDER}, READER)
    valid.build(columns_of(messages[:2]))
    valid.report()
    assert caplog.messages == []


def test_text_that_is_not_utf8_is_a_bad_record() -> None:
    options = options_of(None, valueFormat="string", keyFormat="string", badRecords="null")
    fields = {"key": pa.string(), "value": pa.string(), "_corrupt_record": CORRUPT_TYPE}
    values = typed(options, fields)
    columns = columns_of(
        [b"a", b"\xff", None, b"\xc3", b"", "€".encode()],
        keys=[b"\xfe", b"\xfd", b"k", None, b"", b"\xf0\x9f\x98"],
    )
    result = rows_of(values, columns)
    assert [row["value"] for row in result] == ["a", None, None, None, "", "€"]
    assert [row["key"] for row in result] == [None, None, "k", None, "", None]
    corrupt = [row["_corrupt_record"] for row in result]
    bad = "a string is not UTF-8"
    assert [row and (row["bytes"], row["reason"], row["schemaId"]) for row in corrupt] == [
        (b"\xfe", f"key: {bad}", None),
        (b"\xff", f"value: {bad}; key: {bad}", None),
        None,
        (b"\xc3", f"value: {bad}", None),
        None,
        (b"\xf0\x9f\x98", f"key: {bad}", None),
    ]


def test_a_field_that_a_writer_lacks_is_no_null_without_a_reader(registry: FakeRegistry) -> None:
    number = registry.add("orders-value", V1)
    fields = {"value": pa.struct([("idd", pa.int32())])}
    with pytest.raises(
        CorruptDataError, match=r"Order has no field idd: remove that column from .*; to read on"
    ):
        typed(options_of(registry), fields).build(columns_of([framed(number, V1, {"id": 1, "name": "a"})]))


# The registry


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(500, b"oops"), "the server answers with HTTP status 500"),
        (status(404, PAGE), "the server answers with HTTP status 404 and no code of a schema registry"),
        (cut, "ends early"),
    ],
)
def test_a_registry_that_fails_is_no_bad_record(registry: FakeRegistry, fault: Any, message: str) -> None:
    number = registry.add("orders-value", V1)
    good = framed(number, V1, {"id": 1, "name": "a"})
    for bad_records in BadRecords:
        registry.faults.append(fault)
        values = typed(options_of(registry, badRecords=bad_records.value), {"value": ORDER}, READER)
        with pytest.raises(TransportError) as error:
            values.build(columns_of([good]))
        assert str(error.value).startswith(f"orders 3: value: schema registry: schema id {number}: gave up")
        assert message in str(error.value)
        # The next attempt of the task has the answer.
        assert rows_of(values, columns_of([good])) == [{"value": order(1, "a")}]
        forget_all()


def test_a_registry_that_is_slow_or_away_fails_the_task_within_its_time(registry: FakeRegistry) -> None:
    good = columns_of([framed(1, V1, {"id": 1, "name": "a"})])
    registry.faults.append(slow(60))
    values = typed(options_of(registry, badRecords="drop", requestTimeout="200ms"), {"value": ORDER}, READER)
    with pytest.raises(KafkaWireError, match=r"within 0\.2 s"):
        values.build(good)
    with FakeRegistry() as gone:
        options = options_of(gone, badRecords="null")
    with pytest.raises(TransportError, match=r"orders 3: value: schema registry: schema id 1: gave up"):
        typed(options, {"value": ORDER}, READER).build(good)


def test_tasks_of_one_process_share_decoders(registry: FakeRegistry) -> None:
    number = registry.add("orders-value", V1)
    message = columns_of([framed(number, V1, {"id": 1, "name": "a"})])
    for _ in range(3):
        assert rows_of(typed(options_of(registry), {"value": ORDER}, READER), message) == [
            {"value": order(1, "a")}
        ]
    assert len(typed_values._DECODINGS._entries) == len(registry.requests) == 1


def test_an_error_asks_for_no_schema_after_the_first_that_is_not_there(registry: FakeRegistry) -> None:
    number = registry.add("orders-value", V1)
    good = framed(number, V1, {"id": 1, "name": "a"})
    strangers = [b"\0" + item.to_bytes(4, "big") for item in range(1000, 0, -1) if item != number]
    values = typed(options_of(registry), {"value": ORDER}, READER)
    with pytest.raises(
        CorruptDataError, match=r"^orders 3 at offset 102: .* \(schema id 1000\): the registry has"
    ):
        values.build(columns_of([good, None, *strangers, good[:-1]]))
    assert registry.requests == [f"GET /schemas/ids/{number}", "GET /schemas/ids/1000"]


def test_a_stream_ends_at_a_later_schema_with_a_new_field(registry: FakeRegistry) -> None:
    v0 = registry.add("orders-value", record(("id", "int"), ("name", "string"), ("old", "int")))
    v1, v2 = (registry.add("orders-value", text) for text in (V1, V2))
    options = replace(options_of(registry), ends_on_new_fields=True)
    fixed = {"value": FixedSchema(V1, schema_id=v1, origin="version 2 of subject 'orders-value'")}
    fields = {"value": pa.struct([("id", pa.int32()), ("name", pa.string())])}
    values = typed(options, fields, fixed)
    old = framed(
        v0, record(("id", "int"), ("name", "string"), ("old", "int")), {"id": 0, "name": "z", "old": 1}
    )
    assert rows_of(values, columns_of([old, framed(v1, V1, {"id": 1, "name": "a"})]))[0]["value"]["id"] == 0
    with pytest.raises(OptionError) as error:
        values.build(columns_of([framed(v2, V2, {"id": 2, "name": "b", "note": None})]))
    assert str(error.value) == (
        "orders 3: value: schema id 3 has the field note, which version 2 of subject 'orders-value' of this "
        "query lacks; load it and start it again, to take the new schema (avroSchemaEvolutionMode=restart)"
    )


SCHEMA: Final = json.dumps(
    {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, {"name": "s", "type": "string"}]}
)
ROWS: Final = [{"n": 1, "s": "a"}, None, {"n": -7, "s": "größe"}]
TYPE: Final = pa.struct([("n", pa.int32()), ("s", pa.string())])


def decoded(message: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(message), json.loads(SCHEMA), None)


def encoding(
    frame: bytes = id_prefix(7), *, column: str = "value", in_header: bool = False
) -> ColumnEncoding:
    return ColumnEncoding(column, "avro", FixedSchema(SCHEMA), frame, in_header)


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(ROWS, TYPE), **columns})


@pytest.mark.parametrize("frame", [b"", id_prefix(7)])
def test_values_become_messages_behind_their_frame(frame: bytes) -> None:
    result = TypedRows([encoding(frame)]).encoded(batch(topic=pa.array(["a", "b", "c"])))
    assert result.schema.names == ["value", "topic"]
    assert result.column("topic").to_pylist() == ["a", "b", "c"]
    first, tombstone, third = result.column("value").to_pylist()
    assert tombstone is None
    assert first.startswith(frame)
    assert [decoded(message[len(frame) :]) for message in (first, third)] == [ROWS[0], ROWS[2]]


def test_the_schema_goes_into_a_header_behind_others() -> None:
    given = pa.array([[("a", b"1"), ("b", None)], [("c", b"")], None], HEADERS)
    result = TypedRows([encoding(in_header=True)]).encoded(batch(headers=given))
    schema = ("__value_schema_id", id_prefix(7))
    pairs = [
        [(item["key"], item["value"]) for item in of or ()] for of in result.column("headers").to_pylist()
    ]
    assert pairs == [[("a", b"1"), ("b", None), schema], [("c", b"")], [schema]]
    assert decoded(result.column("value")[2].as_py()) == ROWS[2]


def test_a_header_is_added_where_rows_have_no_column_of_headers() -> None:
    keys = pa.array(ROWS, TYPE)
    result = TypedRows(
        [encoding(in_header=True, column="key"), encoding(id_prefix(8), in_header=True)]
    ).encoded(batch(key=keys))
    first, tombstone, _ = result.column("headers").to_pylist()
    assert [(item["key"], item["value"]) for item in first] == [
        ("__key_schema_id", id_prefix(7)),
        ("__value_schema_id", id_prefix(8)),
    ]
    assert not tombstone


def test_an_empty_batch_stays_empty() -> None:
    result = TypedRows([encoding(in_header=True)]).encoded(batch().slice(0, 0))
    assert result.num_rows == 0
    assert result.column("value").type == pa.binary()


def test_a_null_that_the_schema_does_not_allow_names_its_row_and_field() -> None:
    values = pa.array([{"n": 1, "s": "a"}, {"n": 2, "s": None}], TYPE)
    with pytest.raises(RowError, match=r"row 1: .*\bs\b"):
        TypedRows([encoding()]).encoded(pa.RecordBatch.from_pydict({"value": values}))
