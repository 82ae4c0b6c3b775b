"""Show the open transactions of a cluster, and finish those that an interrupted write left open.

    kafkawire transactions \\
        --option kafka.bootstrap.servers=127.0.0.1:9092 --transactional-id orders-2026-11-22

The report lists each open transaction: its state, producer, age, number of partitions, and whether a
decision says to commit it. Then it lists the partitions whose read_committed readers wait, at which offset,
and how many offsets they are behind. --transactional-id selects one write with delivery=exactly-once by its
kafka.transactional.id. Without it, the report lists every transaction this user may see, including those of
other programs.

--finish does what the next run of that write would do before its rows: it commits the transactions that the
write's decision names, and aborts those without a decision. Brokers cannot distinguish a running write from
a dead one, and aborting makes a running write fail. So --finish requires --force if there are transactions
without a decision. It does not need --force to commit.

The command does not need Spark. Kafka lists open transactions from 3.0 on. With earlier versions --finish
commits what was decided, and the rest ends by its timeout.

The exit code is 0 for done, 1 for failed (for example when a part of the write timed out before it was
committed), 2 for wrong usage or a missing --force.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..jobs.command_line import JobParser, add_connection, add_reporting, connection_options, run_job
from ..jobs.progress import Progress
from ..jobs.transactions import TransactionsOptions, run_transactions


def main() -> int:
    """Run the job; the exit code."""
    return run_job(make_parser(), run)


def make_parser() -> JobParser:
    """The command line."""
    parser = JobParser("transactions", __doc__, left)
    what = parser.add_argument_group("transactions")
    what.add_argument(
        "--transactional-id",
        metavar="NAME",
        help="the kafka.transactional.id of a write (default: show all transactions)",
    )
    what.add_argument(
        "--finish", action="store_true", help="commit what the write decided to commit, and abort the rest"
    )
    what.add_argument(
        "--force",
        action="store_true",
        help="also abort transactions without a decision: a running write with that name fails",
    )
    what.add_argument(
        "--dry-run", action="store_true", help="show what --finish would end, and change nothing"
    )
    add_connection(parser, example="kafka.bootstrap.servers=HOST:PORT")
    add_reporting(parser)
    return parser


def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Show or finish transactions; the summary."""
    options = TransactionsOptions(
        connection=connection_options(arguments),
        name=arguments.transactional_id,
        finish=arguments.finish,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )
    return run_transactions(options, progress, sys.stdout, json=arguments.json)


def left(arguments: argparse.Namespace) -> str:
    """The work that an interrupted run leaves, and the next step."""
    return "run it again, which finishes the rest" if arguments.finish else "nothing was changed"


if __name__ == "__main__":
    sys.exit(main())
