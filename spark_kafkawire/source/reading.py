"""What a task of a read does, be it of a batch or of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ..clients.reading.fetcher import Fetcher
from ..cluster.cluster import cluster_of
from ..options import ReadOptions
from ..records import compiler
from ..records.arrow import BatchBuilder
from .partition import KafkaWirePartition
from .worker import freeze_heap


def read_partition(
    partition: InputPartition, options: ReadOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The messages of one range, as Arrow batches of the schema's columns."""
    if not isinstance(partition, KafkaWirePartition):
        return  # Spark turns an empty plan into one partition without a range.
    task = partition.task
    options = replace(options, net=options.net.of_brokers(task.floor))
    cluster = cluster_of(options, (task.leader.broker,))
    fetcher = Fetcher(task, cluster, options.fetch, options.net, wanted=frozenset(schema.names))
    batches = BatchBuilder(task.range.log, schema)
    try:
        for columns in fetcher.columns():
            yield batches.build(columns)
    finally:
        freeze_heap(compiler.loaded())
