"""Plan of a batch read, for both generations, on the driver: from options to one task for each offset
range.

It selects the partitions, turns start and end options into offsets by requests to the cluster, and
splits the ranges. Ranges of log directories are split by bytes, and their tasks have the names of their
files.

A Spark partition is one range, one chain (``keyOrder``), or one pack. With ``packSmallPartitions``
small ranges that one broker leads become a pack: one Spark partition, whose task sends one request for
many partitions. Sizes have the unit of offsets: records, or bytes in 0.7. A pack is as large as a Spark
partition may be (``maxRecordsPerPartition``, ``maxBytesPerPartition``), and not larger than the limits
here. It has one range of a partition at most. All other ranges stay alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..clients.reading.task import FetchTask
from ..cluster import Cluster, Offsets, cluster_of
from ..errors import LOG, DataLossError, OptionError, ProtocolError, UnknownTopicError, quote
from ..model import Broker, Leader, OffsetRange, OffsetUnit, PartitionBounds, TopicPartition
from ..net.known_versions import BROKER_VERSIONS
from ..options import LimitKind, OffsetLimits, ReadOptions, Selection
from ..protocol.modern.limits import READ_COMMITTED
from ..protocol.modern.minimum_versions import MinimumVersions
from .key_order import Layouts, chains, find_layouts, mark_tasks
from .limits import End, at_time, check_names, end_of, limit_of, log_resolved, range_between, start_of
from .ranges import Bounds, split

if TYPE_CHECKING:
    from ..options.java_pattern import JavaPattern


#: A method of the cluster that finds offsets by timestamp.
_AskTimes = Callable[[Mapping[TopicPartition, int], Bounds], Offsets]


def plan(options: ReadOptions) -> tuple[FetchTask, ...]:
    """Tasks of a read, in the order of their partitions, without empty ranges.

    Raises ``OptionError``, ``DiscoveryError``, ``UnknownTopicError``, ``DataLossError``,
    ``BrokerError`` or a ``TransportError`` (all fatal here: the retries are used up).
    """
    cluster = cluster_of(options)
    named = options.key_order.partitions if options.key_order else ()
    cluster.await_partitions([*options.starting.by_partition, *options.ending.by_partition, *named])
    selected = select(options.selection, cluster, may_be_empty=True)
    leaders = cluster.leaders_of(selected)
    partitions = keep_led(selected, leaders, fail_on_data_loss=options.fetch.fail_on_data_loss)
    for limits in (options.starting, options.ending):
        check_names(limits, partitions)
    ranges = _resolve_ends(options, cluster, partitions)
    by_partition = {item.bounds.topic_partition: item for item in ranges}
    bounds = {tp: item.bounds for tp, item in by_partition.items()}
    starts = {tp: item.segment_starts for tp, item in bounds.items()}
    cut_points = {tp: result for tp, result in starts.items() if result is not None}
    layouts: Layouts = {}
    if options.key_order is not None:
        layouts = find_layouts(options, cluster, selected, bounds)
    whole: Sequence[OffsetRange] = [item.range for item in ranges]
    if options.discovery.directories is not None:
        whole = split_by_bytes(whole, cluster, options.partition_bytes_max)
    parts = split(whole, options.min_partitions, options.partition_size_max, cut_points or None)
    minimum = BROKER_VERSIONS.minimum(options.net.connection, [leader.broker for leader in leaders.values()])
    tasks: Iterable[FetchTask] = (
        _task(part, by_partition[part.topic_partition], leaders[part.topic_partition], minimum)
        for part in parts
    )
    if options.discovery.directories is not None:
        tasks = with_files(tasks, cluster)
    return mark_tasks(options.key_order, layouts, tasks)


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The range to read of one partition, and the origin of its two ends."""

    bounds: PartitionBounds
    range: OffsetRange
    start: End
    end: End


