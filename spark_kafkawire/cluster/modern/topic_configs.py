"""Configuration of topics and brokers of modern Kafka (0.11 to 4.x), from DescribeConfigs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_kafkawire.errors import KafkaWireError, ProtocolError, UnsupportedVersionError, quoted
from spark_kafkawire.model import Broker
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.describe_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedResource,
    ResourceConfigs,
)
from spark_kafkawire.protocol.modern.error_codes import broker_error

from .group_offsets import ask_coordinator
from .metadata import Metadata

#: Topics of one request: the response has some 2 KiB for each.
_TOGETHER_MAX: Final = 1_000
_CLEANUP_POLICY: Final = "cleanup.policy"


def cleanup_policy(metadata: Metadata, topic: str) -> frozenset[str]:
    """Cleanup policy of a topic: ``delete``, ``compact``, or both.

    Raises ``BrokerError`` if the user may not read it (DESCRIBE_CONFIGS), ``UnsupportedVersionError``
    (fatal) before Kafka 0.11, and the errors of ``Metadata.ask``.
    """
    place = f"DescribeConfigs of topic {quoted(topic)}"
    resource = DescribedResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=(_CLEANUP_POLICY,)
    )
    try:
        response: DescribeConfigsResponse = metadata.ask(DescribeConfigsRequest(resources=(resource,)))
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(
            f"{place}: brokers before 0.11 do not report {_CLEANUP_POLICY}, which tells compaction from a "
            "loss; upgrade them"
        ) from error
    except KafkaWireError as error:
        raise error.located(place) from error
    [result] = response.results
    if result.error_code:
        raise broker_error(result.error_code, place, result.error_message)
    for config in result.configs:
        if config.value is not None:
            return frozenset(word.strip() for word in config.value.split(",")) - {""}
    raise ProtocolError(f"{place}: the response does not contain {_CLEANUP_POLICY}; see the broker's log")


def topics_configs(metadata: Metadata, topics: Sequence[str]) -> list[ResourceConfigs]:
    """All settings of topics, in their order. Raises as ``cleanup_policy`` does."""
    found: list[ResourceConfigs] = []
    for at in range(0, len(topics), _TOGETHER_MAX):
        resources = [
            DescribedResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
            for topic in topics[at : at + _TOGETHER_MAX]
        ]
        found += _results(metadata.ask(DescribeConfigsRequest(resources=tuple(resources))), "topic")
    return found


def broker_configs(broker: Broker, net: NetOptions) -> ResourceConfigs:
    """All settings of a broker, which it describes itself. Raises as ``cleanup_policy`` does."""
    resource = DescribedResource(
        resource_type=BROKER_RESOURCE, resource_name=str(broker.id), configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=(resource,))
    [found] = retried(lambda: _results(ask_coordinator(broker, request, net), "broker"), net.request_retry)
    return found


def _results(response: DescribeConfigsResponse, kind: str) -> list[ResourceConfigs]:
    for each in response.results:
        if each.error_code:
            place = f"DescribeConfigs of {kind} {quoted(each.resource_name)}"
            raise broker_error(each.error_code, place, each.error_message)
    return sorted(response.results, key=lambda each: each.resource_name)
