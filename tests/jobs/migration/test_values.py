"""Columns of values compared and summed, and headers with the source of a message."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.jobs.migration.matching import Differs, Present, ValuesDigest
from spark_kafkawire.jobs.migration.source_headers import are_from, headers_of
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.headers import HEADERS
from tests.support.writing import binary

VALUES = st.lists(st.none() | st.binary(max_size=4), max_size=30)


def cut(values: list[bytes | None], places: list[int]) -> list[pa.Array]:
    """The values as slices of one array."""
    array = binary(values)
    stops = sorted({0, len(values), *(place % (len(values) + 1) for place in places)})
    return [array.slice(start, stop - start) for start, stop in pairwise(stops)]


PLACES = st.lists(st.integers(0, 100), max_size=6)


@given(VALUES, PLACES, PLACES, st.integers(0, 30))
def test_what_is_there_is_matched_whatever_pieces_both_sides_come_in(
    values: list[bytes | None], source: list[int], target: list[int], there: int
) -> None:
    there = min(there, len(values))
    present = Present(cut(values[:there], target))
    assert sum(present.match(chunk) for chunk in cut(values, source)) == there
    assert present.is_exhausted
    assert present.matched_count == there


@given(VALUES, PLACES, PLACES, st.data())
def test_the_first_row_that_differs_is_named(
    values: list[bytes | None], source: list[int], target: list[int], data: st.DataObject
) -> None:
    if not values:
        return
    row = data.draw(st.integers(0, len(values) - 1))
    changed = [*values[:row], b"another", *values[row + 1 :]]
    present = Present(cut(changed, target))
    with pytest.raises(Differs) as caught:
        sum(present.match(chunk) for chunk in cut(values, source))
    assert caught.value.row == row


def test_more_than_the_source_has_is_left() -> None:
    present = Present([binary([b"a", b"b"])])
    assert present.match(binary([b"a"])) == 1
    assert not present.is_exhausted


@given(VALUES, PLACES, PLACES)
def test_a_digest_does_not_depend_on_the_cuts(
    values: list[bytes | None], one: list[int], other: list[int]
) -> None:
    digests = [ValuesDigest(), ValuesDigest()]
    for digest, places in zip(digests, (one, other), strict=True):
        for chunk in cut(values, places):
            digest.update(chunk)
        assert digest.count == len(values)
    assert digests[0].sha256 == digests[1].sha256


@given(VALUES, VALUES)
def test_different_values_have_different_digests(
    values: list[bytes | None], others: list[bytes | None]
) -> None:
    digests = [ValuesDigest(), ValuesDigest()]
    for digest, column in zip(digests, (values, others), strict=True):
        digest.update(binary(column))
    assert (digests[0].sha256 == digests[1].sha256) == (values == others)


ORIGIN = TopicPartition("größe", 2, 7)


def made(partition: TopicPartition = ORIGIN) -> pa.ListArray:
    return headers_of(partition, Columns(np.array([0, 90, 90]), np.array([0, 0, 1], np.int32)))


def test_headers_name_the_place_in_the_source() -> None:
    column = made()
    assert column.type == HEADERS
    assert [{pair["key"]: pair["value"] for pair in row} for row in column.to_pylist()] == [
        {
            "source.topic": "größe".encode(),
            "source.broker": b"7",
            "source.partition": b"2",
            "source.offset": offset,
            "source.index": index,
        }
        for offset, index in ((b"0", b"0"), (b"90", b"0"), (b"90", b"1"))
    ]


@pytest.mark.parametrize(
    "other", [TopicPartition("other", 2, 7), TopicPartition("größe", 1, 7), TopicPartition("größe", 2, 0)]
)
def test_messages_of_other_partitions_are_not_from_this_one(other: TopicPartition) -> None:
    both = pa.concat_arrays([made(), made(other), made()])
    assert are_from(ORIGIN, both, 9).to_pylist() == [True] * 3 + [False] * 3 + [True] * 3
    assert are_from(ORIGIN, both.slice(2, 5), 5).to_pylist() == [True, False, False, False, True]


def test_messages_without_such_headers_are_from_nowhere() -> None:
    foreign = pa.array([None, [], [("source.topic", "größe".encode())], [("source.topic", None)]], HEADERS)
    assert are_from(ORIGIN, foreign, 4).to_pylist() == [False] * 4
    assert are_from(ORIGIN, None, 2).to_pylist() == [False, False]
    assert are_from(ORIGIN, foreign.slice(0, 0), 0).to_pylist() == []
