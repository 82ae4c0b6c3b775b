"""What the recorded logs hold (``golden.CORPUS``), by the manifest that was written with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .golden import MANIFEST

#: A topic of six logs, of compressed messages.
GZIP_TOPIC: Final = "debian-gzip"


def logs_of(topic: str = GZIP_TOPIC) -> list[Mapping[str, Any]]:
    """The logs of a topic, in the order of their brokers: broker, partition, messages, values_sha256."""
    logs = [log for log in MANIFEST if log["topic"] == topic]
    return sorted(logs, key=lambda log: (log["broker"], log["partition"]))


def recorded(topic: str = GZIP_TOPIC) -> list[tuple[int, str]]:
    """How many messages each log of a topic has, and their checksum."""
    return [(log["messages"], log["values_sha256"]) for log in logs_of(topic)]
