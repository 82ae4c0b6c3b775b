"""The plan of a run: the partitions to copy, the topics that must exist for them, and the opening of each
partition, which finds where its copy continues, and gets its producer id.

The target may hold messages that the state directory does not know, because the directory was restored
from an older copy or is new. So the target is checked: messages of the source after the mark, or at the
beginning of a target that the state has never written to, reveal this.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.clients.writing.modern import ModernWritePartitions
from spark_kafkawire.clients.writing.modern.batches import obtain_producer_id
from spark_kafkawire.cluster.cluster import cluster_of
from spark_kafkawire.cluster.modern.admin import create_topics
from spark_kafkawire.cluster.modern.metadata import Topic
from spark_kafkawire.errors import DataLossError, DiscoveryError, OptionError, counted, quoted
from spark_kafkawire.model import Leader, OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.planner.batch import select
from spark_kafkawire.protocol.modern.admin import BROKER_DEFAULT

from ..state import ExpectedPartitions, missing_lines, missing_text
from .clusters import Clusters
from .exactly_once import Note, PartitionTransaction
from .state import Mark, PartitionProgress, Route, State, partition_counts, routes_of


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


#: Format of records whose batches carry an identity (Kafka 0.11).
_IDEMPOTENT_MAGIC: Final = 2
_ADVICE: Final = (
    "another --state copied it: continue with that one, or copy to a new topic with --map; otherwise all "
    "messages would be there twice"
)


def opened(
    clusters: Clusters, copy: PartitionCopy, target: PartitionBounds, topic_id: str | None
) -> PartitionProgress:
    """The partition's progress, to be saved before anything is sent.

    Raises ``OptionError`` (fatal) where another state directory has begun to copy it, and the errors of
    reading and of asking for a producer id.
    """
    before, note = copy.progress, _note(clusters, copy)
    if before is None:
        _check_new(clusters, copy, target, note)
        producer = None
        if not clusters.are_in_transactions:
            producer = obtain_producer_id(clusters.metadata, clusters.write, _IDEMPOTENT_MAGIC)
        mark = Mark(copy.start_offset, target.latest)
    else:
        producer = before.producer
        is_old = _is_old(clusters, copy, before.copied, target, note)
        at = before.copied.target_offset if is_old else target.latest
        mark = Mark(copy.start_offset, at, before.copied.message_count)
    return PartitionProgress(copy.route.source, copy.route.target, topic_id, producer, mark, mark)


def _note(clusters: Clusters, copy: PartitionCopy) -> Note | None:
    """The note of the log that brokers keep, if it is copied in transactions."""
    if not clusters.are_in_transactions:
        return None
    with PartitionTransaction(clusters, copy.route) as transaction:
        return transaction.note()


def _is_old(
    clusters: Clusters, copy: PartitionCopy, mark: Mark, target: PartitionBounds, note: Note | None
) -> bool:
    """True if more was copied than the state's mark says, as with an older copy of the state."""
    if note is not None and note.mark.message_count >= mark.message_count:
        return note.is_after(mark)
    # Messages that the state does not know are after its mark.
    return _holds_next(clusters, copy, mark.target_offset, target.latest)


def _holds_next(clusters: Clusters, copy: PartitionCopy, start_offset: int, stop_offset: int) -> bool:
    """True if the target holds, in a range of it, the messages to copy next.

    With source headers a message anywhere in the range says so, without them its first one, by its
    value: other programs may have written there. Raises the errors of reading.
    """
    if not copy.size:
        return False
    target = copy.route.target
    with closing(clusters.copied_values(copy.route.source, target, start_offset, stop_offset)) as pieces:
        there = next((values[0] for values in pieces if len(values)), None)
    if there is None or clusters.source_headers:
        return there is not None
    with closing(clusters.source_columns(copy.fetch_task(copy.start_offset))) as source:
        first = next((each.values[0] for each in source if each.values is not None and each.count), None)
    return bool(there == first)


def _check_new(clusters: Clusters, copy: PartitionCopy, target: PartitionBounds, note: Note | None) -> None:
    """Raise ``OptionError`` (fatal) where a partition that was never copied, by the state's account, was."""
    if note is not None:
        raise OptionError(
            f"argument --state: {copy.route.source} is copied to {copy.route.target} already, with this name "
            f"of transactions: {_ADVICE}"
        )
    # The first message is enough: a copy of another directory began there.
    first = clusters.first_offset(copy.route.target, target.earliest, target.latest)
    if first is not None and _holds_next(clusters, copy, first, first + 1):
        raise OptionError(
            f"argument --state: {copy.route.target} begins with the messages of {copy.route.source} already: "
            f"{_ADVICE}"
        )
