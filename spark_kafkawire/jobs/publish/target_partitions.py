"""The partitions that ``publish`` writes to, as later runs find them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_kafkawire.cluster.cluster import Cluster, cluster_of
from spark_kafkawire.errors import DataLossError, DiscoveryError
from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.source.schema import read_schema

from ..spark.reading import read_ranges
from ..state.positions import Positions
from .options import StateOptions

#: Maximum number of periods that ``settle`` waits, if other programs write to the partitions.
_SETTLE_TIMES_MAX: Final = 6
#: Checks of the partitions in that time.
_LOOKS: Final = 10


class TargetPartitions:
    """Reads the records that were appended to partitions.

    All methods raise the errors of asking and reading the brokers, and ``DiscoveryError`` (fatal) if the
    broker of a partition is not alive.
    """

    def __init__(self, spark: SparkSession, options: StateOptions) -> None:
        self._spark = spark
        self._options = options

    def ends(self, partitions: Sequence[TopicPartition]) -> Positions:
        """The current ends of the partitions."""
        return {
            tp: bounds.latest for tp, bounds in bounds_of(cluster_of(self._options.read), partitions).items()
        }

    def settle(self, starts: Positions) -> None:
        """Wait until the partitions have not grown for ``settle_s``, or several times that at most."""
        settled(lambda: self.ends([*starts]), self._options.settle_s, time.monotonic, time.sleep)

    def records(self, starts: Positions, columns: frozenset[str]) -> DataFrame:
        """Records appended since the starts.

        Raises ``DataLossError`` (fatal) where a partition has lost some of that.
        """
        schema = StructType([each for each in read_schema(self._options.read) if each.name in columns])
        ranges = [each for each in self._ranges(starts) if each.size]
        if not ranges:
            return self._spark.createDataFrame([], schema)
        return read_ranges(self._spark, self._options.reading, ranges, schema)

    def _ranges(self, starts: Positions) -> list[OffsetRange]:
        by_partition = bounds_of(cluster_of(self._options.read), [*starts])
        return [range_since(starts[tp], bounds) for tp, bounds in by_partition.items()]


def bounds_of(
    cluster: Cluster, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, PartitionBounds]:
    """The start and end of each partition. Raises ``DiscoveryError`` (fatal) for a partition without a
    broker."""
    cluster.await_partitions(partitions)
    if dead := sorted(set(partitions) - cluster.leaders_of(partitions).keys()):
        raise DiscoveryError(
            f"{dead[0]}: its broker is not alive, so what it has got of the rows cannot be read; start it"
        )
    return cluster.bounds(partitions)


def settled(
    ends: Callable[[], Positions], settle_s: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Positions:
    """The ends once they have not changed for ``settle_s``, or the current ones after several times that."""
    since_s = clock()
    stop_s = since_s + settle_s * _SETTLE_TIMES_MAX
    stable = ends()
    while clock() < min(since_s + settle_s, stop_s):
        sleep(settle_s / _LOOKS)
        if (now := ends()) != stable:
            stable, since_s = now, clock()
    return stable


def range_since(start: int, bounds: PartitionBounds) -> OffsetRange:
    """The records of a partition since it ended at ``start``. Raises ``DataLossError`` if some of them are
    gone."""
    if not bounds.earliest <= start <= bounds.latest:
        lost = "was deleted" if start < bounds.earliest else "is not there, so it was created again"
        raise DataLossError(
            f"{bounds.topic_partition} goes from {bounds.earliest} to {bounds.latest}: what it got from "
            f"offset {start} on {lost}; the missing rows cannot be determined, and nothing more is written; "
            "write all rows to a new topic with another --state"
        )
    return OffsetRange(bounds.topic_partition, start, bounds.latest)
