"""The order of tests in several test processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .schedule import schedule


def test_each_part_begins_with_long_ones_and_keeps_the_order_of_the_rest() -> None:
    assert schedule("abCdeFgHij", str.isupper, 3) == [*"Cab", *"Fde", *"Hgij"]


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7])
@given(items=st.lists(st.integers(), unique=True))
def test_nothing_is_left_out_or_doubled(processes: int, items: list[int]) -> None:
    ordered = schedule(items, lambda number: number % 3 == 0, processes)
    assert sorted(ordered) == sorted(items)
