"""Copy topics to topics, or into Parquet, batch after batch: one streaming query of Spark.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/stream_copy.py \\
        --source-option zookeeper.connect=127.0.0.1:2181 --topic debian-gzip \\
        --target-option kafka.bootstrap.servers=127.0.0.1:9092 --target-topic debian \\
        --checkpoint /data/debian-checkpoint

It goes on until SIGTERM or SIGINT asks for its end, which comes after the running batch, or with
--available-now until all is copied that was there when it began. The next run goes on where the checkpoint
is.

Parquet gets each message once. A topic gets each at least once: a batch that was under way when the job was
killed is written again. Kafka 0.7 holds values alone: keys, headers and times are not copied to it.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spark_kafkawire.jobs.shell.arguments import (
    add_connection,
    add_topics,
    connection_options,
    parse_starting,
    path,
    positive,
    topic_options,
)
from spark_kafkawire.jobs.shell.command_line import JobParser, add_reporting, run_job
from spark_kafkawire.jobs.shell.progress import Progress
from spark_kafkawire.jobs.spark.session import job_session
from spark_kafkawire.jobs.stream_copy.options import StreamCopyOptions
from spark_kafkawire.jobs.stream_copy.run import StreamCopy


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """One run; its summary."""
    options = parse_arguments(arguments)
    progress.step("starting Spark")
    with job_session("stream_copy") as spark:
        return StreamCopy(spark, options, progress).run()


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("stream_copy.py", __doc__)
    add_read(parser)
    add_written(parser)
    add_how(parser)
    add_connection(parser, "source")
    add_connection(parser, "target")
    add_reporting(parser)
    return parser


def add_read(parser: JobParser) -> None:
    """The arguments for what is read."""
    read = parser.add_argument_group("what is read")
    add_topics(read, "copy")
    read.add_argument(
        "--starting",
        default="earliest",
        metavar="WHERE",
        help="where a new checkpoint starts: earliest (default), latest, a time as 2026-01-31T00:00:00Z or "
        'milliseconds since 1970, or offsets as {"t":{"0":123}}, in 0.7 {"t":{"0-1":123}}',
    )
    read.add_argument(
        "--max-offsets", type=positive, metavar="N", help="messages of one batch at most (from 0.8)"
    )
    read.add_argument(
        "--max-bytes",
        type=positive,
        metavar="N",
        help="bytes of one batch at most, and one segment of each log at least (0.7)",
    )
    read.add_argument(
        "--group",
        help="a consumer group that follows, so that lag can be seen: in ZooKeeper for 0.7, else on the "
        "brokers",
    )


def add_written(parser: JobParser) -> None:
    """The arguments for what is written."""
    written = parser.add_argument_group("what is written")
    written.add_argument(
        "--target-topic",
        metavar="TOPIC",
        help="the topic to copy to (default: those of the names that the source has)",
    )
    written.add_argument(
        "--keep-partitions",
        action="store_true",
        help="copy each message to the partition of the number that it has in the source, and not where its "
        "key says",
    )
    written.add_argument(
        "--output", type=path, metavar="DIR", help="write Parquet to this folder, and not to a cluster"
    )


def add_how(parser: JobParser) -> None:
    """The arguments for how it is copied."""
    how = parser.add_argument_group("how")
    how.add_argument(
        "--checkpoint", required=True, type=path, metavar="DIR", help="the folder that says where the copy is"
    )
    ends = how.add_mutually_exclusive_group()
    ends.add_argument("--available-now", action="store_true", help="end where the logs end now")
    ends.add_argument(
        "--interval",
        type=positive,
        default=0,
        metavar="SECONDS",
        help="begin a batch so often (default: whenever there is something to copy)",
    )


def parse_arguments(arguments: argparse.Namespace) -> StreamCopyOptions:
    """What the command line asks for. Raises ``OptionError``."""
    return StreamCopyOptions(
        source=connection_options(arguments, "source"),
        selection=topic_options(arguments),
        checkpoint=arguments.checkpoint,
        target=connection_options(arguments, "target"),
        target_topic=arguments.target_topic,
        output=arguments.output,
        keep_partitions=arguments.keep_partitions,
        starting=parse_starting(arguments.starting),
        offsets_max=arguments.max_offsets,
        bytes_max=arguments.max_bytes,
        group=arguments.group,
        available_now=arguments.available_now,
        interval_s=arguments.interval,
    )


if __name__ == "__main__":
    sys.exit(main())
