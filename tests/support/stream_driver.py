"""A driver that somebody kills: a stream into Parquet files, again and again until all is read.

    python -m tests.support.stream_driver OPTIONS_JSON FOLDER

It writes a line to ``FOLDER/runs`` whenever a query begins, goes on after a query that failed, and ends when
``FOLDER/complete`` is there and a query that began after that has read all there is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.support.local_spark import local_spark


def main(options: dict[str, str], folder: Path) -> None:
    spark = local_spark("stream that is killed", {"spark.sql.shuffle.partitions": "1"})
    is_complete = False
    while not is_complete:
        last = (folder / "complete").exists()
        is_complete = _is_run(spark, options, folder) and last
    spark.stop()


def _is_run(spark: SparkSession, options: dict[str, str], folder: Path) -> bool:
    """Whether a query has read what there was when it began."""
    rows = spark.readStream.format("kafkawire").options(**options).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    with (folder / "runs").open("a") as runs:
        print("run", file=runs)
    try:
        writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    except StreamingQueryException as error:
        with (folder / "failures").open("a") as failures:
            print(str(error).splitlines()[0], file=failures)
        return False
    return True


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
