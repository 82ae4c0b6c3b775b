"""Who serves those of a query's logs that are there, and where these start and end."""

from __future__ import annotations

from collections.abc import Mapping

from ..cluster.cluster import Cluster
from ..errors import BrokersMissingError, UnknownTopicError
from ..model import Leader, TopicPartition
from .stream import Bounds
from .stream_logs import gone_since


def bounds_of(cluster: Cluster, logs: list[TopicPartition]) -> Bounds:
    """The bounds of those of the logs that are there."""
    leaders = leaders_of(cluster, logs)
    with gone_since():
        return cluster.bounds([log for log in logs if log in leaders])


def leaders_of(cluster: Cluster, logs: list[TopicPartition]) -> Mapping[TopicPartition, Leader]:
    """Who serves those of the logs that are there. Raises ``BrokersMissingError`` (retriable) for a broker
    that has to come back: that it is away is no proof that its logs are gone."""
    cluster.await_logs(logs)
    try:
        found = dict(cluster.leaders_of(logs))
    except UnknownTopicError:
        there = {log for topic in sorted({log.topic for log in logs}) for log in _logs_of(cluster, topic)}
        found = dict(cluster.leaders_of([log for log in logs if log in there]))
    if away := [log for log in logs if log not in found and log.broker is not None]:
        raise BrokersMissingError(
            f"broker {away[0].broker} is not there, and holds {len(away)} of the partitions that the batch "
            f"reads, {away[0]} first; start it"
        )
    return found


def _logs_of(cluster: Cluster, topic: str) -> tuple[TopicPartition, ...]:
    try:
        return cluster.logs_of([topic])
    except UnknownTopicError:
        return ()
