"""Read topics into Parquet files, from the end of the last run to the current end: each message exactly once.

    kafkawire ingest \\
        --option kafka.bootstrap.servers=127.0.0.1:9092 --topic events --output /data/events

This runs Spark on this machine. On a cluster: spark-submit "$(kafkawire path ingest)" ARGUMENTS

Each run adds one folder OUTPUT/batch=N, which is either complete or absent. The next run finishes what a
killed run began. A run without new messages adds no folder. Only one run at a time may write to an output;
a second run is refused where the operating system can detect it.

OUTPUT is any path that Spark's Hadoop supports (file:, hdfs:, ...) where a folder is renamed in one step.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spark_kafkawire.jobs.ingest.options import IngestOptions
from spark_kafkawire.jobs.ingest.output import DECODERS, OutputOptions, parse_partition_by
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.spark.session import job_session

from ..jobs.command_line import (
    JobParser,
    add_connection,
    add_gone_broker,
    add_reporting,
    add_topics,
    connection_options,
    gone_brokers_of,
    parse_starting,
    path,
    positive,
    read_options,
    run_job,
    topic_options,
)
from ..jobs.progress import Progress


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Run the job; its summary."""
    options = parse_arguments(arguments)
    progress.step("starting Spark")
    with job_session("ingest") as spark:
        return Ingest(spark, options, progress).run()


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("ingest", __doc__, left)
    add_input(parser)
    add_progress(parser)
    add_output(parser)
    add_connection(parser)
    add_reporting(parser)
    return parser


def add_input(parser: JobParser) -> None:
    """The arguments for the input."""
    read = parser.add_argument_group("input")
    add_topics(read, "read")
    read.add_argument(
        "--starting",
        default="earliest",
        metavar="WHERE",
        help="where to start a topic that was never read: earliest (default), latest, a time such as "
        '2026-01-31T00:00:00Z or milliseconds since 1970, or offsets such as {"t":{"0":123}}, for 0.7 '
        '{"t":{"0-1":123}}',
    )
    read.add_argument("--max-bytes", type=positive, metavar="N", help="read at most about N bytes (0.7)")
    read.add_argument(
        "--max-records",
        type=positive,
        metavar="N",
        help="read at most N records, but at least one of each partition (0.8 or later)",
    )
    add_gone_broker(read)


def add_progress(parser: JobParser) -> None:
    """The arguments for the place where progress is kept."""
    kept = parser.add_argument_group("progress").add_mutually_exclusive_group()
    kept.add_argument(
        "--group",
        help="also commit progress to this consumer group, which makes lag visible: in ZooKeeper for 0.7, "
        "otherwise on the brokers; it must have no active members, and is reset if another program moved it",
    )
    kept.add_argument(
        "--checkpoint",
        type=path,
        metavar="DIR",
        help="keep progress in this folder (default: OUTPUT/_kafkawire)",
    )


def add_output(parser: JobParser) -> None:
    """The arguments for the output."""
    output = parser.add_argument_group("output")
    output.add_argument("--output", required=True, type=path, metavar="DIR", help="the folder to write to")
    output.add_argument("--format", default="parquet", help="a file format of Spark (default: parquet)")
    output.add_argument(
        "--format-option", action="append", default=[], metavar="KEY=VALUE", help="an option of the format"
    )
    output.add_argument(
        "--decode",
        choices=DECODERS,
        default="none",
        help="string: key and value become text; json: the value becomes a struct, with invalid JSON in its "
        "field _corrupt_record (default: none)",
    )
    output.add_argument(
        "--schema",
        metavar="DDL",
        help="the fields of the JSON, such as 'name string, size long' (default: each run infers them from "
        "its messages)",
    )
    output.add_argument(
        "--partition-by",
        action="append",
        default=[],
        metavar="NAME[=SQL]",
        help="write one folder for each value of a column, which may be an SQL expression: "
        "day='to_date(timestamp)'; may be repeated",
    )


def parse_arguments(arguments: argparse.Namespace) -> IngestOptions:
    """The options of the command line. Raises ``OptionError``."""
    output = OutputOptions(
        path=arguments.output,
        format=arguments.format,
        format_options=read_options(arguments.format_option, argument="--format-option"),
        decode=arguments.decode,
        schema=arguments.schema,
        partition_by=parse_partition_by(arguments.partition_by),
    )
    return IngestOptions(
        connection=connection_options(arguments),
        output=output,
        selection=topic_options(arguments),
        starting=parse_starting(arguments.starting),
        group=arguments.group,
        checkpoint=arguments.checkpoint,
        bytes_max=arguments.max_bytes,
        records_max=arguments.max_records,
        gone_brokers=gone_brokers_of(arguments),
    )


def left(_arguments: argparse.Namespace) -> str:
    """The work that an interrupted run leaves, and the next step."""
    return "finished batches stay; run again with the same arguments, which continues after them"


if __name__ == "__main__":
    sys.exit(main())
