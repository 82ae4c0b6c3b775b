"""Values that are JSON, or nearly: what a value held is in its struct, wherever the parser stops."""

from __future__ import annotations

import json
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.ingest.json_values import CORRUPT, given_schema, inferred_schema
from spark_kafkawire.jobs.ingest.output import decoded

#: Not one JSON object, each in another way.
NOT_JSON: Final = (
    "no JSON",
    "",
    " ",
    "null",
    "1",
    '{"n":1',
    '{"n":1} {"n":2}',
    '{"n":1}{"n":2}',
    '{"n":1},{"n":2}',
    '{"n":1},"n":2',
    '{"n":1}}',
    '{"n":1}] and more',
    '[{"n":1}]',
    '{"n":"text"}',
)


def messages_of(spark: SparkSession, *values: str | None) -> DataFrame:
    rows = [(number, None, None if value is None else value.encode()) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, "offset int, key binary, value binary").coalesce(1)


def test_what_is_not_one_json_object_of_the_schema_is_kept_as_it_is(spark: SparkSession) -> None:
    values = (*NOT_JSON, None, '{"n":1}', ' {"n" : 1, "other": "]}"} \n')
    frame = decoded(messages_of(spark, *values), "json", given_schema("n long"))
    found = [row.value for row in frame.orderBy("offset").collect()]
    assert [value and value[CORRUPT] for value in found] == [*NOT_JSON, None, None, None]
    assert [value and value.n for value in found] == [None] * len(NOT_JSON) + [None, 1, 1]


def test_a_field_that_an_object_names_twice_is_one_field(spark: SparkSession) -> None:
    messages = messages_of(spark, '{"n":1,"n":2,"in":[{"a":1,"a":"text"}]}')
    schema = inferred_schema(spark, messages)
    assert [field["name"] for field in json.loads(schema)["fields"]] == ["in", "n", CORRUPT]
    [row] = decoded(messages, "json", schema).select("value.*").collect()
    assert (row.n, row["in"][0].a, row[CORRUPT]) == (2, "text", None)


def test_fields_that_spark_cannot_tell_apart_are_refused_and_not_left_out(spark: SparkSession) -> None:
    messages = messages_of(spark, '{"in":{"a":1}}', '{"in":{"A":2}}')
    with pytest.raises(OptionError, match=r"--decode: .* fields 'A' and 'a', which .* give a --schema with"):
        inferred_schema(spark, messages)
    assert spark.conf.get("spark.sql.caseSensitive") == "false"
