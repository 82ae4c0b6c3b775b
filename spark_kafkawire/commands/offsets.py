"""Show the topics of a cluster and the offsets and lag of its consumer groups; export and import offsets.

    kafkawire offsets \\
        --option kafka.bootstrap.servers=127.0.0.1:9092 --group etl --html offsets.html

The report lists brokers, topics and partitions; where each partition begins and ends; segments and bytes for
Kafka 0.7, records and their times for later versions; and the offset and lag of each selected group. It goes
to stdout as a table, or as one JSON object with --json. --html also writes a page with bars and colours. The
command does not need Spark.

--export writes the offsets of the groups to a file, and --import commits the offsets of such a file. For 0.7
its lines are those of ExportZkOffsets and ImportZkOffsets,
    /consumers/GROUP/offsets/TOPIC/BROKER-PARTITION:OFFSET
for later versions those of kafka-consumer-groups.sh, without the group if you give one --group:
    GROUP,TOPIC,PARTITION,OFFSET
A group with active members is not changed, because they would overwrite the imported offsets.

--check is for scheduled monitoring. It reports offsets outside of their partitions (retention was faster than
the group, the log was created again, or no broker has it) and groups without any offset.

The exit code is 0 for done, 1 for failed, 2 for wrong usage, and with --check 3 if it reports anything.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from spark_kafkawire.jobs.offsets.run import run_offsets

from ..jobs.command_line import (
    JobParser,
    add_connection,
    add_reporting,
    add_topics,
    connection_options,
    run_job,
    topic_options,
)
from ..jobs.offsets.run import OffsetsOptions
from ..jobs.progress import Progress


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("offsets", __doc__, left)
    add_connection(parser)
    add_report(parser)
    add_files(parser)
    add_reporting(parser)
    return parser


def add_report(parser: JobParser) -> None:
    """The arguments for the report."""
    what = parser.add_argument_group("report")
    add_topics(what, "show", default="all topics")
    groups = what.add_mutually_exclusive_group()
    groups.add_argument(
        "--group", action="append", default=[], help="a consumer group; may be repeated (default: none)"
    )
    groups.add_argument(
        "--all-groups", action="store_true", help="all groups that have an offset of one of the topics"
    )
    what.add_argument(
        "--check",
        action="store_true",
        help="exit with 3 if a group has no offset, or an offset before the start of its log, beyond its "
        "end, or in a partition that no broker has; the summary names them",
    )
    what.add_argument(
        "--html", type=Path, metavar="FILE", help="also write an HTML page with bars and tables"
    )


def add_files(parser: JobParser) -> None:
    """The arguments for groups' offsets in files."""
    offsets = parser.add_argument_group("offsets of groups")
    file = offsets.add_mutually_exclusive_group()
    file.add_argument(
        "--export", type=Path, metavar="FILE", help="also write the offsets of the groups to this file"
    )
    file.add_argument(
        "--import",
        dest="imported",
        type=Path,
        metavar="FILE",
        help="commit the offsets of this file, or only those of --group; prints no report",
    )
    offsets.add_argument(
        "--dry-run", action="store_true", help="show what --import would change, and change nothing"
    )


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Report or import; the summary."""
    options = OffsetsOptions(
        connection=connection_options(arguments),
        selection=topic_options(arguments),
        groups=tuple(dict.fromkeys(arguments.group)),
        all_groups=arguments.all_groups,
        check=arguments.check,
        html=arguments.html,
        exported=arguments.export,
        imported=arguments.imported,
        dry_run=arguments.dry_run,
    )
    return run_offsets(options, progress, sys.stdout, json=arguments.json)


def left(arguments: argparse.Namespace) -> str:
    """The work that an interrupted run leaves, and the next step."""
    if arguments.imported is not None and not arguments.dry_run:
        return "some offsets may be committed; run it again, which commits all"
    return "no offset was changed; run it again"


if __name__ == "__main__":
    sys.exit(main())
