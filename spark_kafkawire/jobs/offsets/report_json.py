"""A report as one JSON object, and what the same object says of an import."""

from __future__ import annotations

from typing import Any

from .report import ClusterReport, GroupPosition, LogReport
from .wording import WORDINGS


def as_json(report: ClusterReport) -> dict[str, Any]:
    """The report's values under Kafka's words; names are as the cluster has them.

    ``bytes`` (0.7) or ``records`` are what a log holds, ``lag`` what a group has not read of it, and
    ``lost`` what was deleted before the group read it. What is not known is null. Times are
    milliseconds since 1970.
    """
    wording = WORDINGS[report.generation]
    return {
        "cluster": report.place,
        "taken": report.taken_ms,
        "brokers": [{"id": broker.id, "host": broker.host, "port": broker.port} for broker in report.brokers],
        "topics": len(report.topics),
        "partitions": len(report.logs),
        wording.size: report.size,
        "groups": {group: _group(report, index) for index, group in enumerate(report.groups)},
        "logs": [_log(report, log) for log in report.logs],
    }


def _group(report: ClusterReport, index: int) -> dict[str, Any]:
    total = report.group(index)
    return {
        "partitions": total.log_count,
        "lag": total.lag,
        "lost": total.lost,
        "unknown_partitions": len(report.strays_of(index)),
    }


def _log(report: ClusterReport, log: LogReport) -> dict[str, Any]:
    wording = WORDINGS[report.generation]
    return {
        "topic": log.log.topic,
        "partition": log.log.partition,
        "broker": log.leader.id if log.leader else log.log.broker,
        "earliest": log.bounds.earliest if log.bounds else None,
        "latest": log.bounds.latest if log.bounds else None,
        wording.size: log.size if log.bounds else None,
        **({"segments": log.segment_count} if wording.has_segments else {}),
        **({"first_time": log.first_time_ms, "max_time": log.max_time_ms} if wording.has_times else {}),
        **({"groups": _positions(report, log)} if report.groups else {}),
    }


def _positions(report: ClusterReport, log: LogReport) -> dict[str, Any]:
    return {group: _position(at) for group, at in zip(report.groups, log.positions, strict=True)}


def _position(at: GroupPosition) -> dict[str, Any]:
    return {"offset": at.committed, "lag": at.lag, "lost": at.lost}
