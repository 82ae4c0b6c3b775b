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

The exit code is 0 for done, 1 for failed, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from spark_kafkawire.jobs.offsets.file_format import exported
from spark_kafkawire.jobs.offsets.importing import import_offsets, import_summary, print_changes
from spark_kafkawire.jobs.offsets.page.document import page
from spark_kafkawire.jobs.offsets.report_json import as_json
from spark_kafkawire.jobs.offsets.survey import Surveyed
from spark_kafkawire.jobs.offsets.terminal import print_report
from spark_kafkawire.jobs.shell.arguments import add_connection, add_topics, connection_options, topic_options
from spark_kafkawire.jobs.shell.command_line import JobParser, add_reporting, run_job
from spark_kafkawire.jobs.shell.files import read_file, write_file
from spark_kafkawire.jobs.shell.progress import Progress


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    return _Parser()


class _Parser(JobParser):
    def __init__(self) -> None:
        super().__init__("offsets.py", __doc__)
        add_connection(self)
        what = self.add_argument_group("what to tell")
        add_topics(what, "tell", default="all topics")
        groups = what.add_mutually_exclusive_group()
        groups.add_argument(
            "--group", action="append", default=[], help="a consumer group; may be repeated (default: none)"
        )
        groups.add_argument(
            "--all-groups", action="store_true", help="all groups that have an offset for one of the topics"
        )
        what.add_argument("--html", type=Path, metavar="FILE", help="write a page of bars and tables, too")
        offsets = self.add_argument_group("offsets of groups")
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
        add_reporting(self)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        arguments = super().parse_args(args, namespace)
        if arguments.export and not (arguments.group or arguments.all_groups):
            self.error("argument --export: needs --group or --all-groups")
        if arguments.dry_run and not arguments.imported:
            self.error("argument --dry-run: goes with --import")
        if arguments.imported and arguments.all_groups:
            self.error("argument --all-groups: does not go with --import, whose file names the groups")
        if arguments.imported and arguments.topic:
            self.error("argument --topic: does not go with --import")
        if arguments.imported and arguments.topic_pattern is not None:
            self.error("argument --topic-pattern: does not go with --import")
        if arguments.imported and arguments.html:
            self.error("argument --html: does not go with --import")
        return arguments


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Report or import; the summary."""
    options = connection_options(arguments) | topic_options(arguments)
    groups = tuple(dict.fromkeys(arguments.group))
    text = read_file(arguments.imported, "--import") if arguments.imported else None
    progress.step("finding brokers and topics")
    surveyed = Surveyed.of(options)
    if text is not None:
        changes = import_offsets(surveyed, text, groups, dry_run=arguments.dry_run, step=progress.step)
        if not arguments.json:
            print_changes(changes, sys.stdout, dry_run=arguments.dry_run)
            return {}
        return import_summary(changes, dry_run=arguments.dry_run)
    if arguments.all_groups:
        groups = surveyed.groups_with_offsets(progress.step)
    report = surveyed.report(groups, progress.step)
    if arguments.html:
        write_file(arguments.html, page(report), "--html")
    if arguments.export:
        write_file(arguments.export, exported(report.group_offsets(), report.unit), "--export")
    if not arguments.json:
        print_report(report, sys.stdout)
        return {}
    return as_json(report)


if __name__ == "__main__":
    sys.exit(main())
