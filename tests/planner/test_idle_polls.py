"""Pace of an idle stream."""

from __future__ import annotations

import pytest

from spark_kafkawire.planner.stream_planner import idle_s


@pytest.mark.parametrize(
    ("request_s", "interval_s"), [(0.0, 0.1), (0.005, 0.1), (0.02, 0.4), (0.05, 1.0), (7.0, 1.0)]
)
def test_an_idle_query_asks_less_often_where_asking_takes_longer(request_s: float, interval_s: float) -> None:
    assert idle_s(request_s) == pytest.approx(interval_s)
