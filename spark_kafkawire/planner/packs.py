"""Spark partitions of the ranges of a plan: one for each range, each chain (``keyOrder``), or each pack.

With ``packSmallPartitions`` small ranges that one broker leads become a pack: one Spark partition, whose task
sends one request for many partitions. Sizes have the unit of offsets: records, or bytes in 0.7. A pack is as
large as a Spark partition may be (``maxRecordsPerPartition``, ``maxBytesPerPartition``), and not larger than
the limits here. It has one range of a partition at most. All other ranges stay alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from ..clients.reading.task import FetchTask
from ..errors import LOG
from ..model import Broker, OffsetUnit
from ..options import ReadOptions
from .key_order import chains

#: Most ranges of a pack: a task of them takes about as long as a small task of one large range.
RANGES_COUNT_MAX: Final = 500
#: Small ranges of a plan above which the option is worth a line in the log: below, their tasks take seconds.
HINTED_COUNT: Final = 2000


class _Sizes(NamedTuple):
    """The largest small range, and the largest pack, in the unit of offsets."""

    small_max: int
    pack_max: int


_SIZES: Final[Mapping[OffsetUnit, _Sizes]] = MappingProxyType(
    {OffsetUnit.RECORDS: _Sizes(1000, 100_000), OffsetUnit.BYTES: _Sizes(1 << 20, 64 << 20)}
)


def spark_partitions(tasks: Sequence[FetchTask], options: ReadOptions) -> list[tuple[FetchTask, ...]]:
    """Tasks of each Spark partition."""
    if not options.packs_small:
        return chains(tasks)
    sizes = _SIZES[options.discovery.generation.offset_unit]
    return packs(tasks, sizes.small_max, min(sizes.pack_max, options.partition_size_max or sizes.pack_max))


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
    found: list[tuple[FetchTask, ...]] = []
    pack: list[FetchTask] = []
    size = 0
    for task in tasks:
        if pack and (len(pack) == count_max or size + task.range.size > pack_max):
            found.append(tuple(pack))
            pack, size = [], 0
        pack.append(task)
        size += task.range.size
    return [*found, tuple(pack)]


def hint(tasks: Sequence[FetchTask], options: ReadOptions) -> bool:
    """Log a line and return True if a plan has many small ranges that could be packed."""
    if options.packs_small is not False or len(tasks) <= HINTED_COUNT:
        return False
    small_max = _SIZES[options.discovery.generation.offset_unit].small_max
    count = sum(task.range.size <= small_max for task in tasks)
    if count <= HINTED_COUNT:
        return False
    LOG.warning(
        "the plan has %d small ranges, each a Spark task: packSmallPartitions=true reads many in one task",
        count,
    )
    return True
