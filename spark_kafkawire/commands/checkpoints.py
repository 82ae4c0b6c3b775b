"""Show the position of a streaming query from its checkpoint, and move it to another connector or offset.

    kafkawire checkpoints /data/checkpoint --to kafkawire

The command prints the topics, partitions and offsets of each source, the last batch, and whether that batch
is done. Stop the query first. Nothing is changed without --write.

--to says what format("kafka") or format("kafkawire") needs to continue the query. Once the first batch is
done, it needs nothing. Before that, Spark's own connector keeps its start in a file of the checkpoint,
sources/0/0, which only that connector reads. To move to kafkawire, give the printed offsets as
startingOffsets. To move to kafka, --write creates that file and keeps a copy of the old one. --write also
sets aside the files of a driver that was killed while Spark wrote the very first offsets: a query cannot
start with them.

--place with --write moves a query to other offsets, for example after a DataLossError with no proven cause:
'{"t": {"0": 11}}' continues at offset 11 of partition 0, and '{"t": {}}' reads the topic t from its first
record. An unfinished batch is set aside if it contains lost offsets, because it cannot run.

The checkpoint is a local folder or a file:/... URI. Copy a checkpoint of HDFS or of an object store to this
machine, and copy the result back. The command does not need Spark.

The exit code is 0 for done, 1 for a checkpoint that cannot be read or rewritten, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spark_kafkawire.errors import OptionError

from ..jobs.checkpoints import KAFKA, KAFKAWIRE, parse_places, run_checkpoints
from ..jobs.command_line import JobParser, add_reporting, run_job
from ..jobs.progress import Progress


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("checkpoints", __doc__, left)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder given as checkpointLocation")
    parser.add_argument("--to", choices=(KAFKA, KAFKAWIRE), help="the connector that will continue the query")
    parser.add_argument(
        "--place", metavar="OFFSETS", help='the offsets to continue from: \'{"topic": {"0": 11}}\''
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="change the checkpoint as --to or --place requires; stop the query first",
    )
    add_reporting(parser)
    return parser


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Show or rewrite; the summary."""
    place = None if arguments.place is None else parse_places(arguments.place)
    progress.step("reading the checkpoint")
    if arguments.to is not None and arguments.place is not None:
        raise OptionError("arguments --place and --to cannot be combined: run the command once with each")
    if arguments.write and arguments.to is None and arguments.place is None:
        raise OptionError("argument --write needs --to or --place; add one")
    return run_checkpoints(
        arguments.checkpoint,
        arguments.to,
        sys.stdout,
        write=arguments.write,
        json=arguments.json,
        place=place,
    )


def left(arguments: argparse.Namespace) -> str:
    """The work that an interrupted run leaves, and the next step."""
    if arguments.write:
        return "each file was changed as a whole or not at all; run it again"
    return "nothing was changed"


if __name__ == "__main__":
    sys.exit(main())
