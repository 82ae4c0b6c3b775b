"""Plans one batch read on the driver: options → brokers and logs → one task per range."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from ..clients.fetcher import FetchTask
from ..cluster.offsets import all_bounds, segments_before
from ..cluster.view import logs_of_topics, view
from ..errors import DataLossError, OptionError, UnknownTopicError
from ..model import ClusterView, OffsetRange, TopicPartition
from ..options import LimitKind, OffsetLimits, ReadOptions
from .limits import End, SegmentsBefore, check_names, end_of, limit_of, resolved, start_of, timestamp_asked
from .ranges import split

_log = logging.getLogger("spark_kafkawire")


def plan(options: ReadOptions) -> tuple[FetchTask, ...]:
    """The tasks of a read, in the order of their logs; empty ranges are left out.

    Raises ``OptionError``, ``DiscoveryError``, ``UnknownTopicError``, ``DataLossError`` or a
    ``TransportError`` (all fatal here: the retries are used up).
    """
    cluster = view(options.discovery, options.net)
    logs = _alive(select(options, cluster), cluster, fail_on_data_loss=options.fetch.fail_on_data_loss)
    for limits in (options.starting, options.ending):
        check_names(limits, logs)
    # Bounds come first: a message that is appended after them is outside of the range, and a
    # segment that was old before them cannot hold it.
    found = all_bounds(cluster, logs, options.net)
    older_than_start = _segments_before(options.starting, logs, cluster, options, start=True)
    older_than_end = _segments_before(options.ending, logs, cluster, options, start=False)
    ends = {}
    ranges = []
    for log in logs:
        start = start_of(
            options.starting, found[log], older_than_start, latest_if_no_match=options.latest_if_no_match
        )
        end = end_of(options.ending, found[log], older_than_end)
        log_range, *ends[log] = resolved(
            start, end, found[log], fail_on_data_loss=options.fetch.fail_on_data_loss
        )
        ranges.append(log_range)
    cut_points = {log: found[log].segment_starts for log in logs}
    parts = split(ranges, options.min_partitions, options.partition_bytes_max, cut_points)
    return tuple(_task(part, ends[part.log], cluster) for part in parts)


def select(options: ReadOptions, cluster: ClusterView) -> tuple[TopicPartition, ...]:
    """The logs that the options name. Raises ``UnknownTopicError`` for what no broker holds."""
    selection = options.selection
    topics: Sequence[str] = selection.subscribe or sorted({log.topic for log in selection.assign})
    if selection.pattern is not None:
        topics = _matching(selection.pattern, options, cluster)
    logs = logs_of_topics(cluster, options.discovery, topics, options.net)
    unknown = sorted(set(selection.assign) - set(logs))
    if unknown:
        there = ", ".join(log.name for log in logs if log.topic == unknown[0].topic)
        raise UnknownTopicError(
            f"option assign: no broker holds {unknown[0]}; the topic's partitions are {there}"
        )
    return selection.assign or logs


def _matching(pattern: str, options: ReadOptions, cluster: ClusterView) -> list[str]:
    if options.discovery.zookeeper_connect is None:
        raise OptionError(
            "option subscribePattern needs zookeeper.connect: brokers of 0.7 cannot list their topics"
        )
    topics = [topic for topic in cluster.topics if re.search(pattern, topic)]
    if not topics:
        raise UnknownTopicError(
            f"option subscribePattern: none of the {len(cluster.topics)} topics matches {pattern!r}"
        )
    return topics


def _alive(
    logs: tuple[TopicPartition, ...], cluster: ClusterView, *, fail_on_data_loss: bool
) -> list[TopicPartition]:
    """The logs whose broker is alive; the others are a data loss."""
    dead = sorted(
        {log.broker for log in logs if log.broker is not None and cluster.broker(log.broker) is None}
    )
    if not dead:
        return list(logs)
    lost = [log for log in logs if log.broker in dead]
    loss = (
        f"broker {', '.join(map(str, dead))} is not alive and holds {len(lost)} of the {len(logs)} "
        f"partitions to read, {lost[0]} first"
    )
    if fail_on_data_loss:
        raise DataLossError(f"{loss}; start it, or set failOnDataLoss=false to read the others")
    _log.warning("%s; reading the others because failOnDataLoss=false", loss)
    return [log for log in logs if log.broker not in dead]


def _segments_before(
    limits: OffsetLimits,
    logs: Sequence[TopicPartition],
    cluster: ClusterView,
    options: ReadOptions,
    *,
    start: bool,
) -> SegmentsBefore:
    times = {
        log: timestamp_asked(limit, start=start)
        for log in logs
        if (limit := limit_of(limits, log)).kind is LimitKind.TIMESTAMP
    }
    return segments_before(cluster, times, options.net) if times else {}


def _task(part: OffsetRange, ends: Sequence[End], cluster: ClusterView) -> FetchTask:
    start, end = ends
    broker = cluster.broker(part.log.broker if part.log.broker is not None else -1)
    assert broker is not None
    return FetchTask(
        part,
        broker,
        starting=start.option if part.start_offset == start.offset else None,
        ending=end.option if part.stop_offset == end.offset else None,
    )
