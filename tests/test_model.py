"""The shared nouns: their names, their order, their invariants."""

from __future__ import annotations

import pickle
from typing import Final

import pytest

from spark_kafkawire.model import Broker, ClusterView, OffsetRange, TopicPartition

LOG: Final = TopicPartition("debian-gzip", 1, 0)
VIEW: Final = ClusterView(
    brokers=(Broker(0, "a", 9092), Broker(2, "b", 9092)),
    logs=(TopicPartition("t", 0, 0), TopicPartition("t", 0, 1), TopicPartition("u", 3, 2)),
)


def test_a_log_of_07_is_named_by_broker_and_partition() -> None:
    assert (LOG.name, str(LOG)) == ("0-1", "debian-gzip 0-1")


def test_a_later_log_is_named_by_partition_alone() -> None:
    assert (TopicPartition("t", 4).name, str(TopicPartition("t", 4))) == ("4", "t 4")


def test_logs_are_ordered_by_topic_partition_and_broker() -> None:
    logs = [
        TopicPartition("b", 0, 0),
        TopicPartition("a", 10, 0),
        TopicPartition("a", 2, 1),
        TopicPartition("a", 2, 0),
    ]
    assert [f"{log}" for log in sorted(logs)] == ["a 0-2", "a 1-2", "a 0-10", "b 0-0"]


def test_a_range_is_half_open() -> None:
    part = OffsetRange(LOG, 10, 30)
    assert part.size == 20
    assert str(part) == "debian-gzip 0-1 [10, 30)"
    assert OffsetRange(LOG, 10, 10).size == 0


def test_a_range_that_runs_backwards_is_our_own_bug() -> None:
    with pytest.raises(AssertionError, match="range of debian-gzip 0-1 runs backwards"):
        OffsetRange(LOG, 11, 10)


def test_a_view_knows_live_brokers_and_all_logs() -> None:
    assert VIEW.broker(2) == Broker(2, "b", 9092)
    assert VIEW.broker(1) is None
    assert VIEW.topics == ("t", "u")
    assert VIEW.logs_of("t") == VIEW.logs[:2]
    assert VIEW.logs_of("v") == ()


def test_a_broker_names_its_address() -> None:
    assert str(Broker(3, "h", 9092)) == "broker 3 (h:9092)"


@pytest.mark.parametrize("value", [LOG, OffsetRange(LOG, 1, 2), VIEW, Broker(1, "h", 1)])
def test_the_nouns_travel_by_pickle(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
