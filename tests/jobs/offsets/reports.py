"""Reports for tests of what is made of them."""

from __future__ import annotations

from typing import Final

from spark_kafkawire.jobs.offsets.report import ClusterReport, LogReport
from spark_kafkawire.model import Broker, Generation, LogBounds, TopicPartition

BROKERS: Final = (Broker(0, "h0", 9092), Broker(1, "h1", 9092))
TAKEN_MS: Final = 1_795_251_453_045
#: A name that would be markup and a script, if it were not escaped.
HOSTILE: Final = "</title></script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b\u202e"


def log_07(
    topic: str, name: str, earliest: int, starts: tuple[int, ...], latest: int, *committed: int | None
) -> LogReport:
    """A log of 0.7 by the name of its broker-partition."""
    broker, partition = map(int, name.split("-"))
    log = TopicPartition(topic, partition, broker)
    bounds = LogBounds(log, earliest, latest, starts)
    return LogReport(log, BROKERS[broker], bounds, committed=committed)


def report_07(*logs: LogReport, groups: tuple[str, ...] = ()) -> ClusterReport:
    """A cluster of 0.7 that holds the logs."""
    ordered = tuple(sorted(logs, key=lambda log: log.log))
    return ClusterReport("zookeeper.connect=h:2181", Generation.V07, TAKEN_MS, BROKERS, groups, ordered)


def log_modern(topic: str, partition: int, earliest: int, latest: int, *committed: int | None) -> LogReport:
    """A log of later Kafka, whose records have times."""
    log = TopicPartition(topic, partition)
    bounds = LogBounds(log, earliest, latest)
    return LogReport(log, BROKERS[partition % 2], bounds, 1_700_000_000_000, 1_700_000_060_999, committed)


def report_modern(*logs: LogReport, groups: tuple[str, ...] = ()) -> ClusterReport:
    """A cluster of later Kafka that holds the logs."""
    ordered = tuple(sorted(logs, key=lambda log: log.log))
    return ClusterReport(
        "kafka.bootstrap.servers=h0:9092", Generation.MODERN, TAKEN_MS, BROKERS, groups, ordered
    )
