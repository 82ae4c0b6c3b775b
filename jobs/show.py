"""The command line of ``spark_kafkawire/commands/show.py``, for spark-submit from a checkout."""

import sys

from spark_kafkawire.commands.show import JOB

if __name__ == "__main__":
    sys.exit(JOB.main())
