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

import argparse
import sys
from typing import Any

from spark_kafkawire.jobs.spark.session import job_session

from ..jobs.command_line import (
    JobParser,
    add_connection,
    add_reporting,
    add_topics,
    connection_options,
    parse_starting,
    path,
    positive,
    run_job,
    topic_options,
)
from ..jobs.progress import Progress
from ..jobs.stream_copy import StreamCopy, StreamCopyOptions


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Run the job; its summary."""
    options = parse_arguments(arguments)
    progress.step("starting Spark")
    with job_session("stream_copy") as spark:
        return StreamCopy(spark, options, progress).run()


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("stream_copy", __doc__, left)
    add_read(parser)
    add_written(parser)
    add_how(parser)
    add_connection(parser, "source")
    add_connection(parser, "target")
    add_reporting(parser)
    return parser


def add_read(parser: JobParser) -> None:
    """The arguments for the input."""
    read = parser.add_argument_group("input")
    add_topics(read, "copy")
    read.add_argument(
        "--starting",
        default="earliest",
        metavar="WHERE",
        help="where a new checkpoint starts: earliest (default), latest, a time such as 2026-01-31T00:00:00Z "
        "or "
        'milliseconds since 1970, or offsets such as {"t":{"0":123}}, for 0.7 {"t":{"0-1":123}}',
    )
    read.add_argument(
        "--max-offsets",
        type=positive,
        metavar="N",
        help="read at most N messages in one batch (0.8 or later)",
    )
    read.add_argument(
        "--max-bytes",
        type=positive,
        metavar="N",
        help="read at most N bytes in one batch, but at least one segment of each partition (0.7)",
    )
    read.add_argument(
        "--group",
        help="commit progress to this consumer group, which makes lag visible: in ZooKeeper for 0.7, "
        "otherwise on the brokers",
    )


def add_written(parser: JobParser) -> None:
    """The arguments for the output."""
    written = parser.add_argument_group("output")
    written.add_argument(
        "--target-topic",
        metavar="TOPIC",
        help="the topic to copy to (default: the topics with the same names as in the source)",
    )
    written.add_argument(
        "--keep-partitions",
        action="store_true",
        help="copy each message to the partition with the same number as in the source, instead of choosing "
        "by its key",
    )
    written.add_argument(
        "--output", type=path, metavar="DIR", help="write Parquet to this folder instead of a cluster"
    )


def add_how(parser: JobParser) -> None:
    """The arguments for the copying."""
    how = parser.add_argument_group("copying")
    how.add_argument(
        "--checkpoint",
        required=True,
        type=path,
        metavar="DIR",
        help="the folder for the checkpoint of the query",
    )
    ends = how.add_mutually_exclusive_group()
    ends.add_argument(
        "--available-now", action="store_true", help="copy up to the current end of the partitions, then stop"
    )
    ends.add_argument(
        "--interval",
        type=positive,
        default=0,
        metavar="SECONDS",
        help="start a batch every SECONDS (default: as soon as there are new messages)",
    )


def parse_arguments(arguments: argparse.Namespace) -> StreamCopyOptions:
    """The options of the command line. Raises ``OptionError``."""
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


def left(_arguments: argparse.Namespace) -> str:
    """The work that an interrupted run leaves, and the next step."""
    return "finished batches stay; run again with the same --checkpoint, which continues after them"


if __name__ == "__main__":
    sys.exit(main())
