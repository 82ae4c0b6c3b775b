"""A 0.7 cluster as a read asks it: which segments belong to a timestamp."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.cluster.v07.segments import start_offset, stop_offset
from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Leader, PartitionBounds, TopicPartition
from spark_kafkawire.options import Discovery, StreamOptions
from spark_kafkawire.planner.stream_offsets import Position
from spark_kafkawire.planner.stream_planner import StreamPlanner
from tests.support.embedded import StartBroker
from tests.support.settings import net_07
from tests.support.writing import broker_of

from .producing import produce

PARTITION = TopicPartition("t", 1, 0)
FOUND = PartitionBounds(PARTITION, earliest=100, latest=1000, segment_starts=(100, 400, 700))


@pytest.mark.parametrize(("older", "expected"), [((), 100), ((100,), 400), ((100, 400), 700)])
def test_a_start_is_the_first_segment_that_may_be_young_enough(older: tuple[int, ...], expected: int) -> None:
    assert start_offset(FOUND, older) == expected


@pytest.mark.parametrize("older", [(100, 400, 700), (100, 400, 700, 1000), (100, 400, 700, 1200)])
def test_a_start_after_the_last_message_is_none(older: tuple[int, ...]) -> None:
    assert start_offset(FOUND, older) is None


@pytest.mark.parametrize(
    ("older", "expected"), [((), 400), ((100,), 700), ((100, 400), None), ((100, 400, 700), None)]
)
def test_an_end_is_behind_the_segment_that_reaches_it(older: tuple[int, ...], expected: int | None) -> None:
    assert stop_offset(FOUND, older) == expected


def test_file_times_cut_to_seconds_lose_no_message(start_broker: StartBroker, tmp_path: Path) -> None:
    # Written at 5.9 s, the file may say 5.0 s: a start at 5.5 s must not count it as older.
    server = start_broker(0, {"log.file.size": "5"})
    produce(server, "t", 0)
    produce(server, "t", 0)
    for file in (tmp_path / "broker-0" / "t-0").iterdir():
        os.utime(file, (5, 5))
    partition = TopicPartition("t", 0, 0)
    cluster = V07Cluster(Discovery(broker_list=(broker_of(server),)), net_07())
    bounds = cluster.bounds([partition])
    assert cluster.start_offsets({partition: 5_500}, bounds) == {partition: 0}
    assert cluster.start_offsets({partition: 6_000}, bounds) == {partition: None}
    assert cluster.stop_offsets({partition: 5_500}, bounds) == {partition: None}
    starts = bounds[partition].segment_starts or ()
    assert cluster.stop_offsets({partition: 4_500}, bounds) == {partition: starts[1]}


def test_a_task_knows_its_broker_without_discovery(start_broker: StartBroker) -> None:
    broker = broker_of(start_broker(0))
    cluster = V07Cluster(Discovery(zookeeper_connect="127.0.0.1:1"), net_07(), (broker,))
    gone = TopicPartition("t", 0, 7)
    assert cluster.leaders_of([PARTITION, gone]) == {PARTITION: Leader(broker)}


def test_committed_offsets_are_of_later_brokers() -> None:
    cluster = V07Cluster(Discovery(zookeeper_connect="127.0.0.1:1"), net_07())
    with pytest.raises(OptionError, match=r"'committed' needs kafka\.bootstrap\.servers"):
        cluster.committed_offsets([PARTITION])


def test_a_partition_may_be_cut_where_its_segments_start(start_broker: StartBroker) -> None:
    server = start_broker(0, {"log.file.size": "29"})
    for _ in range(3):
        produce(server, "t", 1)
    partition, empty = TopicPartition("t", 1, 0), TopicPartition("t", 2, 0)
    broker = broker_of(server)
    assert V07Cluster(Discovery(broker_list=(broker,)), net_07()).cut_points([partition, empty]) == {
        partition: (0, 30),
        empty: (),
    }
    options = {"broker.list": f"0:{broker.host}:{broker.port}", "subscribe": "t", "minPartitions": "2"}
    tasks = StreamPlanner(StreamOptions.parse(options)).tasks(
        Position({partition: 0}), Position({partition: 45})
    )
    assert [(task.range.start_offset, task.range.stop_offset) for task in tasks] == [(0, 30), (30, 45)]
