"""Kafka for PySpark without the JVM connector: ``spark.read.format("kafkawire")``.

    READ   options → cluster (leaders, log bounds) → planner (offset ranges) → source.worker
               ═ pickled to the executor ═► clients.reading → net → protocol → records → Arrow → DataFrame
    WRITE  DataFrame → Arrow → records (bytes) → clients.writing → net → protocol → broker

``docs/architecture.md`` describes the folders. ``docs/api.md`` lists what is for your program.

Importing this package loads nothing else: Spark imports it in every worker to find the source,
and the codec works without Spark. In a program that has imported pyspark it looks which Python Spark
will run.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records.public import (
        decode_message_set,
        decode_record_batches,
        encode_message_set,
        encode_record_batches,
    )
    from .source.datasource import KafkaWireDataSource
    from .source.key_order import in_key_order, misplaced_report

if sys.platform == "win32":
    raise ImportError("Windows is not supported: use WSL or Spark Connect")

__all__ = [
    "KafkaWireDataSource",
    "decode_message_set",
    "decode_record_batches",
    "encode_message_set",
    "encode_record_batches",
    "in_key_order",
    "misplaced_report",
]

_HOMES = {
    "KafkaWireDataSource": "source.datasource",
    "decode_message_set": "records.public",
    "decode_record_batches": "records.public",
    "encode_message_set": "records.public",
    "encode_record_batches": "records.public",
    "in_key_order": "source.key_order",
    "misplaced_report": "source.key_order",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module(".version", __name__).VERSION
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


if "pyspark" in sys.modules:
    importlib.import_module(".source", __name__)
