"""Calls of a login that may never end, such as a function of the user, within its deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spark_kafkawire.bounded import NotEnded, bounded
from spark_kafkawire.errors import RequestTimedOut
from spark_kafkawire.net.transport import IF_SLOW, Deadline

T = TypeVar("T")


def within(deadline: Deadline, what: str, call: Callable[[], T], advice: str = IF_SLOW) -> T:
    """The result of a call, or its error. Raises ``RequestTimedOut`` (retriable) after the deadline."""
    try:
        return bounded(call, deadline.remaining_s(), "kafkawire-login")
    except NotEnded:
        raise RequestTimedOut(f"{what}: no answer within {deadline}; {advice}") from None