def _resolve_ends(
    options: ReadOptions, cluster: Cluster, partitions: Sequence[TopicPartition]
) -> list[_Resolved]:
    # The offsets of a group are requested before the bounds, because the group may pass the bounds meanwhile.
    # The bounds are requested before offsets by timestamp: a message that is appended later is outside of the
    # range, and a segment that was older than the timestamp cannot contain it.
    committed = _fetch_committed(options.starting, partitions, cluster)
    bounds = cluster.bounds(partitions)
    now_ms = _now_ms()
    starts = starts_of(options, cluster, bounds, committed, now_ms)
    ending = at_time(options.ending, now_ms)
    stops = _offsets_at_times(ending, bounds, cluster.stop_offsets)
    ends = {tp: end_of(ending, bounds[tp], stops) for tp in partitions}
    log_resolved(options.ending, ends, now_ms)
    high_watermarks = _high_watermarks(options, cluster, bounds, starts, ends)
    ranges = []
    for partition in partitions:
        limits = range_between(
            starts[partition],
            ends[partition],
            bounds[partition],
            fail_on_data_loss=options.fetch.fail_on_data_loss,
            high_watermark=high_watermarks.get(partition),
        )
        ranges.append(_Resolved(bounds[partition], *limits))
    return ranges


def _high_watermarks(
    options: ReadOptions, cluster: Cluster, bounds: Bounds, *ends: Mapping[TopicPartition, End]
) -> Mapping[TopicPartition, int]:
    """High watermarks of partitions whose range ends after the last stable offset (read_committed)."""
    if options.fetch.isolation_level != READ_COMMITTED:
        return {}
    beyond = [tp for tp, held in bounds.items() if any(item[tp].offset > held.latest for item in ends)]
    return cluster.high_watermarks(beyond) if beyond else {}


def starts_of(
    options: ReadOptions,
    cluster: Cluster,
    bounds: Bounds,
    committed: Offsets | None = None,
    now_ms: int | None = None,
) -> dict[TopicPartition, End]:
    """Start offsets by the options. Raises ``OptionError``, and the errors of the cluster.

    ``committed`` are the offsets of the group of the options, if they were requested before. ``now_ms`` is
    the time from which times before now count, milliseconds since 1970; by default that of the call.
    """
    if committed is None:
        committed = _fetch_committed(options.starting, list(bounds), cluster)
    now_ms = _now_ms() if now_ms is None else now_ms
    starting = at_time(options.starting, now_ms)
    resolved = {**committed, **_offsets_at_times(starting, bounds, cluster.start_offsets)}
    latest_if_no_match = options.latest_if_no_match
    starts = {
        tp: start_of(starting, bounds[tp], resolved, latest_if_no_match=latest_if_no_match) for tp in bounds
    }
    log_resolved(options.starting, starts, now_ms)
    return starts


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def select(
    selection: Selection, cluster: Cluster, *, may_be_empty: bool = False
) -> tuple[TopicPartition, ...]:
    """Partitions that the options select. Raises ``UnknownTopicError`` for topics that no broker holds.

    A pattern that matches no topic is also an error, or a warning if the selection ``may_be_empty``, as in
    Spark's own connector.
    """
    if selection.assign:
        return cluster.assigned(selection.assign)
    if selection.pattern is not None:
        return _partitions_matching(selection.pattern, cluster, may_be_empty)
    return cluster.partitions_of(selection.subscribe)


def _partitions_matching(pattern: str, cluster: Cluster, may_be_empty: bool) -> tuple[TopicPartition, ...]:
    topics = _some_matching(pattern, cluster, may_be_empty)
    while topics:
        try:
            return cluster.partitions_of(topics)
        except UnknownTopicError:
            # A topic that was deleted since is no longer listed. If all topics are still listed, a topic is
            # missing.
            listed = _some_matching(pattern, cluster, may_be_empty)
            if set(topics) <= set(listed):
                raise
            topics = listed
    return ()


def _some_matching(pattern: str, cluster: Cluster, may_be_empty: bool) -> list[str]:
    topics = cluster.topics()
    result = match_topics(pattern, topics)
    if not result:
        nothing = f"option subscribePattern: none of the {len(topics)} topics matches {quote(pattern)}"
        if not may_be_empty:
            raise UnknownTopicError(nothing)
        LOG.warning("%s: nothing is read", nothing)
    return result


