"""The messages of ``make bench-values``: orders in Avro, with 8 fields and about 100 bytes."""

from __future__ import annotations

import io
import json
import random
from typing import Any, Final

import fastavro

from spark_kafkawire.values.registry_frame import id_prefix

SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "currency", "type": "string"},
            {"name": "quantity", "type": "int"},
            {"name": "is_paid", "type": "boolean"},
            {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)


def messages(count: int, schema_id: int) -> list[bytes]:
    """Framed messages, the same at each call."""
    draw, parsed = random.Random(34), fastavro.parse_schema(json.loads(SCHEMA))
    return [id_prefix(schema_id) + _encoded(parsed, _order(draw, number)) for number in range(count)]


def _order(draw: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"{draw.getrandbits(128):032x}",
        "amount": round(draw.uniform(0, 1000), 2),
        "currency": draw.choice(("EUR", "USD", "GBP")),
        "quantity": draw.randrange(100),
        "is_paid": draw.random() < 0.5,
        "created_at": 1_700_000_000_000 + draw.randrange(10**10),
        "note": f"left at the door of house {draw.getrandbits(96):024x}" if draw.random() < 0.8 else None,
    }


def _encoded(parsed: Any, order: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, order)
    return out.getvalue()
