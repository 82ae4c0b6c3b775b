"""Loaded by each Python that Spark starts with this folder in PYTHONPATH: loggers print all that they get."""

import logging
import sys

logging.basicConfig(
    level=logging.DEBUG, stream=sys.stderr, format="python %(levelname)s %(name)s %(message)s"
)
