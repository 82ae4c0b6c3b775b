"""``make bench-scale``: the curves, and a short run of all measures."""

from __future__ import annotations

import pytest

from .curves import Curve, Point


def curve(power: float, fixed_s: float = 0.0) -> Curve:
    works = (10, 100, 1_000, 10_000, 100_000)
    return Curve("m", "partitions", [Point(work, fixed_s + 1e-4 * work**power) for work in works])


def test_the_exponent_is_that_of_the_growth() -> None:
    assert abs(curve(1.0).exponent - 1) < 0.01
    assert abs(curve(2.0).exponent - 2) < 0.01
    assert curve(1.2).is_steep
    assert not curve(1.0).is_steep


def test_fixed_costs_of_small_sizes_do_not_hide_a_quadratic_curve() -> None:
    assert curve(2.0, fixed_s=0.5).is_steep


def test_a_single_point_has_no_growth() -> None:
    assert Curve("m", "rows", [Point(20, 0.1)]).exponent == 0


@pytest.mark.jvm
def test_a_short_run_prints_each_measure_with_its_exponent(capsys: pytest.CaptureFixture[str]) -> None:
    from .__main__ import main
    from .measures import MEASURES

    assert main(["--max", "1000", "--brokers-max", "10", "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    for name in MEASURES:
        assert f"| {name} | 1,000 " in printed or f"| {name} | 2,000 " in printed
        assert f"| {name}, 1,000 partitions | 10 brokers |" in printed
