"""Leaders and bounds of the existing partitions of a streaming query, for both generations."""

from __future__ import annotations

from collections.abc import Mapping

from ..cluster.cluster import Cluster
from ..errors import BrokersMissingError, UnknownTopicError
from ..model import Leader, TopicPartition
from .stream import Bounds
from .stream_partitions import gone_since


def bounds_of(cluster: Cluster, partitions: list[TopicPartition]) -> Bounds:
    """Bounds of the partitions that exist."""
    leaders = leaders_of(cluster, partitions)
    with gone_since():
        return cluster.bounds([tp for tp in partitions if tp in leaders])


def leaders_of(cluster: Cluster, partitions: list[TopicPartition]) -> Mapping[TopicPartition, Leader]:
    """Leaders of the partitions that exist. Raises ``BrokersMissingError`` (retriable) for a broker that is
    not alive: this does not prove that its partitions are gone."""
    cluster.await_partitions(partitions)
    try:
        found = dict(cluster.leaders_of(partitions))
    except UnknownTopicError:
        there = {
            tp for topic in sorted({tp.topic for tp in partitions}) for tp in _partitions_of(cluster, topic)
        }
        found = dict(cluster.leaders_of([tp for tp in partitions if tp in there]))
    if away := [tp for tp in partitions if tp not in found and tp.broker is not None]:
        raise BrokersMissingError(
            f"broker {away[0].broker} is not alive and holds {len(away)} of the partitions that the batch "
            f"reads, {away[0]} first; start it"
        )
    return found


def _partitions_of(cluster: Cluster, topic: str) -> tuple[TopicPartition, ...]:
    try:
        return cluster.partitions_of([topic])
    except UnknownTopicError:
        return ()
