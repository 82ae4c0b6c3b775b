"""Check of the option ``expectedBrokers`` for Kafka 0.7: ZooKeeper does not know which brokers are missing.

While the session of a broker is expired, ZooKeeper has neither its own registration nor those of its topics,
although the broker serves requests: in ZooKeeper neither the broker nor its partitions exist. Only an
expected number of brokers, or a partition that was read before, shows that a broker is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from spark_kafkawire.errors import BrokersMissingError, OptionError, listed_some
from spark_kafkawire.model import Broker
from spark_kafkawire.options import ExpectedBrokers

#: Most ids in one error message.
_IDS_COUNT_MAX: Final = 20


def check_brokers(expected: ExpectedBrokers | None, brokers: Iterable[Broker], where: str) -> None:
    """Compare the option ``expectedBrokers`` with the brokers that are ``where``.

    Raises ``BrokersMissingError`` (retriable) for missing brokers, ``OptionError`` (fatal) for unexpected
    ones.
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
            f"option expectedBrokers: more or other brokers than it expects are {there}; correct "
            "it, or a missing broker may go unnoticed"
        )


def listed(ids: Collection[int]) -> str:
    """Broker ids as an error lists them."""
    return listed_some(sorted(ids), _IDS_COUNT_MAX) or "none"
