"""All logs of one broker: ``log.dir`` and the folders ``topic-partition`` in it, a counter that wakes
long polls when a log has more to read, and the periodic work: flushing appends, deleting old
segments.

Source: 0.7.2 log/LogManager.scala, server/KafkaServer.scala, utils/TopicNameValidator.scala.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..errors import BrokerError, CorruptDataError, OptionError, log_of, printable
from ..protocol.v07 import ErrorCode
from .config import BrokerConfig
from .log import Log, LogLimits, Segment, now_ms

LOG: Final = log_of(__name__)

#: A stopped broker leaves this file in ``log.dir``; the next start then skips recovery.
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

# The broker's pattern is on Java strings: a character outside the BMP is no match there, though
# it is written with two surrogates.
_ILLEGAL_TOPIC: Final = re.compile("^[.]{1,2}$|[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def check_topic(topic: str, length_max: int) -> None:
    """Raise ``BrokerError`` with code UNKNOWN for a name that a 0.7.2 broker refuses.

    Length is counted as Java does, in UTF-16 code units.
    """
    length = len(topic.encode("utf-16-le", "surrogatepass")) // 2
    if not 0 < length <= length_max or _ILLEGAL_TOPIC.search(topic):
        raise BrokerError(
            f"topic name of {length} characters is illegal; use 1 to 255, and no slash", ErrorCode.UNKNOWN
        )


class LogDirectory:
    """Opens, finds, creates and looks after the logs of one broker. Safe for many threads.

    Raises ``OptionError`` where ``log.dir`` is not usable and ``CorruptDataError`` where it
    holds other files than logs.
    """

    def __init__(self, config: BrokerConfig, *, clock_ms: Callable[[], int] = now_ms) -> None:
        self._config = config
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._logs: dict[str, dict[int, Log]] = {}
        #: Counts the arrivals of messages in all logs.
        self.arrivals = Arrivals()
        #: Called with the name of each topic that gets its first log.
        self.on_new_topic: Callable[[str], None] = lambda _topic: None
        try:
            config.log_dir.mkdir(parents=True, exist_ok=True)
            self._load()
        except OSError as error:
            raise OptionError(
                f"log.dir {config.log_dir} cannot be used: {error.strerror}; choose another folder"
            ) from error

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics with at least one log here, sorted."""
        return tuple(sorted(self._logs))

    def get(self, topic: str, partition: int) -> Log | None:
        """The log; None if no message was ever produced to it.

        Raises ``BrokerError`` with UNKNOWN for an illegal topic, with WRONG_PARTITION for a
        partition outside of the configured range.
        """
        check_topic(topic, self._config.max_topic_name_length)
        if not 0 <= partition < self._config.partition_count(topic):
            raise BrokerError(
                f"wrong partition {partition}; raise num.partitions, or correct it", ErrorCode.WRONG_PARTITION
            )
        return self._logs.get(topic, {}).get(partition)

    def get_or_create(self, topic: str, partition: int) -> Log:
        """The log, created if it does not exist. Raises as ``get`` does, and ``OSError``."""
        if log := self.get(topic, partition):
            return log
        with self._lock:
            partitions = self._logs.get(topic, {})
            if partition not in partitions:
                folder = self._config.log_dir / f"{topic}-{partition}"
                folder.mkdir(exist_ok=True)
                new = self._open(folder, topic, recover=False)
                # Replaced, not changed: ``get`` takes no lock.
                self._logs = {**self._logs, topic: {**partitions, partition: new}}
            log = self._logs[topic][partition]
        if not partitions:
            self.on_new_topic(topic)
        return log

    def flush_due(self) -> None:
        """Flush the logs whose last flush is longer ago than their topic allows."""
        for topic, log in self._all():
            if self._clock_ms() - log.flushed_ms >= self._config.flush_interval_ms(topic):
                log.flush()

    def flush_all(self) -> None:
        """Make everything visible that was appended, without waiting for its time."""
        for _, log in self._all():
            log.flush()

    def delete_old(self) -> int:
        """Delete segments by the limits of age and size. Returns the number of deleted segments."""
        count = 0
        for topic, log in self._all():
            count += log.delete_while(self._is_expired(topic))
            count += log.delete_while(self._is_above_size(log))
        return count

    def close(self) -> None:
        """Flush all logs and note that the broker was stopped in order."""
        for _, log in self._all():
            log.close()
        (self._config.log_dir / CLEAN_SHUTDOWN_FILE).touch()

    def _load(self) -> None:
        clean = self._config.log_dir / CLEAN_SHUTDOWN_FILE
        recover = not clean.exists()
        clean.unlink(missing_ok=True)
        for folder in sorted(self._config.log_dir.iterdir()):
            if not folder.is_dir():
                LOG.warning("%s: not a log, skipped", printable(folder))
                continue
            topic, _, partition = folder.name.rpartition("-")
            if not topic or not re.fullmatch("[0-9]+", partition):
                raise CorruptDataError(
                    f"{printable(folder)} is not named topic-partition: remove it from log.dir"
                )
            self._logs.setdefault(topic, {})[int(partition)] = self._open(folder, topic, recover)

    def _open(self, folder: Path, topic: str, recover: bool) -> Log:
        config = self._config
        limits = LogLimits(
            segment_size_max=config.segment_size_max(topic),
            segment_age_max_ms=config.segment_age_max_ms(topic),
            flush_interval=config.log_flush_interval,
        )
        return Log(folder, limits, recover=recover, clock_ms=self._clock_ms, on_visible=self.arrivals.notify)

    def _all(self) -> list[tuple[str, Log]]:
        return [(topic, log) for topic, logs in self._logs.items() for log in logs.values()]

    def _is_expired(self, topic: str) -> Callable[[Segment], bool]:
        oldest_ms = self._clock_ms() - self._config.retention_ms(topic)
        return lambda segment: segment.modified_ms() < oldest_ms

    def _is_above_size(self, log: Log) -> Callable[[Segment], bool]:
        retention_size = self._config.log_retention_size
        excess = log.size - retention_size if retention_size >= 0 else -1

        def is_above(segment: Segment) -> bool:
            nonlocal excess
            excess -= segment.visible_size
            return excess >= 0

        return is_above


