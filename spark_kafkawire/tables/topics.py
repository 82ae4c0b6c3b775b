"""The tables ``topics`` and ``partitions``."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from ..cluster.modern.list_offsets import end_offsets, list_offsets
from ..errors import UnsupportedVersionError
from ..model import Broker, Generation, TopicPartition
from ..protocol.modern.limits import NO_TOPIC_ID, READ_COMMITTED, READ_UNCOMMITTED
from ..protocol.modern.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from .brokers import disks_of
from .scan import Scan, needs
from .table import FLAG, INT, INTS, LONG, TEXT, TOPICS, Column, Row, Table


def _topics(scan: Scan) -> Iterator[Row]:
    for topic in scan.topics:
        factors = [len(each.replica_nodes) for each in topic.partitions]
        yield {
            "topic": topic.name,
            "topicId": _text_of(topic.topic_id),
            "isInternal": topic.is_internal,
            "partitions": len(topic.partitions),
            "replicationFactor": max(factors, default=None),
        }


def _text_of(topic_id: uuid.UUID) -> str | None:
    """A topic id as Kafka's tools show it."""
    if topic_id == NO_TOPIC_ID:
        return None
    return base64.urlsafe_b64encode(topic_id.bytes).decode("ascii").rstrip("=")


def _topics_07(scan: Scan) -> Iterator[Row]:
    for topic, partitions in groupby(sorted(scan.partitions), key=lambda tp: tp.topic):
        yield {
            "topic": topic,
            "topicId": None,
            "isInternal": False,
            "partitions": len(list(partitions)),
            "replicationFactor": 1,
        }


def _partitions(scan: Scan) -> Iterator[Row]:
    earliest, latest, stable = _offsets(scan)
    sizes = _sizes(scan) if scan.wants("bytes") else {}
    for topic in scan.topics:
        for part in sorted(topic.partitions, key=lambda each: each.partition_index):
            assert topic.name is not None
            tp = TopicPartition(topic.name, part.partition_index)
            yield {
                "topic": tp.topic,
                "partition": tp.partition,
                "leader": part.leader_id if part.leader_id >= 0 else None,
                "leaderEpoch": part.leader_epoch if part.leader_epoch >= 0 else None,
                "replicas": part.replica_nodes,
                "isr": part.isr_nodes,
                "offlineReplicas": part.offline_replicas,
                "earliest": earliest.get(tp),
                "latest": latest.get(tp),
                "lastStable": stable.get(tp),
                "bytes": sizes.get(tp),
            }


def _offsets(scan: Scan) -> tuple[dict[TopicPartition, int], ...]:
    """The offsets of the wanted columns ``earliest``, ``latest`` and ``lastStable``."""
    times = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
    found: dict[str, dict[TopicPartition, int]] = {}
    wanted = [name for name in times if scan.wants(name)]
    with needs("Describe on the topics"):
        if wanted:
            asked = [dict.fromkeys(scan.led, times[name]) for name in wanted]
            found = dict(
                zip(wanted, list_offsets(scan.metadata, asked, scan.net, READ_UNCOMMITTED), strict=True)
            )
        return (
            found.get("earliest", {}),
            found.get("latest", {}),
            last_stable_offsets(scan, scan.wants("lastStable")),
        )


def last_stable_offsets(scan: Scan, wanted: bool = True) -> dict[TopicPartition, int]:
    """Last stable offsets; empty if they are not ``wanted``, or if brokers have none (before 0.11)."""
    if not wanted:
        return {}
    try:
        return end_offsets(scan.metadata, scan.led, scan.net, READ_COMMITTED)
    except UnsupportedVersionError:
        return {}


def _sizes(scan: Scan) -> dict[TopicPartition, int]:
    """Size of the leader's replica of each partition."""
    leaders = {tp: leader.broker for tp, leader in scan.metadata.known_leaders(scan.led).items()}
    brokers: list[Broker] = sorted(set(leaders.values()))
    disks = disks_of(scan, brokers)
    return {
        tp: disks[broker].replica_bytes[tp]
        for tp, broker in leaders.items()
        if broker in disks and tp in disks[broker].replica_bytes
    }


def _partitions_07(scan: Scan) -> Iterator[Row]:
    leaders = scan.cluster.leaders_of(scan.partitions)
    needs_offsets = scan.wants("earliest", "latest", "bytes")
    bounds = scan.cluster.bounds(list(leaders)) if needs_offsets else {}
    for tp in sorted(scan.partitions):
        found = bounds.get(tp)
        yield {
            "topic": tp.topic,
            "partition": tp.partition,
            "leader": tp.broker,
            "leaderEpoch": None,
            "replicas": (tp.broker,),
            "isr": None,
            "offlineReplicas": () if tp in leaders else (tp.broker,),
            "earliest": found.earliest if found else None,
            "latest": found.latest if found else None,
            "lastStable": None,
            # Offsets of 0.7 count bytes.
            "bytes": found.latest - found.earliest if found else None,
        }


TOPICS_TABLE: Final = Table(
    "topics",
    "Topics, also internal ones unless `subscribePattern` selects.",
    (
        Column("topic", TEXT, "name"),
        Column("topicId", TEXT, "id, as Kafka's tools show it; null before Kafka 2.8"),
        Column("isInternal", FLAG, "true for a topic of Kafka's own"),
        Column("partitions", INT, "number of partitions"),
        Column("replicationFactor", INT, "replicas of each partition"),
    ),
    {Generation.MODERN: _topics, Generation.V07: _topics_07},
    TOPICS,
)

PARTITIONS_TABLE: Final = Table(
    "partitions",
    "Partitions with leader, replicas, offsets and size.",
    (
        Column("topic", TEXT, "topic"),
        Column("partition", INT, "number; in Kafka 0.7 that on its broker"),
        Column("leader", INT, "id of the broker that leads the partition; null without a leader"),
        Column("leaderEpoch", INT, "number of elections; null before Kafka 2.1"),
        Column("replicas", INTS, "brokers that hold the replicas"),
        Column("isr", INTS, "brokers whose replicas are in sync; null in Kafka 0.7"),
        Column("offlineReplicas", INTS, "brokers whose replicas are offline"),
        Column("earliest", LONG, "first offset; null without a leader"),
        Column("latest", LONG, "offset after the last record that all replicas in sync have"),
        Column(
            "lastStable",
            LONG,
            "where `read_committed` readers end: before the first open transaction; null before Kafka 0.11",
        ),
        Column("bytes", LONG, "size of the leader's replica; null before Kafka 2.0"),
    ),
    {Generation.MODERN: _partitions, Generation.V07: _partitions_07},
    TOPICS,
)
