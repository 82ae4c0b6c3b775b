"""Runs a function on many small tasks as one Spark job.

copies = run_tasks(spark, Copier(clusters), tasks)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_kafkawire.source.edge import hide_broken_pipes

T = TypeVar("T")
R = TypeVar("R")

_RESULTS: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def run_tasks(spark: SparkSession, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """The result of each task, in their order; each is a Spark task of its own.

    ``function``, the tasks and the results are pickled. ``function`` must allow that Spark runs a failed task
    again, and that a task which Spark has given up still runs.
    """
    if not tasks:
        return []

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hide_broken_pipes()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps(function(tasks[number]))
                yield pa.RecordBatch.from_arrays([[number], [result]], schema=_RESULTS)

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, "number long, result binary")
    results: dict[int, R] = {row.number: pickle.loads(row.result) for row in frame.collect()}
    return [results[number] for number in range(len(tasks))]
