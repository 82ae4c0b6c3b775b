"""The task of a read, batch or stream."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ..clients.reading.task import FetchTask
from ..options import TaskOptions
from ..records import compiler
from ..records.arrow import BatchBuilder
from ..records.columns import Columns
from ..records.memory import keep_memory
from .worker import KafkaWirePartition, Packed, freeze_objects

if TYPE_CHECKING:
    from ..clients.reading.decoded_messages import TypedTask
    from ..clients.reading.key_order import LayoutsOfRows
    from ..clients.reading.typed_values import TypedValues


def read_partition(
    partition: InputPartition,
    options: TaskOptions,
    schema: pa.Schema,
    typed: Packed[TypedTask] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition's ranges, one after the other, as Arrow batches of the schema's columns."""
    keep_memory()
    if isinstance(partition, KafkaWirePartition):  # Spark turns an empty plan into one without a range
        if partition.login is not None:
            options = replace(options, net=options.net.with_token(partition.login))
        for task in partition.tasks:
            yield from _read_task(task, options, schema, typed.value if typed else None)


def _read_task(
    task: FetchTask, options: TaskOptions, schema: pa.Schema, typed: TypedTask | None
) -> Iterator[pa.RecordBatch]:
    layouts = _layouts(task)
    typed_values = _typed_values(task, schema, typed)
    batches = typed_values or BatchBuilder(task.range.topic_partition, schema)
    wanted = batches.wanted | (layouts.wanted if layouts else frozenset())
    reader = _from_files if task.files else _from_brokers
    try:
        for columns in reader(task, options, wanted):
            yield batches.build(layouts.marked(columns) if layouts else columns)
    finally:
        if layouts:
            layouts.report()
        if typed_values:
            typed_values.report()
        freeze_objects(compiler.loaded())


def _from_brokers(task: FetchTask, options: TaskOptions, wanted: Container[str]) -> Iterator[Columns]:
    from ..clients.reading.fetcher import Fetcher
    from ..cluster.cluster import cluster_of

    # The plan of the task came from the cluster.
    options = replace(
        options,
        net=options.net.of_brokers(task.minimum_versions),
        planning_retry=options.planning_retry.known,
    )
    cluster = cluster_of(options, (task.leader.broker,))
    return Fetcher(task, cluster, options.fetch, options.net, wanted=wanted).columns()


def _from_files(task: FetchTask, options: TaskOptions, wanted: Container[str]) -> Iterator[Columns]:
    from ..clients.reading.log_files import LogFiles

    return LogFiles(task, options.fetch, wanted=wanted).columns()


def _typed_values(task: FetchTask, schema: pa.Schema, typed: TypedTask | None) -> TypedValues | None:
    """The builder of batches with typed keys and values, None where both are binary."""
    if typed is None:
        return None
    from ..clients.reading.typed_values import TypedValues

    return TypedValues(task.range.topic_partition, typed, schema)


def _layouts(task: FetchTask) -> LayoutsOfRows | None:
    """The source of layouts for the rows, None unless ``keyOrder`` asks for it."""
    if task.layouts is None:
        return None
    from ..clients.reading.key_order import LayoutsOfRows

    return LayoutsOfRows(task.range.topic_partition, task.layouts)
