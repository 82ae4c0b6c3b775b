"""What an exception of Spark's JVM says, in one line."""

from __future__ import annotations

import re
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from ...errors import one_line

#: Causes that are followed at most: some exceptions name each other.
_CAUSES_MAX: Final = 20
#: The packages before the name of an exception's class.
_PACKAGES: Final = re.compile(r"^(?:[\w$]+\.)+(?=[\w$]+)")

#: What Java makes of an error of the operating system that is about a file.
_OF_DISKS: Final = ("IOException: ", "FileSystemException: ", "AccessDeniedException: ")


def reason_of(error: Py4JJavaError) -> str:
    """The first line of the innermost cause: what failed wraps it, often several times.

    One that has an error condition of Spark's, as ``[PATH_NOT_FOUND]``, is made for people, and
    beats those inside of it. What a disk says is told with it: Spark names the file, and not what is
    wrong with it.
    """
    lines = _lines(error.java_exception)
    made_for_people = [line for line in lines if line.startswith("[")]
    if made_for_people and lines[-1].startswith(_OF_DISKS):
        return f"{made_for_people[-1]}: {lines[-1]}"
    return (made_for_people or lines)[-1]


def _lines(java: Any) -> list[str]:
    lines: list[str] = []
    while java is not None and len(lines) < _CAUSES_MAX:
        name, _, text = _PACKAGES.sub("", java.toString().strip()).partition(": ")
        line = (text if text.startswith("[") else f"{name}: {text}" if text else name).partition("\n")[0]
        lines.append(one_line(line))
        java = java.getCause()
    return lines
