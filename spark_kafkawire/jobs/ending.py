"""The early end of a job, by a signal or by a failure: one line, and an exit code.

    with interruptible(give_up) as interruption:
        ...                                     # a signal raises ``Interrupted`` here
        interruption.ended()

SIGINT (Ctrl-C) and SIGTERM give 128 plus the signal's number. The first signal raises ``Interrupted``
in the main thread, so that blocks end what they have begun. Others change nothing. What has not ended
after ``ENDS_WITHIN_S`` is given up, and the process ends.

Failures are errors of this package, of the operating system, of Spark and of its JVM.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from spark_kafkawire import errors

from ..errors import Action, KafkaWireError, one_line

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError


SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
#: Time that blocks have to end, seconds. The end of the process takes some of the 5 s that are promised.
ENDS_WITHIN_S: Final = 4.0
#: Time after which a signal is sent again whose error Python lost, seconds.
_AGAIN_S: Final = 0.02
#: Shells report a process that ended by a signal with this plus the signal's number.
_OF_SIGNALS: Final = 128


class Interrupted(KeyboardInterrupt):
    """A signal has ended the job. ``outcome`` says what it left, None where the job's own text does.

    It is a ``KeyboardInterrupt``, for which py4j closes its connection: an answer is still to come on it.
    """

    outcome: str | None = None

    def __init__(self, by: signal.Signals) -> None:
        super().__init__(by.name)
        self.code = exit_code(by)


class Interruption:
    """The signal that ends a job, if one came. ``give_up`` reports the end if blocks take too long."""

    def __init__(self, give_up: Callable[[], None], ends_within_s: float = ENDS_WITHIN_S) -> None:
        self._give_up, self._ends_within_s = give_up, ends_within_s
        self._by: signal.Signals | None = None
        self._is_raised = False
        self._ended = threading.Event()

    @property
    def code(self) -> int | None:
        """Exit code of the job; None without a signal."""
        return None if self._by is None else exit_code(self._by)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Raise ``Interrupted`` for the first signal."""
        if self._is_raised or self._ended.is_set():
            return
        self._is_raised = True
        if self._by is None:
            self._by = signal.Signals(number)
            threading.Thread(target=self._await_end, name="kafkawire-interruption", daemon=True).start()
        raise Interrupted(self._by)

    def check(self, error: Exception) -> None:
        """Raise ``Interrupted`` in place of this error if a signal came before it."""
        if self._by is not None:
            raise Interrupted(self._by) from error

    def unraisable(self, args: Any, report: Callable[[Any], Any]) -> None:
        """Send the signal again where Python lost its error, as in a callback of its garbage collection."""
        if not isinstance(args.exc_value, Interrupted) or self._by is None:
            report(args)
            return
        self._is_raised = False
        main = threading.main_thread().ident
        assert main is not None
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (main, self._by))
        again.daemon = True
        again.start()

    def _await_end(self) -> None:
        if not self._ended.wait(self._ends_within_s):
            try:
                self._give_up()
            finally:
                assert self._by is not None
                os._exit(exit_code(self._by))

    def ended(self) -> None:
        """All blocks have ended: nothing is given up any more."""
        self._ended.set()


def exit_code(by: signal.Signals) -> int:
    """The exit code of a job that a signal has ended."""
    return _OF_SIGNALS + by


@contextlib.contextmanager
def interruptible(give_up: Callable[[], None]) -> Iterator[Interruption]:
    """Handle signals until the block ends. Python delivers them to the main thread: in others a job has no
    handler."""
    interruption = Interruption(give_up)
    report = sys.unraisablehook
    sys.unraisablehook = lambda args: interruption.unraisable(args, report)
    with handling(lambda _: interruption.handle):
        try:
            yield interruption
        except Exception as error:
            # Blocks that end may raise other errors, and Python makes one of an error in ``__set_name__``.
            interruption.check(error)
            raise
        finally:
            interruption.ended()
            sys.unraisablehook = report
    if interruption.code is not None and threading.current_thread() is threading.main_thread():
        for number in SIGNALS:  # the process is about to end, by this signal
            signal.signal(number, signal.SIG_IGN)


Handler = Callable[[int, FrameType | None], None]


