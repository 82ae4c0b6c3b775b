"""The command line of a job: it is parsed, the job runs, its summary is printed.

    parser = JobParser("ingest.py", __doc__)
    add_connection(parser)
    add_reporting(parser)
    ...
    sys.exit(run_job(parser, lambda arguments, progress: job(connection_options(arguments), progress)))

=========  ==============================================================================
exit code  meaning
=========  ==============================================================================
0          done
1          failed; one line on stderr says why
2          wrong usage: an argument, an option or what they name; one line on stderr
3          done, and offsets were gone that should have been read; the summary names them
=========  ==============================================================================

Progress and errors go to stderr, the summary to stdout. Arguments that are not known are not repeated:
they may be secrets.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from ...errors import one_line, shown
from .failures import FAILURES, ExitCode, explained
from .progress import Progress, progress_on
from .streams import error_stream
from .summary import DATA_LOSS_KEY, Summary, print_summary


class JobParser(argparse.ArgumentParser):
    """Complains in one line, and repeats no argument that it does not know: that may be a secret."""

    def __init__(self, script: str, description: str | None) -> None:
        super().__init__(
            prog=f"spark-submit jobs/{script}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.job = script.removesuffix(".py")
        self.errors = error_stream()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments. Ends the process with ``ExitCode.USAGE`` where they are wrong."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            names = [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]
            self.error(
                f"unknown argument {shown(names[0])}" if names else f"{len(unknown)} argument(s) too many"
            )
        return arguments

    def error(self, message: str) -> NoReturn:
        """End the process with ``ExitCode.USAGE``."""
        self.complain(f"{message}; --help tells more")
        self.exit(ExitCode.USAGE)

    def complain(self, line: str) -> None:
        """A line on stderr."""
        print(f"{self.job}: {one_line(line)}", file=self.errors, flush=True)

    def tell(self, error: Exception) -> ExitCode:
        """Complain of one of ``FAILURES``; the exit code that it means."""
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
    try:
        with warnings_shown(parser), progress:
            summary = job(arguments, progress)
    except FAILURES as error:
        return parser.tell(error)
    try:
        print_summary(summary, as_json=arguments.json)
    except OSError as error:
        _give_up_stdout(parser, error)
        return ExitCode.FAILED
    return ExitCode.DATA_LOSS if summary.get(DATA_LOSS_KEY) else ExitCode.DONE


def _give_up_stdout(parser: JobParser, error: OSError) -> None:
    # Of a pipe whoever reads has seen enough, as `head` does.
    if not isinstance(error, BrokenPipeError):
        parser.complain(f"done, and the summary cannot be written to stdout: {error.strerror}")
    # Python would try the rest once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def warnings_shown(parser: JobParser) -> Iterator[None]:
    """The package's warnings go where errors go while the block lasts: Python's own stderr may be what
    reads the summary (see ``streams``)."""
    logger = logging.getLogger("spark_kafkawire")
    handler = logging.StreamHandler(parser.errors)
    handler.setFormatter(logging.Formatter(f"{parser.job}: %(message)s"))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