def match_topics(pattern: str, topics: Sequence[str]) -> list[str]:
    """Topics that match a pattern. Raises ``OptionError``, and ``ProtocolError`` for an impossible topic
    name."""
    from ..options.java_pattern import NAME_SIZE_MAX, PatternError

    if long := next((topic for topic in topics if len(topic) > NAME_SIZE_MAX), None):
        raise ProtocolError(
            f"topic names have at most {NAME_SIZE_MAX} characters, and a broker lists one of {len(long)}: "
            f"{quote(long)}; name the topics with subscribe"
        )
    try:
        compiled = _compile_pattern(pattern)
        return [topic for topic in topics if compiled.is_found_in(topic)]
    except PatternError as error:
        raise OptionError(f"option subscribePattern: {quote(pattern)}: {error}") from error


@lru_cache(maxsize=16)
def _compile_pattern(pattern: str) -> JavaPattern:
    from ..options.java_pattern import JavaPattern

    return JavaPattern(pattern)


def covers(selection: Selection, topic: str) -> bool:
    """True if the options select a topic, which need not exist."""
    if selection.pattern is not None:
        return _compile_pattern(selection.pattern).is_found_in(topic)
    return topic in selection.subscribe or topic in {tp.topic for tp in selection.assign}


def keep_led(
    partitions: Sequence[TopicPartition], leaders: Mapping[TopicPartition, Leader], *, fail_on_data_loss: bool
) -> tuple[TopicPartition, ...]:
    """Partitions whose broker is alive; the others are a data loss."""
    lost = [tp for tp in partitions if tp not in leaders]
    if not lost:
        return tuple(partitions)
    dead = sorted({tp.broker for tp in lost if tp.broker is not None})
    loss = (
        f"broker {', '.join(map(str, dead))} is not alive and holds {len(lost)} of the {len(partitions)} "
        f"partitions to read, {lost[0]} first"
    )
    if fail_on_data_loss:
        raise DataLossError(f"{loss}; start it, or set failOnDataLoss=false to read the others")
    LOG.warning("%s; reading the others because failOnDataLoss=false", loss)
    return tuple(tp for tp in partitions if tp in leaders)


def _fetch_committed(limits: OffsetLimits, partitions: Sequence[TopicPartition], cluster: Cluster) -> Offsets:
    """Committed offsets of the partitions that start at them."""
    asked = [tp for tp in partitions if limit_of(limits, tp).kind is LimitKind.COMMITTED]
    return cluster.committed_offsets(asked) if asked else {}


def _offsets_at_times(limits: OffsetLimits, bounds: Bounds, ask: _AskTimes) -> Offsets:
    """Offsets of the limits that are timestamps."""
    times = {tp: limit.value for tp in bounds if (limit := limit_of(limits, tp)).kind is LimitKind.TIMESTAMP}
    return ask(times, bounds) if times else {}


def _task(part: OffsetRange, whole: _Resolved, leader: Leader, minimum: MinimumVersions) -> FetchTask:
    if whole.bounds.segment_starts is None:  # every offset is a message boundary
        return FetchTask(part, leader, minimum_versions=minimum)
    return FetchTask(
        part,
        leader,
        start_option=whole.start.option if part.start_offset == whole.start.offset else None,
        stop_option=whole.end.option if part.stop_offset == whole.end.offset else None,
        minimum_versions=minimum,
    )


def split_by_bytes(
    ranges: Sequence[OffsetRange], cluster: Cluster, bytes_max: int | None
) -> Sequence[OffsetRange]:
    """Split ranges of offsets where the indexes of their segments say that there are so many bytes."""
    if bytes_max is None:
        return ranges
    from ..cluster.log_directories.cluster import DirectoryCluster

    assert isinstance(cluster, DirectoryCluster)
    result = []
    for whole in ranges:
        log = cluster.log_of(whole.topic_partition)
        cuts = log.cut_points(whole.start_offset, whole.stop_offset, bytes_max) if whole.size else ()
        ends = [whole.start_offset, *cuts, whole.stop_offset]
        result += [OffsetRange(whole.topic_partition, start, stop) for start, stop in pairwise(ends)]
    return result


