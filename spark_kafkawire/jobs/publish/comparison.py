"""Comparison of the rows of ``publish`` with the records of the topic, as multisets: the partitions
that it writes to, as later runs find them, and the rows that are missing there.

A row and a record are the same if all columns that a record keeps are equal: topic, key, value and
headers, and partition, broker and time if the row has them. In 0.7 these are topic, value, partition
and broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_kafkawire.cluster import Cluster, cluster_of
from spark_kafkawire.errors import DataLossError, DiscoveryError
from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.source.schema import HEADERS_FIELD, read_schema
from spark_kafkawire.source.writer import WriteSchema

from ..spark import read_ranges
from ..state import Positions
from .options import SETTLE_S, PublishOptions
from .state import TopicRows

#: Maximum number of periods that ``settle`` waits, if other programs write to the partitions.
_SETTLE_TIMES_MAX: Final = 6
#: Checks of the partitions in that time.
_LOOKS: Final = 10


class TargetPartitions:
    """Reads the records that were appended to partitions.

    All methods raise the errors of asking and reading the brokers, and ``DiscoveryError`` (fatal) if the
    broker of a partition is not alive.
    """

    def __init__(self, spark: SparkSession, options: PublishOptions) -> None:
        assert options.read is not None
        self._spark, self._read, self._reading = spark, options.read, options.reading
        self.settle_s = SETTLE_S if options.settle_s is None else options.settle_s

    def ends(self, partitions: Sequence[TopicPartition]) -> Positions:
        """The current ends of the partitions."""
        return {tp: bounds.latest for tp, bounds in bounds_of(cluster_of(self._read), partitions).items()}

    def settle(self, starts: Positions) -> None:
        """Wait until the partitions have not grown for ``settle_s``, or several times that at most."""
        await_settled(lambda: self.ends([*starts]), self.settle_s, time.monotonic, time.sleep)

    def records(self, starts: Positions, columns: frozenset[str]) -> DataFrame:
        """Records appended since the starts.

        Raises ``DataLossError`` (fatal) where a partition has lost some of that.
        """
        schema = StructType([item for item in read_schema(self._read) if item.name in columns])
        ranges = [item for item in self._ranges(starts) if item.size]
        if not ranges:
            return self._spark.createDataFrame([], schema)
        return read_ranges(self._spark, self._reading, ranges, schema)

    def _ranges(self, starts: Positions) -> list[OffsetRange]:
        by_partition = bounds_of(cluster_of(self._read), [*starts])
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


def await_settled(
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


_HEADERS: Final = HEADERS_FIELD.dataType.simpleString()
#: Columns that distinguish rows and records: the type, and the SQL that makes both sides comparable.
_FORMS: Final = {
    "topic": ("string", "topic"),
    "broker": ("int", "broker"),
    "partition": ("int", "partition"),
    "key": ("binary", "CAST(key AS BINARY)"),
    "value": ("binary", "CAST(value AS BINARY)"),
    # A record without headers reads as null.
    "headers": (_HEADERS, f"CASE WHEN size(headers) > 0 THEN CAST(headers AS {_HEADERS}) END"),
    "timestamp": ("bigint", "unix_millis(timestamp)"),
}
#: Columns that a row may leave to the producer where they are null.
_OPTIONAL: Final = ("broker", "partition", "timestamp")
#: Bits of a position that count rows within an input partition (``monotonically_increasing_id``).
_POSITION_BITS: Final = 33


@dataclass(frozen=True, slots=True)
class Survey:
    """All rows by topic, and those of their columns that are null in some row."""

    topics: dict[str | None, TopicRows]
    columns_with_nulls: frozenset[str]


def survey(rows: DataFrame) -> Survey:
    """Count all rows in one pass; they have a column ``topic``."""
    optional = [name for name in _OPTIONAL if name in rows.columns]
    result = (
        rows.groupBy("topic")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            # A sum does not depend on the order, and of decimals it does not overflow.
            F.sum(F.xxhash64(*rows.columns).cast("decimal(20,0)")).alias("checksum"),
            *(F.count(name).alias(f"{name}_count") for name in optional),
        )
        .collect()
    )
    return Survey(
        {row.topic: TopicRows(row.rows, str(row.checksum)) for row in result},
        frozenset(name for name in optional if any(row[f"{name}_count"] < row.rows for row in result)),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Number of missing rows, and number of duplicate records."""

    missing_count: int
    doubled_count: int


