"""Lines for exceptions of the JVM: the cause that explains most."""

from __future__ import annotations

from typing import Any

import pytest

from spark_kafkawire.jobs.shell.java_errors import reason_of


class Raised:
    """An exception of the JVM, as py4j hands it over."""

    def __init__(self, text: str, cause: Raised | None = None) -> None:
        self._text = text
        self._cause = cause

    def toString(self) -> str:
        return self._text

    def getCause(self) -> Raised | None:
        return self._cause

    @property
    def java_exception(self) -> Raised:
        return self


HOST = Raised("java.net.UnknownHostException: nosuch")
ABORTED = "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0"
WRITING = "org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed writing to file:/a."
FULL = Raised("java.io.IOException: No space left on device")
SPACE = (
    "free some space where the job writes, or in spark.local.dir of the driver and the executors, and run "
    "again"
)
ENDED = (
    "a Python worker or a JVM of Spark has ended in the middle of a task: it crashed, or was killed, for "
    "example for lack of memory; see the logs of executors and of the system (dmesg), raise "
    "spark.executor.memoryOverhead or spark.driver.memory, and run again"
)
READABLE = "org.apache.spark.SparkException: [FAILED_READ_FILE] Encountered an error: a.csv\nIf not, ..."


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HOST, "UnknownHostException: nosuch"),
        (Raised(ABORTED, HOST), "UnknownHostException: nosuch"),
        (Raised(ABORTED, Raised(READABLE, HOST)), "[FAILED_READ_FILE] Encountered an error: a.csv"),
        (
            Raised(
                ABORTED, Raised(WRITING, Raised("org.apache.hadoop.fs.FSError: java.io.IOException", FULL))
            ),
            "[TASK_WRITE_FAILED] Task failed writing to file:/a.: IOException: No space left on device; "
            f"{SPACE}",
        ),
        (Raised("java.lang.IllegalStateException"), "IllegalStateException"),
        (
            Raised(ABORTED, FULL),
            f"IOException: No space left on device; {SPACE}",
        ),
        (Raised(ABORTED, Raised("java.io.IOException: Broken pipe")), f"IOException: Broken pipe; {ENDED}"),
        (
            Raised(ABORTED, Raised("java.net.SocketException: Connection reset")),
            f"SocketException: Connection reset; {ENDED}",
        ),
        (Raised(ABORTED, Raised("java.io.EOFException")), f"EOFException; {ENDED}"),
    ],
)
def test_the_innermost_cause_speaks_unless_spark_has_words_for_people(error: Any, reason: str) -> None:
    assert reason_of(error) == reason


def test_causes_that_name_each_other_end() -> None:
    error = Raised("a.B: one")
    error._cause = Raised("a.C: two", error)
    assert reason_of(error) in ("B: one", "C: two")
