"""Logs and their offsets as options, state files and summaries write them: ``{"t": {"0-1": 123}}``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spark_kafkawire.model import TopicPartition

#: An offset for each partition.
Positions = Mapping[TopicPartition, int]


def name_order(topic_partition: TopicPartition) -> tuple[str, int, int]:
    """The order in which partitions' names read: by broker first, where that is a part of the name."""
    return (
        topic_partition.topic,
        -1 if topic_partition.broker is None else topic_partition.broker,
        topic_partition.partition,
    )


def name_fields(topic_partition: TopicPartition) -> dict[str, Any]:
    """Fields that name a log in a summary: ``broker`` only for 0.7."""
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        **({} if topic_partition.broker is None else {"broker": topic_partition.broker}),
    }


def by_topic(positions: Positions) -> dict[str, dict[str, int]]:
    """Offsets by topic, and by the partition's name there."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in positions.items():
        topics.setdefault(partition.topic, {})[partition.name] = offset
    return topics


def by_partition(topics: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[TopicPartition, Any]]:
    """The reverse, for values of any kind. Raises ``ValueError`` for a key that names no partition."""
    for topic, partitions in topics.items():
        for name, value in partitions.items():
            broker, _, partition = name.rpartition("-")
            yield TopicPartition(topic, int(partition), int(broker) if broker else None), value


def assigned(partitions: Iterable[TopicPartition]) -> dict[str, list[Any]]:
    """Logs as the option ``assign`` names them."""
    topics: dict[str, list[Any]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.name if tp.broker is not None else tp.partition)
    return topics
