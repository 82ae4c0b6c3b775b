"""Arguments of a job: one row for each, at the field of the frozen options that it sets.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CopyOptions:
        selection: Mapping[str, str] = topic_args("copy", group="input")    # --topic, --topic-pattern
        size_max: int | None = arg("--max-bytes", "read at most N bytes", positive)
        dry_run: bool = flag("--dry-run", "change nothing", needs=("size_max",))
        connection: Mapping[str, str] = connection_args(sets_itself={"subscribe": "--topic"})

``add_arguments`` makes the parser of these rows, in the order of the fields, and ``read_arguments`` the
options. An argument that is not given leaves the field at its default. The class checks what it is given in
its ``__post_init__``, with ``check_needs`` first or last.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ..errors import OptionError, close_matches, printable, quote
from ..model import OffsetUnit
from ..options import TypedOptions
from ..options.delivery import EXACTLY_ONCE
from ..options.option import age_ms
from ..options.references import RepeatedProperty, parse_properties
from ..options.selection import SYNONYMS, epoch_ms, iso_time
from ..options.table import keep_secrets
from .files import read_file

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """An argument. ``group`` is the title of the group that begins with it. Of rows that follow each other
    with the same ``one_of`` one may be given, and of those that are ``required`` one must."""

    flag: str
    settings: Mapping[str, Any]
    group: str = ""
    one_of: str = ""
    required: bool = False

    @property
    def name(self) -> str:
        """The attribute of the parser's result."""
        return self.flag.lstrip("-").replace("-", "_")


def _row(
    name: str, text: str, *, group: str = "", one_of: str = "", required: bool = False, **settings: Any
) -> Row:
    given = {key: value for key, value in settings.items() if value is not None}
    if required and not one_of and name.startswith("-"):
        given["required"] = True
    return Row(name, {**given, "help": text}, group, one_of, required)


def _field(
    *rows: Row, make: Callable[..., Any], default: Any, needs: Sequence[str] = (), repr: bool = True
) -> Any:
    key = "default_factory" if isinstance(default, type) else "default"
    given = {} if default is MISSING else {key: default}
    return field(metadata={"rows": rows, "make": make, "needs": needs}, repr=repr, **given)


def arg(
    name: str,
    text: str,
    kind: Callable[[str], Any] | None = None,
    *,
    many: bool = False,
    make: Callable[[Any], Any] = lambda value: value,
    default: Any = None,
    needs: Sequence[str] = (),
    **settings: Any,
) -> Any:
    """A field that an argument with a value sets.

    ``kind`` parses a word, with ``many`` each one, and ``make`` the whole, which may raise ``OptionError``. A
    type as ``default`` makes the value without the argument. ``needs`` are the fields of which one must be
    set, too. ``settings`` are those of a ``Row`` and of argparse.
    """
    settings = {"metavar": _METAVARS.get(kind), **settings}
    row = _row(name, text, type=kind, action="append" if many else None, **settings)
    # One of several arguments may be missing.
    is_needed = row.required and not row.one_of
    return _field(row, make=make, default=MISSING if is_needed else default, needs=needs)


def flag(name: str, text: str, *, needs: Sequence[str] = (), one_of: str = "") -> Any:
    """A field that is true if an argument is given."""
    row = _row(name, text, one_of=one_of, action="store_true")
    return _field(row, make=bool, default=False, needs=needs)


def nest_options(options: type) -> Any:
    """A field of other options, whose arguments come in its place."""
    return field(metadata={"nested": options})


def topic_args(verb: str, *, group: str, default: str = "") -> Any:
    """The option that selects topics: ``--topic`` and ``--topic-pattern``. One of them is required unless
    ``default`` says what is selected without them."""
    one = partial(_row, one_of="topics", required=not default)
    names = f"a topic to {verb}; may be repeated" + (f" (default: {default})" if default else "")
    return _field(
        one("--topic", names, group=group, action="append"),
        one("--topic-pattern", f"{verb} all topics whose names contain a match", metavar="REGEX"),
        make=_selection,
        default=dict,
    )


def _selection(names: Sequence[str] | None, pattern: str | None) -> dict[str, str]:
    return {"subscribePattern": pattern} if pattern is not None else {"subscribe": ",".join(names or ())}


