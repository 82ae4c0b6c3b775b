"""Which brokers of 0.7 must be there, which ZooKeeper cannot know.

Both registrations of a broker, of itself and of its topics, are gone while its session is expired, although
it serves: to whoever asks ZooKeeper then, neither the broker nor its logs exist. Only who knows how many
brokers there are, or reads logs that somebody has read before, can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ...errors import BrokersMissingError, OptionError
from ...model import Broker
from ...options import ExpectedBrokers

#: Ids that an error names.
_IDS_COUNT_MAX: Final = 20


def check_brokers(expected: ExpectedBrokers | None, brokers: Iterable[Broker], where: str) -> None:
    """Compare the option ``expectedBrokers`` with the brokers that are ``where``.

    Raises ``BrokersMissingError`` (retriable) for too few, ``OptionError`` (fatal) for others than it names.
    """
    found = {broker.id for broker in brokers}
    if expected is None:
        return
    if isinstance(expected, int):
        missing, others = len(found) < expected, len(found) > expected
        wanted = f"{len(found)} of {expected} brokers"
    else:
        missing, others = not found.issuperset(expected), not found.issubset(expected)
        wanted = f"all but {listed(set(expected) - found)}"
    there = f"{where}: {listed(found)}"
    if missing:
        raise BrokersMissingError(f"option expectedBrokers: {wanted} are {there}; start the missing ones")
    if others:
        raise OptionError(
            f"option expectedBrokers: other brokers than it says are {there}; correct it, for one that it "
            "does not know may be missing"
        )


def listed(ids: Collection[int]) -> str:
    """Broker ids as an error names them."""
    ids = sorted(ids)
    more = len(ids) - _IDS_COUNT_MAX
    return (", ".join(map(str, ids[:_IDS_COUNT_MAX])) or "none") + (f" and {more} more" if more > 0 else "")
