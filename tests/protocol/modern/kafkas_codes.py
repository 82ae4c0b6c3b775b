"""Kafka's own error codes, as its clients' source has them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

KAFKA: Final = Path(__file__).parents[2] / "golden" / "kafka-clients-4.4.0" / "errors.tsv"


def kafkas_own() -> list[tuple[int, str, str]]:
    """Number, name and way to go on of each code of Kafka."""
    lines = [line.split("\t") for line in KAFKA.read_text("utf-8").splitlines()]
    return [(int(number), name, way) for number, name, way in lines]
