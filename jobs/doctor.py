"""The command line of ``spark_kafkawire/commands/doctor.py``, for spark-submit from a checkout."""

import sys

from spark_kafkawire.commands.doctor import JOB

if __name__ == "__main__":
    sys.exit(JOB.main())
