"""``--only scale``: the curves, and a short run of each measure."""

from __future__ import annotations

import pytest

from tests.support.fake_cluster import FakeCluster

from .curves import Curve, Point


def curve(power: float, fixed_s: float = 0.0) -> Curve:
    works = (10, 100, 1_000, 10_000, 100_000)
    return Curve("m", "partitions", [Point(work, fixed_s + 1e-4 * work**power) for work in works])


def test_the_exponent_is_that_of_the_growth() -> None:
    assert abs(curve(1.0).exponent - 1) < 0.01
    assert abs(curve(2.0).exponent - 2) < 0.01
    assert curve(1.2).figure().reached is False
    assert curve(1.0).figure().reached


def test_fixed_costs_of_small_sizes_do_not_hide_a_quadratic_curve() -> None:
    assert curve(2.0, fixed_s=0.5).figure().reached is False


def test_a_single_point_has_no_growth() -> None:
    assert Curve("m", "rows", [Point(20, 0.1)]).exponent == 0


@pytest.mark.jvm
def test_each_measure_does_its_work_on_a_small_cluster() -> None:
    from .scale import MEASURES

    # Each checks what it has read, written or planned; an idle stream is an idle poll again and again.
    with FakeCluster(partitions=20, brokers=2) as cluster:
        works = {
            name: measure.least(cluster, 1).work
            for name, measure in MEASURES.items()
            if name != "idle-stream"
        }
    assert all(20 <= work <= 40 for work in works.values()), works
