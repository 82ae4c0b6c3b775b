"""The package's log, in which each message is one line."""

from __future__ import annotations

import logging
from typing import Final

from .text import one_line


class _OneLine(logging.Filter):
    """Filter that turns each message of the package's log into one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = one_line(record.getMessage()), None
        return True


_ONE_LINE: Final = _OneLine("one line")


def log_of(name: str) -> logging.Logger:
    """The logger of that name, whose messages are one line each for every handler."""
    log = logging.getLogger(name)
    log.addFilter(_ONE_LINE)  # the same filter is never added twice
    return log


#: The logger of the package's messages to its users.
LOG: Final = log_of("spark_kafkawire")
