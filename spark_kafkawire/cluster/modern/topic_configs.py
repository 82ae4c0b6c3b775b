"""Configuration of topics and brokers of modern Kafka (0.11 to 4.x), from DescribeConfigs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from spark_kafkawire.errors import KafkaWireError, ProtocolError, UnsupportedVersionError, quote
from spark_kafkawire.model import Broker
from spark_kafkawire.net.retry import call_with_retries
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
    location = f"DescribeConfigs of topic {quote(topic)}"
    try:
        response = metadata.ask(_request(TOPIC_RESOURCE, [topic], (_CLEANUP_POLICY,)))
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(
            f"{location}: brokers before 0.11 do not report {_CLEANUP_POLICY}, which tells compaction from a "
            "loss; upgrade them"
        ) from error
    except KafkaWireError as error:
        raise error.locate(location) from error
    [result] = _results(response, "topic")
    for config in result.configs:
        if config.value is not None:
            return frozenset(word.strip() for word in config.value.split(",")) - {""}
    raise ProtocolError(f"{location}: the response does not contain {_CLEANUP_POLICY}; see the broker's log")


def topics_configs(metadata: Metadata, topics: Sequence[str]) -> list[ResourceConfigs]:
    """All settings of topics, in their order. Raises as ``cleanup_policy`` does."""
    result: list[ResourceConfigs] = []
    for at in range(0, len(topics), _TOGETHER_MAX):
        request = _request(TOPIC_RESOURCE, topics[at : at + _TOGETHER_MAX])
        result += _results(metadata.ask(request), "topic")
    return result


def broker_configs(broker: Broker, net: NetOptions) -> ResourceConfigs:
    """All settings of a broker, which it describes itself. Raises as ``cleanup_policy`` does."""
    request = _request(BROKER_RESOURCE, [str(broker.id)])
    [result] = call_with_retries(
        lambda: _results(ask_coordinator(broker, request, net), "broker"), net.request_retry
    )
    return result


def _request(
    resource_type: int, names: Iterable[str], keys: tuple[str, ...] | None = None
) -> DescribeConfigsRequest:
    resources = (
        DescribedResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
        for name in names
    )
    return DescribeConfigsRequest(resources=tuple(resources))


def _results(response: DescribeConfigsResponse, kind: str) -> list[ResourceConfigs]:
    for item in response.results:
        if item.error_code:
            location = f"DescribeConfigs of {kind} {quote(item.resource_name)}"
            raise broker_error(item.error_code, location, item.error_message)
    return sorted(response.results, key=lambda item: item.resource_name)
