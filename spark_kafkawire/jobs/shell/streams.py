"""The two streams of a job: its summary on stdout, and everything else on stderr.

spark-submit joins the stderr of the Python that it starts to its stdout, so that ``--json | jq`` would get
the progress, too. So text for stderr goes to the stderr of spark-submit itself.

Source: Spark's PythonRunner.scala (``redirectErrorStream``).
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, Final, TextIO

#: Set by spark-submit for the Python that it starts.
_STARTED_BY_SPARK_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"


def error_stream() -> TextIO:
    """spark-submit's stderr: its terminal where it has one; without spark-submit this process's own."""
    if _STARTED_BY_SPARK_SUBMIT not in os.environ:
        return sys.stderr
    return _terminal() or io.TextIOWrapper(io.BufferedWriter(_JvmErrors()), "utf-8", line_buffering=True)


def _terminal() -> TextIO | None:
    """The terminal that is spark-submit's stderr; None if that is not a terminal."""
    try:
        # Without O_TRUNC, because a file there belongs to the caller of spark-submit.
        fd = os.open(f"/proc/{os.getppid()}/fd/2", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:  # no Linux, a socket, or another user's
        return None
    if not os.isatty(fd):
        os.close(fd)
        return None
    os.set_blocking(fd, True)
    return open(fd, "w", encoding="utf-8")


class _JvmErrors(io.RawIOBase):
    """Writes with the JVM's ``System.err``: a file has one position, which only the JVM moves."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        # spark-submit brings pyspark; a job without spark-submit may run without it.
        from pyspark import SparkContext

        text = bytes(data)
        SparkContext._ensure_initialized()
        jvm: Any = SparkContext._jvm
        jvm.java.lang.System.err.write(text)
        return len(text)
