"""The command line of ``spark_kafkawire/commands/transactions.py``, for spark-submit from a checkout."""

import sys

from spark_kafkawire.commands.transactions import JOB

if __name__ == "__main__":
    sys.exit(JOB.main())
