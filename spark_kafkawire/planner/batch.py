"""Plans one batch read on the driver: options → brokers and logs → one task per range."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ..clients.reading.task import FetchTask
from ..cluster.cluster import Cluster, Offsets, cluster_of
from ..errors import DataLossError, OptionError, ProtocolError, UnknownTopicError, quoted
from ..model import Leader, LogBounds, OffsetRange, TopicPartition
from ..net.known_versions import KNOWN
from ..options import LimitKind, OffsetLimits, ReadOptions, Selection
from ..protocol.modern.floor import VersionFloor
from ..protocol.modern.isolation import READ_COMMITTED
from .key_order import Epochs, find_epochs, marked
from .limits import End, check_names, end_of, limit_of, range_between, start_of
from .ranges import split

if TYPE_CHECKING:
    from ..options.java_pattern import JavaPattern

_log = logging.getLogger("spark_kafkawire")

#: How the cluster is asked for the offsets that belong to timestamps.
_AskTimes = Callable[[Mapping[TopicPartition, int], Mapping[TopicPartition, LogBounds]], Offsets]


def plan(options: ReadOptions) -> tuple[FetchTask, ...]:
    """The tasks of a read, in the order of their logs; empty ranges are left out.

    Raises ``OptionError``, ``DiscoveryError``, ``UnknownTopicError``, ``DataLossError``,
    ``BrokerError`` or a ``TransportError`` (all fatal here: the retries are used up).
    """
    cluster = cluster_of(options)
    named = options.key_order.logs if options.key_order else ()
    cluster.await_logs([*options.starting.by_log, *options.ending.by_log, *named])
    selected = select(options.selection, cluster, may_be_empty=True)
    leaders = cluster.leaders_of(selected)
    logs = led(selected, leaders, fail_on_data_loss=options.fetch.fail_on_data_loss)
    for limits in (options.starting, options.ending):
        check_names(limits, logs)
    ranges = _resolved(options, cluster, logs)
    cut_points = {
        each.bounds.log: each.bounds.segment_starts
        for each in ranges
        if each.bounds.segment_starts is not None
    }
    by_log = {each.bounds.log: each for each in ranges}
    epochs: Epochs = {}
    if options.key_order is not None:
        epochs = find_epochs(options, cluster, selected, {log: by_log[log].bounds for log in by_log})
    whole = [each.range for each in ranges]
    parts = split(whole, options.min_partitions, options.partition_size_max, cut_points or None)
    floor = KNOWN.floor(options.net.connection, [leader.broker for leader in leaders.values()])
    tasks = (_task(part, by_log[part.log], leaders[part.log], floor) for part in parts)
    return marked(options.key_order, epochs, tasks)


@dataclass(frozen=True, slots=True)
class _Resolved:
    """What is read of one log, and where its two ends come from."""

    bounds: LogBounds
    range: OffsetRange
    start: End
    end: End


def _resolved(options: ReadOptions, cluster: Cluster, logs: Sequence[TopicPartition]) -> list[_Resolved]:
    # A group's offsets come before the bounds, which it may pass by. The bounds come before offsets
    # by time: a message that is appended after them is outside of the range, and a segment that was
    # old before them cannot hold it.
    committed = _committed(options.starting, logs, cluster)
    bounds = cluster.bounds(logs)
    starts = starts_of(options, cluster, bounds, committed)
    stops = _offsets_at_times(options.ending, bounds, cluster.stop_offsets)
    ends = {log: end_of(options.ending, bounds[log], stops) for log in logs}
    high_watermarks = _high_watermarks(options, cluster, bounds, starts, ends)
    ranges = []
    for log in logs:
        limits = range_between(
            starts[log],
            ends[log],
            bounds[log],
            fail_on_data_loss=options.fetch.fail_on_data_loss,
            high_watermark=high_watermarks.get(log),
        )
        ranges.append(_Resolved(bounds[log], *limits))
    return ranges


def _high_watermarks(
    options: ReadOptions,
    cluster: Cluster,
    bounds: Mapping[TopicPartition, LogBounds],
    *ends: Mapping[TopicPartition, End],
) -> Mapping[TopicPartition, int]:
    """The ends, with records of open transactions, of the logs that a read of committed ones would pass."""
    if options.fetch.isolation_level != READ_COMMITTED:
        return {}
    beyond = [log for log, held in bounds.items() if any(each[log].offset > held.latest for each in ends)]
    return cluster.high_watermarks(beyond) if beyond else {}


def starts_of(
    options: ReadOptions,
    cluster: Cluster,
    bounds: Mapping[TopicPartition, LogBounds],
    committed: Offsets | None = None,
) -> dict[TopicPartition, End]:
    """Where the options let each log start. Raises ``OptionError``, and what the cluster raises.

    ``committed`` are the offsets of the options' group, where they were asked for already.
    """
    if committed is None:
        committed = _committed(options.starting, list(bounds), cluster)
    resolved = {**committed, **_offsets_at_times(options.starting, bounds, cluster.start_offsets)}
    latest_if_no_match = options.latest_if_no_match
    return {
        log: start_of(options.starting, bounds[log], resolved, latest_if_no_match=latest_if_no_match)
        for log in bounds
    }


def select(
    selection: Selection, cluster: Cluster, *, may_be_empty: bool = False
) -> tuple[TopicPartition, ...]:
    """The logs that the options name. Raises ``UnknownTopicError`` for what no broker holds.

    A pattern that matches no topic is an error, too, or a warning where a selection ``may_be_empty``,
    as in Spark's own connector.
    """
    if selection.assign:
        return cluster.assigned(selection.assign)
    if selection.pattern is not None:
        return _logs_matching(selection.pattern, cluster, may_be_empty)
    return cluster.logs_of(selection.subscribe)


def _logs_matching(pattern: str, cluster: Cluster, may_be_empty: bool) -> tuple[TopicPartition, ...]:
    topics = _some_matching(pattern, cluster, may_be_empty)
    while topics:
        try:
            return cluster.logs_of(topics)
        except UnknownTopicError:
            # What was deleted since is not listed any more; what is listed still is there, and is missed.
            listed = _some_matching(pattern, cluster, may_be_empty)
            if set(topics) <= set(listed):
                raise
            topics = listed
    return ()


def _some_matching(pattern: str, cluster: Cluster, may_be_empty: bool) -> list[str]:
    topics = cluster.topics()
    found = matching(pattern, topics)
    if not found:
        nothing = f"option subscribePattern: none of the {len(topics)} topics matches {quoted(pattern)}"
        if not may_be_empty:
            raise UnknownTopicError(nothing)
        _log.warning("%s: nothing is read", nothing)
    return found


def matching(pattern: str, topics: Sequence[str]) -> list[str]:
    """Those of the topics that a pattern finds. Raises ``OptionError``, and ``ProtocolError`` for a name
    that no topic can have."""
    from ..options.java_pattern import NAME_SIZE_MAX, PatternError

    if long := next((topic for topic in topics if len(topic) > NAME_SIZE_MAX), None):
        raise ProtocolError(f"no broker has a topic of {len(long)} characters: {quoted(long)}")
    try:
        compiled = _compiled(pattern)
        return [topic for topic in topics if compiled.is_found_in(topic)]
    except PatternError as error:
        raise OptionError(f"option subscribePattern: {quoted(pattern)}: {error}") from error


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> JavaPattern:
    from ..options.java_pattern import JavaPattern

    return JavaPattern(pattern)


def covers(selection: Selection, topic: str) -> bool:
    """Whether the options name a topic, whether it is there or not."""
    if selection.pattern is not None:
        return _compiled(selection.pattern).is_found_in(topic)
    return topic in selection.subscribe or topic in {log.topic for log in selection.assign}


def led(
    logs: Sequence[TopicPartition],
    leaders: Mapping[TopicPartition, Leader],
    *,
    fail_on_data_loss: bool,
) -> tuple[TopicPartition, ...]:
    """The logs whose broker is alive; the others are a data loss."""
    lost = [log for log in logs if log not in leaders]
    if not lost:
        return tuple(logs)
    dead = sorted({log.broker for log in lost if log.broker is not None})
    loss = (
        f"broker {', '.join(map(str, dead))} is not alive and holds {len(lost)} of the {len(logs)} "
        f"partitions to read, {lost[0]} first"
    )
    if fail_on_data_loss:
        raise DataLossError(f"{loss}; start it, or set failOnDataLoss=false to read the others")
    _log.warning("%s; reading the others because failOnDataLoss=false", loss)
    return tuple(log for log in logs if log in leaders)


def _committed(limits: OffsetLimits, logs: Sequence[TopicPartition], cluster: Cluster) -> Offsets:
    """Where the group stands in the logs that begin there."""
    asked = [log for log in logs if limit_of(limits, log).kind is LimitKind.COMMITTED]
    return cluster.committed_offsets(asked) if asked else {}


def _offsets_at_times(
    limits: OffsetLimits, bounds: Mapping[TopicPartition, LogBounds], ask: _AskTimes
) -> Offsets:
    """The offsets of the limits that are timestamps."""
    times = {
        log: limit.value for log in bounds if (limit := limit_of(limits, log)).kind is LimitKind.TIMESTAMP
    }
    return ask(times, bounds) if times else {}


def _task(part: OffsetRange, whole: _Resolved, leader: Leader, floor: VersionFloor) -> FetchTask:
    if whole.bounds.segment_starts is None:  # every offset is a message boundary
        return FetchTask(part, leader, floor=floor)
    return FetchTask(
        part,
        leader,
        start_option=whole.start.option if part.start_offset == whole.start.offset else None,
        stop_option=whole.end.option if part.stop_offset == whole.end.offset else None,
        floor=floor,
    )
