"""Fields that only a writer's schema has."""

from __future__ import annotations

import json
from typing import Any

from spark_kafkawire.values.avro.evolution import new_field
from spark_kafkawire.values.avro.schema import parse
from tests.support.cases import for_each


def record(name: str, *fields: tuple[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields], **others}


def aliased(name: str, alias: str, of: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": of, "aliases": [alias]}],
    }


def listed(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapped(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


INNER = record("I", ("x", "int"))
WIDER = record("I", ("x", "int"), ("y", "string"))


@for_each(
    ("writer", "reader", "path"),
    [
        (record("R", ("a", "int")), record("R", ("a", "long")), None),
        (record("R", ("a", "int")), record("R", ("a", "int"), ("b", "int")), None),
        (record("R", ("a", "int"), ("b", "int")), record("R", ("a", "int")), "b"),
        (record("R", ("b", "int")), aliased("a", "b", "int"), None),
        (record("R", ("a", WIDER)), record("R", ("a", INNER)), "a.y"),
        (record("R", ("a", ["null", WIDER])), record("R", ("a", INNER)), "a.y"),
        (record("R", ("a", WIDER)), record("R", ("a", ["null", INNER])), "a.y"),
        (record("R", ("a", listed(WIDER))), record("R", ("a", listed(INNER))),
         "a.y"),
        (record("R", ("a", mapped(WIDER))), record("R", ("a", mapped(INNER))),
         "a.y"),
        (record("R", ("a", mapped(INNER))), record("R", ("a", mapped(INNER))),
         None),
        ("int", "string", None),
        (record("R", ("a", "int")), ["null", "int"], None),
        (record("R", ("next", ["null", "R"])), record("R", ("next", ["null", "R"])), None),
        (record("R", ("next", ["null", "R"]), ("z", "int")), record("R", ("next", ["null", "R"])), "z"),
    ],
)  # fmt: skip
def test_the_first_new_field_is_found(writer: Any, reader: Any, path: str | None) -> None:
    assert new_field(parse(json.dumps(writer)), parse(json.dumps(reader))) == path
