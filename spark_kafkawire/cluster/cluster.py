"""What a read asks of a cluster, whatever generation its brokers are of.

cluster = cluster_of(options)
logs = cluster.logs_of(["debian-gzip"])
bounds = cluster.bounds(logs)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol

from ..model import Broker, Generation, Leader, LogBounds, RecordTimes, TopicPartition
from ..options import NetOptions, ReadOptions

#: An offset for each log; None where the cluster knows none that fits the question.
Offsets = Mapping[TopicPartition, int | None]


class Cluster(Protocol):
    """Topics, leaders and offsets. Nothing is asked before a method is called.

    All methods raise ``DiscoveryError`` (fatal), and ``BrokerError`` or ``TransportError`` when
    the retries are used up.
    """

    def brokers(self) -> Sequence[Broker]:
        """The brokers that are alive, sorted."""

    def topics(self) -> Sequence[str]:
        """Names that ``subscribePattern`` may find, sorted. Raises ``OptionError`` where brokers
        cannot list them."""

    def logs_of(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        """All logs of the topics, sorted. Raises ``UnknownTopicError`` (fatal)."""

    def logs_listed(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        """All logs of topics that ``topics()`` has named just now, in their order; what it was told of them
        then is not asked for again. Raises ``UnknownTopicError`` (fatal)."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, uuid.UUID]:
        """The ids of those of the topics that are there and have one (from 2.8 on): a topic that is
        deleted and made anew gets another."""

    def assigned(self, logs: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Those of the logs that ``assign`` names which can be read."""

    def await_logs(self, logs: Collection[TopicPartition]) -> None:
        """Wait until the brokers of these logs are registered, where the name of a log holds one (0.7).

        Raises ``BrokersMissingError`` where one does not come, unless ``failOnDataLoss`` is false."""

    def leaders_of(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Who serves each log; those whose broker is not alive are left out."""

    def known_leaders(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Who leads each log by the last answers; nothing is asked for again, no election is waited for."""

    def forget(self, log: TopicPartition) -> None:
        """Ask for the log when it is next needed: what is known of it is stale."""

    def bounds(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        """Where each log starts and ends now, in the order of ``logs``."""

    def cut_points(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]] | None:
        """Where each log may be split: offsets at which a message begins, ascending. None, without asking,
        where one begins at every offset."""

    def high_watermarks(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each log ends, also for those who read committed records only."""

    def local_starts(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each log's leader serves at once: earlier ones are in tiered storage."""

    def cleanup_policy(self, topic: str) -> frozenset[str]:
        """What happens to the topic's old records: ``delete``, ``compact``, or both.

        Raises ``UnsupportedVersionError`` (fatal) where brokers cannot tell it."""

    def record_times(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, RecordTimes]:
        """When each log's first and youngest records were made, as far as brokers tell."""

    def start_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, LogBounds]
    ) -> Offsets:
        """Where to start so that no message as young as the log's time is missed; None where there
        is no such message."""

    def stop_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, LogBounds]
    ) -> Offsets:
        """Where to stop so that no message older than the log's time is missed; None for the end."""

    def committed_offsets(self, logs: Sequence[TopicPartition]) -> Offsets:
        """Where the option's consumer group stands; None where it has committed nothing."""

    def groups(self) -> Sequence[str]:
        """The names of all consumer groups, sorted. Raises as ``group_members`` does."""

    def group_members(self, group: str) -> Sequence[str]:
        """The ids of the group's members at the moment, sorted.

        Raises ``OptionError`` (fatal) where the cluster keeps no groups (``broker.list``)."""

    def logs_of_group(self, group: str) -> Sequence[TopicPartition]:
        """All logs that a group may have offsets for, sorted; also such as the cluster does not hold.

        Raises as ``group_members`` does."""

    def read_group_offsets(
        self, group: str, logs: Sequence[TopicPartition], *, strict: bool = True
    ) -> Offsets:
        """Where a consumer group stands; None where it has committed nothing, and unless ``strict``
        where a node of ZooKeeper holds something else than an offset.

        Raises ``OptionError`` (fatal) where the cluster keeps no groups (``broker.list``)."""

    def commit_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, force: bool = False
    ) -> None:
        """Let a group stand at the offset of the next message of each log.

        Raises ``OptionError`` (fatal) while the group has members. ``force`` passes over those of
        0.7; later brokers know no such thing."""


def cluster_of(options: ReadOptions, brokers: tuple[Broker, ...] | None = None) -> Cluster:
    """The cluster that the discovery option names.

    A task, which may not know how to log in to ZooKeeper, gives the 0.7 ``brokers`` that it reads
    from.
    """
    net = replace(options.net, retry=options.planning_retry)
    return _CLUSTERS[options.discovery.generation](options, net, brokers)


def _v07_cluster(options: ReadOptions, net: NetOptions, brokers: tuple[Broker, ...] | None) -> Cluster:
    from .v07.cluster import Cluster as Found

    fail = options.fetch.fail_on_data_loss
    return Found(options.discovery, net, brokers, fail_on_data_loss=fail)


def _modern_cluster(options: ReadOptions, net: NetOptions, _: tuple[Broker, ...] | None) -> Cluster:
    from .modern.cluster import Cluster as Found
    from .modern.metadata import Metadata

    metadata = Metadata(options.discovery.bootstrap_servers, net)
    return Found(metadata, net, options.fetch.isolation_level, options.group_id)


# A process asks a cluster of one generation, and imports no other: that of 0.7 has a client for ZooKeeper.
_CLUSTERS: Final[
    Mapping[Generation, Callable[[ReadOptions, NetOptions, tuple[Broker, ...] | None], Cluster]]
] = MappingProxyType({Generation.V07: _v07_cluster, Generation.MODERN: _modern_cluster})
