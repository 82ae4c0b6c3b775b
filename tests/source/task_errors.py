"""Spark's report of the error that ended a task."""

from __future__ import annotations


def message_of(error: BaseException) -> str:
    """The last line that names an error of ours."""
    lines = [line for line in str(error).splitlines() if "spark_kafkawire.errors." in line]
    assert lines, f"no error of ours in: {error}"
    return lines[-1]
