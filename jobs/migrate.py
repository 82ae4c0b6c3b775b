"""Copy topics of a Kafka 0.7 cluster to a modern one: each message once, in order, and verified.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/migrate.py \\
        --source-option zookeeper.connect=127.0.0.1:2181 --topic debian-gzip \\
        --target-option kafka.bootstrap.servers=127.0.0.1:9092 --create-topics --state /data/migration

Each log of the old cluster, a partition of one broker, becomes a partition of its own: the logs of a
topic, sorted by broker and partition, are the partitions 0, 1, 2, ... of the topic of the same name, or of
the one that --map gives it. Run it again to copy what came since.

The state directory remembers how far each log is. A run that was killed is run again: it reads what the
target has got, compares it with the source, and appends what is missing. At the end source and target are
read again, and their counts and checksums compared. Meanwhile nobody else may write to the partitions,
unless --source-headers marks each message with the place that it came from.

With --exactly-once each piece is a transaction of the target, in which the place where the next one begins
stands, too. The next run asks for that, and compares nothing of it. Readers of read_committed see a piece
wholly or not at all.

The exit code is 0 for done and equal, 1 for failed or not equal, 2 for wrong usage, 3 for done where the
source had lost messages before they were copied, or the broker of a log that was copied is given up.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from spark_kafkawire.jobs.migration.clusters import Clusters, source_options, target_options
from spark_kafkawire.jobs.migration.report import report
from spark_kafkawire.jobs.migration.routes import parse_names
from spark_kafkawire.jobs.migration.run import PIECE_BYTES, Settings, describe, migrate
from spark_kafkawire.jobs.shell.arguments import (
    add_connection,
    add_gone_broker,
    add_topics,
    connection_options,
    gone_brokers_of,
    positive,
    topic_options,
)
from spark_kafkawire.jobs.shell.command_line import JobParser, add_reporting, run_job
from spark_kafkawire.jobs.shell.progress import Progress
from spark_kafkawire.jobs.spark.session import job_session
from spark_kafkawire.jobs.spark.tasks import run_tasks


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("migrate.py", __doc__)
    add_logs(parser)
    add_transactions(add_how(parser))
    add_connection(parser, "source", "zookeeper.connect=HOST:PORT")
    add_connection(parser, "target", "kafka.bootstrap.servers=HOST:PORT")
    add_reporting(parser)
    return parser


def add_logs(parser: JobParser) -> None:
    """The arguments for what is copied."""
    what = parser.add_argument_group("what is copied")
    add_topics(what, "copy")
    what.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="copy a topic to one of another name; may be repeated",
    )
    add_gone_broker(what)
    what.add_argument(
        "--source-headers",
        action="store_true",
        help="give each message headers that name its topic, broker, partition, offset and index there",
    )


def add_how(parser: JobParser) -> argparse._ArgumentGroup:
    """The arguments for how it is copied."""
    how = parser.add_argument_group("how")
    how.add_argument(
        "--state",
        required=True,
        type=Path,
        metavar="DIR",
        help="the directory, on the driver, of what is done",
    )
    add_creation(how)
    how.add_argument(
        "--piece-bytes",
        type=positive,
        default=PIECE_BYTES,
        metavar="N",
        help="bytes of a log that are copied before the state is saved; so much is read again where a run "
        "was killed (default: %(default)s)",
    )
    how.add_argument("--dry-run", action="store_true", help="tell what would be copied, and do nothing")
    return how


def add_creation(how: argparse._ArgumentGroup) -> None:
    """The arguments for topics that are missing."""
    how.add_argument(
        "--create-topics",
        action="store_true",
        help="create topics that are missing, a partition for each log",
    )
    how.add_argument(
        "--replication-factor",
        type=positive,
        metavar="N",
        help="replicas of topics that are created (default: the brokers' default.replication.factor)",
    )


def add_transactions(how: argparse._ArgumentGroup) -> None:
    """The arguments for pieces that are there wholly or not at all."""
    how.add_argument(
        "--exactly-once",
        action="store_true",
        help="copy each piece in a transaction of the target (Kafka 0.11 or later), which also remembers how "
        "far each log is: what a killed run has copied is known, and not compared",
    )
    how.add_argument(
        "--transactional-id",
        metavar="NAME",
        help="with --exactly-once: the beginning of the ids of these transactions, and of groups, which "
        "nothing else may have (default: one that --state makes up)",
    )


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Copy, or tell what would be copied; the summary."""
    clusters = Clusters(
        source_options(connection_options(arguments, "source"), topic_options(arguments)),
        *target_options(
            connection_options(arguments, "target"),
            exactly_once=arguments.exactly_once,
            transactional_id=arguments.transactional_id,
        ),
        arguments.source_headers,
    )
    settings = Settings(
        state=arguments.state,
        names=parse_names(arguments.map),
        create_topics=arguments.create_topics,
        replication_factor=arguments.replication_factor,
        piece_bytes=arguments.piece_bytes,
        gone_brokers=gone_brokers_of(arguments),
    )
    if arguments.dry_run:
        return report(describe(clusters, settings), sys.stdout, as_json=arguments.json)
    progress.step("starting Spark")
    with job_session("migrate") as spark:
        summary = migrate(clusters, settings, partial(run_tasks, spark), progress)
    return report(summary, sys.stdout, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
