"""What a cluster holds, and where its consumer groups stand.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/offsets.py \\
        --option zookeeper.connect=127.0.0.1:2181 --group etl --html offsets.html

Brokers, topics, partitions; where each log begins and ends; segments and bytes of Kafka 0.7, records and
their times of later Kafka; the offset and the lag of each group that is asked for. It goes to stdout as a
table, or with --json as one object, and with --html into a page of its own that bars and colours make
quick to read. It needs no Spark: `python jobs/offsets.py` does where the package is installed.

--export writes the groups' offsets to a file, --import puts groups at the offsets of such a file. In 0.7
its lines are those of ExportZkOffsets and ImportZkOffsets,
    /consumers/GROUP/offsets/TOPIC/BROKER-PARTITION:OFFSET
later those of kafka-consumer-groups.sh, which may leave the group out with one --group:
    GROUP,TOPIC,PARTITION,OFFSET
A group with members is not touched: they would overwrite what is imported.

--check is for a job that looks every night: it complains of offsets that are not in their logs, since
retention was faster than the group, the log was made anew, or no broker holds it, and of a group without any
offset.

The exit code is 0 for done, 1 for failed, 2 for wrong usage, and with --check 3 for a complaint.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from spark_kafkawire.jobs.offsets.options import OffsetsOptions
from spark_kafkawire.jobs.offsets.run import run_offsets
from spark_kafkawire.jobs.shell.arguments import add_connection, add_topics, connection_options, topic_options
from spark_kafkawire.jobs.shell.command_line import JobParser, add_reporting, run_job
from spark_kafkawire.jobs.shell.progress import Progress


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("offsets.py", __doc__)
    add_connection(parser)
    add_report(parser)
    add_files(parser)
    add_reporting(parser)
    return parser


def add_report(parser: JobParser) -> None:
    """The arguments for what is told."""
    what = parser.add_argument_group("what to tell")
    add_topics(what, "tell", default="all topics")
    groups = what.add_mutually_exclusive_group()
    groups.add_argument(
        "--group", action="append", default=[], help="a consumer group; may be repeated (default: none)"
    )
    groups.add_argument(
        "--all-groups", action="store_true", help="all groups that have an offset for one of the topics"
    )
    what.add_argument(
        "--check",
        action="store_true",
        help="exit with 3 where a group has no offset, or one that is before the start of its log, beyond "
        "its end, or in a log that no broker holds; the summary names them",
    )
    what.add_argument("--html", type=Path, metavar="FILE", help="write a page of bars and tables, too")


def add_files(parser: JobParser) -> None:
    """The arguments for groups' offsets in files."""
    offsets = parser.add_argument_group("offsets of groups")
    file = offsets.add_mutually_exclusive_group()
    file.add_argument("--export", type=Path, metavar="FILE", help="write the offsets of the groups, too")
    file.add_argument(
        "--import",
        dest="imported",
        type=Path,
        metavar="FILE",
        help="commit the offsets of a file, or those of --group in it; no report is made",
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


if __name__ == "__main__":
    sys.exit(main())
