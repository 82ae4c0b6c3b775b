"""Logs and their offsets as options, state files and summaries write them: ``{"t": {"0-1": 123}}``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...model import TopicPartition

#: An offset for each log.
Positions = Mapping[TopicPartition, int]


def name_order(log: TopicPartition) -> tuple[str, int, int]:
    """The order in which partitions' names read: by broker first, where that is a part of the name."""
    return log.topic, -1 if log.broker is None else log.broker, log.partition


def name_fields(log: TopicPartition) -> dict[str, Any]:
    """What names a log in a summary: ``broker`` is there in 0.7 alone."""
    return {
        "topic": log.topic,
        "partition": log.partition,
        **({} if log.broker is None else {"broker": log.broker}),
    }


def by_topic(positions: Positions) -> dict[str, dict[str, int]]:
    """Offsets by topic, and by the partition's name there."""
    topics: dict[str, dict[str, int]] = {}
    for log, offset in positions.items():
        topics.setdefault(log.topic, {})[log.name] = offset
    return topics


def by_log(topics: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[TopicPartition, Any]]:
    """The way back, whatever is said of each log. Raises ``ValueError`` for what is no partition's name."""
    for topic, logs in topics.items():
        for name, value in logs.items():
            broker, _, partition = name.rpartition("-")
            yield TopicPartition(topic, int(partition), int(broker) if broker else None), value


def assigned(logs: Iterable[TopicPartition]) -> dict[str, list[Any]]:
    """Logs as the option ``assign`` names them."""
    topics: dict[str, list[Any]] = {}
    for log in logs:
        topics.setdefault(log.topic, []).append(log.name if log.broker is not None else log.partition)
    return topics