def connection_args(
    side: str = "",
    example: str = "kafka.bootstrap.servers=HOST:PORT or zookeeper.connect=HOST:PORT",
    *,
    sets_itself: Mapping[str, str] = {},
    refuses: Mapping[str, str] = {},
    place: str = "argument {}: ",
    typed: bool = False,
) -> Any:
    """Options of the data source: ``--option`` and ``--options-file``, or ``--SIDE-option`` of one of several
    clusters.

    The keys of ``sets_itself`` are options in lower case that an argument of the job sets. ``refuses`` says
    why others are refused; its keys may be patterns. ``typed`` is true for a job that decodes keys and
    values.
    """
    option = f"--{side}-option" if side else "--option"
    by = {name: f"is set by the job itself; use {argument}" for name, argument in sets_itself.items()}
    return _field(
        _row(
            option,
            f'an option of format("kafkawire"), such as {example}; may be repeated',
            group=f"connection to the {side}" if side else "connection",
            action="append",
            metavar="KEY=VALUE",
        ),
        _row(
            f"{option}s-file",
            "a file on the driver with one such option in each line, which keeps secrets off the command "
            f"line; {option} overrides it",
            action="append",
            type=Path,
            metavar="FILE",
        ),
        make=partial(_connection, option, {**by, **refuses}, place.format(option), typed),
        default=dict,
        repr=False,
    )


#: Options of typed keys and values, in lower case.
_FORMATS: Final = frozenset((TypedOptions.key_format.name.lower(), TypedOptions.value_format.name.lower()))
#: Options that arguments of a job that reads set, for ``sets_itself``.
SET_BY_ARGUMENTS: Final = {
    "subscribe": "--topic",
    "subscribepattern": "--topic-pattern",
    "assign": "--topic",
    "kafka.group.id": "--group",
    "startingoffsets": "--starting",
    "startingtimestamp": "--starting",
    "startingoffsetsbytimestamp": "--starting",
    "startingoffsetsfromend": "--starting",
}
#: Options that these arguments set, for ``refuses``.
TRANSACTION_OPTIONS: Final = dict.fromkeys(
    ("delivery", "kafka.transactional.id"), "is set by --exactly-once and --transactional-id; leave it out"
)


def exactly_once_options(options: Any) -> dict[str, str]:
    """The options that ``exactly_once`` and ``transactional_id`` stand for."""
    if not options.exactly_once:
        return {}
    name = options.transactional_id
    return {"delivery": EXACTLY_ONCE, **({} if name is None else {"kafka.transactional.id": name})}


def _connection(
    argument: str,
    refused: Mapping[str, str],
    place: str,
    typed: bool,
    pairs: Sequence[str] | None,
    files: Sequence[Path] | None,
) -> dict[str, str]:
    options = read_options(pairs or (), files or (), argument=argument)
    for name in options:
        if name.lower() in _FORMATS and not typed:
            raise OptionError(
                f"argument {argument}: {name} is for spark.read and df.write, and jobs handle keys and "
                "values as bytes; leave it out"
            )
        for pattern, remark in refused.items():
            if fnmatchcase(name.lower(), pattern):
                raise OptionError(f"{place}{printable(name)} {remark}")
    return options


def starting_arg(text: str) -> Any:
    """The options of a read that ``--starting`` sets; None for ``latest``."""
    return arg("--starting", text, metavar="WHERE", make=parse_starting, default=dict)


def format_option_arg(text: str) -> Any:
    """Options of a file format of Spark, from ``--format-option``."""
    make = partial(read_options, argument="--format-option")
    return arg("--format-option", text, metavar="KEY=VALUE", many=True, make=make, default=dict)


def gone_broker_arg() -> Any:
    """The ids of ``--gone-broker``."""
    text = (
        "the id of a 0.7 broker that will not return: its partitions, which earlier runs read, are skipped "
        "and reported as data loss (exit code 3); may be repeated"
    )
    return arg("--gone-broker", text, metavar="ID", many=True, make=_broker_ids, default=frozenset)


def add_arguments(parser: argparse.ArgumentParser, options: type) -> None:
    """Add the rows of a class of options."""
    group: argparse._ActionsContainer = parser
    exclusive: dict[str, argparse._ActionsContainer] = {}
    for row in _rows(options):
        if row.group:
            group = parser.add_argument_group(row.group)
        if row.one_of and row.one_of not in exclusive:
            exclusive[row.one_of] = group.add_mutually_exclusive_group(required=row.required)
        exclusive.get(row.one_of, group).add_argument(row.flag, **row.settings)


