"""What the command lines of all jobs have in common: connection options, reports, exit codes.

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

Progress and errors go to stderr, the summary to stdout. Values of options are never repeated: they
may be secrets.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from ... import errors
from ...errors import Action, KafkaWireError, OptionError, one_line, quoted, shown
from .java_errors import reason_of
from .progress import Progress, progress_on
from .properties import RepeatedKey, parse_properties
from .streams import error_stream

#: The key of a summary that makes the exit code ``DATA_LOSS`` where it holds something.
DATA_LOSS_KEY: Final = "data_loss"
#: Our error inside of what Spark makes of it, which is many lines.
_OUR_ERROR: Final = re.compile(r"\bspark_kafkawire\.errors\.(\w+): (.*)")

#: What a job fails with: errors of ours, of Spark, and of the operating system, as of a full disk.
FAILURES: Final = (KafkaWireError, PySparkException, Py4JError, OSError)

Summary = Mapping[str, Any]


class ExitCode(enum.IntEnum):
    """How a job ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DATA_LOSS = 3


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
        line, code = told(error)
        self.complain(line)
        return code


def add_connection(
    parser: argparse.ArgumentParser,
    side: str = "",
    example: str = "kafka.bootstrap.servers=HOST:PORT or zookeeper.connect=HOST:PORT",
) -> None:
    """``--option`` and ``--options-file``, which ``connection_options`` reads; ``--SIDE-option`` for one of
    several clusters."""
    group = parser.add_argument_group(f"connection to the {side}" if side else "connection")
    option = f"--{side}-option" if side else "--option"
    group.add_argument(
        option,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f'an option of format("kafkawire"), as {example}; may be repeated',
    )
    group.add_argument(
        f"{option}s-file",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a file of such options, a line each, on the driver: here secrets stay off the command line; "
        f"{option} beats it",
    )


def add_topics(group: argparse._ActionsContainer, verb: str, *, default: str | None = None) -> None:
    """``--topic`` and ``--topic-pattern``, which ``topic_options`` reads; one of them is required unless
    ``default`` tells what happens without."""
    topics = group.add_mutually_exclusive_group(required=default is None)
    topics.add_argument(
        "--topic",
        action="append",
        default=[],
        help=f"a topic to {verb}; may be repeated" + (f" (default: {default})" if default else ""),
    )
    topics.add_argument(
        "--topic-pattern", metavar="REGEX", help=f"{verb} the topics in whose names this is found"
    )


def add_reporting(parser: argparse.ArgumentParser) -> None:
    """``--json`` and ``--quiet``."""
    group = parser.add_argument_group("reports")
    group.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    group.add_argument("--quiet", action="store_true", help="show no progress")


def positive(text: str) -> int:
    """The value of an argument that is a whole number above zero."""
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number above zero")
    return int(text)


def path(text: str) -> str:
    """The value of an argument that is a path of Spark's, without a slash at its end."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a path")
    return text.rstrip("/") or text


def connection_options(arguments: argparse.Namespace, side: str = "") -> dict[str, str]:
    """The options of the files, then those of the command line. Raises ``OptionError`` (fatal)."""
    name = f"{side}_option" if side else "option"
    pairs, files = getattr(arguments, name), getattr(arguments, f"{name}s_file")
    return read_options(pairs, files, argument=f"--{name.replace('_', '-')}")


def topic_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The option that selects the topics of ``add_topics``; none where none were named."""
    if arguments.topic_pattern is not None:
        return {"subscribePattern": arguments.topic_pattern}
    return {"subscribe": ",".join(arguments.topic)} if arguments.topic else {}


def read_options(
    pairs: Sequence[str], files: Sequence[Path] = (), *, argument: str = "--option"
) -> dict[str, str]:
    """Options from ``KEY=VALUE`` strings and from files, which those beat.

    Raises ``OptionError`` (fatal) that names the argument and shows no value.
    """
    # Spark's options know no case, so neither may the question which one beats which.
    options: dict[str, tuple[str, str]] = {}
    for file in files:
        options.update({key.lower(): (key, value) for key, value in _properties(file, argument).items()})
    here: set[str] = set()
    for number, pair in enumerate(pairs, 1):
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise OptionError(
                f"argument {argument}: number {number} is not KEY=VALUE (it is not shown: it may be a secret)"
            )
        key = key.strip()
        if key.lower() in here:
            raise OptionError(f"argument {argument}: option {shown(key)} is there twice; give it once")
        here.add(key.lower())
        options[key.lower()] = (key, value.strip())
    return dict(options.values())


def _properties(file: Path, argument: str) -> dict[str, str]:
    try:
        return parse_properties(file.read_text("utf-8"))
    except RepeatedKey as error:
        raise OptionError(
            f"argument {argument}s-file: {shown(file)}: option {shown(error)} is there twice; give it once"
        ) from None
    except OSError as error:
        raise OptionError(f"argument {argument}s-file: {shown(file)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"argument {argument}s-file: {shown(file)} is not a text in UTF-8") from error


def run_job(
    parser: JobParser,
    job: Callable[[argparse.Namespace, Progress], Summary],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse the command line, run the job, print its summary; the exit code."""
    arguments = parser.parse_args(argv)
    progress = progress_on(parser.errors, parser.job, quiet=arguments.quiet)
    try:
        with warnings_told(parser), progress:
            summary = job(arguments, progress)
    except FAILURES as error:
        return parser.tell(error)
    try:
        print_summary(summary, as_json=arguments.json)
    except OSError as error:
        # Of a pipe whoever reads has seen enough, as `head` does.
        if not isinstance(error, BrokenPipeError):
            parser.complain(f"done, and the summary cannot be written to stdout: {error.strerror}")
        # Python would try the rest once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    return ExitCode.DATA_LOSS if summary.get(DATA_LOSS_KEY) else ExitCode.DONE


@contextlib.contextmanager
def warnings_told(parser: JobParser) -> Iterator[None]:
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


def told(error: Exception) -> tuple[str, ExitCode]:
    """An error of ours or of Spark in one line, and the exit code that it means."""
    ours = [] if isinstance(error, KafkaWireError) else _OUR_ERROR.findall(str(error))
    said = reason_of(error) if isinstance(error, Py4JJavaError) else str(error).strip()
    name, text = ours[-1] if ours else (type(error).__name__, said)
    kind = getattr(errors, name, KafkaWireError if ours else type(error))
    # What Spark cannot analyse is a column, a format or a path that the user has named.
    is_usage = getattr(kind, "action", None) is Action.FIX_OPTION or issubclass(kind, AnalysisException)
    return text.partition("\n")[0], ExitCode.USAGE if is_usage else ExitCode.FAILED


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """The summary on stdout: one JSON object, or a line for each of its entries."""
    if as_json:
        print(json.dumps(summary), flush=True)
        return
    width = max(map(len, summary), default=0)
    for key, value in summary.items():
        for number, line in enumerate(_shown(value)):
            label = "" if number else key.replace("_", " ")
            print(f"{label:<{width}}  {line}", flush=True)


def _shown(value: Any) -> list[str]:
    """The lines that show a value: one for each element of a list. Lists in lists are left to JSON."""
    if isinstance(value, list):
        return [line for element in value for line in _shown(element)] or ["none"]
    if isinstance(value, dict):
        plain = {key.replace("_", " "): each for key, each in value.items() if not isinstance(each, list)}
        return [", ".join(f"{key} {_shown(each)[0]}" for key, each in plain.items())]
    return [f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else one_line(str(value))]
