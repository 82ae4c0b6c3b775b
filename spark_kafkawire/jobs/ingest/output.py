"""The output of ``ingest``: the columns of messages, values decoded, in one folder for each batch, or in a
table.

    OUTPUT/batch=7/...                        a complete batch; readers see a column ``batch``
    OUTPUT/batch=7/_plan                      the plan of the batch; Spark's readers ignore it
    OUTPUT/_kafkawire/unfinished/7-ATTEMPT    a batch that is being written; Spark's readers ignore it

The plan is the first file of an attempt. If it is missing, the attempt was removed, perhaps after some
of its tasks were done. A batch with another plan belongs to another run.

JSON values become structs without loss of data. Spark's own parser stops after the first JSON value of
a text, and reads an empty text as null. So a separate check finds the texts that are exactly one JSON
value; all other texts are kept as they are.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql.functions import coalesce, col, concat, count, expr, from_json, get, lit, size, struct, when
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType

from spark_kafkawire.changes import schema_of_table
from spark_kafkawire.errors import OptionError, printable, quote
from spark_kafkawire.sinks import Append, append_once
from spark_kafkawire.source.spark_versions import json_texts

from ..arguments import arg, format_option_arg, spark_path
from ..ending import is_of_disk, reason_of
from ..files import FileError, FileSystem, list_numbered, printable_path
from .state import Plan, Remembered

HIDDEN: Final = "_kafkawire"
BATCH: Final = "batch"
_PLAN: Final = "_plan"
_ADVICE: Final = "or of one with another --checkpoint: give each an --output of its own"


_PARQUET: Final = "parquet"


@dataclass(frozen=True, slots=True)
class Table:
    """A table by the name that Spark knows."""

    format: Literal["delta", "iceberg"]
    name: str

    @classmethod
    def of(cls, text: str) -> Table:
        """``delta:NAME`` or ``iceberg:NAME``. Raises ``OptionError`` (fatal)."""
        form, _, name = text.partition(":")
        for known in ("delta", "iceberg"):
            if form == known and name.strip():
                return cls(known, name.strip())
        raise OptionError(
            f"argument --table: {quote(text)} is neither delta:NAME nor iceberg:NAME; correct it"
        )

    def __str__(self) -> str:
        return f"{self.format}:{self.name}"


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Options of the output. ``partition_by`` maps a column's name to the SQL expression that makes it, or to
    None for an existing column."""

    path: str = arg(
        "--output",
        "the folder to write to",
        spark_path,
        required=True,
        one_of="target",
        group="output",
        default="",
    )
    table: Table | None = arg(
        "--table",
        "append to a table of Delta or Iceberg, which exists: delta:NAME or iceberg:NAME; needs --checkpoint",
        metavar="FORMAT:NAME",
        one_of="target",
        make=lambda text: Table.of(text),
    )
    format: str = arg("--format", "a file format of Spark (default: parquet)", default=_PARQUET)
    format_options: Mapping[str, str] = format_option_arg("an option of the format")
    decode: str = arg(
        "--decode",
        "string: key and value become text; json: the value becomes a struct, with invalid JSON in its "
        "field _corrupt_record (default: none)",
        choices=("none", "string", "json"),
        default="none",
    )
    schema: str | None = arg(
        "--schema",
        "the fields of the JSON, such as 'name string, size long' (default: each run infers them from "
        "its messages)",
        metavar="DDL",
    )
    partition_by: Mapping[str, str | None] = arg(
        "--partition-by",
        "write one folder for each value of a column, which may be an SQL expression: "
        "day='to_date(timestamp)'; may be repeated",
        metavar="NAME[=SQL]",
        many=True,
        make=lambda texts: parse_partition_by(texts),
        default=dict,
    )

    def __post_init__(self) -> None:
        """Raises ``OptionError`` (fatal)."""
        if self.table is not None and (self.format_options or self.partition_by or self.format != _PARQUET):
            raise OptionError(
                "argument --table: the table has a format and partitions; leave --format, --format-option "
                "and --partition-by out"
            )
        if self.schema is not None and self.decode != "json":
            raise OptionError("argument --schema needs --decode json; add that, or leave --schema out")
        if not self.format.strip():
            raise OptionError(
                f"argument --format: {quote(self.format)} is not a format of Spark; give one, as parquet"
            )


