"""Write rows of Parquet, JSON, CSV or other files to a topic.

    kafkawire publish \\
        --input /data/events --key-column id --topic events \\
        --option kafka.bootstrap.servers=127.0.0.1:9092

This runs Spark on this machine. On a cluster: spark-submit "$(kafkawire path publish)" ARGUMENTS

The value of a message is the column of --value-column, or by default the whole row as a JSON object, without
its null fields. Values and keys that are neither text nor bytes become text; structs, arrays and maps become
JSON. --option takes all write options, such as compression. --option acks=verify reads back what was written
to Kafka 0.7.

A second run writes all rows again, and a killed run leaves some of them in the topic. With --state DIR each
row is written once: run the command again with the same arguments until the exit code is 0. If DIR holds an
unfinished run, the command reads the messages that the topic got since that run began, and writes the
missing rows. DIR belongs to one input: a changed input, topic or cluster is refused. Only one run at a time
may use it. Other programs may write to the topic meanwhile, but not identical messages, and the topic must
keep all messages (no compaction). At the end the command reads everything back, which takes about as long
again. The summary reports what it found, including messages that are there too often; those are a failure.

With --exactly-once readers of read_committed see all rows once, or none: the rows are written in
transactions (Kafka 0.11 or later). --state or --transactional-id names the write. Run the command again with
the same arguments, and with the input partitioned the same way, until the exit code is 0. Nothing is read
back, and other programs may write anything. --state remembers a finished write for ever, brokers for 7 days.

The summary counts the messages of each partition as the tasks wrote them. It does not include what other
programs write meanwhile, nor what a failed task wrote before Spark ran it again.

The exit code is 0 for done, 1 for failed (some messages may be written), 2 for wrong usage.
"""

from __future__ import annotations

import sys
from typing import Any

from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.jobs.publish.options import PublishArguments, messages
from spark_kafkawire.jobs.publish.run import publish, report
from spark_kafkawire.jobs.spark import job_lineage, job_session


def run(arguments: PublishArguments, progress: Progress, as_json: bool) -> dict[str, Any]:
    """Write all rows; the summary."""
    progress.step("starting Spark")
    with job_session("publish") as spark, job_lineage("publish") as topics:
        rows = messages(arguments.input.load(spark), arguments.columns)
        published = publish(rows, arguments.options, progress)
        if topics is not None:
            topics.wrote(arguments.options.write.discovery, published.counts(), rows.schema)
    return report(published, as_json=as_json)


def describe_left(arguments: Any) -> str:
    """The work that an interrupted run leaves, and the next step."""
    if arguments.exactly_once:
        return (
            "run again with the same arguments, which finishes what was decided, and ends the transactions "
            "that are left open"
        )
    if arguments.state is not None:
        return "some rows may be written; run again with the same --state, which writes what is missing"
    return "some rows may be written; another run writes all rows again"


JOB = Job("publish", __doc__, PublishArguments, run, describe_left)


if __name__ == "__main__":
    sys.exit(JOB.main())
