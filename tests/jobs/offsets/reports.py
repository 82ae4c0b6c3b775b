"""Reports for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_kafkawire.jobs.offsets.report import ClusterReport, row_of
from spark_kafkawire.model import Broker, Generation, PartitionBounds, RecordTimes, TopicPartition

#: A partition, its bounds, if a broker serves it, and the offset of each group.
Log = tuple[TopicPartition, PartitionBounds | None, tuple[int | None, ...]]

BROKERS: Final = (Broker(0, "h0", 9092), Broker(1, "h1", 9092))
TIMES: Final = RecordTimes(1_700_000_000_000, 1_700_000_060_999)
TAKEN_MS: Final = 1_795_251_453_045
#: A name that would be markup and a script, if it were not escaped.
HOSTILE: Final = "</title></script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b\u202e"


def partition_07(
    topic: str, name: str, earliest: int, starts: tuple[int, ...], latest: int, *committed: int | None
) -> Log:
    """A partition of 0.7 by the name of its broker-partition."""
    broker, partition = map(int, name.split("-"))
    tp = TopicPartition(topic, partition, broker)
    return tp, PartitionBounds(tp, earliest, latest, starts), committed


def partition_modern(topic: str, partition: int, earliest: int, latest: int, *committed: int | None) -> Log:
    """A partition of later Kafka, whose records have times."""
    tp = TopicPartition(topic, partition)
    return tp, PartitionBounds(tp, earliest, latest), committed


def report_07(*logs: Log, groups: tuple[str, ...] = ()) -> ClusterReport:
    """A cluster of 0.7 that holds the partitions."""
    return _report("zookeeper.connect=h:2181", Generation.V07, RecordTimes(), logs, groups)


def report_modern(*logs: Log, groups: tuple[str, ...] = ()) -> ClusterReport:
    """A cluster of later Kafka that holds the partitions."""
    return _report("kafka.bootstrap.servers=h0:9092", Generation.MODERN, TIMES, logs, groups)


def _report(
    place: str, generation: Generation, times: RecordTimes, logs: Sequence[Log], groups: tuple[str, ...]
) -> ClusterReport:
    rows = []
    for tp, bounds, committed in sorted(logs, key=lambda log: log[0]):
        leader = BROKERS[(tp.partition if tp.broker is None else tp.broker) % 2] if bounds else None
        offsets = dict(zip(groups, committed, strict=True))
        rows.append(row_of(generation, tp, leader, bounds, times if bounds else RecordTimes(), offsets))
    return ClusterReport(place, generation, TAKEN_MS, BROKERS, groups, tuple(rows))