def parse_partition_by(texts: Sequence[str]) -> dict[str, str | None]:
    """``NAME`` and ``NAME=SQL``. Raises ``OptionError`` (fatal)."""
    columns: dict[str, str | None] = {}
    for text in texts:
        name, separator, sql = (part.strip() for part in text.partition("="))
        if not name or (separator and not sql):
            raise OptionError(f"argument --partition-by: {quote(text)} is not NAME or NAME=SQL; correct it")
        if name.lower() == BATCH:
            raise OptionError(
                f"argument --partition-by: {quote(BATCH)} is the column of the runs themselves; choose "
                "another name"
            )
        columns[name] = sql or None
    return columns


class Output:
    """Writes batches, each in one step: a batch is complete or absent. Raises ``FileError`` (fatal)."""

    def __init__(self, files: FileSystem, options: OutputOptions) -> None:
        self._files = files
        self._options = options
        self._unfinished = f"{options.path}/{HIDDEN}/unfinished"

    def holds(self, plan: Plan) -> bool:
        """True if the plan's batch is there. Raises ``FileError`` also if the folder belongs to another
        plan."""
        folder = self._folder(plan.batch)
        if not self._files.exists(folder):
            return False
        if self._plan_id(folder) != plan.id:
            raise FileError(f"{printable_path(folder)} is another run's, {_ADVICE}")
        return True

    def check(self, newest: Remembered | None, done: Callable[[int], Plan | None]) -> None:
        """Raise ``FileError`` where output and state do not go together."""
        pattern = f"{BATCH}=([0-9]+)"
        batches = [batch for batch, _ in list_numbered(self._files, self._options.path, pattern)]
        there = batches[-1] if batches else -1
        if newest is not None and there == newest.plan.batch:
            self._check_recorded(there, newest.plan)
        else:
            self._check_recorded(there, done(there))
        if newest is not None and (written := newest.plan.batch - (not newest.done)) >= 0:
            self._check_whole(batches, written)

    def _check_whole(self, there: Sequence[int], written: int) -> None:
        """Raise ``FileError`` if a written batch is missing; ``written`` is the number of the last one.

        The oldest ones may have been removed: their rows are no longer needed.
        """
        missing = {*range(min([*there, written]), written + 1)} - {*there}
        if missing:
            batch = min(missing)
            raise FileError(
                f"{printable_path(self._folder(batch))} is missing, and batches up to {written} were written "
                "here: put it back; where its rows were removed on purpose, make the folder again, with a "
                f"copy of the checkpoint's {batch}.done.json as its file {_PLAN}; to read again, give "
                "another --output and another --checkpoint"
            )

    def _check_recorded(self, newest: int, plan: Plan | None) -> None:
        """Raise ``FileError`` if the newest batch was not written by the plan that is recorded for it.

        This finds an output or a state that was restored from an older copy, or that belongs to another run.
        """
        if newest >= 0 and (plan is None or self._plan_id(self._folder(newest)) != plan.id):
            raise FileError(
                f"{printable_path(self._folder(newest))} is of a run that is not recorded, {_ADVICE}"
            )

    def write(self, plan: Plan, messages: DataFrame, schema: str | None) -> int:
        """Write a batch, and show it in one step. Returns the number of its messages.

        Each attempt has its own folder. So a batch contains no files of an earlier attempt, not even of one
        whose executors outlived their driver and still write.
        """
        attempt = self._begun(plan)
        observed = Observation()
        frame = decode_messages(messages, self._options.decode, schema)
        for name, sql in self._options.partition_by.items():
            frame = frame if sql is None else frame.withColumn(name, expr(sql))
        self._check_partition_columns(frame)
        # Counted here, where no row is left out yet.
        frame = frame.observe(observed, count(lit(1)).alias("messages"))
        writer = frame.write.format(self._options.format).options(**self._options.format_options)
        try:
            writer.mode("append").partitionBy(*self._options.partition_by).save(attempt)
        except Py4JJavaError as error:
            if not is_of_disk(error):
                raise
            raise FileError(
                f"{printable_path(self._options.path)}: cannot write: {reason_of(error)}"
            ) from error
        self._show(plan, attempt)
        return int(observed.get["messages"])

    def write_nothing(self, plan: Plan) -> None:
        """Show a batch without messages: its number reveals a state that was restored from an older copy."""
        self._show(plan, self._begun(plan))

    def _begun(self, plan: Plan) -> str:
        """The folder of a new attempt. Folders of earlier attempts are removed."""
        self._files.remove(self._unfinished)
        attempt = f"{self._unfinished}/{plan.batch}-{uuid.uuid4().hex}"
        self._files.make_folder(attempt)
        self._files.create(f"{attempt}/{_PLAN}", plan.to_json())
        return attempt

    def _show(self, plan: Plan, attempt: str) -> None:
        if not self._files.exists(f"{attempt}/{_PLAN}"):
            raise FileError(f"{printable_path(attempt)} was removed by another run, {_ADVICE}")
        # Spark's tasks close their files, but a disk may report a failed write only later.
        self._files.sync(attempt)
        self._files.rename(attempt, self._folder(plan.batch))

    def _check_partition_columns(self, frame: DataFrame) -> None:
        """Raise ``OptionError`` for bytes: a folder's name is text, and no file holds the column."""
        names = {name.lower() for name in self._options.partition_by}
        for column in frame.schema.fields:
            if column.name.lower() in names and isinstance(column.dataType, BinaryType):
                raise OptionError(
                    f"argument --partition-by: {column.name} is bytes, which no folder's name can hold; use "
                    f"--decode string, or a column of text as {column.name}_hex='hex({column.name})'"
                )

    def _plan_id(self, folder: str) -> str | None:
        path = f"{folder}/{_PLAN}"
        return Plan.from_json(self._files.read(path), path).id if self._files.exists(path) else None

    def _folder(self, batch: int) -> str:
        return f"{self._options.path}/{BATCH}={batch}"


