"""Spark's own ``from_avro`` and ``to_avro`` beside ours, in one Spark: the same types, values, messages.

    python -m tests.interop.test_from_avro ANSWERS < QUESTIONS

The questions are ``jars``, and ``cases``: a list of objects with a ``schema``, ``messages`` in hexadecimal,
and the ``options`` of Spark's function. The file of the answers gets an object for each case: Spark's
``values`` and ours, and the ``messages`` that both make of Spark's values. Each is a column: its ``type``,
its ``rows`` as texts, and the ``error`` if there is one.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro import functions as theirs

from spark_kafkawire import functions as ours
from spark_kafkawire.errors import OptionError
from tests.support.local_spark import local_spark
from tests.values.avro.drawn import LOGICAL, PRIMITIVES, Values, schemas
from tests.values.avro.judge import Judge

from .versions import answers_of, needed_avro

_TIMEOUT_S: Final = 600.0
_DRAWN: Final = 25
_ROWS: Final = 20
#: Spark takes no schema that contains itself without the option; ours is always as with this one.
_THEIR_OPTIONS: Final = {"recursiveFieldMaxDepth": "3"}

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(_TIMEOUT_S + 60)]


def record(*types: Any) -> dict[str, Any]:
    """A record with fields of these types."""
    fields = [{"name": f"f{location}", "type": of} for location, of in enumerate(types)]
    return {"type": "record", "name": "test.Root", "fields": fields}


def decimal(precision: int, scale: int, **of: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale, **of}


def fixed(name: str, size: int, **of: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"test.{name}", "size": size, **of}


_INNER: Final = {**record("long"), "name": "test.Inner"}
#: Schemas by what they show.
_NAMED: Final[dict[str, Any]] = {
    "primitives": record(*PRIMITIVES),
    "nullable primitives": record(*(["null", item] for item in PRIMITIVES[1:])),
    "logical types": record(*LOGICAL),
    "nullable logical types": record(*([item, "null"] for item in LOGICAL)),
    "decimals": record(
        decimal(1, 0),
        decimal(9, 2),
        decimal(18, 18),
        decimal(38, 10),
        decimal(9, 4, type="fixed", name="test.Short", size=4),
        decimal(38, 38, type="fixed", name="test.Long", size=20),
    ),
    "fixed": record(fixed("Key", 16), fixed("Empty", 0), fixed("Span", 12, logicalType="duration")),
    "enum": record({"type": "enum", "name": "test.Kind", "symbols": ["A", "B", "C"]}),
    "arrays and maps": record(
        {"type": "array", "items": ["null", {"type": "map", "values": ["null", "long"]}]},
        {"type": "map", "values": {"type": "array", "items": "string"}},
    ),
    "general unions": record(["int", "string"], ["null", "boolean", "double", "bytes"], ["string", _INNER]),
    "unions of numbers": record(["int", "long"], ["float", "null", "double"]),
    "itself": record("int", ["null", "test.Root"]),
    "a map": {"type": "map", "values": "long"},
    **{item: item for item in PRIMITIVES[1:]},
}
#: Schemas that Spark's function does not read.
_ONLY_OURS: Final[dict[str, Any]] = {
    "null at the root": ["null", "string"],
    "a general union at the root": ["long", "string"],
}


@dataclass(frozen=True, slots=True)
class Case:
    """A schema, messages of it and options of Spark's function; then what both made of them."""

    schema: Any
    messages: list[str]
    options: dict[str, str] = field(default_factory=lambda: _THEIR_OPTIONS)
    values: list[dict[str, Any]] = field(default_factory=list)
    encoded: list[dict[str, Any]] = field(default_factory=list)


def case(schema: Any, seed: int = 34, **more: Any) -> Case:
    judge, values = Judge(schema), Values(schema, Random(seed))
    return Case(schema, [judge.written(values.next()).hex() for _ in range(_ROWS)], **more)


def drawn_cases() -> list[Case]:
    """Cases of drawn schemas, the same in each run. No union is at the root."""
    found: list[Case] = []

    @settings(max_examples=_DRAWN, derandomize=True, database=None)
    @given(schemas(), st.integers(0, 2**32))
    def collect(schema: Any, seed: int) -> None:
        found.append(case(record(schema), seed))

    collect()
    return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """All cases with their answers."""
    jars = ",".join(needed_avro())
    named = {name: case(schema) for name, schema in {**_NAMED, **_ONLY_OURS}.items()}
    named["itself without the option"] = case(_NAMED["itself"], options={})
    named["itself in an array"] = case(record("int", {"type": "array", "items": "test.Root"}))
    named["a number or null at the root"] = case(["null", "long"])
    named |= {f"drawn {location}": item for location, item in enumerate(drawn_cases())}
    asked = [
        {"schema": json.dumps(item.schema), "messages": item.messages, "options": item.options}
        for item in named.values()
    ]
    questions = {"jars": jars, "cases": asked}
    result = answers_of("test_from_avro", questions, tmp_path_factory.mktemp("avro"), _TIMEOUT_S)
    return {
        name: Case(item.schema, item.messages, item.options, of["values"], of["messages"])
        for (name, item), of in zip(named.items(), result, strict=True)
    }


_EQUAL: Final = [*_NAMED, *(f"drawn {location}" for location in range(_DRAWN))]


