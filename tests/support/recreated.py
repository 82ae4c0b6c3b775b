"""A broker whose topics are deleted and recreated, with topic ids or without them as before Kafka 2.8.

with RecreatingBroker(has_ids=True) as broker:
    broker.create("t", "a", "b")
    broker.delete("t")
    broker.create("t", "c")
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from tests.records.batches import batch, record

from .log_broker import OFFERED
from .log_server import LogServer
from .memory_log import MemoryLog

if TYPE_CHECKING:
    from typing_extensions import Self

#: The last versions before topics had ids.
_LAST_WITHOUT_IDS: Final = {modern.METADATA.key: 9, modern.FETCH.key: 12}


class RecreatingBroker:
    """One broker with topics of one partition or more, whose records are texts."""

    def __init__(self, *, has_ids: bool) -> None:
        self._logs: dict[str, list[MemoryLog]] = {}
        offered = dict(OFFERED)
        if not has_ids:
            offered |= {key: VersionRange(offered[key].min, last) for key, last in _LAST_WITHOUT_IDS.items()}
        self._server = LogServer(self._logs, offered=offered)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.close()

    @property
    def bootstrap_servers(self) -> str:
        """Its address, as clients take it."""
        return self._server.bootstrap_servers

    def create(self, topic: str, *values: str, partitions: int = 1) -> None:
        """Make a topic with another id than any before, and records in partition 0."""
        self._server.broker.topic_ids[topic] = uuid.uuid4()
        self._logs[topic] = [MemoryLog() for _ in range(partitions)]
        self.send(topic, *values)

    def delete(self, topic: str) -> None:
        """Make the topic one that no broker knows."""
        del self._logs[topic]

    def send(self, topic: str, *values: str, partition: int = 0) -> None:
        """Append records to a partition."""
        if values:
            records = [record(number, value.encode()) for number, value in enumerate(values)]
            self._logs[topic][partition].append(batch(records))

    def log(self, topic: str, partition: int = 0) -> MemoryLog:
        """A partition's log."""
        return self._logs[topic][partition]

    def grow(self, topic: str, partitions: int, *logs: MemoryLog) -> None:
        """Add partitions, with these partitions or empty ones."""
        added = [*logs, *(MemoryLog() for _ in range(partitions))]
        self._logs[topic] += added[: partitions - len(self._logs[topic])]

    def shrink(self, topic: str) -> MemoryLog:
        """Know the last partition no more; its log."""
        return self._logs[topic].pop()
