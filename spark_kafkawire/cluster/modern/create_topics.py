"""Creation of topics in modern Kafka (0.10.1 to 4.x): CreateTopics, sent to the controller of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spark_kafkawire.errors import BrokerError, OptionError, quoted
from spark_kafkawire.model import Broker
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.create_topics import (
    BROKER_DEFAULT,
    BROKER_DEFAULTS_SINCE,
    CREATE_TOPICS,
    CreatableTopic,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error

from .metadata import Metadata

#: Codes of a topic that exists: another client created it first, or this client did and lost the response.
_THERE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def create_topics(
    metadata: Metadata,
    partition_counts: Mapping[str, int],
    net: NetOptions,
    replication_factor: int = BROKER_DEFAULT,
) -> None:
    """Create topics with the given partition counts, and skip those that exist. ``metadata`` describes all of
    them afterwards.

    ``BROKER_DEFAULT`` leaves the number of replicas to the brokers. The controller is looked up again
    while it moves. Raises ``OptionError`` (fatal) if a broker before 2.4 requires the number of replicas,
    ``UnsupportedVersionError`` (fatal) before 0.10.1, and when the retries are used up ``BrokerError`` or
    ``TransportError``.
    """
    left = dict(partition_counts)

    def attempt() -> None:
        topics = tuple(
            CreatableTopic(name=topic, num_partitions=count, replication_factor=replication_factor)
            for topic, count in sorted(left.items())
        )
        request = CreateTopicsRequest(topics=topics, timeout_ms=round(1000 * net.request_timeout_s / 2))
        controller = metadata.controller()
        failure = None
        for created in _ask(controller, request, net).topics:
            failure = _failure(created, controller) or failure
            if created.error_code in _THERE:
                left.pop(created.name, None)
        if failure:
            raise failure

    if left:
        retried(attempt, net.request_retry)
        metadata.refresh(partition_counts, are_created=True)


def _ask(controller: Broker, request: CreateTopicsRequest, net: NetOptions) -> CreateTopicsResponse:
    with POOL.lend(controller, net.connection) as client:
        _check_replicas(client, request)
        response: CreateTopicsResponse = client.request(request)
    return response


def _check_replicas(client: Client, request: CreateTopicsRequest) -> None:
    wants_default = any(topic.replication_factor == BROKER_DEFAULT for topic in request.topics)
    if wants_default and client.version_of(CREATE_TOPICS) < BROKER_DEFAULTS_SINCE:
        raise OptionError(
            "brokers before 2.4 have no default for the replicas of a new topic: set the replication factor"
        )


def _failure(created: CreatedTopic, controller: Broker) -> BrokerError | None:
    if created.error_code in _THERE:
        return None
    place = f"CreateTopics of {quoted(created.name)} on {controller}"
    return broker_error(created.error_code, place, created.error_message)
