"""Key order (option ``keyOrder``) in a stream, for both generations: records that wait for other partitions.

Batches run one after the other, and the rows of a batch are as in a batch read: in the order of their Spark
partition, or unsorted. So a batch contains records of a layout only if it, or an earlier batch, reads all
partitions that held their keys before up to the boundary. Those partitions in turn waited for their own
parents.

- Partitions that are added while a query runs are not in the options yet, so the query ends with an error.
  The counts are requested after the end offsets, so that no earlier batch contains a record of the new count,
  as far as all brokers learn of partitions at the same time. When the query is started again with the new
  layout, it continues at its position.
- A record that a late producer wrote after a boundary may arrive after the records that follow it. Waiting
  for all such records would never end, so it is an error, unless ``verifyPartitioner`` allows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..clients.reading.task import FetchTask
from ..cluster.cluster import Cluster
from ..model import TopicPartition
from ..options import ReadOptions, TopicLayouts
from .key_order import Bounds, Layouts, find_layouts, marked
from .stream_offsets import UNPINNED, Offsets
from .stream_partitions import StreamPartitions, gone_since


def hold(start: Offsets, ends: Offsets, bounds: Bounds, layouts: TopicLayouts) -> dict[TopicPartition, int]:
    """End offsets of a batch, limited in partitions that have to wait. Pure."""
    held = {**start, **ends}
    waiting: set[TopicPartition] = set()
    for layout, boundaries in enumerate(layouts.boundaries or (), 1):
        common = layouts.common(layout)
        # A waiting partition may have had no record since, so its children wait for its parents. A partition
        # that is behind does not delay its own records before the boundary.
        behind = {
            place % common
            for place, tp in enumerate(layouts.lists[layout - 1])
            if tp in waiting or held.get(tp, 0) < boundaries[tp]
        }
        waiting = {tp for place, tp in enumerate(layouts.lists[layout]) if place % common in behind}
        for partition in waiting & ends.keys():
            if start.get(partition) != UNPINNED:
                begin = start.get(partition, bounds[partition].earliest)
                held[partition] = max(min(held[partition], boundaries.get(partition, 0)), begin)
    return {tp: held[tp] for tp in ends}


class StreamKeyOrder:
    """Key order of one query; without ``keyOrder`` it changes nothing."""

    def __init__(self, options: ReadOptions, partitions: StreamPartitions) -> None:
        self._options, self._partitions = options, partitions
        self._layouts: Layouts | None = None

    def held(self, start: Offsets, ends: Offsets, bounds: Bounds) -> dict[TopicPartition, int]:
        """End offsets of a batch, limited by the key order. Raises ``OptionError`` (fatal) if topics have
        grown."""
        if self._options.key_order is None:
            return dict(ends)
        self._layouts = self._partitions.ask(lambda cluster: self._found(cluster, list(bounds), bounds))
        found = dict(ends)
        for layouts in self._layouts.values():
            found |= hold(start, {tp: ends[tp] for tp in layouts.lists[-1] if tp in ends}, bounds, layouts)
        return found

    def marked(self, tasks: Iterable[FetchTask]) -> tuple[FetchTask, ...]:
        """Tasks with the layouts of their partitions."""
        tasks = tuple(tasks)
        if self._options.key_order is None or not tasks:
            return tasks
        if self._layouts is None:
            topics = sorted({task.range.topic_partition.topic for task in tasks})
            self._layouts = self._partitions.ask(lambda cluster: self._asked(cluster, topics))
        return marked(self._options.key_order, self._layouts, tasks, is_stream=True)

    def _asked(self, cluster: Cluster, topics: list[str]) -> Layouts:
        with gone_since():
            partitions = cluster.partitions_of(topics)
            return self._found(cluster, partitions, cluster.bounds(partitions))

    def _found(self, cluster: Cluster, partitions: Collection[TopicPartition], bounds: Bounds) -> Layouts:
        with gone_since():
            return find_layouts(self._options, cluster, partitions, bounds)
