"""What queries use of a read with ``keyOrder``: the order of keys by a shuffle, and a report of strays.

from spark_kafkawire import in_key_order, stray_report
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..errors import OptionError
from .schema import EPOCH_FIELD, STRAY_FIELD

#: Within an epoch a key is in one log, in 0.7 one of one broker; its messages may share an offset there.
_ORDER: Final = (EPOCH_FIELD.name, "broker", "partition", "offset", "index")
_NEEDED: Final = frozenset((EPOCH_FIELD.name, "partition", "offset"))
#: What the report says of records, by their column ``stray``.
_PROMISES: Final = {
    "late": "in order by its epoch; a stream may have read what followed it before",
    "early": "in order by its epoch; a key that came back to a partition may be out of order",
    "unexplained": "none: the records of these keys are in no order",
}
_KEPT: Final = "in the order in which they were produced"


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


def stray_report(frame: DataFrame) -> DataFrame:
    """How many records of a read with ``verifyPartitioner=true`` are strays, by topic and kind, of how many
    ``keys``, the first and the last one of them, and what is promised of their order.

    A row whose ``stray`` is null tells of all others. The whole frame is read for it. Raises ``OptionError``
    (fatal).
    """
    needed = ("topic", "partition", "offset", "key", STRAY_FIELD.name)
    if missing := [name for name in needed if name not in frame.columns]:
        raise OptionError(
            f"stray_report: the frame has no column {missing[0]}: read with keyOrder=true and "
            "verifyPartitioner=true, and keep it"
        )
    stray = F.col(STRAY_FIELD.name)
    place = F.when(stray.isNotNull(), F.struct("partition", "offset", "key"))
    ends = F.array_distinct(F.array(F.min(place), F.max(place)))
    promise = F.lit(_KEPT)
    for kind, words in _PROMISES.items():
        promise = F.when(stray == kind, F.lit(words)).otherwise(promise)
    return frame.groupBy("topic", STRAY_FIELD.name).agg(
        F.count(F.lit(1)).alias("records"),
        F.count_distinct(F.when(stray.isNotNull(), F.col("key"))).alias("keys"),
        F.when(stray.isNotNull(), ends).alias("examples"),
        promise.alias("promise"),
    )
