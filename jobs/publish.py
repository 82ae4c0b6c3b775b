"""Write rows of Parquet, JSON, CSV or other files to a topic.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/publish.py \\
        --input /data/events --key-column id --topic events \\
        --option kafka.bootstrap.servers=127.0.0.1:9092

The value of a message is one column, --value-column, or without it the whole row as a JSON object (fields
that are null are left out, as Spark does). Values and keys that are neither text nor bytes become text;
structs, arrays and maps become JSON. --option takes all options of a write, as compression; --option
acks=verify reads back what was written to Kafka 0.7.

Run twice, the job writes all rows twice, and killed in the middle it leaves some of them. With --state DIR
each row is written once: run it again with the same arguments until the exit code is 0. A run that finds an
unfinished one in DIR reads what the topic has got since that began, and writes the rows that are not there.
DIR is of one input: a changed input, topic or cluster is refused. One run at a time may use it. Meanwhile
others may write to the topic, but not the very same messages, and the topic must keep what it gets (no
compaction). At the end all is read back, which costs that much more: the summary tells what was found there,
and what is there more often than it should be, which then is a failure.

With --exactly-once all rows are in the topic once, or none is, for readers of read_committed: they are
written in transactions, from Kafka 0.11 on. --state or --transactional-id names the write: run it again with
the same arguments, and the input partitioned alike, until the exit code is 0. Nothing is read back, and
others may write what they like. --state remembers for ever that all is written, brokers for 7 days.

The summary tells how many messages went to which partition, by what the tasks that did the writing counted
themselves: what others write meanwhile is not in these numbers, and where Spark ran a failed task again, what
it had written before it failed is in the topic and not in them.

The exit code is 0 for done, 1 for failed (some messages may be written), 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spark_kafkawire.jobs.publish.input import Input
from spark_kafkawire.jobs.publish.options import SETTLE_S, PublishOptions, with_topic
from spark_kafkawire.jobs.publish.report import report
from spark_kafkawire.jobs.publish.rows import MessageColumns, messages
from spark_kafkawire.jobs.publish.run import publish
from spark_kafkawire.jobs.shell.arguments import (
    add_connection,
    connection_options,
    path,
    positive,
    read_options,
)
from spark_kafkawire.jobs.shell.command_line import JobParser, add_reporting, run_job
from spark_kafkawire.jobs.shell.progress import Progress
from spark_kafkawire.jobs.spark.session import job_session


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("publish.py", __doc__)
    add_input(parser)
    add_messages(parser)
    add_state(parser)
    add_connection(parser)
    add_reporting(parser)
    return parser


def add_input(parser: JobParser) -> None:
    """The arguments for what is read."""
    rows = parser.add_argument_group("what is read")
    rows.add_argument(
        "--input",
        action="append",
        required=True,
        type=path,
        metavar="PATH",
        help="a file or folder; may be repeated",
    )
    rows.add_argument("--format", default="parquet", help="a file format of Spark (default: parquet)")
    rows.add_argument(
        "--format-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the format, as header=true for csv; may be repeated",
    )
    rows.add_argument(
        "--schema",
        metavar="DDL",
        help="the columns of the input, as 'id long, body string' (default: as Spark finds them)",
    )


def add_messages(parser: JobParser) -> None:
    """The arguments for what is written."""
    what = parser.add_argument_group("what is written")
    for name, meaning in (
        ("value", "the value (default: the whole row as JSON)"),
        ("key", "the key"),
        ("partition", "the partition's number; null: by the key"),
        ("broker", "the broker's id, with --partition-column (0.7)"),
        ("headers", "the headers: a map, or an array of structs of key and value"),
        ("timestamp", "the time: a timestamp or its text, or milliseconds since 1970"),
    ):
        what.add_argument(f"--{name}-column", metavar="NAME", help=meaning)
    topic = what.add_mutually_exclusive_group(required=True)
    topic.add_argument("--topic", help="the topic to write to")
    topic.add_argument("--topic-column", metavar="NAME", help="the column that names each row's topic")


def add_state(parser: JobParser) -> None:
    """The arguments for a run that goes on where a killed one ended."""
    again = parser.add_argument_group("each row once, also where a run is killed")
    again.add_argument(
        "--state",
        type=path,
        metavar="DIR",
        help="remember in this folder, of any file system that Spark knows, what is published; a new one for "
        "each input",
    )
    again.add_argument(
        "--settle-seconds",
        type=positive,
        metavar="N",
        help="with --state: how long the topic must not have grown before a run looks for what a killed one "
        f"has written (default: {SETTLE_S:g}), where others write 6 times that; in 0.7 longer than brokers "
        "take to flush",
    )
    add_transactions(again)


def add_transactions(again: argparse._ArgumentGroup) -> None:
    """The arguments for a write that is there wholly or not at all."""
    again.add_argument(
        "--exactly-once",
        action="store_true",
        help="write in transactions: all rows are there once, or none is (Kafka 0.11 or later)",
    )
    again.add_argument(
        "--transactional-id",
        metavar="NAME",
        help="with --exactly-once: the kafka.transactional.id of this write, which nothing else may have "
        "(default: one that --state makes up)",
    )


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Write all rows; the summary."""
    options = PublishOptions.parse(
        with_topic(connection_options(arguments), arguments.topic),
        state=arguments.state,
        settle_s=arguments.settle_seconds,
        exactly_once=arguments.exactly_once,
        transactional_id=arguments.transactional_id,
    )
    columns = columns_of(arguments)
    columns.check(options.schema)
    given = input_of(arguments)
    progress.step("starting Spark")
    with job_session("publish") as spark:
        published = publish(messages(given.load(spark), columns), options, progress)
    return report(published, sys.stdout, as_json=arguments.json)


def columns_of(arguments: argparse.Namespace) -> MessageColumns:
    """The columns that messages are made of."""
    return MessageColumns(
        value=arguments.value_column,
        key=arguments.key_column,
        partition=arguments.partition_column,
        broker=arguments.broker_column,
        headers=arguments.headers_column,
        timestamp=arguments.timestamp_column,
        topic=arguments.topic_column,
    )


def input_of(arguments: argparse.Namespace) -> Input:
    """The files to read. Raises ``OptionError`` (fatal)."""
    return Input(
        paths=arguments.input,
        format=arguments.format,
        format_options=read_options(arguments.format_option, argument="--format-option"),
        schema=arguments.schema,
    )


if __name__ == "__main__":
    sys.exit(main())
