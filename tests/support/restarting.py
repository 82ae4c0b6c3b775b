"""A server that is down until a client logs that it waits, and for a while after that.

with coming_back(broker.start) as told:
    ...
assert told.warnings == [...]
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

#: How long it stays away after it is missed, seconds: several times what three retries take.
AWAY_S: Final = 2.5


class Reported(logging.Handler):
    """Handler that keeps the package's log messages. The first warning begins the restart."""

    def __init__(self, start: Callable[[], None]) -> None:
        super().__init__(logging.INFO)
        self.warnings: list[str] = []
        self.infos: list[str] = []
        self.failures: list[BaseException] = []
        self._start = start
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        (self.warnings if record.levelno >= logging.WARNING else self.infos).append(record.getMessage())
        if self._timer is None and record.levelno >= logging.WARNING:
            self._timer = threading.Timer(AWAY_S, self._come_back)
            self._timer.start()

    def _come_back(self) -> None:
        try:
            self._start()
        except BaseException as error:
            self.failures.append(error)

    def join(self) -> None:
        """Wait until it is back. Raises what kept it away."""
        assert self._timer is not None, "no warning was logged"
        self._timer.join()
        if self.failures:
            raise self.failures[0]


@contextlib.contextmanager
def coming_back(start: Callable[[], None]) -> Iterator[Reported]:
    """Call ``start`` some seconds after the package's first warning in the block."""
    logger, reported = logging.getLogger("spark_kafkawire"), Reported(start)
    level = logger.level
    logger.addHandler(reported)
    logger.setLevel(logging.INFO)
    try:
        yield reported
        reported.join()
    finally:
        logger.removeHandler(reported)
        logger.setLevel(level)
