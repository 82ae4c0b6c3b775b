"""Key order of 0.7, from a topic whose brokers grew by what the user says: layouts, families, streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import BrokersMissingError, OptionError
from tests.support.debian_plain import COUNT, ENDS, SECONDS, TOPIC
from tests.support.reading import PlannedRead
from tests.support.streaming import Checkpoint, Query

# ZooKeeper is a JVM.
pytestmark = pytest.mark.jvm


def options(
    cluster: EmbeddedCluster, *layouts: dict[str, int], boundaries: Mapping[str, int] = SECONDS
) -> dict[str, str]:
    """Each layout's partitions by broker; a second one begins with the second segments."""
    given: list[dict[str, Any]] = [{"partitions": each} for each in layouts]
    for each in given[1:]:
        old = {f"{broker}-{at}" for broker, count in layouts[0].items() for at in range(count)}
        each["boundaries"] = {name: boundaries[name] for name in sorted(old)}
    return {
        "zookeeper.connect": cluster.zookeeper_connect,
        "subscribe": TOPIC,
        "keyOrder": "true",
        "partitionLayouts": json.dumps({TOPIC: given}),
    }


def read(given: dict[str, str]) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """The partitions of each Spark partition, and all rows."""
    found = PlannedRead(given)
    names = [[task.range.topic_partition.name for task in part.tasks] for part in found.partitions]
    return names, found.rows()


def test_a_broker_that_came_later_is_read_after_those_before(corpus: EmbeddedCluster) -> None:
    names, rows = read(options(corpus, {"0": 3}, {"0": 3, "1": 3}))
    assert names == [["0-0", "1-0"], ["0-1", "1-1"], ["0-2", "1-2"]]
    assert len(rows) == COUNT
    for row in rows:
        name = f"{row['broker']}-{row['partition']}"
        assert row["layout"] == (row["broker"] == 1 or row["offset"] >= SECONDS[name])


def test_a_broker_that_grew_moves_the_partitions_of_those_behind_it(corpus: EmbeddedCluster) -> None:
    names, rows = read(options(corpus, {"0": 1, "1": 2}, {"0": 3, "1": 3}))
    assert sorted(names) == [[f"{broker}-{at}"] for broker in range(2) for at in range(3)]
    assert {
        row["layout"] for row in rows if (row["broker"], row["partition"]) in ((0, 1), (0, 2), (1, 2))
    } == {1}


def test_a_stream_reads_a_new_broker_after_the_old_one(corpus: EmbeddedCluster) -> None:
    given = options(corpus, {"0": 3}, {"0": 3, "1": 3})
    running = Query(Checkpoint(), startingOffsets="earliest", maxBytesPerTrigger="1", **given)
    first, second = running.batch(), running.batch()
    assert first is not None
    assert second is not None
    # A batch ends where a segment does, which is the boundary: from there on both are read.
    assert {(row["broker"], row["layout"]) for row in first} <= {(0, 0), (1, 1)}
    assert {row["broker"] for row in first + second} == {0, 1}
    read_up_to = {row["partition"] for row in first if row["broker"] == 0}
    assert {row["partition"] for row in first if row["broker"] == 1} <= read_up_to


def test_children_wait_for_parents_whose_broker_is_away(cluster: EmbeddedCluster) -> None:
    given = options(cluster, {"0": 3}, {"0": 3, "1": 3}, boundaries=ENDS)
    given |= {"failOnDataLoss": "false", "retryBackoff": "1ms", "maxBytesPerTrigger": "1"}
    checkpoint = Checkpoint()
    first = Query(checkpoint, startingOffsets="earliest", **given).batch()
    assert first is not None
    assert {row["broker"] for row in first} == {0}
    cluster.brokers[0].stop()
    assert Query(checkpoint, **given).batch() is None
    cluster.brokers[0].start()
    rows = [row for batch in Query(checkpoint, **given).batches() for row in batch]
    assert len(first + rows) == COUNT


def test_a_broker_that_is_named_and_away_is_missed(cluster: EmbeddedCluster) -> None:
    given = options(cluster, {"0": 3}, {"0": 3, "1": 3}) | {"retries": "1", "retryBackoff": "1ms"}
    cluster.brokers[1].stop()
    with pytest.raises(BrokersMissingError, match="broker 1 is not registered"):
        read(given)
    names, rows = read(given | {"failOnDataLoss": "false"})
    assert names == [["0-0"], ["0-1"], ["0-2"]]
    assert {row["layout"] for row in rows} == {0, 1}


def test_lists_that_are_not_those_of_zookeeper_are_told(corpus: EmbeddedCluster) -> None:
    with pytest.raises(OptionError) as error:
        read(options(corpus, {"0": 3}, {"0": 3, "1": 4}))
    assert str(error.value) == (
        f"option partitionLayouts: {TOPIC} has 6 partitions, but its last layout has 7 ({TOPIC} 1-3 "
        "differs): add a layout with the current partitions, and the end offsets that the others had when "
        "these were added"
    )
