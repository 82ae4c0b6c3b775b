"""Configuration of topics of modern Kafka (0.11 to 4.x): their cleanup policy, from DescribeConfigs."""

from __future__ import annotations

from typing import Final

from spark_kafkawire.errors import KafkaWireError, ProtocolError, UnsupportedVersionError, quoted
from spark_kafkawire.protocol.modern.describe_configs import (
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedResource,
)
from spark_kafkawire.protocol.modern.error_codes import broker_error

from .metadata import Metadata

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
            f"{place}: brokers before 0.11 do not report {_CLEANUP_POLICY}"
        ) from error
    except KafkaWireError as error:
        raise error.located(place) from error
    [result] = response.results
    if result.error_code:
        raise broker_error(result.error_code, place, result.error_message)
    for config in result.configs:
        if config.value is not None:
            return frozenset(word.strip() for word in config.value.split(",")) - {""}
    raise ProtocolError(f"{place}: the response does not contain {_CLEANUP_POLICY}")