@contextlib.contextmanager
def handling(handler_after: Callable[[Handler], Handler]) -> Iterator[None]:
    """Set handlers until the block ends; ``handler_after`` makes each of the handler that was there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, former in before.items():
        signal.signal(number, handler_after(former if callable(former) else lambda *_: None))
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


#: An error of this package in the many lines that Spark makes of it.
_OUR_ERROR: Final = re.compile(r"\bspark_kafkawire\.errors\.(\w+): (.*)")

_TRACEBACK: Final = "Traceback (most recent call last):"

_PY4J: Final = "py4j.protocol"
#: Text of py4j for a call without an answer.
_NO_ANSWER: Final = re.compile(r"An error occurred while calling \S+")
_JVM_ENDED: Final = (
    "Spark's JVM on the driver has ended: it crashed, or was killed, for example for lack of memory; see "
    "hs_err_pid*.log and the system log (dmesg), raise spark.driver.memory, and run again"
)

#: Packages whose modules have other names.
_DISTRIBUTIONS: Final = {"snappy": "python-snappy"}


class ExitCode(enum.IntEnum):
    """Exit codes of a job."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DATA_LOSS = 3


def failures() -> tuple[type[Exception], ...]:
    """Errors that end a job: those of this package, of Spark, and of the operating system, such as a full
    disk."""
    return (
        KafkaWireError,
        OSError,
        *_imported("pyspark.errors", "PySparkException"),
        *_imported(_PY4J, "Py4JError"),
    )


def is_of_spark(error: ImportError) -> bool:
    """True if an import lacks a module, or a name, of pyspark or py4j."""
    return _root(error) in ("pyspark", "py4j")


def missing_module(error: ImportError) -> str | None:
    """The package to install, in one line, where an import lacks a module of a package other than Spark. None
    for any other error, which is a defect."""
    module = _root(error)
    if not isinstance(error, ModuleNotFoundError) or is_of_spark(error) or module == "spark_kafkawire":
        return None
    return f"{error}: run {sys.executable} -m pip install {_DISTRIBUTIONS.get(module, module)}"


def _root(error: ImportError) -> str:
    return (error.name or "").partition(".")[0]


def _imported(module: str, name: str) -> tuple[type[Exception], ...]:
    """A class of errors, for ``except`` and ``isinstance``; empty if its module is not imported.

    A job without Spark runs without pyspark and py4j, and pyspark-client runs without py4j. No code raises an
    error of a module that is not imported.
    """
    result: Any = sys.modules.get(module)
    return () if result is None else (getattr(result, name),)


def explain(error: Exception) -> tuple[str, ExitCode]:
    """An error of ours or of Spark in one line, and the exit code that it means."""
    ours = [] if isinstance(error, KafkaWireError) else _OUR_ERROR.findall(str(error))
    message = _message(error)
    name, text = ours[-1] if ours else (type(error).__name__, message)
    kind = getattr(errors, name, KafkaWireError if ours else type(error))
    # An AnalysisException is about a column, a format or a path that the user named.
    is_of_users = issubclass(kind, _imported("pyspark.errors", "AnalysisException"))
    is_usage = is_of_users or getattr(kind, "action", None) is Action.FIX_OPTION
    return _first_line(text), ExitCode.USAGE if is_usage else ExitCode.FAILED


def _message(error: Exception) -> str:
    if isinstance(error, _imported(_PY4J, "Py4JJavaError")):
        return reason_of(error)
    text = str(error).strip()
    # Errors of connections to Kafka are our own: these are of the connection to the JVM.
    is_of_jvm = isinstance(error, (ConnectionError, *_imported(_PY4J, "Py4JNetworkError"))) or (
        isinstance(error, _imported(_PY4J, "Py4JError")) and _NO_ANSWER.fullmatch(text)
    )
    return f"{_JVM_ENDED} ({_first_line(text)})" if is_of_jvm else text


def _first_line(text: str) -> str:
    """The first line; of one that announces a traceback of Python's the error at the end of that, too."""
    first, *others = text.splitlines() or [""]
    if not first.endswith(_TRACEBACK):
        return first
    raised = next((line for line in others if line and not line[0].isspace()), "")
    return first.removesuffix(_TRACEBACK) + raised


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
    if made_for_people and lines[-1].startswith(_OF_DISKS):
        line = f"{line}: {lines[-1]}"
    advice = next((advice for words, advice in _ADVICE if words.fullmatch(lines[-1])), None)
    return f"{line}; {advice}" if advice and line.endswith(lines[-1]) else line


def is_of_disk(error: Py4JJavaError) -> bool:
    """True for an error of a disk, which does not name the folder unless Spark does."""
    return _lines(error.java_exception)[-1].startswith(_OF_DISKS)


def _lines(java: Any) -> list[str]:
    lines: list[str] = []
    while java is not None and len(lines) < _CAUSES_MAX:
        name, _, text = _PACKAGES.sub("", java.toString().strip()).partition(": ")
        line = (text if text.startswith("[") else f"{name}: {text}" if text else name).partition("\n")[0]
        lines.append(one_line(line))
        java = java.getCause()
    return lines
