"""The transactions that are open in a cluster, and the end of what an interrupted write left open.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/transactions.py \\
        --option kafka.bootstrap.servers=127.0.0.1:9092 --transactional-id orders-2026-11-22

Each transaction that is open: its state, producer and age, how many logs it is in, and whether a decision
says that it is to be committed. Then the logs whose readers of read_committed wait, at which offset, and for
how many offsets. --transactional-id tells of one write with delivery=exactly-once, by its
kafka.transactional.id; without it all transactions are told that this user may see, also those of other
programs.

--finish does what the next run of that write would do before its rows: it commits the transactions that the
write's decision names, and aborts those that nothing was decided about. A write that is running is ended by
the latter, and brokers cannot tell one from a write that died: so where there are some, --force must be
given. What was decided needs none.

It needs no Spark: `python jobs/transactions.py` does where the package is installed. Kafka tells what is open
from 3.0 on; before that --finish commits what was decided, and the rest ends by its timeout.

The exit code is 0 for done, 1 for failed, as where a part of a write timed out before it was committed, 2 for
wrong usage, and where --force is missing.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spark_kafkawire.jobs.shell.arguments import add_connection, connection_options
from spark_kafkawire.jobs.shell.command_line import JobParser, add_reporting, run_job
from spark_kafkawire.jobs.shell.progress import Progress
from spark_kafkawire.jobs.transactions.run import TransactionsOptions, run_transactions


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("transactions.py", __doc__)
    what = parser.add_argument_group("what to tell and to end")
    what.add_argument(
        "--transactional-id",
        metavar="NAME",
        help="the kafka.transactional.id of a write (default: tell of all transactions)",
    )
    what.add_argument(
        "--finish", action="store_true", help="commit what was decided of the write, and abort the rest"
    )
    what.add_argument(
        "--force",
        action="store_true",
        help="abort what nothing was decided about, too: a write of that name that runs now fails",
    )
    what.add_argument(
        "--dry-run", action="store_true", help="show what --finish would end, and change nothing"
    )
    add_connection(parser, example="kafka.bootstrap.servers=HOST:PORT")
    add_reporting(parser)
    return parser


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Tell or finish; the summary."""
    options = TransactionsOptions(
        connection=connection_options(arguments),
        name=arguments.transactional_id,
        finish=arguments.finish,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )
    return run_transactions(options, progress, sys.stdout, json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
