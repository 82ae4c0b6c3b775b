"""Batches that Apache Kafka's own clients wrote."""

from __future__ import annotations

import json
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-clients-3.9.1" / "record_batches.json"
BATCHES: dict[str, str] = json.loads(GOLDEN.read_text("utf-8"))
