"""Recordings of a real Kafka 0.7.2 broker, against which tests compare the package.

Provenance: ``tests/golden/kafka-0.7.2/README.md``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "kafka-0.7.2"
SEGMENTS: Final = GOLDEN / "segments"
CORPUS: Final = GOLDEN / "corpus"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded connection: the bytes sent and received, and the state of connection and log afterwards.

    ``connection`` is how it was afterwards: ``open``, ``closed by broker``, or still waiting.
    ``partition`` is the topic and partition whose end moved by ``gain`` bytes, ``appended`` these bytes.
    """

    name: str
    broker_id: int
    request: bytes
    response: bytes
    connection: str
    log: tuple[str, int] | None
    gain: int
    appended: bytes

    @property
    def group(self) -> str:
        """The first part of its name."""
        return self.name.partition("/")[0]

    @property
    def is_closed(self) -> bool:
        """True if the broker closed the connection."""
        return self.connection.startswith("closed")

    @property
    def is_waiting(self) -> bool:
        """True if the broker was still waiting for the rest of the request."""
        return "waiting" in self.connection


@functools.cache
def exchanges() -> tuple[Exchange, ...]:
    """All recorded exchanges that have a request, in the order in which they were recorded."""
    return tuple(_exchange(item) for item in read_json("transcripts.json") if item["request_hex"])


@functools.cache
def exchange(name: str) -> Exchange:
    """The recorded exchange of that name."""
    return next(exchange for exchange in exchanges() if exchange.name == name)


def read_json(name: str) -> Any:
    """One of the recordings' JSON files."""
    return json.loads((GOLDEN / name).read_text("utf-8"))


def copy_segments(log_dir: Path, *folders: str) -> None:
    """Copy recorded ``topic-partition`` folders (``runB-broker0/lab-fetch-0``) into a partition.dir."""
    for folder in folders:
        shutil.copytree(SEGMENTS / folder, log_dir / Path(folder).name)


def _exchange(item: dict[str, Any]) -> Exchange:
    topic = item.get("log_topic")
    return Exchange(
        name=item["name"],
        broker_id=item["broker_id"],
        request=bytes.fromhex(item["request_hex"]),
        response=bytes.fromhex(item["response_hex"] or ""),
        connection=item["connection"],
        log=None if topic is None else (topic, item["log_partition"]),
        gain=0 if topic is None else item["log_after"] - item["log_before"],
        appended=bytes.fromhex(item.get("appended_hex") or ""),
    )


#: Each partition of the corpus, with what is in it.
MANIFEST: Final = read_json("corpus/manifest.json")


def values_sha256(values: Iterable[bytes]) -> str:
    """As the manifest has it: every value in log order, after its length as an int32."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(len(value).to_bytes(4, "big"))
        digest.update(value)
    return digest.hexdigest()
