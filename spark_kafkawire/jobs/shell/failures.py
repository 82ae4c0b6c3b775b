"""How a job ends that fails: one line, and an exit code."""

from __future__ import annotations

import enum
import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from ... import errors
from ...errors import Action, KafkaWireError
from .java_errors import reason_of

#: Our error inside of what Spark makes of it, which is many lines.
_OUR_ERROR: Final = re.compile(r"\bspark_kafkawire\.errors\.(\w+): (.*)")

_TRACEBACK: Final = "Traceback (most recent call last):"

#: What a job fails with: errors of ours, of Spark, and of the operating system, as of a full disk.
FAILURES: Final = (KafkaWireError, PySparkException, Py4JError, OSError)


class ExitCode(enum.IntEnum):
    """How a job ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DATA_LOSS = 3


def explained(error: Exception) -> tuple[str, ExitCode]:
    """An error of ours or of Spark in one line, and the exit code that it means."""
    ours = [] if isinstance(error, KafkaWireError) else _OUR_ERROR.findall(str(error))
    said = reason_of(error) if isinstance(error, Py4JJavaError) else str(error).strip()
    name, text = ours[-1] if ours else (type(error).__name__, said)
    kind = getattr(errors, name, KafkaWireError if ours else type(error))
    # What Spark cannot analyse is a column, a format or a path that the user has named.
    is_usage = getattr(kind, "action", None) is Action.FIX_OPTION or issubclass(kind, AnalysisException)
    return _first_line(text), ExitCode.USAGE if is_usage else ExitCode.FAILED


def _first_line(text: str) -> str:
    """The first line; of one that announces a traceback of Python's the error at the end of that, too."""
    first, *others = text.splitlines() or [""]
    if not first.endswith(_TRACEBACK):
        return first
    raised = next((line for line in others if line and not line[0].isspace()), "")
    return first.removesuffix(_TRACEBACK) + raised
