"""The settings of a topic that a read needs: DescribeConfigs, asked of any broker."""

from __future__ import annotations

from typing import Final

from ...errors import KafkaWireError, ProtocolError, UnsupportedVersionError, quoted
from ...protocol.modern.describe_configs import (
    TOPIC_RESOURCE,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    DescribedResource,
)
from ...protocol.modern.error_codes import broker_error
from .metadata import Metadata

_CLEANUP_POLICY: Final = "cleanup.policy"


def cleanup_policy(metadata: Metadata, topic: str) -> frozenset[str]:
    """What happens to the topic's old records: ``delete``, ``compact``, or both.

    Raises ``BrokerError`` where the user may not see it (DESCRIBE_CONFIGS), ``UnsupportedVersionError``
    (fatal) before Kafka 0.11, and what ``Metadata.ask`` raises.
    """
    place = f"DescribeConfigs of topic {quoted(topic)}"
    resource = DescribedResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=(_CLEANUP_POLICY,)
    )
    try:
        reply: DescribeConfigsReply = metadata.ask(DescribeConfigsRequest(resources=(resource,)))
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(
            f"{place}: brokers before 0.11 do not tell {_CLEANUP_POLICY}"
        ) from error
    except KafkaWireError as error:
        raise error.located(place) from error
    [result] = reply.results
    if result.error_code:
        raise broker_error(result.error_code, place, result.error_message)
    for config in result.configs:
        if config.value is not None:
            return frozenset(word.strip() for word in config.value.split(",")) - {""}
    raise ProtocolError(f"{place}: the answer does not tell {_CLEANUP_POLICY}")
