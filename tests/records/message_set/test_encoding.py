"""Encoding Arrow values: bytes, splitting, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError, RowError
from spark_kafkawire.records.message_set.encoding import EncodedSet, encode, encode_sets
from spark_kafkawire.records.message_set.index import index_messages
from spark_kafkawire.records.public import decode_message_set
from tests.records.message_set.trees import message
from tests.support.cases import for_each

VALUE_LISTS = st.lists(st.binary(max_size=60), max_size=40)
COMPRESSIONS = st.sampled_from(["none", "gzip", "snappy"])


def sets_of(
    values: list[bytes], compression: str = "none", set_bytes_max: int = 10**6, message_size_max: int = 10**6
) -> list[EncodedSet]:
    array = pa.array(values, pa.binary())
    return list(
        encode_sets(
            array, compression=compression, set_bytes_max=set_bytes_max, message_size_max=message_size_max
        )
    )


def decoded(data: Any) -> list[bytes]:
    values: list[bytes] = decode_message_set(data)["value"].to_pylist()
    return values


@pytest.mark.usefixtures("kernels")
@for_each("value_type", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str)
def test_each_value_is_one_message_whatever_the_array_type(value_type: pa.DataType) -> None:
    values = ["", "größe", "x" * 700, "abc"]
    expected = [message(value.encode()) for value in values]
    array = pa.array(["before", *values, "after"], value_type)
    assert bytes(encode(array[1:5])) == b"".join(expected)
    assert bytes(encode(array[2:3])) == expected[1]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_no_values_make_an_empty_set_and_no_wrapper(compression: str) -> None:
    for array in (pa.array([], pa.binary()), pa.array([b"x"], pa.binary())[1:]):
        assert bytes(encode(array, compression)) == b""
        assert (
            list(encode_sets(array, compression=compression, set_bytes_max=1000, message_size_max=1000)) == []
        )


@given(VALUE_LISTS, COMPRESSIONS)
def test_what_is_encoded_decodes_to_the_same_values(values: list[bytes], compression: str) -> None:
    assert decoded(encode(pa.array(values, pa.binary()), compression)) == values


@given(VALUE_LISTS, COMPRESSIONS, st.integers(1, 500), st.integers(110, 500))
def test_sets_keep_the_order_and_the_limits(
    values: list[bytes], compression: str, set_bytes_max: int, message_size_max: int
) -> None:
    sets = sets_of(values, compression, set_bytes_max, message_size_max)
    assert [value for item in sets for value in decoded(item.data)] == values
    for item in sets:
        content = decoded(item.data)
        assert item.count == len(content) > 0
        assert sum(10 + len(value) for value in content) <= set_bytes_max or item.count == 1
        assert index_messages(item.data).payload_size.max() <= message_size_max


def test_sets_are_as_full_as_they_may_be_and_halved_until_they_fit() -> None:
    assert [item.count for item in sets_of([bytes(90)] * 10, set_bytes_max=300)] == [3, 3, 3, 1]
    assert [item.count for item in sets_of([bytes(90)] * 3, set_bytes_max=299)] == [2, 1]
    values = [random.Random(i).randbytes(100) for i in range(16)]
    sets = sets_of(values, "snappy", message_size_max=600)
    assert [item.count for item in sets] == [4, 4, 4, 4]
    assert [value for item in sets for value in decoded(item.data)] == values


def test_a_value_that_cannot_fit_is_named() -> None:
    sets = [b"small", bytes(1000), b"small", bytes(1001), bytes(2000)]
    assert len(sets_of(sets[:3], message_size_max=1000)) == 1
    with pytest.raises(RowError, match=r"row 3: value of 1001 bytes is larger than message_size_max=1000"):
        encode_sets(pa.array(sets, pa.binary()), set_bytes_max=100, message_size_max=1000, compression="none")
    values = [bytes(5000), b"small", random.Random(1).randbytes(1200)]
    with pytest.raises(RowError, match=r"row 2: value of 1200 bytes is 12\d\d bytes compressed.*1000"):
        sets_of(values, "gzip", message_size_max=1000)
    assert [item.count for item in sets_of(values[:2], "gzip", message_size_max=1000)] == [2]


def test_a_null_is_refused_with_its_row() -> None:
    array = pa.array(["a", None, "b", None])
    with pytest.raises(RowError, match="row 1: value is null"):
        encode(array)
    with pytest.raises(RowError, match="row 1: value is null"):
        encode_sets(array[2:], set_bytes_max=10, message_size_max=10)
    assert decoded(encode(array[2:3])) == [b"b"]


@pytest.mark.parametrize("values", [pa.array([1]), pa.array([["x"]]), pa.array([b"x"], pa.binary(1))])
def test_other_types_are_refused_by_name(values: pa.Array) -> None:
    with pytest.raises(OptionError, match="must be a string or binary"):
        encode(values)


def test_levels_reach_the_codec() -> None:
    array = pa.array([b"some words, " * 500], pa.binary())
    assert len(encode(array, "gzip", 9)) < len(encode(array, "gzip", 1))
    with pytest.raises(OptionError, match="levels"):
        encode(array, "gzip", 10)
    with pytest.raises(OptionError, match="levels"):
        encode(array, "snappy", 1)
