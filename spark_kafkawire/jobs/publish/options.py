"""Options of a publication, parsed once, before Spark starts; and its input: files of any format of Spark,
whose rows become the columns of a write.

    rows = messages(frame, MessageColumns(value="body", key="id"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.functions import col, map_entries, struct, timestamp_millis, to_json

from spark_kafkawire.errors import OptionError, close_matches, quote
from spark_kafkawire.options import ReadOptions, WriteOptions, reading_options
from spark_kafkawire.options.delivery import ACKS_OF
from spark_kafkawire.source.writer import WRITE_SCHEMAS, WriteSchema

from ..arguments import (
    TRANSACTION_OPTIONS,
    arg,
    check_needs,
    connection_args,
    exactly_once_options,
    flag,
    format_option_arg,
    nest_options,
    positive,
    spark_path,
)
from ..ending import reason_of


@dataclass(frozen=True, slots=True)
class Input:
    """Files or folders and how Spark reads them; ``schema`` is DDL."""

    paths: Sequence[str] = arg(
        "--input",
        "a file or folder; may be repeated",
        spark_path,
        many=True,
        required=True,
        metavar="PATH",
        group="input",
    )
    format: str = arg("--format", "a file format of Spark (default: parquet)", default="parquet")
    format_options: Mapping[str, str] = format_option_arg(
        "an option of the format, such as header=true for csv; may be repeated"
    )
    schema: str | None = arg(
        "--schema",
        "the columns of the input, such as 'id long, body string' (default: Spark infers them)",
        metavar="DDL",
    )

    def load(self, spark: SparkSession) -> DataFrame:
        """The rows. Raises ``OptionError`` (fatal) that names the argument at fault."""
        reader = spark.read.format(self.format).options(**self.format_options)
        if self.schema is not None:
            reader = reader.schema(_parse_ddl(self.schema))
        try:
            return reader.load([*self.paths])
        except (Py4JJavaError, PySparkException) as error:
            raise self._refuse(error) from error

    def _refuse(self, error: Py4JJavaError | PySparkException) -> OptionError:
        reason = reason_of(error) if isinstance(error, Py4JJavaError) else _first_line(error)
        if "DATA_SOURCE_NOT_FOUND" in reason:
            return OptionError(
                f"argument --format: Spark has no format {quote(self.format)}; give parquet, "
                "json, csv, orc or text; others come with packages"
            )
        return OptionError(
            f"argument --input: cannot be read with --format {self.format}, and --format-option and --schema "
            f"as they are: {reason}"
        )


def _parse_ddl(ddl: str) -> T.StructType:
    problem = "it is empty"
    try:
        if isinstance(schema := T.StructType.fromDDL(ddl), T.StructType) and schema.fields:
            return schema
    except (ParseException, IllegalArgumentException) as error:
        problem = _first_line(error)
    raise OptionError(
        f"argument --schema: {quote(ddl)} is not columns with types, as 'id long, body string': {problem}"
    )


def _first_line(error: PySparkException) -> str:
    return str(error).strip().partition("\n")[0]


_HEADERS: Final = "array<struct<key:string,value:binary>>"
#: Types that the column of an argument may have, for arguments that do not take every type.
_ALLOWED: Final = {
    "partition": "a whole number",
    "broker": "a whole number",
    "headers": "a map, or an array of structs of key and value",
    "timestamp": "a timestamp, its text, or a whole number of milliseconds since 1970",
}

#: A function that converts a column of some type to a column of a write; None if it cannot.
_Make = Callable[[Column, T.DataType], Column | None]


def _column(name: str, text: str, group: str = "") -> Any:
    return arg(f"--{name}-column", text, metavar="NAME", group=group)


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """The columns that messages are made of; without ``value`` a message is the whole row as JSON."""

    value: str | None = _column("value", "the value (default: the whole row as JSON)", group="messages")
    key: str | None = _column("key", "the key")
    partition: str | None = _column("partition", "the partition number; null: chosen by the key")
    broker: str | None = _column("broker", "the broker's id, with --partition-column (0.7)")
    headers: str | None = _column("headers", "the headers: a map, or an array of structs with key and value")
    timestamp: str | None = _column(
        "timestamp", "the timestamp: a timestamp or its text, or milliseconds since 1970"
    )
    topic: str | None = None

    def check(self, schema: WriteSchema) -> None:
        """Raise ``OptionError`` (fatal) for a column that these brokers do not support."""
        for own in fields(self):
            if getattr(self, own.name) is not None and own.name not in schema.columns:
                raise OptionError(
                    f"argument --{own.name}-column: Kafka {schema.generation.value} has no {own.name} of "
                    "a message; leave it out"
                )


def messages(frame: DataFrame, columns: MessageColumns) -> DataFrame:
    """The frame as the columns of a write: ``value``, and those that are named.

    Keys and values are text or bytes as they are, structs, arrays and maps are JSON, and other
    types are their text. Partitions are cast to int. Headers may be a map, too. Timestamps may be
    numbers, milliseconds since 1970. Raises ``OptionError`` (fatal) for a column that is missing or cannot be
    converted.
    """
    made = [
        _make_column(frame, "value", columns.value, _text)
        if columns.value
        else to_json(struct("*")).alias("value")
    ]
    for name, make in _MAKERS.items():
        if (given := getattr(columns, name)) is not None:
            made.append(_make_column(frame, name, given, make))
    return frame.select(*made)


def _make_column(frame: DataFrame, name: str, given: str, make: _Make) -> Column:
    if given not in frame.columns:
        close = close_matches(given, frame.columns, 1)
        hint = f"did you mean {quote(close[0])}?" if close else f"there are {', '.join(frame.columns)}"
        raise OptionError(f"argument --{name}-column: there is no column {quote(given)}; {hint}")
    data_type = frame.schema[given].dataType
    column = make(col(f"`{given.replace('`', '``')}`"), data_type)
    if column is None:
        raise OptionError(
            f"argument --{name}-column: {quote(given)} is {data_type.simpleString()}, and must be "
            f"{_ALLOWED[name]}: cast it"
        )
    return column.alias(name)


def _text(column: Column, data_type: T.DataType) -> Column | None:
    if isinstance(data_type, T.StringType | T.BinaryType):
        return column
    if isinstance(data_type, T.StructType | T.ArrayType | T.MapType):
        return to_json(column)
    return column.cast("string")


def _int(column: Column, data_type: T.DataType) -> Column | None:
    return column.cast("int") if isinstance(data_type, T.IntegralType | T.StringType) else None


def _headers(column: Column, data_type: T.DataType) -> Column | None:
    if isinstance(data_type, T.MapType):
        if not isinstance(data_type.valueType, T.BinaryType):
            column = column.cast("map<string,string>")
        return map_entries(column).cast(_HEADERS)
    pair = data_type.elementType if isinstance(data_type, T.ArrayType) else None
    is_pair = isinstance(pair, T.StructType) and pair.fieldNames() == ["key", "value"]
    return column.cast(_HEADERS) if is_pair else None


def _timestamp(column: Column, data_type: T.DataType) -> Column | None:
    if isinstance(data_type, T.IntegralType):
        return timestamp_millis(column)
    if isinstance(data_type, T.TimestampType | T.TimestampNTZType | T.DateType | T.StringType):
        return column.cast("timestamp")
    return None


#: The functions of optional columns.
_MAKERS: Final[Mapping[str, _Make]] = {
    "key": _text,
    "partition": _int,
    "broker": _int,
    "headers": _headers,
    "timestamp": _timestamp,
    "topic": _text,
}
_ACKS: Final = ("acks", "kafka.acks")
#: Seconds without new messages before partitions are compared: a 0.7 broker flushes after 3 s, and checks for
#: that every 3 s.
SETTLE_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Options of a run, of which ``connection`` are those of the data source. Raises ``OptionError`` (fatal).

    ``write`` are the parsed options. With the ``folder`` of a state, ``reading`` are the options for Spark to
    read the partitions back, and ``read`` the same parsed. Both select no topics yet.
    """

    topic: str | None = arg("--topic", "the topic to write to", one_of="topic", required=True)
    topic_column: str | None = arg(
        "--topic-column", "the column with the topic of each row", metavar="NAME", one_of="topic"
    )
    folder: str | None = arg(
        "--state",
        "record what is published in this folder, on any file system that Spark supports; use a new "
        "folder for each input",
        spark_path,
        group="each row once, also after a killed run",
    )
    settle_s: float | None = arg(
        "--settle-seconds",
        "with --state: how long the topic must be idle before a run looks for the messages of a killed "
        f"one (default: {SETTLE_S:g}); six times that if other programs write to it; for 0.7 longer than the "
        "brokers' flush interval",
        positive,
        needs=("folder",),
    )
    exactly_once: bool = flag(
        "--exactly-once", "write in transactions: readers see all rows once, or none (Kafka 0.11 or later)"
    )
    transactional_id: str | None = arg(
        "--transactional-id",
        "with --exactly-once: the kafka.transactional.id of this write, which no other program may use "
        "(default: a name that --state generates)",
        metavar="NAME",
        needs=("exactly_once",),
    )
    connection: Mapping[str, str] = connection_args(
        refuses={
            **TRANSACTION_OPTIONS,
            "batch": TRANSACTION_OPTIONS["delivery"],
            "topic": "is not an option here; set --topic or --topic-column",
        }
    )
    write: WriteOptions = field(init=False)
    reading: Mapping[str, str] = field(init=False, repr=False, default_factory=dict)
    read: ReadOptions | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.exactly_once:
            self._check_exactly_once()
        check_needs(self)
        given = {**self.connection, **({} if self.topic is None else {"topic": self.topic})}
        write = WriteOptions.parse({**given, **exactly_once_options(self)})
        if self.folder is not None:
            if not self.exactly_once:
                write = _findable(write, is_given=any(name.lower() in _ACKS for name in given))
            reading = reading_options(given)
            if "headers" in WRITE_SCHEMAS[write.discovery.generation].stored:
                reading["includeHeaders"] = "true"
            object.__setattr__(self, "reading", reading)
            object.__setattr__(self, "read", ReadOptions.parse({**reading, "subscribe": "any"}))
        object.__setattr__(self, "write", write)

    def _check_exactly_once(self) -> None:
        if self.folder is None and self.transactional_id is None:
            raise OptionError(
                "argument --exactly-once needs --state or --transactional-id, by which the next run finds "
                "what a killed one left"
            )
        if self.settle_s is not None:
            raise OptionError(
                "argument --settle-seconds: with --exactly-once nothing is waited for; leave it out"
            )

    @property
    def schema(self) -> WriteSchema:
        """The columns that the brokers take."""
        return WRITE_SCHEMAS[self.write.discovery.generation]


@dataclass(frozen=True, slots=True)
class PublishArguments:
    """All arguments of the job. Raises ``OptionError`` (fatal)."""

    input: Input = nest_options(Input)
    columns: MessageColumns = nest_options(MessageColumns)
    options: PublishOptions = nest_options(PublishOptions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", replace(self.columns, topic=self.options.topic_column))
        self.columns.check(self.options.schema)


def _findable(write: WriteOptions, *, is_given: bool) -> WriteOptions:
    """The options with the ``acks`` that a state needs."""
    needed = ACKS_OF[write.discovery.generation].safest
    if write.acks != needed and is_given:
        raise OptionError(
            f"option acks: with --state it is {needed}, by which rows are found again; leave it out"
        )
    # Only 0.7 has another default, and nothing else there depends on it.
    return replace(write, acks=needed)
