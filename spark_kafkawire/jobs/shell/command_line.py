"""The command line of a job: parses it, runs the job, and prints its summary.

    parser = JobParser("ingest", __doc__)
    add_connection(parser)
    add_reporting(parser)
    ...
    sys.exit(run_job(parser, lambda arguments, progress: job(connection_options(arguments), progress)))

=========  ==============================================================================
exit code  meaning
=========  ==============================================================================
0          done
1          failed; one line on stderr says why
2          wrong usage: an argument, an option or the thing that it names; one line on stderr
3          done, but some offsets were lost before they were read; the summary names them
130, 143   ended by SIGINT (Ctrl-C) or SIGTERM; one line on stderr says what the next run does
=========  ==============================================================================

Progress and errors go to stderr, the summary to stdout. Unknown arguments are not printed: they may be
secrets.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn

from spark_kafkawire.errors import close_matches, one_line, printable

from .failures import ExitCode, explained, failures, missing_module
from .interruption import exit_code, interruptible
from .progress import Progress, progress_on
from .streams import error_stream
from .summary import DATA_LOSS_KEY, ENDED_BY_KEY, Summary, print_summary

#: Arguments of Kafka's own tools, and the options that mean the same.
_KAFKA_ARGUMENTS: Final = {
    "--bootstrap-server": "kafka.bootstrap.servers",
    "--bootstrap-servers": "kafka.bootstrap.servers",
    "--broker-list": "kafka.bootstrap.servers",
    "--zookeeper": "zookeeper.connect",
}
_CONNECTION_FLAGS: Final = ("--option", "--source-option", "--target-option")


#: Text about the work that a job with these arguments has left when a signal ends it, and what to do next.
Left = Callable[[argparse.Namespace], str]
_RUN_AGAIN: Final = "run it again"


class JobParser(argparse.ArgumentParser):
    """Complains in one line, and repeats no argument that it does not know: that may be a secret."""

    def __init__(self, job: str, description: str | None, left: Left = lambda _: _RUN_AGAIN) -> None:
        super().__init__(
            prog=f"{job}.py",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.job = job
        self.left = left
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
        line, code = explained(error)
        self.complain(line)
        return code


def add_reporting(parser: argparse.ArgumentParser) -> None:
    """``--json`` and ``--quiet``."""
    group = parser.add_argument_group("reports")
    group.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    group.add_argument("--quiet", action="store_true", help="show no progress")


def run_job(
    parser: JobParser,
    job: Callable[[argparse.Namespace, Progress], Summary],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse the command line, run the job, print its summary; the exit code."""
    arguments = parser.parse_args(argv)
    progress = progress_on(parser.errors, parser.job, quiet=arguments.quiet)

    def complain(outcome: str | None = None) -> None:
        parser.complain(f"interrupted; {outcome or parser.left(arguments)}")

    with interruptible(complain) as interruption:
        try:
            with warnings_on_stderr(parser), progress:
                summary = job(arguments, progress)
        except (Exception, KeyboardInterrupt) as error:
            interruption.ended()
            # A block that a signal ends may raise another error. pyspark has a handler that raises its own.
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
