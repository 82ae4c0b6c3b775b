"""Requests of a read to a cluster of any generation, and of jobs and streams to its consumer groups.

cluster = cluster_of(options)
partitions = cluster.partitions_of(["debian-gzip"])
bounds = cluster.bounds(partitions)
cluster.groups.commit("etl", {log: held.latest for log, held in bounds.items()})
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol

from ..model import Broker, Generation, Leader, PartitionBounds, RecordTimes, SizeSample, TopicPartition
from ..options import BadRecords, NetOptions, ReadOptions, TaskOptions
from ..protocol.modern.limits import READ_COMMITTED

#: The offset of each partition; None if the cluster has no matching offset.
Offsets = Mapping[TopicPartition, int | None]


class ConsumerGroups(Protocol):
    """Members and committed offsets of consumer groups. No method sends a request before its call.

    All methods raise as those of ``Cluster`` do, and ``OptionError`` (fatal) if the cluster has no groups
    (``broker.list``).
    """

    def names(self) -> Sequence[str]:
        """Names of all groups, sorted."""

    def members(self, group: str) -> Sequence[str]:
        """Ids of the current members of a group, sorted."""

    def partitions(self, group: str) -> Sequence[TopicPartition]:
        """Partitions for which a group may have offsets, sorted, also those that no longer exist."""

    def offsets(self, group: str, partitions: Sequence[TopicPartition], *, strict: bool = True) -> Offsets:
        """Offsets that a group has committed; None if it has committed none, and, unless ``strict``, if a
        ZooKeeper node holds something other than an offset."""

    def committed(self, group: str) -> Mapping[TopicPartition, int]:
        """Offsets that a group has committed, in all partitions that have one; without ZooKeeper nodes that
        hold something else."""

    def texts(self, group: str) -> Sequence[tuple[int, str, str]]:
        """Committed offsets of a group in all partitions, each with its metadata text and topic. Empty if
        offsets have no metadata, or if the brokers cannot list them (before 0.10.2)."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], *, force: bool = False) -> None:
        """Commit the offset of the next message of each partition for a group.

        Raises ``OptionError`` (fatal) while the group has members. ``force`` ignores members in 0.7;
        later brokers have no such option."""


class Cluster(Protocol):
    """Topics, leaders and offsets: the part of a cluster that every read needs. No method sends a request
    before its call.

    All methods raise ``DiscoveryError`` (fatal), and ``BrokerError`` or ``TransportError`` when
    the retries are used up.
    """

    def brokers(self) -> Sequence[Broker]:
        """Live brokers, sorted."""

    def racks(self) -> frozenset[str]:
        """Racks of the live brokers, as far as they have some (0.10 on)."""

    def topics(self) -> Sequence[str]:
        """Topic names that ``subscribePattern`` can match, sorted. Raises ``OptionError`` if the brokers
        cannot list topics."""

    def partitions_of(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        """Partitions of the topics, sorted. Raises ``UnknownTopicError`` (fatal)."""

    def listed_partitions(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        """Partitions of topics that ``topics()`` has just listed, in the order of ``topics``. The metadata of
        that listing is used again instead of a new request. Raises ``UnknownTopicError`` (fatal)."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, uuid.UUID]:
        """Ids of the topics that exist and have one (since Kafka 2.8). A topic that is deleted and created
        again gets a new id."""

    def assigned(self, partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Partitions of the option ``assign`` that can be read."""

    def await_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Wait until the brokers of these partitions are registered, if partitions name a broker (0.7).

        Raises ``BrokersMissingError`` if a broker stays away, unless ``failOnDataLoss`` is false."""

    def leaders_of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Leaders of the partitions, without partitions whose broker is not alive."""

    def known_leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Leaders by the last responses, without a new request and without waiting for elections."""

    def forget(self, partition: TopicPartition) -> None:
        """Discard the metadata of a partition, so that its next use requests it again."""

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionBounds]:
        """Start and end offsets of the partitions now, in the order of ``partitions``."""

    def follow_bounds(
        self, partitions: tuple[TopicPartition, ...]
    ) -> Mapping[TopicPartition, PartitionBounds]:
        """Bounds as ``bounds``, but with starts that may be those of an earlier call, and without partitions
        whose broker is not alive. The same object comes again as long as nothing changes, if the cluster can
        see that."""

    def cut_points(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, ...]] | None:
        """Offsets at which each partition may be split, ascending: a message begins at each of them. None,
        without a request, if a message begins at every offset."""

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """End offsets that include records of open transactions."""

    def local_starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """First offsets on the local disks of the leaders: earlier records are in tiered storage."""

    def sample_sizes(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, SizeSample]:
        """Sizes of some records from an offset of each partition on, without partitions that have none."""

    def cleanup_policy(self, topic: str) -> frozenset[str]:
        """Cleanup policy of the topic: ``delete``, ``compact``, or both.

        Raises ``UnsupportedVersionError`` (fatal) if the brokers do not report it."""

    def record_times(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, RecordTimes]:
        """Timestamps of the first and the youngest record of each partition, as far as brokers report
        them."""

    def start_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, PartitionBounds]
    ) -> Offsets:
        """Start offsets that miss no message at or after the timestamp of the partition; None if there is
        no such message."""

    def stop_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, PartitionBounds]
    ) -> Offsets:
        """Stop offsets that miss no message before the timestamp of the partition; None for the end."""

    def committed_offsets(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Offsets that the consumer group of the options has committed; None if it has committed none."""

    @property
    def groups(self) -> ConsumerGroups:
        """The consumer groups of the cluster."""


def cluster_of(options: ReadOptions | TaskOptions, brokers: tuple[Broker, ...] | None = None) -> Cluster:
    """The cluster that the discovery option names.

    A task has neither the address of ZooKeeper nor its credentials, so it passes the 0.7 ``brokers`` that it
    reads from.
    """
    if options.discovery.directories is not None:
        from .log_directories.cluster import DirectoryCluster

        return DirectoryCluster(
            options.discovery.directories,
            is_committed=options.fetch.isolation_level == READ_COMMITTED,
            fail_on_data_loss=options.fetch.fail_on_data_loss,
            fail_on_damage=options.fetch.bad_records is BadRecords.FAIL,
        )
    net = replace(options.net, retry=options.planning_retry)
    return _CLUSTERS[options.discovery.generation](options, net, brokers)


def _v07_cluster(
    options: ReadOptions | TaskOptions, net: NetOptions, brokers: tuple[Broker, ...] | None
) -> Cluster:
    from .v07.cluster import V07Cluster

    fail = options.fetch.fail_on_data_loss
    return V07Cluster(options.discovery, net, brokers, fail_on_data_loss=fail)


def _modern_cluster(
    options: ReadOptions | TaskOptions, net: NetOptions, _: tuple[Broker, ...] | None
) -> Cluster:
    from .modern.cluster import ModernCluster
    from .modern.metadata import Metadata

    metadata = Metadata(options.discovery.bootstrap_servers, net)
    # A task does not read the offsets of a group.
    group_id = options.group_id if isinstance(options, ReadOptions) else None
    return ModernCluster(metadata, net, options.fetch.isolation_level, group_id)


# A process uses a cluster of one generation, and imports only that one: 0.7 needs a ZooKeeper client.
_CLUSTERS: Final[
    Mapping[Generation, Callable[[ReadOptions | TaskOptions, NetOptions, tuple[Broker, ...] | None], Cluster]]
] = MappingProxyType({Generation.V07: _v07_cluster, Generation.MODERN: _modern_cluster})
