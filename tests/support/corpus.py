"""Content of the recorded logs (``golden.CORPUS``), from the manifest that was written with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .golden import MANIFEST

#: A topic of six logs, of compressed messages.
GZIP_TOPIC: Final = "debian-gzip"


def partitions_of(topic: str = GZIP_TOPIC) -> list[Mapping[str, Any]]:
    """The logs of a topic, in the order of their brokers: broker, partition, messages, values_sha256."""
    partitions = [partition for partition in MANIFEST if partition["topic"] == topic]
    return sorted(partitions, key=lambda partition: (partition["broker"], partition["partition"]))


def recorded(topic: str = GZIP_TOPIC) -> list[tuple[int, str]]:
    """Count of the messages of each log of a topic, and their checksum."""
    return [(partition["messages"], partition["values_sha256"]) for partition in partitions_of(topic)]