class TableOutput:
    """Appends batches to a table of Delta or Iceberg, each in one commit that has its number.

    The table knows a state by the id of its first plan. Raises ``FileError`` (fatal).
    """

    def __init__(self, spark: SparkSession, options: OutputOptions, table: Table) -> None:
        self._spark = spark
        self._options = options
        self._table = table
        self._append: Append | None = None

    def check(self, newest: Remembered | None, done: Callable[[int], Plan | None]) -> None:
        """Raise ``FileError`` if the table has a batch of this state that is not recorded."""
        if newest is None:
            return
        first = newest.plan if newest.plan.batch == 0 else done(0)
        if first is None:
            raise FileError(
                f"0.done.json of the checkpoint is missing, by which {printable(self._table)} knows it: put "
                "the file back"
            )
        result = self._appending(first).newest(self._spark, self._name(first))
        if result is not None and result[0] > newest.plan.batch:
            raise FileError(
                f"{printable(self._table)} has batch {result[0]} of this checkpoint, whose newest record is "
                f"batch {newest.plan.batch}: put the newer records back"
            )

    def holds(self, plan: Plan) -> bool:
        """True if the table is known to have the batch."""
        append = self._appending(plan)
        result = append.newest(self._spark, append.name or "")
        return result is not None and result[0] == plan.batch

    def write(self, plan: Plan, messages: DataFrame, schema: str | None) -> int:
        """Append a batch, with those columns that the table has. Returns the number of its messages."""
        append = self._appending(plan)
        frame = decode_messages(messages, self._options.decode, schema)
        columns = {name.lower() for name in schema_of_table("ingest", self._spark, self._table.name).names}
        append(frame.select(*(name for name in frame.columns if name.lower() in columns)), plan.batch)
        result = append.newest(self._spark, append.name or "")
        return result[1] if result is not None and result[0] == plan.batch else 0

    def write_nothing(self, plan: Plan) -> None:
        """Leave the table as it is."""

    def _appending(self, plan: Plan) -> Append:
        """The function that appends; the first plan that comes names the state."""
        if self._append is None:
            self._append = append_once(self._table.name, format=self._table.format, name=self._name(plan))
        return self._append

    @staticmethod
    def _name(first: Plan) -> str:
        return f"ingest-{first.id}"


