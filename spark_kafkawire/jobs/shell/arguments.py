"""Arguments that several jobs take, and their values.

    add_connection(parser, "source")        # --source-option, --source-options-file
    add_topics(parser, "copy")              # --topic, --topic-pattern
    arguments = parser.parse_args()
    connection_options(arguments, "source") | topic_options(arguments)

Values of options are never repeated: they may be secrets.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark_kafkawire.errors import OptionError, close_matches, printable, quoted
from spark_kafkawire.options.offsets import SYNONYMS
from spark_kafkawire.options.properties import RepeatedProperty, parse_properties
from spark_kafkawire.options.table import keep_secrets
from spark_kafkawire.options.typed import KEY_FORMAT, VALUE_FORMAT

from .files import read_file

#: Options of typed keys and values, in lower case.
_FORMATS: Final = frozenset((KEY_FORMAT.name.lower(), VALUE_FORMAT.name.lower()))


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
