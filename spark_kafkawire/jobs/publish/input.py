"""The input of ``publish``: files of any format of Spark, whose rows become the columns of a write.

rows = messages(frame, MessageColumns(value="body", key="id"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, map_entries, struct, timestamp_millis, to_json
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_kafkawire.errors import OptionError, close_matches, quoted
from spark_kafkawire.source.writer import WriteSchema

from ..arguments import arg, format_option_arg, spark_path
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
            reader = reader.schema(_parsed(self.schema))
        try:
            return reader.load([*self.paths])
        except (Py4JJavaError, PySparkException) as error:
            raise self._refused(error) from error

    def _refused(self, error: Py4JJavaError | PySparkException) -> OptionError:
        reason = reason_of(error) if isinstance(error, Py4JJavaError) else _first_line(error)
        if "DATA_SOURCE_NOT_FOUND" in reason:
            return OptionError(
                f"argument --format: Spark has no format {quoted(self.format)}; give parquet, "
                "json, csv, orc or text; others come with packages"
            )
        return OptionError(
            f"argument --input: cannot be read with --format {self.format}, and --format-option and --schema "
            f"as they are: {reason}"
        )


def _parsed(ddl: str) -> StructType:
    problem = "it is empty"
    try:
        if isinstance(schema := StructType.fromDDL(ddl), StructType) and schema.fields:
            return schema
    except (ParseException, IllegalArgumentException) as error:
        problem = _first_line(error)
    raise OptionError(
        f"argument --schema: {quoted(ddl)} is not columns with types, as 'id long, body string': {problem}"
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
_Make = Callable[[Column, DataType], Column | None]


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
        _made(frame, "value", columns.value, _text) if columns.value else to_json(struct("*")).alias("value")
    ]
    for name, given, make in (
        ("key", columns.key, _text),
        ("partition", columns.partition, _int),
        ("broker", columns.broker, _int),
        ("headers", columns.headers, _headers),
        ("timestamp", columns.timestamp, _timestamp),
        ("topic", columns.topic, _text),
    ):
        if given is not None:
            made.append(_made(frame, name, given, make))
    return frame.select(*made)


def _made(frame: DataFrame, name: str, given: str, make: _Make) -> Column:
    if given not in frame.columns:
        close = close_matches(given, frame.columns, 1)
        hint = f"did you mean {quoted(close[0])}?" if close else f"there are {', '.join(frame.columns)}"
        raise OptionError(f"argument --{name}-column: there is no column {quoted(given)}; {hint}")
    data_type = frame.schema[given].dataType
    column = make(col(f"`{given.replace('`', '``')}`"), data_type)
    if column is None:
        raise OptionError(
            f"argument --{name}-column: {quoted(given)} is {data_type.simpleString()}, and must be "
            f"{_ALLOWED[name]}: cast it"
        )
    return column.alias(name)


def _text(column: Column, data_type: DataType) -> Column | None:
    if isinstance(data_type, StringType | BinaryType):
        return column
    if isinstance(data_type, StructType | ArrayType | MapType):
        return to_json(column)
    return column.cast("string")


def _int(column: Column, data_type: DataType) -> Column | None:
    return column.cast("int") if isinstance(data_type, IntegralType | StringType) else None


def _headers(column: Column, data_type: DataType) -> Column | None:
    if isinstance(data_type, MapType):
        if not isinstance(data_type.valueType, BinaryType):
            column = column.cast("map<string,string>")
        return map_entries(column).cast(_HEADERS)
    pair = data_type.elementType if isinstance(data_type, ArrayType) else None
    is_pair = isinstance(pair, StructType) and pair.fieldNames() == ["key", "value"]
    return column.cast(_HEADERS) if is_pair else None


def _timestamp(column: Column, data_type: DataType) -> Column | None:
    if isinstance(data_type, IntegralType):
        return timestamp_millis(column)
    if isinstance(data_type, TimestampType | TimestampNTZType | DateType | StringType):
        return column.cast("timestamp")
    return None
