"""The order of keys in a stream: what of a log has to wait until others are read.

Batches follow each other, and in one the rows are as in a batch read: in the order of their Spark
partition, or to be sorted. So records of an epoch are in a batch only if all logs that held some of their
keys before are read up to its boundary by the end of the same batch. Those logs in turn waited for theirs.

- Partitions that are added while a query runs are in no option yet: the query ends with an error that says
  so. The counts are asked for after the ends of logs, so that no record by a new count is in a batch before
  that, as far as all brokers learn of partitions at the same time. Started again with the new epoch, the
  query goes on where it stood.
- A record that a late producer put behind a boundary may come after those that followed it: to wait for all
  such would be to wait for ever. It is an error, unless ``verifyPartitioner`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..clients.reading.task import FetchTask
from ..cluster.cluster import Cluster
from ..model import TopicPartition
from ..options import ReadOptions, TopicEpochs
from .key_order import Bounds, Epochs, find_epochs, marked
from .stream_logs import StreamLogs, gone_since
from .stream_offsets import UNPINNED, Offsets


def hold(start: Offsets, ends: Offsets, bounds: Bounds, epochs: TopicEpochs) -> dict[TopicPartition, int]:
    """The ends of a batch, of logs that have to wait no further than they may be read. Pure."""
    held = {**start, **ends}
    waiting: set[TopicPartition] = set()
    for epoch, boundaries in enumerate(epochs.boundaries or (), 1):
        common = epochs.common(epoch)
        # A log that waits itself may have had no record since: its children wait for its parents. That a log
        # is behind holds up nothing of its own that is before its boundary.
        behind = {
            place % common
            for place, log in enumerate(epochs.lists[epoch - 1])
            if log in waiting or held.get(log, 0) < boundaries[log]
        }
        waiting = {log for place, log in enumerate(epochs.lists[epoch]) if place % common in behind}
        for log in waiting & ends.keys():
            if start.get(log) != UNPINNED:
                begin = start.get(log, bounds[log].earliest)
                held[log] = max(min(held[log], boundaries.get(log, 0)), begin)
    return {log: held[log] for log in ends}


class StreamKeyOrder:
    """The order of keys of one query; nothing without ``keyOrder``."""

    def __init__(self, options: ReadOptions, logs: StreamLogs) -> None:
        self._options, self._logs = options, logs
        self._epochs: Epochs | None = None

    def held(self, start: Offsets, ends: Offsets, bounds: Bounds) -> dict[TopicPartition, int]:
        """Where a batch ends that would end there. Raises ``OptionError`` (fatal) where topics have grown."""
        if self._options.key_order is None:
            return dict(ends)
        self._epochs = self._logs.ask(lambda cluster: self._found(cluster, list(bounds), bounds))
        found = dict(ends)
        for epochs in self._epochs.values():
            found |= hold(start, {log: ends[log] for log in epochs.lists[-1] if log in ends}, bounds, epochs)
        return found

    def marked(self, tasks: Iterable[FetchTask]) -> tuple[FetchTask, ...]:
        """The tasks with the epochs of their logs."""
        tasks = tuple(tasks)
        if self._options.key_order is None or not tasks:
            return tasks
        if self._epochs is None:
            topics = sorted({task.range.log.topic for task in tasks})
            self._epochs = self._logs.ask(lambda cluster: self._asked(cluster, topics))
        return marked(self._options.key_order, self._epochs, tasks, is_stream=True)

    def _asked(self, cluster: Cluster, topics: list[str]) -> Epochs:
        with gone_since():
            logs = cluster.logs_of(topics)
            return self._found(cluster, logs, cluster.bounds(logs))

    def _found(self, cluster: Cluster, logs: Collection[TopicPartition], bounds: Bounds) -> Epochs:
        with gone_since():
            return find_epochs(self._options, cluster, logs, bounds)
