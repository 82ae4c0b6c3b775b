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

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from spark_kafkawire.jobs.migration.clusters import Clusters, source_options, target_options
from spark_kafkawire.jobs.migration.run import PIECE_BYTES, Settings, describe, migrate

from ..jobs.command_line import (
    JobParser,
    add_connection,
    add_gone_broker,
    add_reporting,
    add_topics,
    connection_options,
    gone_brokers_of,
    positive,
    run_job,
    topic_options,
)
from ..jobs.migration.run import report
from ..jobs.migration.state import parse_names
from ..jobs.progress import Progress


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("migrate", __doc__, left)
    add_partitions(parser)
    add_transactions(add_how(parser))
    add_connection(parser, "source", "zookeeper.connect=HOST:PORT")
    add_connection(parser, "target", "kafka.bootstrap.servers=HOST:PORT")
    add_reporting(parser)
    return parser


def add_partitions(parser: JobParser) -> None:
    """The arguments for the input."""
    what = parser.add_argument_group("input")
    add_topics(what, "copy")
    what.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="copy a topic to a topic with another name; may be repeated",
    )
    add_gone_broker(what)
    what.add_argument(
        "--source-headers",
        action="store_true",
        help="add headers to each message with its topic, broker, partition, offset and index in the source",
    )


def add_how(parser: JobParser) -> argparse._ArgumentGroup:
    """The arguments for the copying."""
    how = parser.add_argument_group("copying")
    how.add_argument(
        "--state",
        required=True,
        type=Path,
        metavar="DIR",
        help="the directory on the driver that records progress",
    )
    add_creation(how)
    how.add_argument(
        "--piece-bytes",
        type=positive,
        default=PIECE_BYTES,
        metavar="N",
        help="bytes of a partition to copy before the state is saved; the run after a killed one reads up "
        "to this many bytes again (default: %(default)s)",
    )
    how.add_argument("--dry-run", action="store_true", help="show what would be copied, and change nothing")
    return how


def add_creation(how: argparse._ArgumentGroup) -> None:
    """The arguments for missing topics."""
    how.add_argument(
        "--create-topics",
        action="store_true",
        help="create missing topics, with one partition for each partition",
    )
    how.add_argument(
        "--replication-factor",
        type=positive,
        metavar="N",
        help="replicas of created topics (default: the brokers' default.replication.factor)",
    )


def add_transactions(how: argparse._ArgumentGroup) -> None:
    """The arguments for transactions."""
    how.add_argument(
        "--exactly-once",
        action="store_true",
        help="copy each piece in one transaction of the target (Kafka 0.11 or later), which also stores how "
        "far each partition is copied: the run after a killed one compares nothing",
    )
    how.add_argument(
        "--transactional-id",
        metavar="NAME",
        help="with --exactly-once: the prefix of the ids of these transactions and their groups, which no "
        "other program may use (default: a name that --state generates)",
    )


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Copy, or show what would be copied; the summary."""
    clusters, settings = clusters_of(arguments), settings_of(arguments)
    if arguments.dry_run:
        return report(describe(clusters, settings), sys.stdout, as_json=arguments.json)
    # A dry run needs no Spark.
    from spark_kafkawire.jobs.spark.session import job_session

    from ..jobs.spark.session import run_tasks

    progress.step("starting Spark")
    with job_session("migrate") as spark:
        summary = migrate(clusters, settings, partial(run_tasks, spark), progress)
    return report(summary, sys.stdout, as_json=arguments.json)


def clusters_of(arguments: argparse.Namespace) -> Clusters:
    """Both clusters. Raises ``OptionError``."""
    return Clusters(
        source_options(connection_options(arguments, "source"), topic_options(arguments)),
        *target_options(
            connection_options(arguments, "target"),
            exactly_once=arguments.exactly_once,
            transactional_id=arguments.transactional_id,
        ),
        arguments.source_headers,
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Settings of the copying. Raises ``OptionError``."""
    return Settings(
        state=arguments.state,
        names=parse_names(arguments.map),
        create_topics=arguments.create_topics,
        replication_factor=arguments.replication_factor,
        piece_bytes=arguments.piece_bytes,
        gone_brokers=gone_brokers_of(arguments),
    )


def left(arguments: argparse.Namespace) -> str:
    """The work that an interrupted run leaves, and the next step."""
    if arguments.dry_run:
        return "nothing was changed"
    return "copied pieces stay; run again with the same --state, which continues after them"


if __name__ == "__main__":
    sys.exit(main())
