"""Copy topics to other topics or to Parquet, continuously, as one Spark streaming query.

    kafkawire stream-copy \\
        --source-option kafka.bootstrap.servers=127.0.0.1:9092 --topic events \\
        --target-option kafka.bootstrap.servers=127.0.0.1:9192 --checkpoint /data/events-checkpoint

This runs Spark on this machine. On a cluster: spark-submit "$(kafkawire path stream-copy)" ARGUMENTS

The query runs until SIGTERM or SIGINT, and ends after the running batch. With --available-now it ends when
it has copied all messages that existed at its start. The next run continues from the checkpoint.

Parquet gets each message once. A topic gets each message at least once: the next run repeats the batch that
a killed run was writing. Kafka 0.7 stores only values: keys, headers and timestamps are not copied to it.
"""

from __future__ import annotations

import sys
from typing import Any

from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.jobs.spark import job_session
from spark_kafkawire.jobs.stream_copy import StreamCopy, StreamCopyOptions


def run(options: StreamCopyOptions, progress: Progress, _as_json: bool) -> dict[str, Any]:
    """Run the job; its summary."""
    progress.step("starting Spark")
    with job_session("stream_copy") as spark:
        return StreamCopy(spark, options, progress).run()


_LEFT = "finished batches stay; run again with the same --checkpoint, which continues after them"
JOB = Job("stream_copy", __doc__, StreamCopyOptions, run, lambda _: _LEFT)


if __name__ == "__main__":
    sys.exit(JOB.main())
