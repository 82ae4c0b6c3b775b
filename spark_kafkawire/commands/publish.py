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

import argparse
import sys
from typing import Any

from spark_kafkawire.jobs.publish.input import Input
from spark_kafkawire.jobs.publish.options import SETTLE_S, PublishOptions, with_topic
from spark_kafkawire.jobs.publish.run import publish
from spark_kafkawire.jobs.spark.session import job_session

from ..jobs.command_line import (
    JobParser,
    add_connection,
    add_reporting,
    connection_options,
    path,
    positive,
    read_options,
    run_job,
)
from ..jobs.progress import Progress
from ..jobs.publish.input import MessageColumns, messages
from ..jobs.publish.summary import report


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("publish", __doc__, left)
    add_input(parser)
    add_messages(parser)
    add_state(parser)
    add_connection(parser)
    add_reporting(parser)
    return parser


def add_input(parser: JobParser) -> None:
    """The arguments for the input."""
    rows = parser.add_argument_group("input")
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
        help="an option of the format, such as header=true for csv; may be repeated",
    )
    rows.add_argument(
        "--schema",
        metavar="DDL",
        help="the columns of the input, such as 'id long, body string' (default: Spark infers them)",
    )


def add_messages(parser: JobParser) -> None:
    """The arguments for the messages."""
    what = parser.add_argument_group("messages")
    for name, meaning in (
        ("value", "the value (default: the whole row as JSON)"),
        ("key", "the key"),
        ("partition", "the partition number; null: chosen by the key"),
        ("broker", "the broker's id, with --partition-column (0.7)"),
        ("headers", "the headers: a map, or an array of structs with key and value"),
        ("timestamp", "the timestamp: a timestamp or its text, or milliseconds since 1970"),
    ):
        what.add_argument(f"--{name}-column", metavar="NAME", help=meaning)
    topic = what.add_mutually_exclusive_group(required=True)
    topic.add_argument("--topic", help="the topic to write to")
    topic.add_argument("--topic-column", metavar="NAME", help="the column with the topic of each row")


def add_state(parser: JobParser) -> None:
    """The arguments for a run that continues after a killed one."""
    again = parser.add_argument_group("each row once, also after a killed run")
    again.add_argument(
        "--state",
        type=path,
        metavar="DIR",
        help="record what is published in this folder, on any file system that Spark supports; use a new "
        "folder for each input",
    )
    again.add_argument(
        "--settle-seconds",
        type=positive,
        metavar="N",
        help="with --state: how long the topic must be idle before a run looks for the messages of a killed "
        f"one (default: {SETTLE_S:g}); six times that if other programs write to it; for 0.7 longer than the "
        "brokers' flush interval",
    )
    add_transactions(again)


def add_transactions(again: argparse._ArgumentGroup) -> None:
    """The arguments for a write that is all or nothing."""
    again.add_argument(
        "--exactly-once",
        action="store_true",
        help="write in transactions: readers see all rows once, or none (Kafka 0.11 or later)",
    )
    again.add_argument(
        "--transactional-id",
        metavar="NAME",
        help="with --exactly-once: the kafka.transactional.id of this write, which no other program may use "
        "(default: a name that --state generates)",
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
    """The columns that become the messages."""
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


def left(arguments: argparse.Namespace) -> str:
    """The work that an interrupted run leaves, and the next step."""
    if arguments.exactly_once:
        return (
            "run again with the same arguments, which finishes what was decided, and ends the transactions "
            "that are left open"
        )
    if arguments.state is not None:
        return "some rows may be written; run again with the same --state, which writes what is missing"
    return "some rows may be written; another run writes all rows again"


if __name__ == "__main__":
    sys.exit(main())
