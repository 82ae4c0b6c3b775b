"""Pace of an idle stream."""

from __future__ import annotations

import itertools

import pytest

from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import StreamOptions
from spark_kafkawire.planner.stream_offsets import UNPINNED, Position
from spark_kafkawire.planner.stream_planner import POLL_INTERVAL_S, StreamPlanner, idle_s
from tests.support.fake_cluster import TOPIC, FakeCluster


@pytest.mark.parametrize(
    ("request_s", "interval_s"), [(0.0, 0.1), (0.003, 0.1), (0.02, 0.6), (0.04, 1.0), (7.0, 1.0)]
)
def test_an_idle_query_asks_less_often_where_asking_takes_longer(request_s: float, interval_s: float) -> None:
    assert idle_s(request_s) == pytest.approx(interval_s)


@pytest.mark.parametrize(("offset", "request_count"), [(0, 1), (UNPINNED, 2)])
def test_starts_are_asked_for_as_long_as_a_position_is_not_pinned(offset: int, request_count: int) -> None:
    """A start by committed offsets must not be checked against the start of an earlier poll."""
    with FakeCluster(partitions=4, brokers=1) as fake:
        options = {"kafka.bootstrap.servers": fake.bootstrap, "subscribe": TOPIC}
        planner = StreamPlanner(StreamOptions.parse(options), sleep=lambda _: None)
        start = Position({TopicPartition(TOPIC, number): offset for number in range(4)})
        for _ in range(2):
            planner.next(start)
        fake.requests()
        planner.next(start)
        assert fake.requests()["ListOffsets"] == request_count


def test_the_interval_follows_the_work_of_a_poll() -> None:
    ticks, slept = itertools.count(), list[float]()
    with FakeCluster(partitions=4, brokers=1) as fake:
        options = {"kafka.bootstrap.servers": fake.bootstrap, "subscribe": TOPIC}
        planner = StreamPlanner(
            StreamOptions.parse(options), clock=lambda: 0.01 * next(ticks), sleep=slept.append
        )
        start = Position({TopicPartition(TOPIC, number): 0 for number in range(4)})
        for _ in range(3):
            planner.next(start)
    assert slept[-1] > POLL_INTERVAL_S
