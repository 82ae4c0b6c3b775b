"""A stream in its own Spark, and the memory of its JVM after each tenth of its batches.

    python -m tests.support.stream_heap READ_JSON BATCHES FOLDER

Prints a line of JSON for each look: ``{"batch": 200, "heap_bytes": 57671680}``. Spark keeps what its pages
would show of a thousand jobs; here it keeps ten, so that the heap is soon as large as it ever gets.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.local_spark import local_spark
from tests.support.polling import poll
from tests.support.spark_streams import started

#: How often the heap is looked at; the first time after the first tenth of the batches.
LOOKS: Final = 10
#: At how many moments of a look.
MOMENTS: Final = 5
#: How long a batch may take on a machine with other work, seconds.
BATCH_MAX_S: Final = 15.0
_KEPT: Final = {
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}


def main(read: Mapping[str, str], batches: int, folder: Path) -> None:
    """Run the query until it has done so many batches."""
    spark = local_spark("what a stream holds", _KEPT)
    rows = spark.readStream.format("kafkawire").options(**read).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder))
    query = started(lambda: writer.trigger(processingTime="0 seconds").start())
    for look in range(1, LOOKS + 1):
        batch = batches * look // LOOKS
        await_batch(query, folder / "commits", batch)
        print(json.dumps({"batch": batch, "heap_bytes": heap_bytes(spark)}), flush=True)
    query.stop()
    spark.stop()


def await_batch(query: StreamingQuery, commits: Path, batch: int) -> None:
    """Wait until a batch is done."""

    def done() -> bool:
        if (error := query.exception()) is not None:
            raise error
        names = os.listdir(commits) if commits.exists() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1) >= batch

    poll(done, f"batch {batch}", 300 + BATCH_MAX_S * batch)


def heap_bytes(spark: SparkSession) -> int:
    """Bytes that Spark's JVM holds, garbage apart, and apart from what a batch holds while it runs: the least
    of several moments."""
    jvm = spark._jvm
    assert jvm is not None
    memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    result = []
    for _ in range(MOMENTS):
        memory.gc()
        result.append(int(memory.getHeapMemoryUsage().getUsed()))
    return min(result)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
