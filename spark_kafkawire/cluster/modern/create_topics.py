"""New topics in a cluster of modern brokers: CreateTopics, asked of the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...errors import BrokerError, OptionError, quoted
from ...model import Broker
from ...net.client import Client
from ...net.pool import POOL
from ...net.retry import Attempts
from ...options import NetOptions
from ...protocol.modern.create_topics import (
    BROKER_DEFAULT,
    BROKER_DEFAULTS_SINCE,
    CREATE_TOPICS,
    CreatableTopic,
    CreatedTopic,
    CreateTopicsReply,
    CreateTopicsRequest,
)
from ...protocol.modern.error_codes import ErrorCode, broker_error
from .metadata import Metadata

#: Codes of a topic that is there: another client was faster, or this one without hearing of it.
_THERE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def create_topics(
    metadata: Metadata,
    partition_counts: Mapping[str, int],
    net: NetOptions,
    replication_factor: int = BROKER_DEFAULT,
) -> None:
    """Create topics with so many partitions each, and leave alone those that are there; all of them are
    known to ``metadata`` then.

    ``BROKER_DEFAULT`` leaves the number of replicas to the brokers. Who the controller is, is asked
    again while it moves. Raises ``OptionError`` (fatal) where a broker before 2.4 wants the number
    of replicas, ``UnsupportedVersionError`` (fatal) before 0.10.1, and when the retries are used up
    ``BrokerError`` or ``TransportError``.
    """
    left = dict(partition_counts)
    attempts = Attempts(net.retry, patience_s=net.request_timeout_s)

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
        attempts.run(attempt)
        metadata.refresh(partition_counts, are_created=True)


def _ask(controller: Broker, request: CreateTopicsRequest, net: NetOptions) -> CreateTopicsReply:
    with POOL.lend(controller, net.connection) as client:
        _check_replicas(client, request)
        reply: CreateTopicsReply = client.request(request)
    return reply


def _check_replicas(client: Client, request: CreateTopicsRequest) -> None:
    wants_default = any(topic.replication_factor == BROKER_DEFAULT for topic in request.topics)
    if wants_default and client.version_of(CREATE_TOPICS) < BROKER_DEFAULTS_SINCE:
        raise OptionError(
            "brokers before 2.4 have no default for a new topic's replicas: give the replication factor"
        )


def _failure(created: CreatedTopic, controller: Broker) -> BrokerError | None:
    if created.error_code in _THERE:
        return None
    place = f"CreateTopics of {quoted(created.name)} on {controller}"
    return broker_error(created.error_code, place, created.error_message)
