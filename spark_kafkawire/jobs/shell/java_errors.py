"""One-line messages for exceptions of Spark's JVM."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from spark_kafkawire.errors import one_line

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError

#: Causes that are followed at most: some exceptions name each other.
_CAUSES_MAX: Final = 20
#: The packages before the name of an exception's class.
_PACKAGES: Final = re.compile(r"^(?:[\w$]+\.)+(?=[\w$]+)")

#: Advice for messages of the operating system that name neither a file nor a process.
_SPACE: Final = (
    "free some space where the job writes, or in spark.local.dir of the driver and the executors, and run "
    "again"
)
_ENDED: Final = (
    "a Python worker or a JVM of Spark has ended in the middle of a task: it crashed, or was killed, for "
    "example for lack of memory; see the logs of executors and of the system (dmesg), raise "
    "spark.executor.memoryOverhead or spark.driver.memory, and run again"
)
_ADVICE: Final = (
    (re.compile(r"\w+: No space left on device"), _SPACE),
    (re.compile(r"\w+: (?:Broken pipe|Connection reset(?: by peer)?)|EOFException"), _ENDED),
)

#: Format in which Java reports an error of the operating system about a file.
_OF_DISKS: Final = ("IOException: ", "FileSystemException: ", "AccessDeniedException: ")


def reason_of(error: Py4JJavaError) -> str:
    """The first line of the innermost cause: Spark and Java wrap it, often several times.

    A message with an error condition of Spark, such as ``[PATH_NOT_FOUND]``, is written for users, so it is
    used instead of its causes. An error of the disk is added to it: Spark names the file, but not the reason.
    """
    lines = _lines(error.java_exception)
    made_for_people = [line for line in lines if line.startswith("[")]
    line = (made_for_people or lines)[-1]
    if made_for_people and _is_of_disk(lines):
        line = f"{line}: {lines[-1]}"
    advice = next((advice for words, advice in _ADVICE if words.fullmatch(lines[-1])), None)
    return f"{line}; {advice}" if advice and line.endswith(lines[-1]) else line


def is_of_disk(error: Py4JJavaError) -> bool:
    """True for an error of a disk, which does not name the folder unless Spark does."""
    return _is_of_disk(_lines(error.java_exception))


def _is_of_disk(lines: list[str]) -> bool:
    return lines[-1].startswith(_OF_DISKS)


def _lines(java: Any) -> list[str]:
    lines: list[str] = []
    while java is not None and len(lines) < _CAUSES_MAX:
        name, _, text = _PACKAGES.sub("", java.toString().strip()).partition(": ")
        line = (text if text.startswith("[") else f"{name}: {text}" if text else name).partition("\n")[0]
        lines.append(one_line(line))
        java = java.getCause()
    return lines
