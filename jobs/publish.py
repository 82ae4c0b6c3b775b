"""The command line of ``spark_kafkawire/commands/publish.py``, for spark-submit from a checkout."""

import sys

from spark_kafkawire.commands.publish import main

if __name__ == "__main__":
    sys.exit(main())
