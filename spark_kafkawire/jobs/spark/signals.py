"""Signals of a job that runs Spark: the JVM hands on those that it gets, and is silent after the first."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from ..shell.interruption import SIGNALS, Handler, handling

#: Time for Spark's Python processes to end, seconds.
_WORKERS_END_S: Final = 1.0
#: Time for Spark to become silent, seconds. A JVM that is gone does not answer.
_SILENT_WITHIN_S: Final = 1.5


class _JavaHandler:
    """A handler of signals in the JVM, which sends them to this process."""

    class Java:
        implements = ["sun.misc.SignalHandler"]  # noqa: RUF012  # py4j's own form

    def handle(self, java_signal: Any) -> None:
        os.kill(os.getpid(), signal.Signals[f"SIG{java_signal.getName()}"])


@contextlib.contextmanager
def handed_on_by_java(spark: SparkSession) -> Iterator[None]:
    """Send signals of the JVM, such as spark-submit's, to this process until the block ends."""
    context: Any = spark.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    java_signal = context._jvm.sun.misc.Signal
    names = [number.name.removeprefix("SIG") for number in SIGNALS]
    before = {name: java_signal.handle(java_signal(name), _JavaHandler()) for name in names}
    try:
        yield
    finally:
        with contextlib.suppress(Py4JError, OSError):  # the JVM may have ended
            for name, former in before.items():
                java_signal.handle(java_signal(name), former)


@contextlib.contextmanager
def handled_in_session(spark: SparkSession, on_interrupt: Any) -> Iterator[None]:
    """Let the first signal silence Spark, and end its work, until the block ends. ``on_interrupt`` is the
    handler of SIGINT from before the session: that of pyspark calls the JVM while another call waits."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)

    def silent_before(handle: Handler) -> Handler:
        def silence_and_handle(number: int, frame: FrameType | None) -> None:
            # py4j logs each call that ends here.
            logging.getLogger().addHandler(logging.NullHandler())
            silencing = threading.Thread(target=_silence, args=(spark,), daemon=True)
            silencing.start()
            # Spark logs errors of tasks, which fail when their transactions end.
            silencing.join(_SILENT_WITHIN_S)
            handle(number, frame)

        return silence_and_handle

    with handed_on_by_java(spark), handling(silent_before):
        yield


def _silence(spark: SparkSession) -> None:
    with contextlib.suppress(Py4JError, OSError):
        spark.sparkContext.setLogLevel("OFF")
        spark.sparkContext.cancelAllJobs()
        end_python_workers(spark)


def end_python_workers(spark: SparkSession) -> None:
    """End Spark's Python processes on this machine, which print tracebacks if the JVM closes their sockets
    first."""
    jvm: Any = spark.sparkContext._jvm
    with contextlib.suppress(Py4JError, OSError):
        children = [
            child
            for child in jvm.java.lang.ProcessHandle.current().children().toArray()
            if "pyspark.daemon" in child.info().commandLine().orElse("")
        ]
        for child in children:
            child.destroy()
        until_s = time.monotonic() + _WORKERS_END_S
        while any(child.isAlive() for child in children) and time.monotonic() < until_s:
            time.sleep(0.01)
