"""What a task of a read does, be it of a batch or of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ..clients.reading.fetcher import Fetcher
from ..clients.reading.task import FetchTask
from ..cluster.cluster import cluster_of
from ..options import ReadOptions
from ..records import compiler
from ..records.arrow import BatchBuilder
from ..records.memory import keep_memory
from .partition import KafkaWirePartition
from .worker import freeze_heap

if TYPE_CHECKING:
    from ..clients.reading.key_order import EpochsOfRows


def read_partition(
    partition: InputPartition, options: ReadOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition's ranges, one after the other, as Arrow batches of the schema's columns."""
    keep_memory()
    if isinstance(partition, KafkaWirePartition):  # Spark turns an empty plan into one without a range
        for task in partition.tasks:
            yield from _read_task(task, options, schema)


def _read_task(task: FetchTask, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    options = replace(options, net=options.net.of_brokers(task.floor))
    cluster = cluster_of(options, (task.leader.broker,))
    epochs = _epochs(task)
    wanted = frozenset(schema.names) | (epochs.wanted if epochs else frozenset())
    fetcher = Fetcher(task, cluster, options.fetch, options.net, wanted=wanted)
    batches = BatchBuilder(task.range.log, schema)
    try:
        for columns in fetcher.columns():
            yield batches.build(epochs.marked(columns) if epochs else columns)
    finally:
        if epochs:
            epochs.tell()
        freeze_heap(compiler.loaded())


def _epochs(task: FetchTask) -> EpochsOfRows | None:
    """What gives the rows their epochs, where they are asked for."""
    if task.epochs is None:
        return None
    from ..clients.reading.key_order import EpochsOfRows

    return EpochsOfRows(task.range.log, task.epochs)
