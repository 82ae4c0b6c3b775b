"""Messages of topics on a terminal: the last ones, or those from an offset or a time on.

Control characters are escaped, and long texts are cut: what is printed cannot change the terminal, nor fill
it.
"""

from __future__ import annotations

import codecs
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from ..clients.reading.fetcher import read_range
from ..clients.reading.task import FetchTask
from ..cluster import cluster_of
from ..errors import LOG, PROSE_SIZE_MAX, OptionError, one_line, printable
from ..model import OffsetRange, TopicPartition
from ..options import BadRecords, ReadOptions
from ..planner.batch import plan
from ..records.arrow import CORRUPT, CORRUPT_TYPE
from ..records.columns import HEADERS
from ..secrecy import beginning_without_secrets, hide_long_secrets, without_secrets
from ..values.formats import STRING
from .arguments import arg, check_needs, connection_args, parse_starting, positive, topic_args
from .progress import Progress

if TYPE_CHECKING:
    from ..clients.reading.typed_values import TypedTask

#: How many times as many offsets as before are read where some of them have no message.
_WIDER: Final = 8
#: A decoder that lets a cut text end within a character.
_UTF_8: Final = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """Options of a run. ``since`` are the options of a read from a time on; without it, and without
    ``offset``, the last messages are shown."""

    selection: Mapping[str, str] = topic_args("show", group="messages")
    partitions: tuple[str, ...] = arg(
        "--partition",
        "a partition of --topic, 0, or BROKER-PARTITION in 0.7; may be repeated (default: all)",
        many=True,
        make=tuple,
        default=tuple,
        metavar="NAME",
    )
    offset: int | None = arg(
        *("--offset", "the first messages from this offset on", int), one_of="start", needs=("partitions",)
    )
    since: Mapping[str, str] | None = arg(
        "--since",
        'the first messages from here on: earliest, a time like 2026-01-31T00:00:00Z, "-10 minutes", '
        "or milliseconds since 1970 (default: the last messages)",
        make=partial(parse_starting, argument="--since"),
        one_of="start",
        metavar="WHEN",
    )
    count: int = arg("--max", "the most messages (default: 10)", positive, default=10)
    size_max: int = arg("--max-bytes", "the most of a value (default: 1000)", positive, default=1000)
    format: str = arg("--format", "how to print", choices=("text", "json", "hex"), default="text")
    connection: Mapping[str, str] = connection_args(
        sets_itself={"subscribe": "--topic", "subscribepattern": "--topic-pattern", "assign": "--partition"},
        refuses=dict.fromkeys(("starting*", "ending*", "keyorder", "table"), "has no meaning here"),
        typed=True,
    )

    def __post_init__(self) -> None:
        check_needs(self)

    def read(self) -> ReadOptions:
        """The options of the read. Raises ``OptionError`` (fatal)."""
        start = {"startingOffsetsByTimestampStrategy": "latest", **(self.since or {})}
        selection = self.selection
        if self.partitions:
            if "subscribe" not in selection:
                raise OptionError("argument --partition needs --topic; add that, or leave it out")
            topics, names = [item.strip() for item in selection["subscribe"].split(",")], self.partitions
            numbers = [int(name) if name.isdecimal() else name for name in names]
            selection = {"assign": json.dumps(dict.fromkeys(topics, numbers))}
            if self.offset is not None:
                offsets = dict.fromkeys(topics, dict.fromkeys(names, self.offset))
                start["startingOffsets"] = json.dumps(offsets)
        return ReadOptions.parse({**self.connection, **selection, **start})


#: A message as an object by its columns; ``timestamp`` in microseconds since 1970.
Row = dict[str, Any]


def run_show(options: ShowOptions, progress: Progress, as_json: bool) -> dict[str, Any]:
    """Print the messages, or return them as the summary ``as_json``.

    Raises ``OptionError`` (fatal), and the errors of a read.
    """
    read = options.read()
    progress.step("reading messages")
    result = [_object(tp, row, options) for tp, row in _found(read, options)]
    if as_json:
        return {"messages": result}
    for message in result:
        for line in [json.dumps(message)] if options.format == "json" else _lines(message):
            print(hide_long_secrets(line))
    if not result:
        LOG.warning("there is no message")
    return {}


def _found(read: ReadOptions, options: ShowOptions) -> list[tuple[TopicPartition, Row]]:
    """The messages by their times; those of a partition in its order."""
    by_partition: dict[TopicPartition, list[FetchTask]] = {}
    for task in plan(read):
        by_partition.setdefault(task.range.topic_partition, []).append(task)
    is_last = options.offset is None and options.since is None
    cuts = cluster_of(read).cut_points([*by_partition]) if is_last else None
    columns, kept = _columns(read), list[tuple[TopicPartition, Row]]()
    for tp, tasks in by_partition.items():
        starts = _starts(tasks, cuts[tp] if cuts else None, options.count) if is_last else [0]
        batches: deque[pa.RecordBatch] = deque()
        for start in starts:
            batches.clear()
            count = 0
            for batch in _batches(tasks, start, read, *columns):
                batches.append(batch)
                count += batch.num_rows
                while is_last and count - batches[0].num_rows >= options.count:
                    count -= batches.popleft().num_rows
                if not is_last and count >= options.count:
                    break
            if count >= options.count:
                break
        kept += [(tp, row) for batch in batches for row in _rows(batch)]
        # Of a partition, the rows beyond the count are the first ones, or the last.
        kept.sort(key=lambda item: item[1]["timestamp"] or 0)
        kept = kept[-options.count :] if is_last else kept[: options.count]
    return kept


