"""Plan of reads with key order (option ``keyOrder``), for both generations: layouts, and partitions in turn.

Records of a key stay in order even if partitions were added to the topic.

A layout is the time between two expansions of a topic. In each layout all records of a key are in one
partition, so layout and offset give the order of the key. Sources of the start of a layout, and their use:

- **Leader epochs** do not show it. KIP-253 proposed to increment them at each expansion, but it was never
  implemented: the leader epochs of old partitions do not change in Metadata, in OffsetForLeaderEpoch or in
  the headers of batches, and those of new partitions begin at 0. They rise when leaders change, at any time.
  ``tests/interop/test_key_order.py`` checks this with a real broker. So they are not requested.
- **Records** do not show it either. A partition that was empty before a timestamp may have existed. So the
  user gives the counts (``partitionLayouts``). The last count is compared with the brokers before and after
  the end offsets are requested, because partitions may be added in between. If a batch read has timestamps
  without counts, it takes the partitions with older records for all partitions of that time, and each key
  that it reads verifies this: with a wrong count most keys are in the wrong partition. Without the
  verification of keys (``verifyPartitioner=false``), or in a stream, whose partitions change, this is an
  error.
- **Boundaries** are the end offsets of the old partitions when others were added. They are upper bounds of
  layouts (``records.key_hashes``), so they must be taken before the first producer uses the new count. A
  boundary that the partition has not reached is an error. A boundary that retention has passed is not: all
  remaining records are after the boundary.
- **Timestamps** (``expansionTimestamp``) are as exact as the clocks that stamped the records: a boundary is
  the first record at or after the timestamp (ListOffsets), or the end of the partition without one. A new
  partition with an older record proves that the timestamp, or a count, is wrong. 0.7 has timestamps of
  segments only, which do not identify an offset, so it does not support them.
- **Keys that move to new partitions only** (``TopicLayouts.is_in_turn``: each count is a multiple of the
  previous one): a partition and those that took keys from it become one Spark partition, in which each is
  read to its end before the next. This keeps the order of every key, whatever the boundaries are and however
  late a producer is, because a key that has moved to a new partition never returns. The read has as many
  tasks as the topic had partitions at first.
- **Keys that move between old partitions** need a sort (``in_key_order``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ..clients.reading.task import FetchTask, PartitionLayouts
from ..cluster import Cluster
from ..errors import OptionError, counted, printable
from ..model import TopicPartition
from ..options import KeyOrder, ReadOptions, TopicLayouts
from ..protocol.modern.limits import READ_COMMITTED
from .ranges import Bounds

#: Layouts of each topic, with boundaries.
Layouts = Mapping[str, TopicLayouts]


def find_layouts(
    options: ReadOptions, cluster: Cluster, partitions: Collection[TopicPartition], bounds: Bounds
) -> Layouts:
    """Layouts of the topics of ``partitions``, which are all of their partitions; only for reads with
    ``keyOrder``.

    Raises ``OptionError`` (fatal) if the options contradict the topics, and the errors of the cluster.
    """
    order = options.key_order
    assert order is not None
    result, away = {}, set()
    for topic in sorted({tp.topic for tp in partitions}):
        own = sorted(tp for tp in partitions if tp.topic == topic)
        layouts = _lists_of(order, topic, own, cluster, bounds)
        away |= _away(layouts, cluster, bounds)
        _check_lists(layouts, away.union(own))
        if layouts.boundaries is None:
            layouts = _find_by_moments(layouts, order.moments_ms, cluster, bounds)
        else:
            _check_ends(layouts, options, cluster, bounds)
        result[topic] = layouts
    there = away.union(cluster.partitions_of(list(result)) if result else ())
    for layouts in result.values():
        _check_lists(layouts, there)
    return result


def _away(layouts: TopicLayouts, cluster: Cluster, bounds: Bounds) -> set[TopicPartition]:
    """Partitions whose broker is not alive (0.7), if that is accepted: they exist, and their children
    wait."""
    missed = [tp for tp in layouts.lists[-1] if tp not in bounds and tp.broker is not None]
    cluster.await_partitions(missed)
    alive = {broker.id for broker in cluster.brokers()} if missed else set()
    return {tp for tp in missed if tp.broker not in alive}


def _lists_of(
    order: KeyOrder, topic: str, partitions: Sequence[TopicPartition], cluster: Cluster, bounds: Bounds
) -> TopicLayouts:
    """Partitions of each layout of a topic, by the options, or by its records if the options do not say."""
    if not order.topics:
        return _find_by_records(partitions, order.moments_ms, cluster, bounds)
    if topic not in order.topics:
        raise OptionError(
            f"option partitionLayouts: topic {printable(topic)} is read but not listed: add it, with one "
            "layout if its partition count never changed"
        )
    return order.topics[topic]


def _find_by_records(
    partitions: Sequence[TopicPartition], moments_ms: Sequence[int], cluster: Cluster, bounds: Bounds
) -> TopicLayouts:
    """Partitions of each layout by records: up to the last one with a record from before the end of the
    layout."""
    counts = []
    for moment_ms in moments_ms:
        offsets = _ends_at(moment_ms, partitions, cluster, bounds)
        old = [tp.partition for tp in partitions if offsets[tp] > bounds[tp].earliest]
        counts.append(max(old, default=-1) + 1)
    if any(old >= new for old, new in pairwise([0, *counts, len(partitions)])):
        result = ", ".join(map(str, counts))
        raise OptionError(
            f"option expansionTimestamp: records from before these moments are in {result} of the "
            f"{len(partitions)} partitions of {printable(partitions[0].topic)}, which does not show how "
            "the topic grew: set the counts with partitionLayouts"
        )
    return TopicLayouts(tuple(tuple(partitions[:count]) for count in (*counts, len(partitions))))


def _check_lists(layouts: TopicLayouts, partitions: Collection[TopicPartition]) -> None:
    """Raise ``OptionError`` (fatal) if the last layout does not have the current partitions of the topic."""
    topic = layouts.lists[0][0].topic
    own = {tp for tp in partitions if tp.topic == topic}
    if differing := own.symmetric_difference(layouts.lists[-1]):
        # In 0.7 the count does not identify the partition.
        named = f" ({min(differing)} differs)" if any(tp.broker is not None for tp in differing) else ""
        raise OptionError(
            f"option partitionLayouts: {printable(topic)} has {counted(len(own), 'partition')}, but its last "
            f"layout has {layouts.counts[-1]}{named}: add a layout with the current "
            "partitions, and the end offsets that the others had when these were added"
        )


def _check_ends(layouts: TopicLayouts, options: ReadOptions, cluster: Cluster, bounds: Bounds) -> None:
    last = {tp: offset for held in layouts.boundaries or () for tp, offset in held.items()}
    beyond = [tp for tp, offset in last.items() if tp in bounds and offset > bounds[tp].latest]
    is_committed = options.fetch.isolation_level == READ_COMMITTED
    ends = cluster.high_watermarks(beyond) if beyond and is_committed else {}
    for partition in beyond:
        if last[partition] > (end := ends.get(partition, bounds[partition].latest)):
            raise OptionError(
                f"option partitionLayouts: the boundary {last[partition]} of {partition} is after its end "
                f"{end}: give the end offset that it had when partitions were added"
            )


def _find_by_moments(
    layouts: TopicLayouts, moments_ms: tuple[int, ...], cluster: Cluster, bounds: Bounds
) -> TopicLayouts:
    """The layouts with boundaries at the first record at or after each timestamp."""
    boundaries = []
    for number, moment_ms in enumerate(moments_ms[: len(layouts.lists) - 1], 1):
        ends = _ends_at(moment_ms, layouts.lists[number], cluster, bounds)
        for partition in layouts.lists[number]:
            if layouts.first(partition) == number and ends[partition] > bounds[partition].earliest:
                raise OptionError(
                    f"option expansionTimestamp: {partition} has a record from before {moment_ms}, when it "
                    "did not exist by partitionLayouts: give an earlier timestamp, or the boundaries"
                )
        boundaries.append({tp: ends[tp] for tp in layouts.lists[number - 1]})
    return replace(layouts, boundaries=tuple(boundaries))


def _ends_at(
    moment_ms: int, partitions: Sequence[TopicPartition], cluster: Cluster, bounds: Bounds
) -> dict[TopicPartition, int]:
    """First offsets at or after a timestamp, or the end of the partition."""
    result = cluster.stop_offsets(dict.fromkeys(partitions, moment_ms), bounds)
    return {tp: bounds[tp].latest if (offset := result[tp]) is None else offset for tp in partitions}


def mark_tasks(
    order: KeyOrder | None, layouts: Layouts, tasks: Iterable[FetchTask], *, is_stream: bool = False
) -> tuple[FetchTask, ...]:
    """Tasks with the layouts of their partitions.

    A batch sees all records of a key at once, so the time at which a late record arrived does not matter.
    """
    if order is None:
        return tuple(tasks)
    result = []
    for task in tasks:
        partition = task.range.topic_partition
        of_topic = layouts[partition.topic]
        first = of_topic.first(partition)
        boundaries = tuple(held[partition] for held in (of_topic.boundaries or ())[first:])
        family = of_topic.family(partition) if of_topic.is_in_turn else partition
        marks = PartitionLayouts(
            family, first, boundaries, of_topic.counts, order.check, is_late_a_fault=is_stream
        )
        result.append(replace(task, layouts=marks))
    return tuple(result)


def chains(tasks: Iterable[FetchTask]) -> list[tuple[FetchTask, ...]]:
    """Tasks of each Spark partition in their order: parents before their children."""
    result: dict[TopicPartition, list[tuple[int, FetchTask]]] = {}
    alone = []
    for task in tasks:
        if task.layouts is None:
            alone.append((task,))
        else:
            result.setdefault(task.layouts.family, []).append((task.layouts.first, task))
    in_turn = (
        sorted(item, key=lambda turn: (turn[0], turn[1].range.topic_partition)) for item in result.values()
    )
    return [*alone, *(tuple(task for _, task in item) for item in in_turn)]
