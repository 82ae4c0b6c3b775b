"""Decorator of what Spark and users call: errors of this package leave it without frames of the package.

Spark prints an error of a Python process with its frames, and pyspark prints all of them again on the driver:
a line that says what to do is lost among fifty that do not.

    class KafkaWireDataSource(DataSource):
        @edge
        def schema(self) -> StructType: ...
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TextIO, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

#: Names of variables that Spark sets in its Python processes, and nowhere else, begin so.
_OF_WORKERS: Final = "PYTHON_WORKER_FACTORY_"
#: A process of Spark's in which this is set prints an error without frames:
#: ``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` sets it, too.
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_BY_US: Final = "spark_kafkawire"
#: Spark's code, and what of Python starts it and writes to a socket.
_OF_SPARK: Final = frozenset({"pyspark", "runpy", "contextlib", "socket"})


def edge(function: F) -> F:
    """Decorates what Spark, or a user's program, calls. A ``KafkaWireError`` leaves it without frames and
    without a cause, both of which are logged at DEBUG. Any other error is a defect, and keeps its frames."""

    # A bare ``raise`` adds no frame of its own.
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        hide_broken_pipes()
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            _strip(error)
            raise
        _show_frames()
        return result

    @functools.wraps(function)
    def iterate(*args: Any, **kwargs: Any) -> Any:
        hide_broken_pipes()
        try:
            yield from function(*args, **kwargs)
        except Exception as error:
            _strip(error)
            raise
        _show_frames()

    return cast(F, iterate if inspect.isgeneratorfunction(function) else call)


def _strip(error: Exception) -> None:
    """Log the frames and the causes of an error of this package, and take them off."""
    # The look-up of sources does without.
    from ..errors import LOG, KafkaWireError

    if not isinstance(error, KafkaWireError):
        return
    if LOG.isEnabledFor(logging.DEBUG):
        import traceback

        from ..secrecy import without_secrets

        # The log makes one line of each message; a secret may have more.
        for line in without_secrets("".join(traceback.format_exception(error))).splitlines():
            LOG.debug("%s", line)
    if error.__traceback__ is not None:
        # Python 3.10 raises again with the traceback that it has caught: the frame of the edge stays.
        error.__traceback__.tb_next = None
    error.__traceback__ = error.__cause__ = error.__context__ = None
    _hide_frames()


@functools.cache
def hide_broken_pipes() -> None:
    """Keep a process of Spark's from printing a traceback when the JVM wants no more of it. Edges do, and so
    do functions that jobs hand to Spark."""
    if not is_worker():
        return
    sys.stderr = cast(TextIO, _WithoutBrokenPipes(sys.stderr))
    shown = sys.excepthook

    # What runs a stream or plans a query is a program of its own, and ends with the error.
    def show(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
        if not _is_of_spark(error):
            shown(kind, error, frames)

    sys.excepthook = show


class _WithoutBrokenPipes:
    """A stream of errors, without those of Spark's processes about a socket that the JVM has closed.

    The JVM closes it when a query needs no more rows, as ``limit`` and ``show`` do, when a process has had no
    work for a minute, and when Spark stops. The iterator of the source may be read to its end by then, so the
    source cannot keep Spark's code from writing to the socket. Errors of other code pass.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return len(text) if _is_of_spark(sys.exc_info()[1]) else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _is_of_spark(error: BaseException | None) -> bool:
    """True for an error of a closed socket that only frames of Spark and of what it writes with have seen."""
    if not isinstance(error, (BrokenPipeError, ConnectionResetError)):
        return False
    frame = error.__traceback__
    while frame is not None:
        module = frame.tb_frame.f_globals
        # What ``python -m`` runs is called __main__.
        name = spec.name if (spec := module.get("__spec__")) else module.get("__name__", "")
        if name.partition(".")[0] not in _OF_SPARK:
            return False
        frame = frame.tb_next
    return True


def is_worker() -> bool:
    """True if Spark started this process, for tasks or for planning."""
    return any(name.startswith(_OF_WORKERS) for name in os.environ)


def _hide_frames() -> None:
    """Have Spark leave out its own frames, too, in a process of its own: it ends with the error."""
    if is_worker():
        os.environ.setdefault(_HIDE, _BY_US)


def _show_frames() -> None:
    """Undo that where the error has been dealt with. Spark calls ``stop`` of a stream with the error under
    way, which ends the process after that."""
    if os.environ.get(_HIDE) == _BY_US and sys.exc_info()[0] is None:
        del os.environ[_HIDE]