class Arrivals:
    """Counter of the arrivals of messages in any log. Safe for many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: The number of arrivals so far; read it before you look at the logs, and pass it to ``wait``.
        self.count = 0

    def notify(self) -> None:
        """Wake all waiting threads."""
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait(self, count: int, timeout_s: float) -> None:
        """Return once the count differs from ``count``, or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.count != count, timeout_s)


#: The first clean-up comes a minute after the start, whatever its interval is.
FIRST_CLEANUP_S: Final = 60.0


class Housekeeping:
    """Thread that flushes and cleans up the logs from now on until it is stopped."""

    def __init__(self, config: BrokerConfig, logs: LogDirectory) -> None:
        self._flush_interval_s = config.flush_check_interval_ms / 1000
        self._cleanup_interval_s = config.log_cleanup_interval_mins * 60.0
        self._logs = logs
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        flush_s = time.monotonic() + self._flush_interval_s
        cleanup_s = time.monotonic() + FIRST_CLEANUP_S
        while not self._stopping.wait(max(0.0, min(flush_s, cleanup_s) - time.monotonic())):
            try:
                if time.monotonic() >= flush_s:
                    flush_s = time.monotonic() + self._flush_interval_s
                    self._logs.flush_due()
                if time.monotonic() >= cleanup_s:
                    cleanup_s = time.monotonic() + self._cleanup_interval_s
                    self._logs.delete_old()
            except OSError as error:
                LOG.error("logs cannot be flushed or cleaned up: %s", error)
