"""Periodic work of a broker: flushing appends, deleting old segments."""

from __future__ import annotations

import threading
import time
from typing import Final

from ..errors import log_of
from .config import BrokerConfig
from .log_directory import LogDirectory

LOG: Final = log_of(__name__)

#: The first clean-up comes a minute after the start, whatever its interval is.
FIRST_CLEANUP_S: Final = 60.0


class Housekeeping:
    """Thread that flushes and cleans up the logs until it is stopped."""

    def __init__(self, config: BrokerConfig, logs: LogDirectory) -> None:
        self._flush_interval_s = config.flush_check_interval_ms / 1000
        self._cleanup_interval_s = config.log_cleanup_interval_mins * 60.0
        self._logs = logs
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Start the thread."""
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
