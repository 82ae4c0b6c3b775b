"""Records as other clients write and read them, and the code that the wrappers of these clients share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .codecs import known_to

#: The compressions of Kafka, by the names that all clients share.
CODECS: Final = known_to("librdkafka")

#: How long a client may take for whatever a test asks of it.
CLIENT_TIMEOUT_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Record:
    """One record. ``timestamp_ms`` None: the client's clock; ``offset`` -1: not in a partition yet.

    ``timestamp_type`` is 0 for CreateTime, 1 for LogAppendTime, as Spark has it.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0
    offset: int = -1
    timestamp_type: int = 0


def values(records: Sequence[Record]) -> list[bytes | None]:
    """Their values, in order."""
    return [record.value for record in records]
