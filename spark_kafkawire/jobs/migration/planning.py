"""What a run is going to copy, and the topics that must be there for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...clients.reading.task import FetchTask
from ...clients.writing.modern.targets import Targets
from ...cluster.cluster import cluster_of
from ...cluster.modern.create_topics import create_topics
from ...cluster.modern.topic import Topic
from ...errors import DataLossError, DiscoveryError, OptionError, quoted
from ...model import Leader, LogBounds, OffsetRange, TopicPartition
from ...planner.batch import select
from ...protocol.modern.create_topics import BROKER_DEFAULT
from ..state.known_logs import KnownLogs, missing_lines, missing_text
from .clusters import Clusters
from .routes import Route, partition_counts, routes_of
from .state import LogProgress, State


@dataclass(frozen=True, slots=True)
class LogCopy:
    """One log to copy: where to, from which offset to which, and how far earlier runs were.

    ``lost_bytes`` of the source are gone since then.
    """

    route: Route
    leader: Leader
    start_offset: int
    stop_offset: int
    progress: LogProgress | None = None
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
) -> tuple[tuple[LogCopy, ...], list[str]]:
    """A copy for each log that the options select, up to its end now; and a line for each log that earlier
    runs have copied and that is passed over, because its broker is among the ``gone_brokers``.

    Raises ``OptionError``, ``UnknownTopicError``, ``DiscoveryError``, ``DataLossError``, and what
    asking the brokers raises (all fatal).
    """
    cluster = cluster_of(clusters.source)
    known = KnownLogs(clusters.source, state.logs, gone_brokers)
    known.await_brokers(cluster)
    logs = select(clusters.source.selection, cluster)
    missing = known.missing(logs)
    if others := [log for log in missing if not known.is_given_up(log)]:
        raise DiscoveryError(f"{missing_text(others)}; start its broker, or say --gone-broker")
    routes = routes_of(logs, names, {log: done.target for log, done in state.logs.items()})
    leaders = cluster.leaders_of(logs)
    if dead := [log for log in logs if log not in leaders]:
        raise DiscoveryError(
            f"{dead[0]}: broker {dead[0].broker} is not alive, and {len(dead)} of the {len(logs)} "
            "logs to copy cannot be read; start all brokers"
        )
    bounds = cluster.bounds(logs)
    allowed = not clusters.source.fetch.fail_on_data_loss
    copies = tuple(
        _log_copy(route, leaders[route.source], bounds[route.source], state.logs.get(route.source), allowed)
        for route in routes
    )
    copied = {log: progress.copied.source_offset for log, progress in state.logs.items()}
    return copies, missing_lines(missing, copied)


def _log_copy(
    route: Route, leader: Leader, bounds: LogBounds, progress: LogProgress | None, allowed: bool
) -> LogCopy:
    start = bounds.earliest if progress is None else progress.copied.source_offset
    if start > bounds.latest:
        raise DataLossError(
            f"{route.source} ends at {bounds.latest} and was copied up to {start}: it is another log than "
            "that of the state directory; begin with an empty one and a new topic"
        )
    lost = max(bounds.earliest - start, 0)
    if lost and (not allowed or (progress is not None and progress.is_open)):
        open_advice = "begin with an empty state directory and a new topic"
        advice = open_advice if allowed else "--source-option failOnDataLoss=false copies what is left"
        raise DataLossError(
            f"{route.source}: {lost} bytes from offset {start} on are gone before they were copied; {advice}"
        )
    return LogCopy(route, leader, start + lost, bounds.latest, progress, lost)


def missing_topics(clusters: Clusters, copies: Sequence[LogCopy], *, create: bool) -> dict[str, int]:
    """The target's topics that are not there yet, and how many partitions each gets.

    Raises ``OptionError`` (fatal) for names that brokers refuse, for topics with too few partitions,
    and where some are missing and are not to be created.
    """
    counts = partition_counts(copy.route for copy in copies)
    for topic in counts:
        if fault := Targets.topic_fault(topic):
            raise OptionError(f"topic {quoted(topic)} of the target: {fault}; give it another name by --map")
    there = target_topics(clusters)
    for topic, count in counts.items():
        if topic in there and len(there[topic].leaders) < count:
            raise OptionError(
                f"topic {quoted(topic)} of the target has {len(there[topic].leaders)} partitions, "
                f"and {count} logs are copied to it; add partitions, or copy to another topic by --map"
            )
    missing = {topic: count for topic, count in counts.items() if topic not in there}
    if missing and not create:
        raise OptionError(
            f"topic {quoted(min(missing))} ({len(missing)} in all) is not in the target; --create-topics "
            f"creates it with {missing[min(missing)]} partitions"
        )
    return missing


def target_topics(clusters: Clusters) -> dict[str, Topic]:
    """The topics that the target has now."""
    return {topic.name: topic for topic in clusters.metadata.topics() if topic.leaders}


def prepare_topics(
    clusters: Clusters, copies: Sequence[LogCopy], *, create: bool, replication_factor: int = BROKER_DEFAULT
) -> dict[TopicPartition, str | None]:
    """Create what is missing; the topic id of each target, None where topics have none.

    Raises as ``missing_topics`` and ``create_topics``, and ``OptionError`` for a topic that was made
    anew since an earlier run.
    """
    missing = missing_topics(clusters, copies, create=create)
    create_topics(clusters.metadata, missing, clusters.write.net, replication_factor)
    leaders = clusters.metadata.leaders_of(copy.route.target for copy in copies)
    ids = {log: str(leader.topic_id) if leader.topic_id else None for log, leader in leaders.items()}
    for copy in copies:
        target, before = copy.route.target, copy.progress.topic_id if copy.progress else None
        if None is not before != ids[target] is not None:
            raise OptionError(
                f"topic {quoted(target.topic)} of the target was deleted and made anew since the "
                "last run; begin with an empty state directory"
            )
    return ids
