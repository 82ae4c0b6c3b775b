"""The package's log, in which each message is one line."""

from __future__ import annotations

import logging
from typing import Final

from .text import one_line


class _OneLine(logging.Filter):
    """Makes one line of each message of the package's log."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = one_line(record.getMessage()), None
        return True


_ONE_LINE: Final = _OneLine("one line")


def log_of(name: str) -> logging.Logger:
    """The log of that name, in which each message is one line, whoever handles it."""
    log = logging.getLogger(name)
    log.addFilter(_ONE_LINE)  # a filter that is there already is not added again
    return log


#: What the package tells its users.
LOG: Final = log_of("spark_kafkawire")
