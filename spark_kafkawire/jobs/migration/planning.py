"""The plan of a run: the partitions to copy, and the topics that must exist for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.clients.writing.modern import ModernWritePartitions
from spark_kafkawire.cluster.cluster import cluster_of
from spark_kafkawire.cluster.modern.admin import create_topics
from spark_kafkawire.cluster.modern.metadata import Topic
from spark_kafkawire.errors import DataLossError, DiscoveryError, OptionError, counted, quoted
from spark_kafkawire.model import Leader, OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.planner.batch import select
from spark_kafkawire.protocol.modern.create_topics import BROKER_DEFAULT

from ..state.expected_partitions import ExpectedPartitions, missing_lines, missing_text
from .clusters import Clusters
from .routes import Route, partition_counts, routes_of
from .state import PartitionProgress, State


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """A partition to copy: its target, its offsets, and the progress of earlier runs.

    ``lost_bytes`` of the source are gone since then.
    """

    route: Route
    leader: Leader
    start_offset: int
    stop_offset: int
    progress: PartitionProgress | None = None
    lost_bytes: int = 0

    @property
    def size(self) -> int:
        """Bytes of the source to copy."""
        return self.stop_offset - self.start_offset

    def fetch_task(self, start_offset: int, stop_offset: int | None = None) -> FetchTask:
        """Read the source from an offset on, to the copy's end unless another is given."""
        stop = self.stop_offset if stop_offset is None else stop_offset
        return FetchTask(OffsetRange(self.route.source, start_offset, stop), self.leader)


def plan(
    clusters: Clusters, names: Mapping[str, str], state: State, gone_brokers: Collection[int] = ()
) -> tuple[tuple[PartitionCopy, ...], list[str]]:
    """A copy for each partition that the options select, up to its end now; and a line for each partition
    that earlier runs have copied and that is skipped, because its broker is among the ``gone_brokers``.

    Raises ``OptionError``, ``UnknownTopicError``, ``DiscoveryError``, ``DataLossError``, and the errors of
    asking the brokers (all fatal).
    """
    cluster = cluster_of(clusters.source)
    known = ExpectedPartitions(clusters.source, state.partitions, gone_brokers)
    known.await_brokers(cluster)
    partitions = select(clusters.source.selection, cluster)
    missing = known.missing(partitions)
    if others := [tp for tp in missing if not known.is_given_up(tp)]:
        raise DiscoveryError(f"{missing_text(others)}; start its broker, or give --gone-broker")
    routes = routes_of(partitions, names, {tp: done.target for tp, done in state.partitions.items()})
    leaders = cluster.leaders_of(partitions)
    if dead := [tp for tp in partitions if tp not in leaders]:
        raise DiscoveryError(
            f"{dead[0]}: broker {dead[0].broker} is not alive, and {len(dead)} of the {len(partitions)} "
            "partitions to copy cannot be read; start all brokers"
        )
    bounds = cluster.bounds(partitions)
    allowed = not clusters.source.fetch.fail_on_data_loss
    copies = tuple(
        _partition_copy(
            route, leaders[route.source], bounds[route.source], state.partitions.get(route.source), allowed
        )
        for route in routes
    )
    copied = {tp: progress.copied.source_offset for tp, progress in state.partitions.items()}
    return copies, missing_lines(missing, copied)


def _partition_copy(
    route: Route, leader: Leader, bounds: PartitionBounds, progress: PartitionProgress | None, allowed: bool
) -> PartitionCopy:
    start = bounds.earliest if progress is None else progress.copied.source_offset
    if start > bounds.latest:
        raise DataLossError(
            f"{route.source} ends at {bounds.latest} and was copied up to {start}: it is another partition "
            "than that of the state directory; begin with an empty one and a new topic"
        )
    lost = max(bounds.earliest - start, 0)
    if lost and (not allowed or (progress is not None and progress.is_open)):
        open_advice = "begin with an empty state directory and a new topic"
        advice = open_advice if allowed else "--source-option failOnDataLoss=false copies what is left"
        raise DataLossError(
            f"{route.source}: {lost} bytes from offset {start} on were deleted before they were copied; "
            f"{advice}"
        )
    return PartitionCopy(route, leader, start + lost, bounds.latest, progress, lost)


def missing_topics(clusters: Clusters, copies: Sequence[PartitionCopy], *, create: bool) -> dict[str, int]:
    """The target's missing topics, and the number of partitions that each gets.

    Raises ``OptionError`` (fatal) for names that brokers refuse, for topics with too few partitions,
    and if topics are missing but may not be created.
    """
    counts = partition_counts(copy.route for copy in copies)
    for topic in counts:
        if fault := ModernWritePartitions.topic_fault(topic):
            raise OptionError(f"topic {quoted(topic)} of the target: {fault}; give it another name by --map")
    there = target_topics(clusters)
    for topic, count in counts.items():
        if topic in there and len(there[topic].leaders) < count:
            raise OptionError(
                f"topic {quoted(topic)} of the target has {counted(len(there[topic].leaders), 'partition')}, "
                f"and {counted(count, 'partition is', 'partitions are')} copied to it; add partitions, or "
                "copy to another topic by --map"
            )
    missing = {topic: count for topic, count in counts.items() if topic not in there}
    if missing and not create:
        raise OptionError(
            f"topic {quoted(min(missing))} ({len(missing)} in all) is not in the target; create it: "
            f"--create-topics does so with {counted(missing[min(missing)], 'partition')}"
        )
    return missing


def target_topics(clusters: Clusters) -> dict[str, Topic]:
    """The topics that the target has now."""
    return {topic.name: topic for topic in clusters.metadata.topics() if topic.leaders}


def prepare_topics(
    clusters: Clusters,
    copies: Sequence[PartitionCopy],
    *,
    create: bool,
    replication_factor: int = BROKER_DEFAULT,
) -> dict[TopicPartition, str | None]:
    """Create missing topics. Returns the topic id of each target, None where topics have none.

    Raises as ``missing_topics`` and ``create_topics``, and ``OptionError`` for a topic that was deleted and
    created again since an earlier run.
    """
    missing = missing_topics(clusters, copies, create=create)
    create_topics(clusters.metadata, missing, clusters.write.net, replication_factor)
    leaders = clusters.metadata.leaders_of(copy.route.target for copy in copies)
    ids = {tp: str(leader.topic_id) if leader.topic_id else None for tp, leader in leaders.items()}
    for copy in copies:
        target, before = copy.route.target, copy.progress.topic_id if copy.progress else None
        if None is not before != ids[target] is not None:
            raise OptionError(
                f"topic {quoted(target.topic)} of the target was deleted and created again since the "
                "last run; begin with an empty state directory"
            )
    return ids
