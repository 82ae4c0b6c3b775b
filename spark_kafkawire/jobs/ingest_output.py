"""What ``ingest`` writes: the columns of messages, values decoded, in one folder for each batch.

OUTPUT/batch=7/...                        a batch that is whole; readers see a column ``batch``
OUTPUT/_kafkawire/unfinished/7-ATTEMPT    one that is being written; Spark's readers pass over it
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql.functions import col, count, expr, from_json, lit
from pyspark.sql.types import StringType, StructField, StructType

from ..errors import OptionError
from .hadoop_files import Files

HIDDEN: Final = "_kafkawire"
BATCH: Final = "batch"
DECODERS: Final = ("none", "string", "json")
#: Where Spark puts the text of a value that is not JSON of the schema.
CORRUPT: Final = "_corrupt_record"


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How messages are written. ``partition_by`` maps a column's name to the SQL that makes it, or to
    None for a column that is there."""

    path: str
    format: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict)
    decode: str = "none"
    schema: str | None = None
    partition_by: Mapping[str, str | None] = field(default_factory=dict)


def parse_partition_by(arguments: Sequence[str]) -> dict[str, str | None]:
    """``NAME`` and ``NAME=SQL``. Raises ``OptionError`` (fatal)."""
    columns: dict[str, str | None] = {}
    for argument in arguments:
        name, separator, sql = (part.strip() for part in argument.partition("="))
        if not name or (separator and not sql):
            raise OptionError(f"argument --partition-by: {argument!r} is not NAME or NAME=SQL")
        if name == BATCH:
            raise OptionError(f"argument --partition-by: {BATCH!r} is the column of the runs themselves")
        columns[name] = sql or None
    return columns


class Output:
    """Writes batches, each of which is there wholly or not at all. Raises ``FileError`` (fatal)."""

    def __init__(self, files: Files, options: OutputOptions) -> None:
        self._files = files
        self._options = options
        self._unfinished = f"{options.path}/{HIDDEN}/unfinished"

    def holds(self, batch: int) -> bool:
        """Whether the batch is there."""
        return self._files.exists(self._folder(batch))

    def write(self, batch: int, messages: DataFrame, schema: str | None) -> int:
        """Write a batch, and show it in one step; how many messages it has.

        Each attempt has a folder of its own, so that what an earlier one left, or is still writing on
        executors that outlived their driver, is no part of it.
        """
        self._files.remove(self._unfinished)
        attempt = f"{self._unfinished}/{batch}-{uuid.uuid4().hex}"
        observed = Observation()
        frame = decoded(messages, self._options.decode, schema)
        for name, sql in self._options.partition_by.items():
            frame = frame if sql is None else frame.withColumn(name, expr(sql))
        # Counted where nothing is left out yet.
        frame = frame.observe(observed, count(lit(1)).alias("messages"))
        writer = frame.write.format(self._options.format).options(**self._options.format_options)
        writer.partitionBy(*self._options.partition_by).save(attempt)
        self._files.rename(attempt, self._folder(batch))
        return int(observed.get["messages"])

    def _folder(self, batch: int) -> str:
        return f"{self._options.path}/{BATCH}={batch}"


def decoded(messages: DataFrame, decode: str, schema: str | None) -> DataFrame:
    """Messages with key and value as text, or with the value as what its JSON says."""
    if decode == "none":
        return messages
    text = {name: col(name).cast("string") for name in ("key", "value")}
    columns: dict[str, Column] = dict(text)
    if decode == "json":
        assert schema is not None
        fields = StructType.fromJson(json.loads(schema))
        columns["value"] = from_json(text["value"], fields, {"columnNameOfCorruptRecord": CORRUPT})
    return messages.withColumns(columns)


def inferred_schema(spark: SparkSession, messages: DataFrame) -> str:
    """The schema of the JSON in the values, all of which are read, as Spark writes schemas in JSON."""
    text = messages.select(col("value").cast("string").alias("value"))
    return with_corrupt(spark.read.json(text, columnNameOfCorruptRecord=CORRUPT).schema)


def given_schema(ddl: str) -> str:
    """The same for a schema that the user gives (``name string, size long``)."""
    return with_corrupt(StructType.fromDDL(ddl))  # type: ignore[arg-type]


def with_corrupt(schema: StructType) -> str:
    """The schema with a place for the text of what is not JSON of it."""
    fields = [each for each in schema.fields if each.name != CORRUPT]
    return StructType([*fields, StructField(CORRUPT, StringType())]).json()
