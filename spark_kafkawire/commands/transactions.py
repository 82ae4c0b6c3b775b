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

import sys

from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.transactions import TransactionsOptions, run_transactions

_ENDED = "run it again, which finishes the rest"
JOB = Job(
    "transactions",
    __doc__,
    TransactionsOptions,
    run_transactions,
    lambda arguments: _ENDED if arguments.finish else "nothing was changed",
)


if __name__ == "__main__":
    sys.exit(JOB.main())
