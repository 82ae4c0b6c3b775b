"""Topics of the recipes whose messages have the frame of a schema registry.

Provenance: ``tests/golden/confluent-kafka-2.16.1/README.md``.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

from . import librdkafka
from .foreign import Record

_RECORDED: Final = Path(__file__).parents[1] / "golden" / "confluent-kafka-2.16.1" / "messages.json"
AVRO_TOPIC: Final = "customers"
PROTOBUF_TOPIC: Final = "moments"


def produce(bootstrap_servers: str) -> None:
    """Fill both topics, with a tombstone at the end of each."""
    reported = json.loads(_RECORDED.read_text("utf-8"))
    _fill(bootstrap_servers, AVRO_TOPIC, reported["avro"])
    _fill(bootstrap_servers, PROTOBUF_TOPIC, reported["protobuf"])


def customers() -> list[dict[str, Any]]:
    """Values of the messages in Avro, in their order."""
    reported = json.loads(_RECORDED.read_text("utf-8"))
    return [message["says"] for message in reported["avro"]]


def _fill(bootstrap_servers: str, topic: str, messages: list[dict[str, Any]]) -> None:
    librdkafka.create_topic(bootstrap_servers, 1, topic)
    records = [Record(base64.b64decode(message["value"])) for message in messages]
    librdkafka.produce(bootstrap_servers, topic, [*records, Record(None)])
