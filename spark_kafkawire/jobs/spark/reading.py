"""Exactly given parts of partitions as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_kafkawire.model import OffsetRange

from ..state.positions import assigned, by_topic


def read_ranges(
    spark: SparkSession,
    connection: Mapping[str, str],
    ranges: Sequence[OffsetRange],
    schema: StructType | str | None = None,
) -> DataFrame:
    """The messages of the ranges, at least one, and no other; ``schema`` is a projection.

    ``connection`` are options of a read without those that select topics and offsets.
    """
    starts = {each.topic_partition: each.start_offset for each in ranges}
    stops = {each.topic_partition: each.stop_offset for each in ranges}
    reader = spark.read.format("kafkawire").options(**connection)
    reader = reader if schema is None else reader.schema(schema)
    return reader.options(
        assign=json.dumps(assigned(starts)),
        startingOffsets=json.dumps(by_topic(starts)),
        endingOffsets=json.dumps(by_topic(stops)),
    ).load()
