"""A reader of committed records, by other authors: librdkafka."""

from __future__ import annotations

import threading
import time
from typing import Final

from confluent_kafka import Consumer, TopicPartition

#: How long it waits for all rows once the write is over, seconds.
_RETRY_TIMEOUT_S: Final = 60.0


class Reader:
    """Reads a new topic while it is written, until ``rows`` have come, and notes when the first and the last
    of them came."""

    def __init__(self, servers: str, topic: str, partitions: int, rows: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "readers",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._rows = rows
        self._came_s: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def seen_s(self) -> float:
        """Seconds between the first row that was seen and the last one."""
        self._thread.join(_RETRY_TIMEOUT_S)
        assert len(self._came_s) == self._rows, f"{len(self._came_s)} rows, not {self._rows}"
        return self._came_s[-1] - self._came_s[0]

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while len(self._came_s) < self._rows and not self._stop.is_set():
            messages = self._consumer.consume(10_000, 0.02)
            now_s = time.monotonic()
            self._came_s += [now_s for message in messages if message.error() is None]
