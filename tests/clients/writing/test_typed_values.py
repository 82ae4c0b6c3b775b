"""Typed columns of a batch as messages with frames, judged by fastavro."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing.typed_values import ColumnEncoding, TypedRows
from spark_kafkawire.errors import RowError
from spark_kafkawire.records.headers import HEADERS
from spark_kafkawire.values.formats import FixedSchema
from spark_kafkawire.values.registry_frame import id_prefix

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
    found = TypedRows([encoding(frame)]).encoded(batch(topic=pa.array(["a", "b", "c"])))
    assert found.schema.names == ["value", "topic"]
    assert found.column("topic").to_pylist() == ["a", "b", "c"]
    first, tombstone, third = found.column("value").to_pylist()
    assert tombstone is None
    assert first.startswith(frame)
    assert [decoded(message[len(frame) :]) for message in (first, third)] == [ROWS[0], ROWS[2]]


def test_the_schema_goes_into_a_header_behind_others() -> None:
    given = pa.array([[("a", b"1"), ("b", None)], [("c", b"")], None], HEADERS)
    found = TypedRows([encoding(in_header=True)]).encoded(batch(headers=given))
    schema = ("__value_schema_id", id_prefix(7))
    pairs = [
        [(each["key"], each["value"]) for each in of or ()] for of in found.column("headers").to_pylist()
    ]
    assert pairs == [[("a", b"1"), ("b", None), schema], [("c", b"")], [schema]]
    assert decoded(found.column("value")[2].as_py()) == ROWS[2]


def test_a_header_is_added_where_rows_have_no_column_of_headers() -> None:
    keys = pa.array(ROWS, TYPE)
    found = TypedRows(
        [encoding(in_header=True, column="key"), encoding(id_prefix(8), in_header=True)]
    ).encoded(batch(key=keys))
    first, tombstone, _ = found.column("headers").to_pylist()
    assert [(each["key"], each["value"]) for each in first] == [
        ("__key_schema_id", id_prefix(7)),
        ("__value_schema_id", id_prefix(8)),
    ]
    assert not tombstone


def test_an_empty_batch_stays_empty() -> None:
    found = TypedRows([encoding(in_header=True)]).encoded(batch().slice(0, 0))
    assert found.num_rows == 0
    assert found.column("value").type == pa.binary()


def test_a_null_that_the_schema_does_not_allow_names_its_row_and_field() -> None:
    values = pa.array([{"n": 1, "s": "a"}, {"n": 2, "s": None}], TYPE)
    with pytest.raises(RowError, match=r"row 1: .*\bs\b"):
        TypedRows([encoding()]).encoded(pa.RecordBatch.from_pydict({"value": values}))
