"""Ends a query on a signal, after the batch that is running.

    with asked_to_end(spark) as asked:
        wait_for(spark, query, asked, progress)

``StreamingQuery.stop`` interrupts the running batch: the messages that it has written to a topic are written
again when the query continues. Spark has no other call to end a query, but its own trigger loop asks after
each batch if the query ends. So this module sets that state, and stops the query when no batch runs.

SIGTERM and SIGINT may come to this process, to the JVM (spark-submit), or to both.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..shell.progress import Progress
from ..spark.signals import handed_on_by_java

#: Seconds between two checks for a signal.
_LOOK_INTERVAL_S: Final = 1
#: Signals that end the query; Java's names lack the first three letters.
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
#: Of one key that is pressed both processes hear, a little apart, seconds.
_SAME_S: Final = 2.0


class StopRequest:
    """A request to end; ``by`` is the name of the first signal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.by: str | None = None
        self.is_urgent = False
        self._clock = clock
        self._first_s = 0.0

    def add(self, name: str) -> None:
        """Record a signal; a second one after a while makes the request urgent."""
        now_s = self._clock()
        if self.by is None:
            self.by, self._first_s = name, now_s
        elif now_s - self._first_s >= _SAME_S:
            self.is_urgent = True


@contextlib.contextmanager
def asked_to_end(spark: SparkSession) -> Iterator[StopRequest]:
    """A handler of signals while the block lasts; they end neither this process nor its JVM."""
    asked = StopRequest()

    def handle(number: int, _frame: FrameType | None) -> None:
        asked.add(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        with handed_on_by_java(spark):
            yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(
    spark: SparkSession, query: StreamingQuery, asked: StopRequest, progress: Progress, patience_s: float
) -> None:
    """Wait until a query ends by itself or on request, then at most ``patience_s`` for its running batch.
    Raises the error that ends it."""
    while asked.by is None:
        if query.awaitTermination(_LOOK_INTERVAL_S):
            return
    progress.step(f"{asked.by}: ending after the running batch, and at once when asked again")
    _run_no_more(spark, query)
    until_s = time.monotonic() + patience_s
    while query.status["isTriggerActive"] and not asked.is_urgent and time.monotonic() < until_s:
        # The query was asked to end: this waits for it, and raises the error of its batch.
        query.awaitTermination(_LOOK_INTERVAL_S)
    query.stop()
    query.awaitTermination(_LOOK_INTERVAL_S)


def _run_no_more(spark: SparkSession, query: StreamingQuery) -> None:
    """Let a query begin no other batch."""
    # Private to Spark's Scala packages: the state that a query checks between two batches.
    jvm, java_query = spark.sparkContext._jvm, query._jsq
    assert jvm is not None
    terminated = getattr(jvm.org.apache.spark.sql.execution.streaming.runtime, "TERMINATED$")
    java_query.streamingQuery().state().set(getattr(terminated, "MODULE$"))
