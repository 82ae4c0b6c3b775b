"""The transactional ids of a write, and the groups that keep its records.

A name may go on where another one ends, as "orders" and "orders-1": so what follows a name has a fixed number
of dashes, none in a group and a driver's id, one in an attempt's, which a driver's cannot be taken for.
"""

from __future__ import annotations

import re
from typing import Final

#: A run of a name in an attempt: the driver's producer and epoch, or the run's name in Spark and a parity.
_RUN: Final = "[0-9A-Za-z]+[.][0-9]+"
#: An id of the driver or of an attempt: the name before it.
_OF_WRITE: Final = re.compile(rf"(.+)-(?:driver|[0-9]+-{_RUN}[.][0-9]+)", re.DOTALL)


def driver_id(prefix: str) -> str:
    """The driver's id, and the group of its decisions. No attempt has it: those have numbers in its place."""
    return f"{prefix}-driver"


def attempt_id(prefix: str, task: int, attempt: str) -> str:
    """The id of one attempt of a task: ``attempt`` is a run of the name, a dot and a number. No other
    attempt, of any run, has it at the same time: so that none which is late can end what the driver is about
    to commit."""
    return f"{prefix}-{task}-{attempt}"


def attempt_ids(prefix: str, run: str | None = None) -> str:
    """The pattern of the ids of all attempts, or of those of one run."""
    return f"{re.escape(prefix)}-[0-9]+-{_RUN if run is None else re.escape(run)}[.][0-9]+"


def task_group(prefix: str, task: int) -> str:
    """The group that keeps what all attempts of a task have committed."""
    return f"{prefix}-{task}"


def name_of(transactional_id: str) -> str | None:
    """The name of the write that an id looks like one of; None where it is another program's."""
    match = _OF_WRITE.fullmatch(transactional_id)
    return match[1] if match else None


def suffix_of(transactional_id: str, prefix: str) -> str:
    """What an id has besides the prefix."""
    return transactional_id.removeprefix(f"{prefix}-")