def with_files(tasks: Iterable[FetchTask], cluster: Cluster) -> Iterator[FetchTask]:
    """The tasks with their files: a task for each directory where a range is in several."""
    from ..cluster.log_directories.cluster import DirectoryCluster

    assert isinstance(cluster, DirectoryCluster)
    brokers = cluster.brokers()
    for task in tasks:
        log = cluster.log_of(task.range.topic_partition)
        for part in log.slices(task.range.start_offset, task.range.stop_offset):
            yield replace(
                task,
                range=replace(task.range, start_offset=part.start_offset, stop_offset=part.stop_offset),
                leader=Leader(brokers[part.place]),
                files=part.files,
            )


#: Most ranges of a pack: a task of them takes about as long as a small task of one large range.
RANGES_COUNT_MAX: Final = 500
#: Small ranges of a plan above which the option is worth a line in the log: below, their tasks take seconds.
HINTED_COUNT: Final = 2000


#: The largest small range, and the largest pack, in the unit of offsets.
_SIZES: Final[Mapping[OffsetUnit, tuple[int, int]]] = MappingProxyType(
    {OffsetUnit.RECORDS: (1000, 100_000), OffsetUnit.BYTES: (1 << 20, 64 << 20)}
)


def spark_partitions(tasks: Sequence[FetchTask], options: ReadOptions) -> list[tuple[FetchTask, ...]]:
    """Tasks of each Spark partition."""
    if not options.packs_small:
        return chains(tasks)
    small_max, pack_max = _SIZES[options.discovery.generation.offset_unit]
    return packs(tasks, small_max, min(pack_max, options.partition_size_max or pack_max))


def packs(tasks: Sequence[FetchTask], small_max: int, pack_max: int) -> list[tuple[FetchTask, ...]]:
    """Packs of the small ranges of each leader, and all other ranges alone."""
    counts = Counter(task.range.topic_partition for task in tasks)
    alone: list[tuple[FetchTask, ...]] = []
    by_leader: dict[Broker, list[FetchTask]] = {}
    for task in tasks:
        if task.range.size <= small_max and counts[task.range.topic_partition] == 1:
            by_leader.setdefault(task.leader.broker, []).append(task)
        else:
            alone.append((task,))
    return [*alone, *(pack for small in by_leader.values() for pack in _packs_of(small, pack_max))]


def _packs_of(tasks: Sequence[FetchTask], pack_max: int) -> list[tuple[FetchTask, ...]]:
    """Packs of the tasks in their order, about equally large."""
    total = sum(task.range.size for task in tasks)
    least = max(-(-total // pack_max), -(-len(tasks) // RANGES_COUNT_MAX))
    count_max = -(-len(tasks) // least)
    result: list[tuple[FetchTask, ...]] = []
    pack: list[FetchTask] = []
    size = 0
    for task in tasks:
        if pack and (len(pack) == count_max or size + task.range.size > pack_max):
            result.append(tuple(pack))
            pack, size = [], 0
        pack.append(task)
        size += task.range.size
    return [*result, tuple(pack)]


def hint(tasks: Sequence[FetchTask], options: ReadOptions) -> bool:
    """Log a line and return True if a plan has many small ranges that could be packed."""
    if options.packs_small is not False or len(tasks) <= HINTED_COUNT:
        return False
    small_max, _ = _SIZES[options.discovery.generation.offset_unit]
    count = sum(task.range.size <= small_max for task in tasks)
    if count <= HINTED_COUNT:
        return False
    LOG.warning(
        "the plan has %d small ranges, each a Spark task: packSmallPartitions=true reads many in one task",
        count,
    )
    return True
