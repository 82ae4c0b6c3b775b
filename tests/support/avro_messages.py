"""Avro messages as Confluent's serializer writes them; the payloads are fastavro's."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import fastavro


def record(*fields: tuple[Any, ...], name: str = "Order") -> str:
    """The schema of a record: name and type of each field, and its default if it has one."""
    result = [
        {"name": field, "type": of, **({"default": default[0]} if default else {})}
        for field, of, *default in fields
    ]
    return json.dumps({"type": "record", "name": name, "fields": result})


def payload(schema: str, value: Any) -> bytes:
    """A message without a frame."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def framed(schema_id: int, schema: str, value: Any) -> bytes:
    """A message behind the id of its schema."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload(schema, value)


#: Three versions of a schema: the second one adds a field, the third one renames one and widens another.
V1: Final = record(("id", "int"), ("name", "string"))
V2: Final = record(("id", "int"), ("name", "string"), ("note", ["null", "string"], None))
V3: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "title", "type": "string", "aliases": ["name"]},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "count", "type": "int", "default": 7},
        ],
    }
)