class Difference:
    """Rows against records. ``rows`` have a column ``topic``; a column that is null in some of them
    (``columns_with_nulls``) is not compared, because the value that the producer chose instead is unknown.
    """

    def __init__(self, rows: DataFrame, columns_with_nulls: frozenset[str], schema: WriteSchema) -> None:
        self._rows = rows
        kept = {
            "topic",
            *schema.stored,
            *(name for name in ("broker", "partition") if name in schema.columns),
        }
        compared = {name for name in rows.columns if name not in columns_with_nulls}
        self._fields = tuple(
            name for name in _FORMS if name in kept and (name in compared or name not in _OPTIONAL)
        )

    @property
    def record_columns(self) -> frozenset[str]:
        """The columns of records that are compared."""
        with_type = {"timestampType"} if "timestamp" in self._fields else set()
        return frozenset({*self._fields, *with_type})

    def missing(self, records: DataFrame) -> DataFrame:
        """Rows that the topic lacks. Those of one input partition are in one partition, in their order.

        Of equal rows the first ones count as present.
        """
        unstamped = self._list_unstamped(records)
        rows = self._identify(self._rows.withColumn("position", F.monotonically_increasing_id()), unstamped)
        own = Window.partitionBy("identity").orderBy("position")
        numbered = rows.withColumn("number", F.row_number().over(own))
        joined = numbered.join(self._counted(records, unstamped, "there"), "identity", "left")
        missing = joined.where(F.col("there").isNull() | (F.col("number") > F.col("there")))
        ordered = missing.repartition(F.shiftright("position", _POSITION_BITS))
        return ordered.sortWithinPartitions("position").select(*self._rows.columns)

    def compare(self, records: DataFrame) -> Comparison:
        """Count missing rows and duplicate records."""
        unstamped = self._list_unstamped(records)
        rows = self._counted(self._rows, unstamped, "wanted")
        there = F.coalesce("there", F.lit(0))
        [result] = (
            rows.join(self._counted(records, unstamped, "there"), "identity", "left")
            .agg(
                F.sum(F.greatest(F.col("wanted") - there, F.lit(0))).alias("missing"),
                F.sum(F.greatest(there - F.col("wanted"), F.lit(0))).alias("doubled"),
            )
            .collect()
        )
        return Comparison(result.missing or 0, result.doubled or 0)

    def _counted(self, frame: DataFrame, unstamped: Iterable[str], name: str) -> DataFrame:
        return self._identify(frame, unstamped).groupBy("identity").agg(F.count(F.lit(1)).alias(name))

    def _list_unstamped(self, records: DataFrame) -> list[str]:
        """Topics whose records do not keep the time of a row: brokers replace it, or records have no time."""
        if "timestamp" not in self._fields:
            return []
        return [row.topic for row in records.where("timestampType != 0").select("topic").distinct().collect()]

    def _identify(self, frame: DataFrame, unstamped: Iterable[str]) -> DataFrame:
        fields = [_form(name, frame, unstamped).alias(name) for name in self._fields]
        # JSON keeps the columns separate, holds bytes as base64, and shows nulls.
        json = F.to_json(F.struct(*fields), {"ignoreNullFields": "false"})
        return frame.withColumn("identity", F.sha2(json, 256))


def _form(name: str, frame: DataFrame, unstamped: Iterable[str]) -> Column:
    data_type, sql = _FORMS[name]
    if name not in frame.columns:
        return F.lit(None).cast(data_type)
    is_kept = ~F.col("topic").isin([*unstamped]) if name == "timestamp" and unstamped else F.lit(True)
    return F.when(is_kept, F.expr(sql))
