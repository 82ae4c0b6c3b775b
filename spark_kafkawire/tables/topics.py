"""The tables ``brokers``, ``topics`` and ``partitions``, and ``configs``: settings of brokers and
topics that are in force, without secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from ..cluster.modern.admin import BrokerDisk, broker_disks
from ..cluster.modern.list_offsets import end_offsets, list_offsets
from ..cluster.modern.topic_configs import broker_configs, topics_configs
from ..errors import UnsupportedVersionError
from ..model import Broker, Generation, TopicPartition, id_text
from ..protocol.modern.describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from ..protocol.modern.limits import NO_TOPIC_ID, READ_COMMITTED, READ_UNCOMMITTED
from ..protocol.modern.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ..protocol.modern.metadata import MetadataRequest, MetadataResponse
from . import FLAG, INT, INTS, LONG, TEXT, TOPICS, Column, Row, Table
from .scan import Scan, needs

_SIZES: Final = ("bytes", "totalBytes", "usableBytes")


def _brokers(scan: Scan) -> Iterator[Row]:
    response: MetadataResponse = scan.metadata.ask(
        MetadataRequest(topics=(), allow_auto_topic_creation=False)
    )
    brokers = {Broker(item.node_id, item.host, item.port): item.rack for item in response.brokers}
    disks = _disks_of(scan, list(brokers)) if scan.wants(*_SIZES) else {}
    for broker, rack in sorted(brokers.items()):
        disk = disks.get(broker)
        yield {
            "broker": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": rack,
            "bytes": sum(disk.replica_bytes.values()) if disk else None,
            "totalBytes": disk.total_bytes if disk else None,
            "usableBytes": disk.usable_bytes if disk else None,
        }


def _disks_of(scan: Scan, brokers: list[Broker]) -> dict[Broker, BrokerDisk]:
    """The log directories of brokers; empty if they are too old to describe them (before 2.0)."""
    selected = scan.options.selection is not None
    with needs("Describe on Cluster; or leave the column bytes out with .schema(...)"):
        try:
            return broker_disks(brokers, scan.net, scan.led if selected else None)
        except UnsupportedVersionError:
            return {}


def _brokers_07(scan: Scan) -> Iterator[Row]:
    for broker in scan.cluster.brokers():
        yield {"broker": broker.id, "host": broker.host, "port": broker.port}


BROKERS: Final = Table(
    "brokers",
    "Live brokers.",
    (
        Column("broker", INT, "id"),
        Column("host", TEXT, "host that the broker advertises to clients"),
        Column("port", INT, "port that the broker advertises to clients"),
        Column("rack", TEXT, "rack; null without one"),
        Column("bytes", LONG, "size of all replicas on the broker; null before Kafka 2.0"),
        Column("totalBytes", LONG, "size of the volumes of the log directories; null before Kafka 3.3"),
        Column("usableBytes", LONG, "free space of these volumes; null before Kafka 3.3"),
    ),
    {Generation.MODERN: _brokers, Generation.V07: _brokers_07},
)


def _topics(scan: Scan) -> Iterator[Row]:
    for topic in scan.topics:
        factors = [len(item.replica_nodes) for item in topic.partitions]
        yield {
            "topic": topic.name,
            "topicId": None if topic.topic_id == NO_TOPIC_ID else id_text(topic.topic_id),
            "isInternal": topic.is_internal,
            "partitions": len(topic.partitions),
            "replicationFactor": max(factors, default=None),
        }


def _topics_07(scan: Scan) -> Iterator[Row]:
    for topic, partitions in groupby(sorted(scan.partitions), key=lambda tp: tp.topic):
        yield {
            "topic": topic,
            "isInternal": False,
            "partitions": len(list(partitions)),
            "replicationFactor": 1,
        }


def _partitions(scan: Scan) -> Iterator[Row]:
    earliest, latest, stable = _offsets(scan)
    sizes = _sizes(scan) if scan.wants("bytes") else {}
    for topic in scan.topics:
        for part in sorted(topic.partitions, key=lambda item: item.partition_index):
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
    """The offsets of the columns ``earliest``, ``latest`` and ``lastStable``; empty if not wanted."""
    times = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
    with needs("Describe on the topics"):
        asked = [dict.fromkeys(scan.led if scan.wants(name) else (), time) for name, time in times.items()]
        found = list_offsets(scan.metadata, asked, scan.net, READ_UNCOMMITTED)
        return (*found, last_stable_offsets(scan, scan.wants("lastStable")))


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
    disks = _disks_of(scan, sorted(set(leaders.values())))
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
        result = bounds.get(tp)
        yield {
            "topic": tp.topic,
            "partition": tp.partition,
            "leader": tp.broker,
            "replicas": (tp.broker,),
            "offlineReplicas": () if tp in leaders else (tp.broker,),
            "earliest": result.earliest if result else None,
            "latest": result.latest if result else None,
            # Offsets of 0.7 count bytes.
            "bytes": result.latest - result.earliest if result else None,
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


#: Sources of values, by their numbers, in the words of Kafka's own clients.
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "CLIENT_METRICS_CONFIG",
    8: "GROUP_CONFIG",
}
_RESOURCES: Final = {BROKER_RESOURCE: "broker", TOPIC_RESOURCE: "topic"}


def _configs(scan: Scan) -> Iterator[Row]:
    brokers: Sequence[Broker] = () if scan.options.selection is not None else scan.metadata.known_brokers()
    topics = [topic.name for topic in scan.topics if topic.name is not None]
    with needs("DescribeConfigs on Cluster; or choose topics with subscribe"):
        result = [broker_configs(broker, scan.net) for broker in brokers]
    with needs("DescribeConfigs on the topics"):
        result += topics_configs(scan.metadata, topics)
    for resource in result:
        for config in sorted(resource.configs, key=lambda item: item.name):
            yield {
                "resourceType": _RESOURCES[resource.resource_type],
                "resource": resource.resource_name,
                "name": config.name,
                # Brokers send no value here, and others may.
                "value": None if config.is_sensitive else config.value,
                "isSensitive": config.is_sensitive,
                "isReadOnly": config.read_only,
                "source": _SOURCES.get(config.config_source),
            }


CONFIGS: Final = Table(
    "configs",
    "Settings in force: of all brokers and topics, or with `subscribe` of these topics alone.",
    (
        Column("resourceType", TEXT, "`broker` or `topic`"),
        Column("resource", TEXT, "id of the broker, or name of the topic"),
        Column("name", TEXT, "name of the setting"),
        Column("value", TEXT, "value in force; null for a secret, and for a setting without a value"),
        Column("isSensitive", FLAG, "true for a secret"),
        Column("isReadOnly", FLAG, "true if it cannot be changed while the broker runs"),
        Column(
            "source",
            TEXT,
            "origin of the value, such as `DYNAMIC_TOPIC_CONFIG` or `DEFAULT_CONFIG`; null before Kafka 1.1",
        ),
    ),
    {Generation.MODERN: _configs},
    TOPICS,
)
