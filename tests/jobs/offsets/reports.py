"""Reports for tests of what is made of them."""

from __future__ import annotations

from typing import Final

from spark_kafkawire.jobs.offsets.report import ClusterReport, PartitionReport
from spark_kafkawire.model import Broker, Generation, PartitionBounds, TopicPartition

BROKERS: Final = (Broker(0, "h0", 9092), Broker(1, "h1", 9092))
TAKEN_MS: Final = 1_795_251_453_045
#: A name that would be markup and a script, if it were not escaped.
HOSTILE: Final = "</title></script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b\u202e"


def partition_07(
    topic: str, name: str, earliest: int, starts: tuple[int, ...], latest: int, *committed: int | None
) -> PartitionReport:
    """A partition of 0.7 by the name of its broker-partition."""
    broker, partition = map(int, name.split("-"))
    tp = TopicPartition(topic, partition, broker)
    bounds = PartitionBounds(tp, earliest, latest, starts)
    return PartitionReport(tp, BROKERS[broker], bounds, committed=committed)


def report_07(*partitions: PartitionReport, groups: tuple[str, ...] = ()) -> ClusterReport:
    """A cluster of 0.7 that holds the partitions."""
    ordered = tuple(sorted(partitions, key=lambda partition: partition.topic_partition))
    return ClusterReport("zookeeper.connect=h:2181", Generation.V07, TAKEN_MS, BROKERS, groups, ordered)


def partition_modern(
    topic: str, partition: int, earliest: int, latest: int, *committed: int | None
) -> PartitionReport:
    """A partition of later Kafka, whose records have times."""
    tp = TopicPartition(topic, partition)
    bounds = PartitionBounds(tp, earliest, latest)
    return PartitionReport(
        tp, BROKERS[partition % 2], bounds, 1_700_000_000_000, 1_700_000_060_999, committed
    )


def report_modern(*partitions: PartitionReport, groups: tuple[str, ...] = ()) -> ClusterReport:
    """A cluster of later Kafka that holds the partitions."""
    ordered = tuple(sorted(partitions, key=lambda partition: partition.topic_partition))
    return ClusterReport(
        "kafka.bootstrap.servers=h0:9092", Generation.MODERN, TAKEN_MS, BROKERS, groups, ordered
    )
