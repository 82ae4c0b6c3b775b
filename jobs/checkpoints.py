"""The command line of ``spark_kafkawire/commands/checkpoints.py``, for spark-submit from a checkout."""

import sys

from spark_kafkawire.commands.checkpoints import main

if __name__ == "__main__":
    sys.exit(main())
