"""Read topics into Parquet, from where the last run ended to the logs' ends: each message exactly once.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/ingest.py \\
        --option zookeeper.connect=127.0.0.1:2181 --topic debian-gzip --output /data/debian

Every run adds a folder OUTPUT/batch=N, which is there wholly or not at all. A run that was killed is
finished by the next one. Nothing new is a run without a batch. One run at a time may write to an output;
a second one is refused where the operating system can tell.

Any path that Spark's Hadoop knows will do (file:, hdfs:, ...), where renaming a folder is one step.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spark_kafkawire.jobs.ingest.options import IngestOptions
from spark_kafkawire.jobs.ingest.output import DECODERS, OutputOptions, parse_partition_by
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.shell.arguments import (
    add_connection,
    add_gone_broker,
    add_topics,
    connection_options,
    gone_brokers_of,
    parse_starting,
    path,
    positive,
    read_options,
    topic_options,
)
from spark_kafkawire.jobs.shell.command_line import JobParser, add_reporting, run_job
from spark_kafkawire.jobs.shell.progress import Progress
from spark_kafkawire.jobs.spark.session import job_session


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), ingest)


def ingest(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """One run; its summary."""
    options = parse_arguments(arguments)
    progress.step("starting Spark")
    with job_session("ingest") as spark:
        return Ingest(spark, options, progress).run()


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("ingest.py", __doc__)
    add_input(parser)
    add_progress(parser)
    add_output(parser)
    add_connection(parser)
    add_reporting(parser)
    return parser


def add_input(parser: JobParser) -> None:
    """The arguments for what is read."""
    read = parser.add_argument_group("what is read")
    add_topics(read, "read")
    read.add_argument(
        "--starting",
        default="earliest",
        metavar="WHERE",
        help="where a topic starts that was never read: earliest (default), latest, a time as "
        '2026-01-31T00:00:00Z or milliseconds since 1970, or offsets as {"t":{"0":123}}, in 0.7 '
        '{"t":{"0-1":123}}',
    )
    read.add_argument(
        "--max-bytes", type=positive, metavar="N", help="read about so many bytes at most (0.7)"
    )
    read.add_argument(
        "--max-records",
        type=positive,
        metavar="N",
        help="read so many records at most, one of each partition at least (from 0.8)",
    )
    add_gone_broker(read)


def add_progress(parser: JobParser) -> None:
    """The arguments for where is kept how far was read."""
    kept = parser.add_argument_group("where progress is kept").add_mutually_exclusive_group()
    kept.add_argument(
        "--group",
        help="in this consumer group, too, so that lag can be seen: in ZooKeeper for 0.7, else on the "
        "brokers; it must have no live consumers, and is put back where somebody else has moved it",
    )
    kept.add_argument(
        "--checkpoint", type=path, metavar="DIR", help="in this folder (default: OUTPUT/_kafkawire)"
    )


def add_output(parser: JobParser) -> None:
    """The arguments for what is written."""
    output = parser.add_argument_group("what is written")
    output.add_argument("--output", required=True, type=path, metavar="DIR", help="the folder to write to")
    output.add_argument("--format", default="parquet", help="a file format of Spark (default: parquet)")
    output.add_argument(
        "--format-option", action="append", default=[], metavar="KEY=VALUE", help="an option of the format"
    )
    output.add_argument(
        "--decode",
        choices=DECODERS,
        default="none",
        help="string: key and value become text; json: the value becomes a struct, and what is not JSON is "
        "kept in its field _corrupt_record (default: none)",
    )
    output.add_argument(
        "--schema",
        metavar="DDL",
        help="the fields of the JSON, as 'name string, size long'; without it each run looks at its messages "
        "first",
    )
    output.add_argument(
        "--partition-by",
        action="append",
        default=[],
        metavar="NAME[=SQL]",
        help="write a folder for each value of a column, which SQL may make: day='to_date(timestamp)'; may "
        "be repeated",
    )


def parse_arguments(arguments: argparse.Namespace) -> IngestOptions:
    """What the command line asks for. Raises ``OptionError``."""
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


if __name__ == "__main__":
    sys.exit(main())
