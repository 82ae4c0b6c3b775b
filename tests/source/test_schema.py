"""Schemas of users: those that are projections of the source's columns."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType

from spark_kafkawire.errors import OptionError
from spark_kafkawire.source.schema import (
    HEADERS_FIELD,
    LAYOUT_FIELD,
    MISPLACED_FIELD,
    V07_SCHEMA,
    check_read_schema,
)

COLUMNS = StructType([*V07_SCHEMA.fields, HEADERS_FIELD, LAYOUT_FIELD, MISPLACED_FIELD])
NEVER_NULL = ["topic", "partition", "offset", "timestampType", "broker", "index", "nextOffset", "layout"]
MAY_BE_NULL = ["key", "value", "timestamp", "headers", "misplaced"]
HEADERS_WITHOUT_NULLS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())]), containsNull=False
)


def check(name: str, of_type: DataType, nullable: bool) -> None:
    check_read_schema(StructType([StructField(name, of_type, nullable)]), COLUMNS)


def test_every_column_may_hold_nulls_or_never_does() -> None:
    assert sorted(COLUMNS.fieldNames()) == sorted(NEVER_NULL + MAY_BE_NULL)


@pytest.mark.parametrize("name", NEVER_NULL)
def test_a_column_without_nulls_may_be_declared_so(name: str) -> None:
    check(name, COLUMNS[name].dataType, nullable=False)


# Spark makes a NullPointerException of a tombstone, and 1970 of a record without a timestamp.
@pytest.mark.parametrize("name", MAY_BE_NULL)
def test_a_column_with_nulls_may_not_be_declared_without(name: str) -> None:
    check(name, COLUMNS[name].dataType, nullable=True)
    with pytest.raises(OptionError, match=rf"^schema: column '{name}' may hold nulls; leave NOT NULL out$"):
        check(name, COLUMNS[name].dataType, nullable=False)


def test_the_headers_of_a_record_may_not_be_declared_without_nulls() -> None:
    with pytest.raises(OptionError, match="column 'headers' may hold nulls"):
        check("headers", HEADERS_WITHOUT_NULLS, nullable=True)