def _rows(options: type) -> list[Row]:
    result: list[Row] = []
    for item in fields(options):
        inner = item.metadata.get("nested")
        result += _rows(inner) if inner else item.metadata.get("rows", ())
    return result


def read_arguments(options: type[T], arguments: argparse.Namespace) -> T:
    """The options. Raises ``OptionError`` (fatal)."""
    given: dict[str, Any] = {}
    for item in fields(options):  # type: ignore[arg-type]
        if inner := item.metadata.get("nested"):
            given[item.name] = read_arguments(inner, arguments)
            continue
        values = [getattr(arguments, row.name) for row in item.metadata.get("rows", ())]
        if any(value is not None for value in values):
            given[item.name] = item.metadata["make"](*values)
    return options(**given)


def check_needs(options: Any) -> None:
    """Raise ``OptionError`` (fatal) for an argument that is given without those that it needs."""
    own = {item.name: item for item in fields(options)}
    for item in own.values():
        needed = [own[name] for name in item.metadata.get("needs", ())]
        if needed and _is_given(options, item) and not any(_is_given(options, other) for other in needed):
            add = "add that, or leave it out" if len(needed) == 1 else "add one"
            raise OptionError(f"argument {_flag(item)} needs {' or '.join(map(_flag, needed))}; {add}")


def _flag(each: Field[Any]) -> str:
    return str(each.metadata["rows"][0].flag)


def _is_given(options: Any, each: Field[Any]) -> bool:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    return bool(getattr(options, each.name) != default)


def size_limit(unit: OffsetUnit, limits: Mapping[OffsetUnit, tuple[str, int | None]]) -> int | None:
    """The limit in the unit that the brokers count, from each unit's argument and value. Raises
    ``OptionError`` (fatal) where another one is given."""
    for other, (argument, limit) in limits.items():
        if other is not unit and limit is not None:
            raise OptionError(f"argument {argument}: these brokers count {unit.value}; use {limits[unit][0]}")
    return limits[unit][1]


def positive(text: str) -> int:
    """The value of an argument that is a whole number above zero."""
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{quote(text)} is not a whole number above zero; give one, as 100")
    return int(text)


def spark_path(text: str) -> str:
    """The value of an argument that is a path of Spark's, without a slash at its end."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{quote(text)} is not a path; give one")
    return text.rstrip("/") or text


#: What help calls values that these functions parse.
_METAVARS: Final[Mapping[Any, str]] = {positive: "N", spark_path: "DIR", Path: "FILE"}


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
    result = dict(options.values())
    keep_secrets(result)
    return result


def _properties(file: Path, argument: str) -> dict[str, str]:
    try:
        return parse_properties(read_file(file, f"{argument}s-file"))
    except RepeatedProperty as error:
        raise OptionError(
            f"argument {argument}s-file: {printable(file)}: option {printable(error)} is given twice; give "
            "it once"
        ) from None


def _broker_ids(texts: Sequence[str]) -> frozenset[int]:
    for text in texts:
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise OptionError(
                f"argument --gone-broker: {quote(text)} is not the id of a broker; give its number, as 3"
            )
    return frozenset(map(int, texts))


def parse_starting(text: str, argument: str = "--starting") -> dict[str, str] | None:
    """The options of a read that the argument sets; None for ``latest``, which batch reads do not have.

    Raises ``OptionError`` (fatal).
    """
    text = text.strip()
    if text.lower() == "latest":
        return None
    if text.lower() == "earliest":
        return {}
    if text.startswith("{"):
        return {"startingOffsets": text}
    if re.fullmatch(r"[0-9]+", text) or age_ms(text) is not None:
        return {"startingTimestamp": text}
    if (time := iso_time(text)) is None:
        raise OptionError(
            f"argument {argument}: {quote(text)} is not earliest, latest, a time like 2026-01-31T00:00:00Z "
            'or -10 minutes, milliseconds since 1970, or offsets like {"t":{"0":123}}'
            f"{_starting_hint(text.lower())}"
        )
    return {"startingTimestamp": str(epoch_ms(time if time.tzinfo else time.replace(tzinfo=dt.timezone.utc)))}


def _starting_hint(word: str) -> str:
    synonym = SYNONYMS.get(word)
    close = [synonym.kind.value] if synonym else close_matches(word, ("earliest", "latest"), 1)
    return f"; did you mean {close[0]}?" if close else ""
