"""Functions for a read with ``keyOrder``: a shuffle that keeps the order of keys, and a report of misplaced
records.

from spark_kafkawire import in_key_order, misplaced_report
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..errors import OptionError
from .edge import edge
from .schema import LAYOUT_FIELD, MISPLACED_FIELD

#: Within a layout a key is in one partition, in 0.7 one of one broker; its messages may share an offset
#: there.
_ORDER: Final = (LAYOUT_FIELD.name, "broker", "partition", "offset", "index")
_NEEDED: Final = frozenset((LAYOUT_FIELD.name, "partition", "offset"))
#: The promise of the report for records, by their column ``misplaced``.
_PROMISES: Final = {
    "late": "in order by its layout; a stream may have read what followed it before",
    "early": "in order by its layout; a key that came back to a partition may be out of order",
    "unexplained": "none: the records of these keys are in no order",
}
_KEPT: Final = "in the order in which they were produced"


@edge
def in_key_order(frame: DataFrame, key: str | Column = "key", partitions: int | None = None) -> DataFrame:
    """The rows of a read with ``keyOrder``, all of a key in one Spark partition, in their order.

    ``key`` is the column, or an expression where keys are in values (0.7). ``partitions`` is how many Spark
    partitions there are, as ``spark.sql.shuffle.partitions`` says otherwise. Raises ``OptionError`` (fatal).
    """
    if missing := sorted(_NEEDED.difference(frame.columns)):
        raise OptionError(
            f"in_key_order: the frame has no column {missing[0]}: read with keyOrder=true, and keep it"
        )
    order = [name for name in _ORDER if name in frame.columns]
    spread = frame.repartition(key) if partitions is None else frame.repartition(partitions, key)
    return spread.sortWithinPartitions(*order)


@edge
def misplaced_report(frame: DataFrame) -> DataFrame:
    """A report of the misplaced records in a read with ``verifyPartitioner=true``, by topic and kind: the
    number of records and of ``keys``, the first and the last record, and the order that is guaranteed for
    them.

    The row whose ``misplaced`` is null counts all other records. The report reads the whole frame. Raises
    ``OptionError`` (fatal).
    """
    needed = ("topic", "partition", "offset", "key", MISPLACED_FIELD.name)
    if missing := [name for name in needed if name not in frame.columns]:
        raise OptionError(
            f"misplaced_report: the frame has no column {missing[0]}: read with keyOrder=true and "
            "verifyPartitioner=true, and keep it"
        )
    misplaced = F.col(MISPLACED_FIELD.name)
    location = F.when(misplaced.isNotNull(), F.struct("partition", "offset", "key"))
    ends = F.array_distinct(F.array(F.min(location), F.max(location)))
    promise = F.lit(_KEPT)
    for kind, words in _PROMISES.items():
        promise = F.when(misplaced == kind, F.lit(words)).otherwise(promise)
    return frame.groupBy("topic", MISPLACED_FIELD.name).agg(
        F.count(F.lit(1)).alias("records"),
        F.count_distinct(F.when(misplaced.isNotNull(), F.col("key"))).alias("keys"),
        F.when(misplaced.isNotNull(), ends).alias("examples"),
        promise.alias("promise"),
    )
