"""The logs that ``publish`` writes to, as later runs find them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...cluster.cluster import Cluster, cluster_of
from ...errors import DataLossError, DiscoveryError
from ...model import LogBounds, OffsetRange, TopicPartition
from ...source.schema import read_schema
from ..spark.reading import read_ranges
from ..state.positions import Positions
from .options import StateOptions

#: How often the time of ``settle`` is waited at most, where others write to the logs.
_SETTLE_TIMES_MAX: Final = 6
#: Looks at the logs in that time.
_LOOKS: Final = 10


class TargetLogs:
    """Reads what was appended to logs.

    All methods raise what asking and reading the brokers raises, ``DiscoveryError`` (fatal) where a
    log's broker is not alive.
    """

    def __init__(self, spark: SparkSession, options: StateOptions) -> None:
        self._spark = spark
        self._options = options

    def ends(self, logs: Sequence[TopicPartition]) -> Positions:
        """Where the logs end now."""
        return {log: bounds.latest for log, bounds in bounds_of(cluster_of(self._options.read), logs).items()}

    def settle(self, starts: Positions) -> None:
        """Wait until the logs have not grown for ``settle_s``, or several times that at most."""
        settled(lambda: self.ends([*starts]), self._options.settle_s, time.monotonic, time.sleep)

    def records(self, starts: Positions, columns: frozenset[str]) -> DataFrame:
        """What was appended since the starts, up to now.

        Raises ``DataLossError`` (fatal) where a log has lost some of that.
        """
        schema = StructType([each for each in read_schema(self._options.read) if each.name in columns])
        ranges = [each for each in self._ranges(starts) if each.size]
        if not ranges:
            return self._spark.createDataFrame([], schema)
        return read_ranges(self._spark, self._options.reading, ranges, schema)

    def _ranges(self, starts: Positions) -> list[OffsetRange]:
        by_log = bounds_of(cluster_of(self._options.read), [*starts])
        return [range_since(starts[log], bounds) for log, bounds in by_log.items()]


def bounds_of(cluster: Cluster, logs: Sequence[TopicPartition]) -> Mapping[TopicPartition, LogBounds]:
    """Where all of the logs start and end. Raises ``DiscoveryError`` (fatal) for one that nobody serves."""
    cluster.await_logs(logs)
    if dead := sorted(set(logs) - cluster.leaders_of(logs).keys()):
        raise DiscoveryError(
            f"{dead[0]}: its broker is not alive, so what it has got of the rows cannot be read; start it"
        )
    return cluster.bounds(logs)


def settled(
    ends: Callable[[], Positions], settle_s: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Positions:
    """The ends that have not changed for ``settle_s``, or those that there are after several times that."""
    since_s = clock()
    stop_s = since_s + settle_s * _SETTLE_TIMES_MAX
    stable = ends()
    while clock() < min(since_s + settle_s, stop_s):
        sleep(settle_s / _LOOKS)
        if (now := ends()) != stable:
            stable, since_s = now, clock()
    return stable


def range_since(start: int, bounds: LogBounds) -> OffsetRange:
    """What a log got since it ended at ``start``. Raises ``DataLossError`` where some of it is gone."""
    if not bounds.earliest <= start <= bounds.latest:
        lost = "was deleted" if start < bounds.earliest else "is not there, so it was made anew"
        raise DataLossError(
            f"{bounds.log} goes from {bounds.earliest} to {bounds.latest}: what it got from offset {start} "
            f"on {lost}; nobody can tell which rows are missing, and nothing more is written"
        )
    return OffsetRange(bounds.log, start, bounds.latest)
