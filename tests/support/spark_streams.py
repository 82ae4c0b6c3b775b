"""Streaming queries of a Spark on a machine that does other work, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark.errors import StreamingQueryException

T = TypeVar("T")

#: How long a query may take on such a machine, seconds.
PATIENCE_S: Final = 240
#: What becomes of a query whose process the machine starts too late for Spark, which gives it ten seconds.
TOO_BUSY: Final = "Python worker failed to connect back"
STARTS_MAX: Final = 6


def started(attempt: Callable[[], T]) -> T:
    """What ``attempt`` makes of a query that it starts, again where the machine was too busy for one."""
    for start in range(1, STARTS_MAX + 1):
        try:
            return attempt()
        except StreamingQueryException as error:
            if TOO_BUSY not in str(error) or start == STARTS_MAX:
                raise
    raise AssertionError
