"""A report as one JSON object, and the object for an import."""

from __future__ import annotations

from typing import Any

from .report import ClusterReport, GroupPosition, PartitionReport
from .wording import WORDINGS


def as_json(report: ClusterReport) -> dict[str, Any]:
    """The report's values under Kafka's words; names are as the cluster has them.

    ``bytes`` (0.7) or ``records`` is the size of a partition, ``lag`` the part that a group has not read, and
    ``lost`` the part that was deleted before the group read it. ``writes`` has the groups that keep the
    records of exactly-once writes, by the writes' names. Unknown values are null. Times are milliseconds
    since 1970.
    """
    wording = WORDINGS[report.generation]
    return {
        "cluster": report.place,
        "taken": report.taken_ms,
        "brokers": [{"id": broker.id, "host": broker.host, "port": broker.port} for broker in report.brokers],
        "topics": len(report.topics),
        "partitions": len(report.partitions),
        wording.size: report.size,
        "groups": {group: _group(report, index) for index, group in enumerate(report.groups)},
        "writes": {write.name: list(write.groups) for write in report.writes},
        "logs": [_partition(report, partition) for partition in report.partitions],
    }


def _group(report: ClusterReport, index: int) -> dict[str, Any]:
    total = report.group(index)
    return {
        "partitions": total.partition_count,
        "lag": total.lag,
        "lost": total.lost,
        "unknown_partitions": len(report.unknown_of(index)),
    }


def _partition(report: ClusterReport, partition: PartitionReport) -> dict[str, Any]:
    wording = WORDINGS[report.generation]
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "broker": partition.leader.id if partition.leader else partition.topic_partition.broker,
        "earliest": partition.bounds.earliest if partition.bounds else None,
        "latest": partition.bounds.latest if partition.bounds else None,
        wording.size: partition.size if partition.bounds else None,
        **({"segments": partition.segment_count} if wording.has_segments else {}),
        **(
            {"first_time": partition.first_time_ms, "max_time": partition.max_time_ms}
            if wording.has_times
            else {}
        ),
        **({"groups": _positions(report, partition)} if report.groups else {}),
    }


def _positions(report: ClusterReport, partition: PartitionReport) -> dict[str, Any]:
    return {group: _position(at) for group, at in zip(report.groups, partition.positions, strict=True)}


def _position(at: GroupPosition) -> dict[str, Any]:
    return {"offset": at.committed, "lag": at.lag, "lost": at.lost}
