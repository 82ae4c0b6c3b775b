"""Partitions that a member of a consumer group of Kafka 0.7 owns, and their bounds.

A new share is complete once the other members have given their partitions up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from spark_kafkawire.cluster.cluster import cluster_of
from spark_kafkawire.cluster.v07.membership import GroupMembership
from spark_kafkawire.cluster.v07.owned_partition import OwnedPartition, abandoned_text
from spark_kafkawire.errors import LOG, DiscoveryError, UnknownTopicError, counted, quoted
from spark_kafkawire.model import PartitionBounds, TopicPartition
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import ReadOptions

from ..stream_leaders import bounds_of

#: Seconds between two checks for partitions that other members have given up.
_PAUSE_S: Final = 0.1


def settled(
    member: GroupMembership,
    options: ReadOptions,
    *,
    needs_all: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[TopicPartition, OwnedPartition]:
    """The partitions that a member owns, once the other members have given them up or ``brokerDownTimeout``
    is over.

    ``needs_all`` is for a read that ends, whose success means that the share of each member was read. Such a
    read also waits until brokers have registered all topics, and until no node keeps partitions from every
    reader. Raises as ``GroupMembership.hold`` does. With ``needs_all`` it also raises ``UnknownTopicError``
    for a topic without brokers, and ``DiscoveryError`` for a node that still keeps partitions (both fatal).
    """
    retry_timeout_s = options.planning_retry.retry_timeout_s
    deadline_s = clock() + retry_timeout_s
    while True:
        owned = member.hold()
        others = member.others
        missing, abandoned = (member.unregistered, member.abandoned) if needs_all else ([], [])
        if not (others or missing or abandoned) or clock() >= deadline_s:
            break
        sleep(_PAUSE_S)
    if missing:
        raise _unregistered(options, missing[0], retry_timeout_s)
    if abandoned:
        raise DiscoveryError(
            f"{abandoned_text(options.group_id or '', abandoned)} (waited {retry_timeout_s:g} s, option "
            "brokerDownTimeout)"
        )
    if others:
        _warn_of(others, options, retry_timeout_s)
    return owned


def _unregistered(options: ReadOptions, topic: str, retry_timeout_s: float) -> UnknownTopicError:
    """The error for a topic without registered brokers. Their sessions may be expired, and an empty share
    would read no rows."""
    return UnknownTopicError(
        f"group {quoted(options.group_id)}: no broker has registered topic {quoted(topic)} in ZooKeeper "
        f"within {retry_timeout_s:g} s (brokerDownTimeout): check its name, and start its brokers"
    )


def _warn_of(others: Mapping[TopicPartition, str], options: ReadOptions, retry_timeout_s: float) -> None:
    partition, owner = next(iter(others.items()))
    LOG.warning(
        "group %s: %s is assigned to this consumer, but %s did not give it up within %g s "
        "(brokerDownTimeout), %s in all: the query reads the partitions that it owns",
        quoted(options.group_id),
        partition,
        owner,
        retry_timeout_s,
        counted(len(others), "partition"),
    )


def owned_bounds(
    options: ReadOptions, partitions: list[TopicPartition]
) -> dict[TopicPartition, PartitionBounds]:
    """Bounds of partitions now, waiting for their brokers. Raises ``BrokersMissingError`` for a broker that
    stays away, and as ``Cluster.bounds`` does."""
    if not partitions:
        return {}
    cluster = cluster_of(options)
    return dict(retried(lambda: bounds_of(cluster, partitions), options.planning_retry))
