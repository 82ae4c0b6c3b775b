"""Which epochs the logs of a read have, and which of them are read one after the other.

An epoch is the time between two expansions of a topic. A key is in one log in each epoch, so that epoch and
offset are its order. What can be known of where epochs begin, and what is made of it:

- **Leader epochs say nothing of it.** KIP-253 would have had them rise at each expansion; it never came, and
  no broker does it: those of the old partitions stay as they are, in Metadata, in OffsetForLeaderEpoch and in
  the headers of batches, and those of new ones begin at 0. They rise when leaders change, at any time.
  ``tests/interop/test_key_order.py`` sees that of a real broker. So they are not asked for.
- **Nor does anything else in the log.** That a partition was empty before a moment does not prove that it was
  not there. So counts are the user's to say (``partitionEpochs``); the last one is compared with what brokers
  say, before and after the ends of logs are asked for: else partitions might be added in between. Where a
  batch read is told moments alone, it takes the partitions that have older records for all there were, and
  each key that it reads is the proof of that: by a wrong count most of them are nowhere. Without a look at
  keys (``verifyPartitioner=false``), or in a stream, whose log changes, there is no such proof: an error.
- **Boundaries** are offsets that the old partitions had when some were added. They are upper bounds of epochs
  (``records.key_epochs``): to be taken before the first producer knows the new count. One that the log has
  not reached is an error; one that retention has passed is none, for all that is left is behind it.
- **Moments** (``expansionTimestamp``) are as good as the clocks of those who gave records their times: a
  boundary is the first record that is as young (ListOffsets), the end of the log where none is. A new
  partition that has an older record proves that the moment, or a count, is wrong. 0.7 knows the times of
  segments only, which prove no offset: it has no moments.
- **Where keys move to new logs alone** (``TopicEpochs.is_in_turn``: each count a multiple of the one before),
  a log and those that took keys from it are one Spark partition, each log read to its end before the next.
  That is the order of every key whatever the boundaries are, and however late a producer was: a key that has
  moved to a new log never comes back. It takes as many tasks as the topic had partitions at first.
- **Elsewhere** a key may move between old logs, and only a sort puts it in order (``in_key_order``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ..clients.reading.log_epochs import LogEpochs
from ..clients.reading.task import FetchTask
from ..cluster.cluster import Cluster
from ..errors import OptionError, shown
from ..model import LogBounds, TopicPartition
from ..options import KeyOrder, PartitionerCheck, ReadOptions, TopicEpochs
from ..protocol.modern.isolation import READ_COMMITTED

Bounds = Mapping[TopicPartition, LogBounds]
#: The epochs of each topic, with boundaries.
Epochs = Mapping[str, TopicEpochs]


def find_epochs(
    options: ReadOptions, cluster: Cluster, logs: Collection[TopicPartition], bounds: Bounds
) -> Epochs:
    """The epochs of the topics of ``logs``, which are all that there are; asked for with ``keyOrder`` alone.

    Raises ``OptionError`` (fatal) where the options do not fit the topics, and what the cluster raises.
    """
    order = options.key_order
    assert order is not None
    found, away = {}, set()
    for topic in sorted({log.topic for log in logs}):
        own = sorted(log for log in logs if log.topic == topic)
        epochs = _lists_of(order, topic, own, cluster, bounds)
        away |= _away(epochs, cluster, bounds)
        _check_lists(epochs, away.union(own))
        if epochs.boundaries is None:
            epochs = _by_moments(epochs, order.moments_ms, cluster, bounds)
        else:
            _check_ends(epochs, options, cluster, bounds)
        found[topic] = epochs
    there = away.union(cluster.logs_of(list(found)) if found else ())
    for epochs in found.values():
        _check_lists(epochs, there)
    return found


def _away(epochs: TopicEpochs, cluster: Cluster, bounds: Bounds) -> set[TopicPartition]:
    """The logs whose broker is away (0.7) where that is borne: they are there, and their children wait."""
    missed = [log for log in epochs.lists[-1] if log not in bounds and log.broker is not None]
    cluster.await_logs(missed)
    alive = {broker.id for broker in cluster.brokers()} if missed else set()
    return {log for log in missed if log.broker not in alive}


def _lists_of(
    order: KeyOrder, topic: str, logs: Sequence[TopicPartition], cluster: Cluster, bounds: Bounds
) -> TopicEpochs:
    """What the options say of a topic, or else its records."""
    if not order.topics:
        return _by_records(logs, order.moments_ms, cluster, bounds)
    if topic not in order.topics:
        raise OptionError(
            f"option partitionEpochs: it has nothing of {shown(topic)}, which is read: add it, with one "
            "epoch where it never grew"
        )
    return order.topics[topic]


def _by_records(
    logs: Sequence[TopicPartition], moments_ms: Sequence[int], cluster: Cluster, bounds: Bounds
) -> TopicEpochs:
    """As many partitions in each epoch as the last one shows that has a record from before its end."""
    counts = []
    for moment_ms in moments_ms:
        offsets = _ends_at(moment_ms, logs, cluster, bounds)
        old = [log.partition for log in logs if offsets[log] > bounds[log].earliest]
        counts.append(max(old, default=-1) + 1)
    if any(old >= new for old, new in pairwise([0, *counts, len(logs)])):
        found = ", ".join(map(str, counts))
        raise OptionError(
            f"option expansionTimestamp: records from before these moments are in {found} of the {len(logs)} "
            f"partitions of {shown(logs[0].topic)}, which do not show how it grew: give partitionEpochs with "
            "the counts"
        )
    return TopicEpochs(tuple(tuple(logs[:count]) for count in (*counts, len(logs))))


def _check_lists(epochs: TopicEpochs, logs: Collection[TopicPartition]) -> None:
    """Raise ``OptionError`` (fatal) where the logs of the topic are not those of its last epoch."""
    topic = epochs.lists[0][0].topic
    own = {log for log in logs if log.topic == topic}
    if differing := own.symmetric_difference(epochs.lists[-1]):
        raise OptionError(
            f"option partitionEpochs: {shown(topic)} has {len(own)} partitions, and "
            f"{epochs.counts[-1]} by its last epoch{_names_of(differing)}: add an epoch with those that "
            "there are, and where the others stood before it"
        )


def _names_of(differing: Collection[TopicPartition]) -> str:
    """Of 0.7, where a number does not tell which."""
    return f" ({min(differing)} differs)" if any(log.broker is not None for log in differing) else ""


def _check_ends(epochs: TopicEpochs, options: ReadOptions, cluster: Cluster, bounds: Bounds) -> None:
    last = {log: offset for held in epochs.boundaries or () for log, offset in held.items()}
    beyond = [log for log, offset in last.items() if log in bounds and offset > bounds[log].latest]
    is_committed = options.fetch.isolation_level == READ_COMMITTED
    ends = cluster.high_watermarks(beyond) if beyond and is_committed else {}
    for log in beyond:
        if last[log] > (end := ends.get(log, bounds[log].latest)):
            raise OptionError(
                f"option partitionEpochs: the boundary {last[log]} of {log} is after its end, {end}: give "
                "the offset at which it stood when partitions were added"
            )


def _by_moments(
    epochs: TopicEpochs, moments_ms: tuple[int, ...], cluster: Cluster, bounds: Bounds
) -> TopicEpochs:
    """The same with boundaries where logs have the first record of each moment."""
    boundaries = []
    for number, moment_ms in enumerate(moments_ms[: len(epochs.lists) - 1], 1):
        ends = _ends_at(moment_ms, epochs.lists[number], cluster, bounds)
        for log in epochs.lists[number]:
            if epochs.first(log) == number and ends[log] > bounds[log].earliest:
                raise OptionError(
                    f"option expansionTimestamp: {log} has a record from before {moment_ms}, when it was not "
                    "there by partitionEpochs: give an earlier moment, or the boundaries"
                )
        boundaries.append({log: ends[log] for log in epochs.lists[number - 1]})
    return replace(epochs, boundaries=tuple(boundaries))


def _ends_at(
    moment_ms: int, logs: Sequence[TopicPartition], cluster: Cluster, bounds: Bounds
) -> dict[TopicPartition, int]:
    """The first offset of each log that is as young as the moment, its end where none is."""
    found = cluster.stop_offsets(dict.fromkeys(logs, moment_ms), bounds)
    return {log: bounds[log].latest if (offset := found[log]) is None else offset for log in logs}


def marked(
    order: KeyOrder | None, epochs: Epochs, tasks: Iterable[FetchTask], *, is_stream: bool = False
) -> tuple[FetchTask, ...]:
    """The tasks with the epochs of their logs.

    A batch sees all records of a key at once, so that it does not matter when a late one came.
    """
    if order is None:
        return tuple(tasks)
    return tuple(
        replace(task, epochs=_of_log(epochs[task.range.log.topic], task.range.log, order.check, is_stream))
        for task in tasks
    )


def _of_log(epochs: TopicEpochs, log: TopicPartition, check: PartitionerCheck, is_stream: bool) -> LogEpochs:
    first = epochs.first(log)
    boundaries = tuple(held[log] for held in (epochs.boundaries or ())[first:])
    family = epochs.family(log) if epochs.is_in_turn else log
    return LogEpochs(family, first, boundaries, epochs.counts, check, is_late_a_fault=is_stream)


def chains(tasks: Iterable[FetchTask]) -> list[tuple[FetchTask, ...]]:
    """The tasks of each Spark partition, one after the other: parents before their children."""
    found: dict[TopicPartition, list[tuple[int, FetchTask]]] = {}
    alone = []
    for task in tasks:
        if task.epochs is None:
            alone.append((task,))
        else:
            found.setdefault(task.epochs.family, []).append((task.epochs.first, task))
    in_turn = (sorted(each, key=lambda turn: (turn[0], turn[1].range.log)) for each in found.values())
    return [*alone, *(tuple(task for _, task in each) for each in in_turn)]