@pytest.mark.parametrize("name", _EQUAL)
def test_types_and_values_are_those_of_sparks_from_avro(name: str, cases: dict[str, Case]) -> None:
    theirs, ours = cases[name].values
    assert theirs["error"] is None
    assert ours["error"] is None
    assert ours["type"] == without_times(theirs["type"])
    assert ours["rows"] == theirs["rows"]
    assert len(ours["rows"]) == _ROWS


@pytest.mark.parametrize("name", _EQUAL)
def test_messages_are_those_of_sparks_to_avro(name: str, cases: dict[str, Case]) -> None:
    theirs, ours = cases[name].encoded
    assert theirs["error"] is None
    assert ours["error"] is None
    schema = cases[name].schema
    if '"map"' not in json.dumps(schema):  # whose entries are in any order
        assert ours["rows"] == theirs["rows"]
    assert [read(schema, item) for item in ours["rows"]] == [read(schema, item) for item in theirs["rows"]]
    assert len(ours["rows"]) == _ROWS


def test_a_time_of_day_in_microseconds_is_a_time_in_spark_and_a_number_here(cases: dict[str, Case]) -> None:
    theirs, ours = (of["type"]["fields"] for of in cases["logical types"].values)
    places = [location for location, of in enumerate(LOGICAL) if of["logicalType"].startswith("time-")]
    assert [theirs[location]["type"] for location in places] == ["integer", "time(6)"]
    assert [ours[location]["type"] for location in places] == ["integer", "long"]


@pytest.mark.parametrize("name", [*_ONLY_OURS, "itself without the option"])
def test_schemas_that_only_our_function_reads(name: str, cases: dict[str, Case]) -> None:
    theirs, ours = cases[name].values
    assert theirs["error"]
    assert ours["error"] is None
    assert len(ours["rows"]) == _ROWS


@pytest.mark.parametrize("name", ["null at the root", "a number or null at the root"])
def test_null_at_the_root_is_null(name: str, cases: dict[str, Case]) -> None:
    asked = cases[name]
    theirs, ours = asked.values
    assert ours["rows"] == [repr(read(asked.schema, item)) for item in asked.messages]
    assert "None" in ours["rows"]
    if theirs["error"] is None:  # Spark's function gives the number 0
        assert theirs["rows"] == [item.replace("None", "0") for item in ours["rows"]]


def test_an_array_that_is_too_deep_for_a_column_is_written_empty(cases: dict[str, Case]) -> None:
    asked = cases["itself in an array"]
    theirs, ours = asked.values
    assert ours["type"] == theirs["type"]
    assert ours["rows"] == theirs["rows"]
    of_theirs, of_ours = asked.encoded
    assert "there is no match in the SQL schema" in of_theirs["error"]
    expected = [cut(read(asked.schema, item), 3) for item in asked.messages]
    assert [read(asked.schema, item) for item in of_ours["rows"]] == expected


def cut(value: dict[str, Any], depth: int) -> dict[str, Any]:
    """The value without what is deeper."""
    return {"f0": value["f0"], "f1": [cut(item, depth - 1) for item in value["f1"] if depth > 1]}


def without_times(of: Any) -> Any:
    """A type of Spark in JSON with numbers for times of a day."""
    return json.loads(json.dumps(of).replace('"time(6)"', '"long"'))


def read(schema: Any, message: str) -> Any:
    """The value that fastavro reads."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    return fastavro.schemaless_reader(io.BytesIO(bytes.fromhex(message)), parsed, None)


#: Characters of an error that name its cause: Spark's errors have stacks of Java.
_ERROR_LENGTH: Final = 20_000


def main() -> None:
    """Answer all cases."""
    asked = json.load(sys.stdin)
    spark = local_spark("columns of Avro", {"spark.jars": asked["jars"], "spark.sql.session.timeZone": "UTC"})
    Path(sys.argv[1]).write_text(json.dumps([_answers(spark, **case) for case in asked["cases"]]))
    spark.stop()


def _answers(
    spark: SparkSession, schema: str, messages: list[str], options: dict[str, str]
) -> dict[str, Any]:
    table = pa.table({"value": pa.array([bytes.fromhex(item) for item in messages], pa.binary())})
    given = spark.createDataFrame(table).coalesce(1)
    our_options = {"valueSchema": schema, "schemaIdFrom": "none"}

    def their_values() -> DataFrame:
        return given.select(theirs.from_avro("value", schema, options).alias("value"))

    return {
        "values": [
            _column(their_values),
            _column(lambda: given.select(ours.from_avro("value", our_options).alias("value"))),
        ],
        "messages": [
            _column(lambda: their_values().select(theirs.to_avro("value", schema).alias("value"))),
            _column(lambda: their_values().select(ours.to_avro("value", our_options).alias("value"))),
        ],
    }


def _column(made: Callable[[], DataFrame]) -> dict[str, Any]:
    try:
        frame = made()
        # Not toArrow(): PySpark 4.3 takes no field without null in a struct that is null.
        rows = [row.asDict(recursive=True)["value"] for row in frame.collect()]
    except (PySparkException, Py4JError, OptionError) as error:
        return {"type": None, "rows": [], "error": str(error)[:_ERROR_LENGTH]}
    return {"type": frame.schema["value"].dataType.jsonValue(), "rows": list(map(_text, rows)), "error": None}


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else repr(_comparable(value))


def _comparable(value: Any) -> Any:
    """The value with the entries of maps in order, and times of a day as microseconds."""
    if isinstance(value, time):
        return (datetime.combine(date.min, value) - datetime.min) // timedelta(microseconds=1)
    if isinstance(value, dict):
        return {name: _comparable(value[name]) for name in sorted(value)}
    return list(map(_comparable, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
