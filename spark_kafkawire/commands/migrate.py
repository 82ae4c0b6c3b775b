"""Copy topics of a Kafka 0.7 cluster to a modern cluster: each message once, in order, and verified.

    kafkawire migrate \\
        --source-option zookeeper.connect=127.0.0.1:2181 --topic debian-gzip \\
        --target-option kafka.bootstrap.servers=127.0.0.1:9092 --create-topics --state /data/migration

This runs Spark on this machine. On a cluster: spark-submit "$(kafkawire path migrate)" ARGUMENTS

Each partition of the old cluster, which is a partition of one broker, becomes one partition of the target.
The partitions of a topic, sorted by broker and partition, become the partitions 0, 1, 2, ... of the topic
with the same name, or with the name that --map gives. Run the command again to copy newer messages.

The state directory records how far each partition is copied. After a killed run, run the command again: it
reads the messages that the target has, compares them with the source, and appends the missing ones. At the
end it reads source and target again and compares their counts and checksums. No other program may write to
the partitions during a run, unless --source-headers marks each message with its place in the source.

With --exactly-once each piece is one transaction of the target, which also stores where the next piece
begins. The next run reads that position and does not compare the piece again. Readers of read_committed see
all of a piece or none of it.

The exit code is 0 for done and equal, 1 for failed or not equal, 2 for wrong usage, 3 for done with data
loss: the source lost messages before they were copied, or the broker of a copied partition was given up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.migration.run import Settings, describe, migrate, report
from spark_kafkawire.jobs.progress import Progress


def run(settings: Settings, progress: Progress, as_json: bool) -> dict[str, Any]:
    """Copy, or show what would be copied; the summary."""
    clusters = settings.clusters()
    if settings.dry_run:
        return report(describe(clusters, settings), as_json=as_json)
    # A dry run needs no Spark.
    from spark_kafkawire.jobs.spark import job_lineage, job_session, run_tasks

    progress.step("starting Spark")
    with job_session("migrate") as spark, job_lineage("migrate") as topics:

        def record(read: Mapping[str, int], written: Mapping[str, int]) -> None:
            if topics is not None:
                topics.read(clusters.source.discovery, read)
                topics.wrote(clusters.write.discovery, written)

        summary = migrate(clusters, settings, partial(run_tasks, spark), progress, record)
    return report(summary, as_json=as_json)


def describe_left(arguments: Any) -> str:
    """The work that an interrupted run leaves, and the next step."""
    if arguments.dry_run:
        return "nothing was changed"
    return "copied pieces stay; run again with the same --state, which continues after them"


JOB = Job("migrate", __doc__, Settings, run, describe_left)


if __name__ == "__main__":
    sys.exit(JOB.main())
