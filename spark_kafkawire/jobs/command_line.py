"""The command line of a job: its arguments, its two streams, and its exit code.

    JOB = Job("ingest", __doc__, IngestOptions, run)

    if __name__ == "__main__":
        sys.exit(JOB.main())

=========  ==============================================================================
exit code  meaning
=========  ==============================================================================
0          done
1          failed; one line on stderr says why
2          wrong usage: an argument, an option or the thing that it names; one line on stderr
3          done, but some offsets were lost before they were read; the summary names them
130, 143   ended by SIGINT (Ctrl-C) or SIGTERM; one line on stderr says what the next run does
=========  ==============================================================================

Progress and errors go to stderr, the summary to stdout. spark-submit joins the stderr of the Python
that it starts to its stdout, so that ``--json | jq`` would get the progress, too. So text for stderr
goes to the stderr of spark-submit itself. Source: Spark's PythonRunner.scala (``redirectErrorStream``).

Unknown arguments are not printed, and values of options are never repeated: they may be secrets.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TextIO, TypeVar

from ..errors import close_matches, one_line, printable
from .arguments import add_arguments, read_arguments
from .ending import ExitCode, exit_code, explain, failures, interruptible, missing_module
from .progress import DATA_LOSS_KEY, ENDED_BY_KEY, Progress, Summary, print_summary, progress_on

#: Arguments of Kafka's own tools, and the options that mean the same.
_KAFKA_ARGUMENTS: Final = {
    "--bootstrap-server": "kafka.bootstrap.servers",
    "--bootstrap-servers": "kafka.bootstrap.servers",
    "--broker-list": "kafka.bootstrap.servers",
    "--zookeeper": "zookeeper.connect",
}
_CONNECTION_FLAGS: Final = ("--option", "--source-option", "--target-option")


Options = TypeVar("Options")


class JobParser(argparse.ArgumentParser):
    """Complains in one line, and repeats no argument that it does not know: that may be a secret."""

    def __init__(self, job: str, description: str | None) -> None:
        super().__init__(
            prog=f"{job}.py",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.job = job
        self.errors = error_stream()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments. Ends the process with ``ExitCode.USAGE`` where they are wrong."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            names = [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]
            self.error(
                f"unknown argument {printable(names[0])}{self._hint(names[0])}"
                if names
                else f"{len(unknown)} argument(s) too many"
            )
        return arguments

    def _hint(self, name: str) -> str:
        flags = [flag for action in self._actions for flag in action.option_strings]
        if name in _KAFKA_ARGUMENTS:
            connections = [flag for flag in _CONNECTION_FLAGS if flag in flags]
            close = [f"{' or '.join(connections)} {_KAFKA_ARGUMENTS[name]}=HOST:PORT"] if connections else []
        else:
            close = close_matches(name, flags, 1, likeness=0.7)
        return f" (did you mean {close[0]}?)" if close else ""

    def error(self, message: str) -> NoReturn:
        """End the process with ``ExitCode.USAGE``."""
        self.complain(f"{message}; see --help")
        self.exit(ExitCode.USAGE)

    def complain(self, line: str) -> None:
        """A line on stderr."""
        print(f"{self.job}: {one_line(line)}", file=self.errors, flush=True)

    def report(self, error: Exception) -> ExitCode:
        """Print one of ``failures()``. Returns its exit code."""
        line, code = explain(error)
        self.complain(line)
        return code


@dataclass(frozen=True, slots=True)
class Job(Generic[Options]):
    """A job as a program.

    ``options`` is a dataclass with rows of arguments. ``run(options, progress, as_json)`` returns the
    summary that is still to be printed. ``left`` says what an interrupted run leaves, and the next step.
    """

    name: str
    description: str | None
    options: type[Options]
    run: Callable[[Options, Progress, bool], Summary]
    left: Callable[[argparse.Namespace], str] = lambda _: "run it again"

    def parser(self) -> JobParser:
        """The command line."""
        parser = JobParser(self.name, self.description)
        add_arguments(parser, self.options)
        group = parser.add_argument_group("reports")
        group.add_argument("--json", action="store_true", help="print the summary as one JSON object")
        group.add_argument("--quiet", action="store_true", help="show no progress")
        return parser

    def main(self, argv: Sequence[str] | None = None, prog: str | None = None) -> int:
        """Parse the command line, run the job, print its summary; the exit code."""
        parser = self.parser()
        parser.prog = prog or parser.prog
        arguments = parser.parse_args(argv)
        progress = progress_on(parser.errors, parser.job, quiet=arguments.quiet)

        def complain(outcome: str | None = None) -> None:
            parser.complain(f"interrupted; {outcome or self.left(arguments)}")

        with interruptible(complain) as interruption:
            try:
                with warnings_on_stderr(parser), progress:
                    options = read_arguments(self.options, arguments)
                    summary = self.run(options, progress, arguments.json)
            except (Exception, KeyboardInterrupt) as error:
                interruption.ended()
                # A block that a signal ends may raise another error. pyspark's handler raises its own.
                if isinstance(error, KeyboardInterrupt) or interruption.code is not None:
                    complain(getattr(error, "outcome", None))
                    return interruption.code or exit_code(signal.SIGINT)
                if isinstance(error, failures()):
                    return parser.report(error)
                if isinstance(error, ImportError) and (line := missing_module(error)) is not None:
                    parser.complain(line)
                    return ExitCode.FAILED
                raise
            interruption.ended()
            try:
                print_summary(summary, as_json=arguments.json)
            except OSError as error:
                _give_up_stdout(parser, error)
                return ExitCode.FAILED
            ended_by = str(summary.get(ENDED_BY_KEY))
            if ended_by in signal.Signals.__members__:
                complain()
                return exit_code(signal.Signals[ended_by])
            return ExitCode.DATA_LOSS if summary.get(DATA_LOSS_KEY) else ExitCode.DONE


def _give_up_stdout(parser: JobParser, error: OSError) -> None:
    # The reader of the pipe has closed it, as `head` does.
    if not isinstance(error, BrokenPipeError):
        parser.complain(f"done, and the summary cannot be written to stdout: {error.strerror}")
    # Python would try the rest once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def warnings_on_stderr(parser: JobParser) -> Iterator[None]:
    """Send the package's warnings to the stream of errors while the block runs: Python's own stderr may go to
    the reader of the summary (see ``streams``)."""
    logger = logging.getLogger("spark_kafkawire")
    handler = logging.StreamHandler(parser.errors)
    handler.setFormatter(logging.Formatter(f"{parser.job}: %(message)s"))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


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
