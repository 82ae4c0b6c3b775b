"""Where the checkpoint of a streaming query stands, and whether the other connector can go on with it.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/checkpoints.py /data/checkpoint --to kafkawire

Topics, partitions and offsets of each source, the last batch, and whether that is done. --to tells what
format("kafka") or format("kafkawire") needs to go on: nothing once the first batch is done. Where that is
not, Spark's own connector keeps its start in a file of the checkpoint, sources/0/0, which only that sees:
its offsets are told, to be given as startingOffsets. In the other direction --write writes that file; what
was there is kept beside it. And --write sets aside what a driver has left that was killed while Spark wrote
the very first offsets: with that, no start of the query gets any further. Without --write nothing is changed.

Stop the query first. The checkpoint is a folder of this machine, or a URI file:/...; one of HDFS or of an
object store is copied here, and what was written copied back. It needs no Spark: `python
jobs/checkpoints.py` does where the package is installed.

The exit code is 0 for done, 1 for what is no checkpoint or cannot be rewritten, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.checkpoints.run import run_checkpoints
from spark_kafkawire.jobs.checkpoints.sources import KAFKA, KAFKAWIRE
from spark_kafkawire.jobs.shell.command_line import JobParser, add_reporting, run_job
from spark_kafkawire.jobs.shell.progress import Progress


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("checkpoints.py", __doc__)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder given as checkpointLocation")
    parser.add_argument("--to", choices=(KAFKA, KAFKAWIRE), help="the connector that is to go on")
    parser.add_argument("--write", action="store_true", help="write what --to needs; stop the query first")
    add_reporting(parser)
    return parser


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Show or rewrite; the summary."""
    progress.step("reading the checkpoint")
    if arguments.write and arguments.to is None:
        raise OptionError("argument --write goes with --to")
    return run_checkpoints(
        arguments.checkpoint, arguments.to, sys.stdout, write=arguments.write, json=arguments.json
    )


if __name__ == "__main__":
    sys.exit(main())
