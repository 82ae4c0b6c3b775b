"""The transactional ids of a write, and the groups that keep its records."""

from __future__ import annotations


def driver_id(prefix: str) -> str:
    """The driver's id, and the group of its decisions. No attempt has it: those have numbers in its place."""
    return f"{prefix}-driver"


def attempt_id(prefix: str, task: int, attempt: str) -> str:
    """The id of one attempt of a task. No other attempt, of any run, has it at the same time: so that none
    which is late can end what the driver is about to commit."""
    return f"{prefix}-{task}-{attempt}"


def task_group(prefix: str, task: int) -> str:
    """The group that keeps what all attempts of a task have committed."""
    return f"{prefix}-{task}"


def suffix_of(transactional_id: str, prefix: str) -> str:
    """What an id has besides the prefix."""
    return transactional_id.removeprefix(f"{prefix}-")
