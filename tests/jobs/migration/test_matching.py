"""Columns of values compared and summed, however they are cut."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.jobs.migration.matching import Differs, Present, ValuesDigest
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
