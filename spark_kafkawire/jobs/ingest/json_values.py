"""Conversion of JSON values to structs for ``ingest``, without loss of data.

Spark's own parser stops after the first JSON value of a text, and reads an empty text as null. So a separate
check finds the texts that are exactly one JSON value; all other texts are kept as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, concat, from_json, get, lit, size, struct, when
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.source.spark_versions import json_texts

#: Column for the text of a value that is not JSON of the schema.
CORRUPT: Final = "_corrupt_record"
#: Marker that is appended to a text: it comes directly after a value that is the whole text.
_END: Final = "the value ends here"
_CASE_SENSITIVE: Final = "spark.sql.caseSensitive"


def from_text(text: Column, schema: str) -> Column:
    """The struct of a JSON text; null only for null."""
    fields = StructType.fromJson(json.loads(schema))
    parsed = from_json(text, fields, {"columnNameOfCorruptRecord": CORRUPT})
    nothing = [lit(None).cast(each.dataType).alias(each.name) for each in fields if each.name != CORRUPT]
    kept = struct(*nothing, text.alias(CORRUPT))
    return when(_is_one_value(text), parsed).when(text.isNotNull(), kept)


def _is_one_value(text: Column) -> Column:
    values = from_json(concat(lit("["), text, lit(f',"{_END}"]')), "array<string>")
    return coalesce((size(values) == 2) & (get(values, 1) == _END), lit(False))


def inferred_schema(spark: SparkSession, messages: DataFrame) -> str:
    """The schema of the JSON in the values, all of which are read, as Spark writes schemas in JSON.

    Raises ``OptionError`` (fatal) for fields that Spark cannot distinguish in a file.
    """
    text = messages.select(col("value").cast("string").alias("value"))
    was = spark.conf.get(_CASE_SENSITIVE)
    # Otherwise Spark drops one of two fields whose names differ only by case.
    spark.conf.set(_CASE_SENSITIVE, "true")
    try:
        found = spark.read.json(json_texts(text), columnNameOfCorruptRecord=CORRUPT).schema
    finally:
        spark.conf.set(_CASE_SENSITIVE, was or "false")
    return with_corrupt(_without_repeats(found))


def given_schema(ddl: str) -> str:
    """The columns for a schema that the user gives (``name string, size long``)."""
    return with_corrupt(StructType.fromDDL(ddl))  # type: ignore[arg-type]


def with_corrupt(schema: StructType) -> str:
    """The schema with a column for texts that are not JSON of this schema."""
    fields = [each for each in schema.fields if each.name != CORRUPT]
    return StructType([*fields, StructField(CORRUPT, StringType())]).json()


def _without_repeats(schema: StructType) -> StructType:
    """The schema with each field once: an object may name one twice, and its last value counts."""
    once: dict[str, DataType] = {}
    for each in schema.fields:
        found = _plain(each.dataType)
        once[each.name] = found if once.get(each.name, found) == found else StringType()
    _check_case(once)
    return StructType([StructField(name, found) for name, found in once.items()])


def _plain(found: DataType) -> DataType:
    if isinstance(found, ArrayType):
        return ArrayType(_plain(found.elementType), found.containsNull)
    return _without_repeats(found) if isinstance(found, StructType) else found


def _check_case(names: Iterable[str]) -> None:
    spellings: dict[str, str] = {}
    for name in names:
        other = spellings.setdefault(name.lower(), name)
        if other != name:
            raise OptionError(
                f"argument --decode: the values' JSON has the fields {quoted(other)} and "
                f"{quoted(name)}, which Spark cannot tell apart in a file; give a --schema with one of them"
            )
