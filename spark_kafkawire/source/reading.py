"""The task of a read, batch or stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ..clients.reading.fetcher import of_planned, read_range, typed_values_of
from ..clients.reading.task import FOLLOWED, FetchTask
from ..errors import LOG, counted, list_some, printable
from ..net.retry import Spent
from ..options import TaskOptions
from ..records import compiler
from ..records.arrays import keep_memory
from ..records.arrow import BatchBuilder
from .worker import KafkaWirePartition, Packed, freeze_objects

if TYPE_CHECKING:
    from ..clients.reading.typed_values import TypedTask

#: Rows and bytes from which small batches of a pack are given to Spark as one.
_JOINED_ROWS: Final = 10_000
_JOINED_BYTES: Final = 1 << 20
#: Ranges and brokers that the line at the end of a task names.
_LISTED_MAX: Final = 3


def read_partition(
    partition: InputPartition, options: TaskOptions, schema: pa.Schema, typed: Packed[TypedTask] | None = None
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition's ranges, as Arrow batches of the schema's columns: the ranges of a pack
    together, others one after the other. At the end it logs one line."""
    spent = Spent()
    row_count = size = 0
    for batch in _read_ranges(partition, options, schema, typed):
        row_count += batch.num_rows
        size += batch.nbytes
        yield batch
    if isinstance(partition, KafkaWirePartition):
        served = {task.leader.broker for task in partition.tasks} | FOLLOWED
        FOLLOWED.clear()
        brokers = {f"{broker.host}:{broker.port}" for broker in served}
        wait_s, slowest = spent.slowest
        LOG.info(
            "read %s: %s (%d bytes of columns) from %s in %.1f s, %.1f s waiting for %s, %s",
            list_some(partition.tasks, _LISTED_MAX, lambda task: str(task.range)),
            counted(row_count, "row"),
            size,
            list_some(sorted(brokers), _LISTED_MAX),
            *(spent.seconds, wait_s, printable(slowest or "no broker")),
            counted(spent.retried_count, "retry", "retries"),
        )


def _read_ranges(
    partition: InputPartition, options: TaskOptions, schema: pa.Schema, typed: Packed[TypedTask] | None
) -> Iterator[pa.RecordBatch]:
    keep_memory()
    if isinstance(partition, KafkaWirePartition):  # Spark turns an empty plan into one without a range
        if partition.login is not None:
            options = replace(options, net=options.net.with_token(partition.login))
        typed_task = typed.value if typed else None
        if is_pack(partition.tasks):
            yield from _read_pack(partition.tasks, options, schema, typed_task)
            return
        for task in partition.tasks:
            yield from _read_task(task, options, schema, typed_task)


def is_pack(tasks: Sequence[FetchTask]) -> bool:
    """True if ranges are read together; those of a chain (``keyOrder``) are read one after the other."""
    return len(tasks) > 1 and tasks[0].layouts is None


def _read_pack(
    tasks: Sequence[FetchTask], options: TaskOptions, schema: pa.Schema, typed: TypedTask | None
) -> Iterator[pa.RecordBatch]:
    from ..clients.reading.pack import Pack
    from ..cluster import cluster_of

    options = of_planned(options, tasks[0])
    cluster = cluster_of(options, tuple(dict.fromkeys(task.leader.broker for task in tasks)))
    typed_values = {
        task.range.topic_partition: typed_values_of(task, schema, typed)
        for task in tasks
        if typed is not None
    }
    batches = {
        tp: typed_values.get(tp) or BatchBuilder(tp, schema)
        for tp in (task.range.topic_partition for task in tasks)
    }
    wanted = batches[tasks[0].range.topic_partition].wanted
    pack = Pack(tasks, cluster, options.fetch, options.net, wanted=wanted)
    try:
        yield from _join_batches(
            batches[task.range.topic_partition].build(columns) for task, columns in pack.columns()
        )
    finally:
        for item in typed_values.values():
            if item is not None:
                item.report()
        freeze_objects(compiler.loaded())


def _join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: each costs Spark as much as a hundred rows."""
    held: list[pa.RecordBatch] = []
    row_count = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        row_count += batch.num_rows
        size += batch.nbytes
        if row_count >= _JOINED_ROWS or size >= _JOINED_BYTES:
            yield _one(held)
            held, row_count, size = [], 0, 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not batches[0].num_columns:
        count = sum(batch.num_rows for batch in batches)
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _read_task(
    task: FetchTask, options: TaskOptions, schema: pa.Schema, typed: TypedTask | None
) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_range(task, options, schema, typed)
    finally:
        freeze_objects(compiler.loaded())
