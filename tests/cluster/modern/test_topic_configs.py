"""Settings of topics from noida-db, and other answers that a broker may give."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.topic_configs import cleanup_policy
from spark_kafkawire.errors import BrokerError, UnsupportedVersionError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern import describe_configs
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker
from tests.support.settings import net_modern, servers

NET = net_modern(timeout_s=5.0, backoff_s=0.001)


def test_resources_have_the_numbers_of_kafka() -> None:
    """Apache Kafka's ConfigResource.java."""
    assert (describe_configs.TOPIC_RESOURCE, describe_configs.BROKER_RESOURCE) == (2, 4)
    assert (ResourceType.TOPIC.value, ResourceType.BROKER.value) == (2, 4)


def policy(bootstrap_servers: str, topic: str = "t") -> frozenset[str]:
    return cleanup_policy(Metadata(servers(bootstrap_servers), NET), topic)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"delete"}),
        ({"cleanup.policy": "compact"}, {"compact"}),
        ({"cleanup.policy": "compact,delete"}, {"compact", "delete"}),
    ],
)
def test_a_topics_cleanup_policy_is_what_is_in_force(
    noida: NoidaBroker, given: dict[str, str], expected: set[str]
) -> None:
    assert policy(noida.bootstrap_servers, noida.create_topic(config=given)) == expected


def test_a_topic_that_is_not_there_has_no_policy(noida: NoidaBroker) -> None:
    with pytest.raises(BrokerError, match=r"^DescribeConfigs of topic 'never-made': the broker has no such"):
        policy(noida.bootstrap_servers, "never-made")


@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_the_policy(version: int) -> None:
    offered = {**OFFERED, modern.DESCRIBE_CONFIGS.key: VersionRange(version, version)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        server.broker.configs["t"] = {"cleanup.policy": " compact , delete"}
        assert policy(server.bootstrap_servers) == {"compact", "delete"}


def test_brokers_before_it_are_told_as_such() -> None:
    offered = {key: versions for key, versions in OFFERED.items() if key != modern.DESCRIBE_CONFIGS.key}
    with (
        LogServer({"t": [MemoryLog()]}, offered=offered) as server,
        pytest.raises(UnsupportedVersionError, match=r"^DescribeConfigs of topic 't': brokers before"),
    ):
        policy(server.bootstrap_servers)
