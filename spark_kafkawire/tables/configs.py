"""The table ``configs``: settings of brokers and topics that are in force, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..cluster.modern.topic_configs import broker_configs, topics_configs
from ..model import Broker, Generation
from ..protocol.modern.describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE, Config, ResourceConfigs
from .scan import Scan, needs
from .table import FLAG, TEXT, TOPICS, Column, Row, Table

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


def _rows(scan: Scan) -> Iterator[Row]:
    brokers: Sequence[Broker] = () if scan.options.selection is not None else scan.metadata.known_brokers()
    topics = [topic.name for topic in scan.topics if topic.name is not None]
    with needs("DescribeConfigs on Cluster; or choose topics with subscribe"):
        found = [broker_configs(broker, scan.net) for broker in brokers]
    with needs("DescribeConfigs on the topics"):
        found += topics_configs(scan.metadata, topics)
    for resource in found:
        for config in sorted(resource.configs, key=lambda each: each.name):
            yield _row(resource, config)


def _row(resource: ResourceConfigs, config: Config) -> Row:
    return {
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
    {Generation.MODERN: _rows},
    TOPICS,
)
