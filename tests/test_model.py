"""The shared data types: their names, their order, their invariants."""

from __future__ import annotations

import pickle
from typing import Final

import pytest

from spark_kafkawire.model import Broker, ClusterView, OffsetRange, TopicPartition

PARTITION: Final = TopicPartition("debian-gzip", 1, 0)
VIEW: Final = ClusterView(
    brokers=(Broker(0, "a", 9092), Broker(2, "b", 9092)),
    partitions=(TopicPartition("t", 0, 0), TopicPartition("t", 0, 1), TopicPartition("u", 3, 2)),
)


def test_a_partition_of_07_is_named_by_broker_and_partition() -> None:
    assert (PARTITION.name, str(PARTITION)) == ("0-1", "debian-gzip 0-1")


def test_a_later_log_is_named_by_partition_alone() -> None:
    assert (TopicPartition("t", 4).name, str(TopicPartition("t", 4))) == ("4", "t 4")


def test_logs_are_ordered_by_topic_partition_and_broker() -> None:
    partitions = [
        TopicPartition("b", 0, 0),
        TopicPartition("a", 10, 0),
        TopicPartition("a", 2, 1),
        TopicPartition("a", 2, 0),
    ]
    assert [f"{tp}" for tp in sorted(partitions)] == ["a 0-2", "a 1-2", "a 0-10", "b 0-0"]


def test_a_range_is_half_open() -> None:
    part = OffsetRange(PARTITION, 10, 30)
    assert part.size == 20
    assert str(part) == "debian-gzip 0-1 [10, 30)"
    assert OffsetRange(PARTITION, 10, 10).size == 0


def test_a_range_that_runs_backwards_is_our_own_bug() -> None:
    with pytest.raises(AssertionError, match="range of debian-gzip 0-1 runs backwards"):
        OffsetRange(PARTITION, 11, 10)


def test_a_view_knows_live_brokers_and_all_partitions() -> None:
    assert VIEW.broker(2) == Broker(2, "b", 9092)
    assert VIEW.broker(1) is None
    assert VIEW.topics == ("t", "u")
    assert VIEW.partitions_of("t") == VIEW.partitions[:2]
    assert VIEW.partitions_of("v") == ()


def test_a_broker_names_its_address() -> None:
    assert str(Broker(3, "h", 9092)) == "broker 3 (h:9092)"


@pytest.mark.parametrize("value", [PARTITION, OffsetRange(PARTITION, 1, 2), VIEW, Broker(1, "h", 1)])
def test_the_nouns_travel_by_pickle(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
