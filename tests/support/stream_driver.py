"""A driver that a test kills: it runs streams, and each again when it fails, until the test marks the end.

    python -m tests.support.stream_driver QUERIES_JSON SETTINGS_JSON HOME FOLDER

``QUERIES_JSON`` is ``{name: {"read": options, "write": options}}``, the latter without a topic for Parquet
files in ``FOLDER/name/out``; Spark, with these settings, is in ``HOME``. With ``"trouble"``, which tells how
likely it is that an attempt of a task ``fails`` or ``lags``, attempts are files in ``FOLDER/name/attempts``,
and those that failed say so. Whenever a query begins it writes a line to
``FOLDER/name/runs``, whenever one fails the reason to ``FOLDER/name/failures``, and it ends when
``FOLDER/complete`` is there and all that there is has been read.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.local_spark import local_spark

Options = dict[str, dict[str, Any]]

#: What a killed worker had to do is tried once more within the batch.
MASTER: Final = "local[2,2]"
#: How often it looks for queries that have failed, seconds.
INTERVAL_S: Final = 0.1
#: How long an attempt lags that does: Spark runs another one beside it meanwhile, where it is told to.
LAG_S: Final = 6.0


def main(queries: dict[str, Options], settings: dict[str, str], home: str, folder: Path) -> None:
    spark = local_spark("streams that are killed", {"spark.master": MASTER, **settings}, home)
    running: dict[str, StreamingQuery] = {}
    is_complete = False
    while not is_complete:
        is_complete = (folder / "complete").exists()
        for name, options in queries.items():
            if name not in running:
                try:
                    running[name] = _started(spark, options, folder / name)
                except (PySparkException, Py4JJavaError) as failure:  # who helped to plan it was killed
                    _note(folder / name / "failures", str(failure).splitlines()[0])
                    is_complete = False
        time.sleep(INTERVAL_S)
        for name, query in list(running.items()):
            error = _failure(query, is_complete)
            if error is not None:
                _note(folder / name / "failures", str(error).splitlines()[0])
                del running[name]
                is_complete = False
    spark.stop()


def _failure(query: StreamingQuery, is_complete: bool) -> Exception | None:
    """Why a query has ended; None while it goes on, or once it has read all that there is."""
    try:
        if is_complete:
            query.processAllAvailable()
    except StreamingQueryException as error:
        return error
    return query.exception()


def _started(spark: SparkSession, options: Options, folder: Path) -> StreamingQuery:
    folder.mkdir(exist_ok=True)
    _note(folder / "runs", "run")
    rows = spark.readStream.format("kafkawire").options(**options["read"]).load()
    if "topic" in options["write"]:
        values = _troubled(rows.select("value"), options.get("trouble"), folder / "attempts")
        written = values.writeStream.format("kafkawire").options(**options["write"])
    else:
        written = rows.writeStream.format("parquet").option("path", str(folder / "out"))
    query = written.option("checkpointLocation", str(folder / "checkpoint")).start()
    # One after the other: all queries of one Python source share a map in Spark's JVM, and those that fill it
    # at the same time may break it for good ("Task serialization failed: Illegal size of collection").
    while query.isActive and not query.recentProgress:
        time.sleep(INTERVAL_S)
    return query


def _troubled(rows: DataFrame, trouble: dict[str, float] | None, folder: Path) -> DataFrame:
    """The same rows, by attempts of tasks that now and then lag, or fail when all their rows are out."""
    if trouble is None:
        return rows
    folder.mkdir(exist_ok=True)
    fails, lags = trouble.get("fails", 0), trouble.get("lags", 0)

    def attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number, batch = context.attemptNumber(), context.getLocalProperty("streaming.sql.batchId")
        file = folder / f"{batch}.{context.partitionId()}.{number}"
        file.touch()
        yield from batches
        if not number and random.random() < lags:
            time.sleep(LAG_S)
        if random.random() < fails:
            file.write_text("failed")
            raise RuntimeError("a task that fails at random")

    return rows.mapInArrow(attempt, rows.schema)


def _note(file: Path, line: str) -> None:
    with file.open("a") as lines:
        print(line, file=lines)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
