"""A driver that somebody kills: it runs streams, each again when it fails, until it is told to end.

    python -m tests.support.stream_driver QUERIES_JSON HOME FOLDER

``QUERIES_JSON`` is ``{name: {"read": options, "write": options}}``, the latter without a topic for Parquet
files in ``FOLDER/name/out``; Spark is in ``HOME``. Whenever a query begins it writes a line to
``FOLDER/name/runs``, whenever one fails the reason to ``FOLDER/name/failures``, and it ends when
``FOLDER/complete`` is there and all that there is has been read.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.local_spark import local_spark

Options = dict[str, dict[str, str]]

#: What a killed worker had to do is tried once more within the batch.
MASTER: Final = "local[2,2]"
#: How often it looks for queries that have failed, seconds.
INTERVAL_S: Final = 0.1


def main(queries: dict[str, Options], home: str, folder: Path) -> None:
    spark = local_spark("streams that are killed", {"spark.master": MASTER}, home)
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
        written = rows.select("value").writeStream.format("kafkawire").options(**options["write"])
    else:
        written = rows.writeStream.format("parquet").option("path", str(folder / "out"))
    query = written.option("checkpointLocation", str(folder / "checkpoint")).start()
    # One after the other: all queries of one Python source share a map in Spark's JVM, and those that fill it
    # at the same time may break it for good ("Task serialization failed: Illegal size of collection").
    while query.isActive and not query.recentProgress:
        time.sleep(INTERVAL_S)
    return query


def _note(file: Path, line: str) -> None:
    with file.open("a") as lines:
        print(line, file=lines)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
