"""Read topics into Parquet files, from the end of the last run to the current end: each message exactly once.

    kafkawire ingest \\
        --option kafka.bootstrap.servers=127.0.0.1:9092 --topic events --output /data/events

This runs Spark on this machine. On a cluster: spark-submit "$(kafkawire path ingest)" ARGUMENTS

Each run adds one folder OUTPUT/batch=N, which is either complete or absent. The next run finishes what a
killed run began. A run without new messages adds no folder. Only one run at a time may write to an output;
a second run is refused where the operating system can detect it.

With --table delta:NAME or iceberg:NAME each run is one commit of that table, with those columns of the
messages that the table has. spark-submit gives Spark the jars and the settings of the format.

OUTPUT is any path that Spark's Hadoop supports (file:, hdfs:, ...) where a folder is renamed in one step.
"""

from __future__ import annotations

import sys
from typing import Any

from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.ingest.run import Ingest, IngestOptions
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.jobs.spark import job_session


def run(options: IngestOptions, progress: Progress, _as_json: bool) -> dict[str, Any]:
    """Run the job; its summary."""
    progress.step("starting Spark")
    with job_session("ingest") as spark:
        return Ingest(spark, options, progress).run()


_LEFT = "finished batches stay; run again with the same arguments, which continues after them"
JOB = Job("ingest", __doc__, IngestOptions, run, lambda _: _LEFT)


if __name__ == "__main__":
    sys.exit(JOB.main())
