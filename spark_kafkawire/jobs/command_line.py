"""The command line of a job: its arguments, its two streams, and its exit code.

    parser = JobParser("ingest", __doc__)
    add_connection(parser, "source")        # --source-option, --source-options-file
    add_topics(parser, "copy")              # --topic, --topic-pattern
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

Progress and errors go to stderr, the summary to stdout. spark-submit joins the stderr of the Python
that it starts to its stdout, so that ``--json | jq`` would get the progress, too. So text for stderr
goes to the stderr of spark-submit itself. Source: Spark's PythonRunner.scala (``redirectErrorStream``).

Unknown arguments are not printed, and values of options are never repeated: they may be secrets.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import io
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from ..errors import OptionError, close_matches, one_line, printable, quoted
from ..options import TypedOptions
from ..options.references import RepeatedProperty, parse_properties
from ..options.selection import SYNONYMS
from ..options.table import keep_secrets
from .ending import ExitCode, exit_code, explained, failures, interruptible, missing_module
from .files import read_file
from .progress import DATA_LOSS_KEY, ENDED_BY_KEY, Progress, Summary, print_summary, progress_on

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


#: Options of typed keys and values, in lower case.
_FORMATS: Final = frozenset((TypedOptions.key_format.name.lower(), TypedOptions.value_format.name.lower()))


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
        help=f'an option of format("kafkawire"), such as {example}; may be repeated',
    )
    group.add_argument(
        f"{option}s-file",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a file on the driver with one such option in each line, which keeps secrets off the command "
        f"line; {option} overrides it",
    )


def add_topics(group: argparse._ActionsContainer, verb: str, *, default: str | None = None) -> None:
    """``--topic`` and ``--topic-pattern``, which ``topic_options`` reads; one of them is required unless
    ``default`` says what is selected without them."""
    topics = group.add_mutually_exclusive_group(required=default is None)
    topics.add_argument(
        "--topic",
        action="append",
        default=[],
        help=f"a topic to {verb}; may be repeated" + (f" (default: {default})" if default else ""),
    )
    topics.add_argument(
        "--topic-pattern", metavar="REGEX", help=f"{verb} all topics whose names contain a match"
    )


def add_gone_broker(group: argparse._ActionsContainer) -> None:
    """``--gone-broker``, which ``gone_brokers_of`` reads."""
    group.add_argument(
        "--gone-broker",
        action="append",
        default=[],
        metavar="ID",
        help="the id of a 0.7 broker that will not return: its partitions, which earlier runs read, are "
        "skipped "
        "and reported as data loss (exit code 3); may be repeated",
    )


def positive(text: str) -> int:
    """The value of an argument that is a whole number above zero."""
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number above zero; give one, as 100")
    return int(text)


def path(text: str) -> str:
    """The value of an argument that is a path of Spark's, without a slash at its end."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a path; give one")
    return text.rstrip("/") or text


def connection_options(arguments: argparse.Namespace, side: str = "") -> dict[str, str]:
    """The options of the files, then those of the command line. Raises ``OptionError`` (fatal)."""
    name = f"{side}_option" if side else "option"
    pairs, files = getattr(arguments, name), getattr(arguments, f"{name}s_file")
    argument = f"--{name.replace('_', '-')}"
    options = read_options(pairs, files, argument=argument)
    for each in options:
        if each.lower() in _FORMATS:
            raise OptionError(
                f"argument {argument}: {each} is for spark.read and df.write, and jobs handle keys and "
                "values as bytes; leave it out"
            )
    return options


def topic_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The option that selects the topics of ``add_topics``; empty if no topics were named."""
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
            raise OptionError(f"argument {argument}: option {printable(key)} is given twice; give it once")
        here.add(key.lower())
        options[key.lower()] = (key, value.strip())
    found = dict(options.values())
    keep_secrets(found)
    return found


def _properties(file: Path, argument: str) -> dict[str, str]:
    try:
        return parse_properties(read_file(file, f"{argument}s-file"))
    except RepeatedProperty as error:
        raise OptionError(
            f"argument {argument}s-file: {printable(file)}: option {printable(error)} is given twice; give "
            "it once"
        ) from None


def gone_brokers_of(arguments: argparse.Namespace) -> frozenset[int]:
    """The ids. Raises ``OptionError`` (fatal)."""
    for text in arguments.gone_broker:
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise OptionError(
                f"argument --gone-broker: {quoted(text)} is not the id of a broker; give its number, as 3"
            )
    return frozenset(map(int, arguments.gone_broker))


def parse_starting(text: str) -> dict[str, str] | None:
    """The options that ``--starting`` stands for; None for ``latest``, which batch reads do not have.

    Raises ``OptionError`` (fatal).
    """
    text = text.strip()
    if text.lower() == "latest":
        return None
    if text.lower() == "earliest":
        return {}
    if text.startswith("{"):
        return {"startingOffsets": text}
    if re.fullmatch(r"[0-9]+", text):
        return {"startingTimestamp": text}
    try:
        # Python 3.10 does not read the Z.
        moment = dt.datetime.fromisoformat(re.sub("(:.*)[Zz]$", r"\1+00:00", text))
    except ValueError as error:
        raise OptionError(
            f"argument --starting: {quoted(text)} is not earliest, latest, a time like 2026-01-31T00:00:00Z, "
            'milliseconds since 1970, or offsets like {"t":{"0":123}}' + _starting_hint(text.lower())
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.timezone.utc)
    return {"startingTimestamp": str(max(0, int(moment.timestamp() * 1000)))}


def _starting_hint(word: str) -> str:
    synonym = SYNONYMS.get(word)
    close = [synonym.kind.value] if synonym else close_matches(word, ("earliest", "latest"), 1)
    return f"; did you mean {close[0]}?" if close else ""