def _starts(tasks: Sequence[FetchTask], cuts: Sequence[int] | None, count: int) -> Iterator[int]:
    """Offsets to read from, the nearest to the end first: offsets of transactions and of compacted records
    have no message, and in 0.7 a message is known to begin only where a segment does."""
    if cuts is not None:
        yield from reversed(cuts)
        return
    first, stop, size = tasks[0].range.start_offset, tasks[-1].range.stop_offset, count
    while stop - size > first:
        yield stop - size
        size *= _WIDER
    yield first


def _batches(
    tasks: Sequence[FetchTask], start: int, read: ReadOptions, schema: pa.Schema, typed: TypedTask | None
) -> Iterator[pa.RecordBatch]:
    for task in tasks:
        of = task.range
        if of.stop_offset > start:
            part = OffsetRange(of.topic_partition, max(start, of.start_offset), of.stop_offset)
            yield from read_range(replace(task, range=part), read.of_tasks, schema, typed)


def _columns(read: ReadOptions) -> tuple[pa.Schema, TypedTask | None]:
    """The columns of messages, and what decodes keys and values. Raises ``OptionError`` (fatal), and the
    errors of the registry."""
    types = {"offset": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}
    types |= {"key": pa.binary(), "value": pa.binary()}
    if read.discovery.generation.has_headers:
        types["headers"] = HEADERS
    if read.fetch.bad_records is BadRecords.NULL:
        types[CORRUPT] = CORRUPT_TYPE
    if read.typed is None:
        return pa.schema(list(types.items())), None
    from ..clients.reading.typed_values import TypedTask
    from ..planner.schemas import fix_schemas, schema_in

    schemas = fix_schemas(read)
    for column in read.typed.columns:
        if column.column in schemas:
            types[column.column] = schema_in(column, schemas[column.column]).arrow_type
        elif column.format == STRING:
            types[column.column] = pa.string()
    return pa.schema(list(types.items())), TypedTask(read.typed, schemas)


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    times = batch.column(batch.schema.get_field_index("timestamp")).cast(pa.int64())
    for number, row in enumerate(zip(*batch.columns, strict=True)):
        values = dict(zip(batch.schema.names, map(_value, row), strict=True))
        yield {**values, "timestamp": times[number].as_py()}


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):  # Python has no date after the year 9999
        return "(a time that Python does not have)"


def _object(tp: TopicPartition, row: Row, options: ShowOptions) -> dict[str, Any]:
    """A message as a JSON object."""
    broker = {} if tp.broker is None else {"broker": tp.broker}
    location = {"topic": tp.topic, "partition": tp.partition, **broker, "timestamp": _time(row["timestamp"])}
    result = _plain({**location, **row, **location}, options)
    return cast(dict[str, Any], json.loads(json.dumps(result, default=str)))


def _plain(value: Any, options: ShowOptions) -> Any:
    """A value of JSON. Bytes are a text, or ``{"hex": ...}`` if they are no UTF-8; what is cut has the number
    of all its bytes."""
    if isinstance(value, dict):
        return {str(name): _plain(item, options) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, options) for item in value]
    if not isinstance(value, (bytes, str)):
        return value
    # Secrets are hidden before the text is cut, so that no part of one is left.
    head, kind, text = value[: options.size_max + PROSE_SIZE_MAX], "text", ""
    is_whole = len(head) == len(value)
    try:
        text = _UTF_8().decode(head, is_whole) if isinstance(head, bytes) else head
        text = (without_secrets if is_whole else beginning_without_secrets)(text)
    except UnicodeDecodeError:
        kind = "hex"
    if isinstance(head, bytes) and "hex" in (kind, options.format):
        cut = {"hex": head[: options.size_max].hex(" ")}
        return cut if len(value) <= options.size_max else {**cut, "bytes": len(value)}
    if is_whole and len(text) <= options.size_max:
        return text
    return {"text": text[: options.size_max], "bytes": len(value)}


def _lines(message: Mapping[str, Any]) -> Iterator[str]:
    broker = f"{message['broker']}-" if "broker" in message else ""
    time = f", {message['timestamp']}" if message["timestamp"] else ""
    yield f"{printable(message['topic'])} {broker}{message['partition']}, offset {message['offset']}{time}"
    headers = ((f"header {item['key']}", item["value"]) for item in message.get("headers") or ())
    others = ((name, message[name]) for name in (CORRUPT,) if message.get(name))
    cells = [("key", message["key"]), *headers, ("value", message["value"]), *others]
    width = max(len(name) for name, _ in cells)
    for name, value in cells:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield one_line(f"  {name:<{width}}  {'(null)' if value is None else text}")


def _time(time_us: int | None) -> str | None:
    if time_us is None:
        return None
    try:
        return f"{datetime.fromtimestamp(time_us / 1e6, timezone.utc):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    except (ValueError, OverflowError, OSError):  # after the year 9999
        return f"{time_us // 1000} ms"
