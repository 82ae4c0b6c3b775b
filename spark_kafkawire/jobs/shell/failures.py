"""Failures of a job: one line, and an exit code."""

from __future__ import annotations

import enum
import re
import sys
from typing import Any, Final

from spark_kafkawire import errors
from spark_kafkawire.errors import Action, KafkaWireError

from .java_errors import reason_of

#: An error of this package in the many lines that Spark makes of it.
_OUR_ERROR: Final = re.compile(r"\bspark_kafkawire\.errors\.(\w+): (.*)")

_TRACEBACK: Final = "Traceback (most recent call last):"

#: Text of py4j for a call without an answer.
_NO_ANSWER: Final = re.compile(r"An error occurred while calling \S+")
_JVM_ENDED: Final = (
    "Spark's JVM on the driver has ended: it crashed, or was killed, for example for lack of memory; see "
    "hs_err_pid*.log and the system log (dmesg), raise spark.driver.memory, and run again"
)

#: Packages whose modules have other names.
_PACKAGES: Final = {"snappy": "python-snappy"}


class ExitCode(enum.IntEnum):
    """Exit codes of a job."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DATA_LOSS = 3


def failures() -> tuple[type[Exception], ...]:
    """Errors that end a job: those of this package, of Spark, and of the operating system, such as a full
    disk."""
    return (KafkaWireError, OSError, *_spark("PySparkException"), *_py4j("Py4JError"))


def is_of_spark(error: ImportError) -> bool:
    """True if an import lacks a module, or a name, of pyspark or py4j."""
    return _root(error) in ("pyspark", "py4j")


def missing_module(error: ImportError) -> str | None:
    """The package to install, in one line, where an import lacks a module of a package other than Spark. None
    for any other error, which is a defect."""
    module = _root(error)
    if not isinstance(error, ModuleNotFoundError) or is_of_spark(error) or module == "spark_kafkawire":
        return None
    return f"{error}: run {sys.executable} -m pip install {_PACKAGES.get(module, module)}"


def _root(error: ImportError) -> str:
    return (error.name or "").partition(".")[0]


def _spark(name: str) -> tuple[type[Exception], ...]:
    return _imported("pyspark.errors", name)


def _py4j(name: str) -> tuple[type[Exception], ...]:
    return _imported("py4j.protocol", name)


def _imported(module: str, name: str) -> tuple[type[Exception], ...]:
    """A class of errors, for ``except`` and ``isinstance``; empty if its module is not imported.

    A job without Spark runs without pyspark and py4j, and pyspark-client runs without py4j. No code raises an
    error of a module that is not imported.
    """
    found: Any = sys.modules.get(module)
    return () if found is None else (getattr(found, name),)


def explained(error: Exception) -> tuple[str, ExitCode]:
    """An error of ours or of Spark in one line, and the exit code that it means."""
    ours = [] if isinstance(error, KafkaWireError) else _OUR_ERROR.findall(str(error))
    message = _message(error)
    name, text = ours[-1] if ours else (type(error).__name__, message)
    kind = getattr(errors, name, KafkaWireError if ours else type(error))
    # An AnalysisException is about a column, a format or a path that the user named.
    is_of_users = issubclass(kind, _spark("AnalysisException"))
    is_usage = is_of_users or getattr(kind, "action", None) is Action.FIX_OPTION
    return _first_line(text), ExitCode.USAGE if is_usage else ExitCode.FAILED


def _message(error: Exception) -> str:
    if isinstance(error, _py4j("Py4JJavaError")):
        return reason_of(error)
    text = str(error).strip()
    # Errors of connections to Kafka are our own: these are of the connection to the JVM.
    is_of_jvm = isinstance(error, (ConnectionError, *_py4j("Py4JNetworkError"))) or (
        isinstance(error, _py4j("Py4JError")) and _NO_ANSWER.fullmatch(text)
    )
    return f"{_JVM_ENDED} ({_first_line(text)})" if is_of_jvm else text


def _first_line(text: str) -> str:
    """The first line; of one that announces a traceback of Python's the error at the end of that, too."""
    first, *others = text.splitlines() or [""]
    if not first.endswith(_TRACEBACK):
        return first
    raised = next((line for line in others if line and not line[0].isspace()), "")
    return first.removesuffix(_TRACEBACK) + raised
