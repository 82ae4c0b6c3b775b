"""The plan of a run of ingest: proportions, cut points, losses, its record; and values of JSON."""

from __future__ import annotations

import json
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.errors import DataLossError, OptionError
from spark_kafkawire.jobs.ingest.json_values import CORRUPT, given_schema, inferred_schema
from spark_kafkawire.jobs.ingest.output import decoded
from spark_kafkawire.jobs.ingest.plan import Plan, limited, next_plan, ranges_to_read
from spark_kafkawire.jobs.state.sealed import StateError
from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition

A, B, C = (TopicPartition("t", partition) for partition in range(3))
OLD = TopicPartition("old-topic", 1, 0)


def bounds(partition: TopicPartition, earliest: int, latest: int, *segment_starts: int) -> PartitionBounds:
    return PartitionBounds(partition, earliest, latest, segment_starts or None)


@pytest.mark.parametrize("schema", [None, '{"type":"struct","fields":[]}'])
def test_a_plan_is_read_as_it_was_recorded(schema: str | None) -> None:
    ranges = (OffsetRange(A, 5, 9), OffsetRange(OLD, 0, 1 << 62))
    plan = Plan(7, ranges, {A: 9, OLD: 1 << 62, C: 3}, schema, ("t 0 is gone",))
    assert Plan.from_json(plan.to_json(), "here") == plan


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"batch": 0}',
        '{"batch": 0, "ranges": {"t": {"x": [0, 1]}}, "positions": {}, "schema": null, "losses": []}',
        '{"batch": 0, "ranges": {"t": {"0": [0]}}, "positions": {}, "schema": null, "losses": []}',
        '{"batch": 0, "ranges": {"t": 1}, "positions": {}, "schema": null, "losses": []}',
    ],
)
def test_what_is_no_plan_is_told_with_its_place(text: str) -> None:
    with pytest.raises(StateError, match=r"^/state/7\.done\.json is not a plan of ingest"):
        Plan.from_json(text, "/state/7.done.json")


def test_ranges_reach_from_where_each_partition_stands_to_its_end() -> None:
    ranges, losses = ranges_to_read([bounds(A, 0, 10), bounds(B, 3, 3)], {A: 4, B: 3}, fail_on_data_loss=True)
    assert (ranges, losses) == ([OffsetRange(A, 4, 10), OffsetRange(B, 3, 3)], {})


@pytest.mark.parametrize(
    ("start", "message"),
    [(2, r"t 0 \[2, 5\) was deleted before"), (11, r"t 0 ends at 10 and was read up to 11")],
)
def test_what_is_gone_is_an_error_unless_the_user_says_otherwise(start: int, message: str) -> None:
    with pytest.raises(DataLossError, match=message):
        ranges_to_read([bounds(A, 5, 10)], {A: start}, fail_on_data_loss=True)
    ranges, losses = ranges_to_read([bounds(A, 5, 10)], {A: start}, fail_on_data_loss=False)
    assert ranges == [OffsetRange(A, 5, 10)]
    assert list(losses) == [A]


@pytest.mark.parametrize(
    ("size_max", "sizes"),
    [(None, [100, 300, 0]), (1000, [100, 300]), (400, [100, 300]), (40, [10, 30]), (3, [1, 2]), (1, [1, 1])],
)
def test_a_limit_is_shared_in_proportion(size_max: int | None, sizes: list[int]) -> None:
    whole = [OffsetRange(A, 10, 110), OffsetRange(B, 0, 300), OffsetRange(C, 7, 7)]
    found = {each.topic_partition: bounds(each.topic_partition, 0, each.stop_offset) for each in whole}
    parts = limited(whole, size_max, found)
    assert [part.size for part in parts] == [size for size in sizes if size]
    assert [part.start_offset for part in parts] == [10, 0]


@pytest.mark.parametrize(
    ("size_max", "stop"), [(1, 400), (399, 400), (400, 400), (699, 400), (700, 700), (999, 700), (1000, 1000)]
)
def test_a_range_of_bytes_ends_where_a_segment_does(size_max: int, stop: int) -> None:
    whole = OffsetRange(OLD, 0, 1000)
    found = {OLD: bounds(OLD, 0, 1000, 0, 400, 700)}
    assert limited([whole], size_max, found) == (OffsetRange(OLD, 0, stop),)


def test_a_partition_of_one_segment_is_read_whole_whatever_the_limit_is() -> None:
    whole = OffsetRange(OLD, 10, 1000)
    assert limited([whole], 1, {OLD: bounds(OLD, 0, 1000, 0)}) == (whole,)


def test_plans_follow_each_other_and_logs_that_are_not_read_keep_their_place() -> None:
    first = next_plan(None, [OffsetRange(A, 0, 5)], {A: 0, B: 3}, None)
    assert (first.batch, first.positions) == (0, {A: 5, B: 3})
    second = next_plan(first, [OffsetRange(C, 2, 4)], {C: 2}, None)
    assert (second.batch, second.positions) == (1, {A: 5, B: 3, C: 4})


def test_what_is_known_of_a_topic_ends_with_it() -> None:
    first = next_plan(None, [OffsetRange(A, 0, 9)], {A: 0, C: 4}, None, (), {"t": "1", "u": "2"})
    assert first.recreated({"t": "1"}) == first.recreated({}) == first.recreated({"new": "3"}) == set()
    assert first.recreated({"t": "3", "u": "2"}) == {"t"}
    second = next_plan(first, [OffsetRange(A, 0, 3)], {A: 0}, None, (), {"t": "3"})
    assert (second.positions, second.topic_ids) == ({A: 3}, {"t": "3", "u": "2"})
    assert Plan.from_json(second.to_json(), "here") == second
    assert first.id != second.id


def test_logs_that_were_given_up_keep_their_place_and_are_remembered() -> None:
    first = next_plan(None, [OffsetRange(OLD, 0, 9)], {OLD: 0, A: 1}, None, gone=[OLD, A])
    assert Plan.from_json(first.to_json(), "here") == first
    assert (first.gone, first.positions[OLD]) == (frozenset((OLD, A)), 9)
    assert "gone" not in json.loads(next_plan(first, [], {}, None).to_json())


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