def decode_messages(messages: DataFrame, decode: str, schema: str | None) -> DataFrame:
    """Messages with key and value as text, or with the value as the struct of its JSON."""
    if decode == "none":
        return messages
    text = {name: col(name).cast("string") for name in ("key", "value")}
    if decode == "json":
        assert schema is not None
        text["value"] = from_text(text["value"], schema)
    return messages.withColumns(text)


#: Column for the text of a value that is not JSON of the schema.
CORRUPT: Final = "_corrupt_record"
#: Marker that is appended to a text: it comes directly after a value that is the whole text.
_END: Final = "the value ends here"
_CASE_SENSITIVE: Final = "spark.sql.caseSensitive"


def from_text(text: Column, schema: str) -> Column:
    """The struct of a JSON text; null only for null."""
    fields = StructType.fromJson(json.loads(schema))
    parsed = from_json(text, fields, {"columnNameOfCorruptRecord": CORRUPT})
    nothing = [lit(None).cast(item.dataType).alias(item.name) for item in fields if item.name != CORRUPT]
    kept = struct(*nothing, text.alias(CORRUPT))
    return when(_is_one_value(text), parsed).when(text.isNotNull(), kept)


def _is_one_value(text: Column) -> Column:
    values = from_json(concat(lit("["), text, lit(f',"{_END}"]')), "array<string>")
    return coalesce((size(values) == 2) & (get(values, 1) == _END), lit(False))


def infer_schema(spark: SparkSession, messages: DataFrame) -> str:
    """The schema of the JSON in the values, all of which are read, as Spark writes schemas in JSON.

    Raises ``OptionError`` (fatal) for fields that Spark cannot distinguish in a file.
    """
    text = messages.select(col("value").cast("string").alias("value"))
    was = spark.conf.get(_CASE_SENSITIVE)
    # Otherwise Spark drops one of two fields whose names differ only by case.
    spark.conf.set(_CASE_SENSITIVE, "true")
    try:
        result = spark.read.json(json_texts(text), columnNameOfCorruptRecord=CORRUPT).schema
    finally:
        spark.conf.set(_CASE_SENSITIVE, was or "false")
    return with_corrupt(_without_repeats(result))


def given_schema(ddl: str) -> str:
    """The columns for a schema that the user gives (``name string, size long``)."""
    return with_corrupt(StructType.fromDDL(ddl))  # type: ignore[arg-type]


def with_corrupt(schema: StructType) -> str:
    """The schema with a column for texts that are not JSON of this schema."""
    fields = [item for item in schema.fields if item.name != CORRUPT]
    return StructType([*fields, StructField(CORRUPT, StringType())]).json()


def _without_repeats(schema: StructType) -> StructType:
    """The schema with each field once: an object may name one twice, and its last value counts."""
    once: dict[str, DataType] = {}
    for item in schema.fields:
        result = _plain(item.dataType)
        once[item.name] = result if once.get(item.name, result) == result else StringType()
    _check_case(once)
    return StructType([StructField(name, result) for name, result in once.items()])


def _plain(result: DataType) -> DataType:
    if isinstance(result, ArrayType):
        return ArrayType(_plain(result.elementType), result.containsNull)
    return _without_repeats(result) if isinstance(result, StructType) else result


def _check_case(names: Iterable[str]) -> None:
    spellings: dict[str, str] = {}
    for name in names:
        other = spellings.setdefault(name.lower(), name)
        if other != name:
            raise OptionError(
                f"argument --decode: the values' JSON has the fields {quote(other)} and "
                f"{quote(name)}, which Spark cannot tell apart in a file; give a --schema with one of them"
            )
