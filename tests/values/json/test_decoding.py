"""Decoded JSON: equal to that of Python's json; bad messages are faults, and spoil no other."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records import compiler
from spark_kafkawire.values.faults import Decoded, Fault
from spark_kafkawire.values.json import kernels
from spark_kafkawire.values.json.decoding import Decoder
from spark_kafkawire.values.json.schema import parse
from spark_kafkawire.values.payloads import payloads_of
from tests.support.kernels import interpreted_kernels
from tests.support.short_and_long import short_and_long
from tests.values.json.judge import TYPES, BadValue, judged, plain, texts_of


def decoded(of: pa.DataType, messages: Sequence[bytes | None]) -> Decoded:
    result = Decoder(None, None, of).decode(payloads_of(pa.array(messages, pa.binary())))
    result.column.validate(full=True)
    assert result.column.type == of
    assert len(result.column) == len(messages)
    return result


def same(one: Any, other: Any) -> bool:
    """Equal, NaN to NaN and 0 to -0 not."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def compare(of: pa.DataType, messages: Sequence[bytes]) -> None:
    """Compare values with the judge's, and faults with its refusals."""
    result = decoded(of, messages)
    for row, message in enumerate(messages):
        value, fault = plain(result.column[row]), Fault(int(result.faults[row]))
        try:
            expected = judged(message, of)
        except BadValue:
            assert fault != Fault.NONE, (message, value)
            assert value is None
        else:
            assert fault == Fault.NONE, (message, expected)
            assert same(expected, value), (message, expected, value)


@pytest.fixture(params=["compiled", "interpreted"])
def each_way(request: pytest.FixtureRequest) -> Any:
    if request.param == "interpreted":
        with interpreted_kernels():
            yield
    elif compiler.load():
        yield
    else:
        pytest.skip("numba is switched off")


@short_and_long("count", short=300, long=20_000)
def test_values_are_those_of_pythons_json(count: int, each_way: None) -> None:
    @settings(max_examples=count, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        of = data.draw(TYPES)
        texts = data.draw(st.lists(texts_of(of), min_size=1, max_size=4))
        compare(of, [text.encode("utf-8", "surrogatepass") for text in texts])

    check()


@short_and_long("count", short=300, long=100_000)
def test_a_damaged_message_is_what_pythons_json_makes_of_it(count: int, each_way: None) -> None:
    @settings(max_examples=count, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        of = data.draw(TYPES)
        good = data.draw(texts_of(of)).encode("utf-8", "surrogatepass")
        messages = [good]
        for _ in range(8):
            bad = bytearray(good) or bytearray(1)
            for _ in range(data.draw(st.integers(1, 3))):
                bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
            messages.append(bytes(bad[: data.draw(st.integers(0, len(bad)))]))
        compare(of, [*messages, good])

    check()
