"""Minimum versions of Fetch, Produce and InitProducerId during a query of modern Kafka.

The versions decide which columns of a row a broker stores and serves. Each counts only up to the version
that stores and serves every column::

    fetch             0: neither times nor headers, 2: times (0.10), 4: headers and transactions (0.11)
    produce           the same: 0, 2, 3
    init_producer_id  0: idempotent producers exist (0.11)

-1 is the version of an API that some broker does not offer, or that is not known: it requires nothing. The
versions are the minimum over the brokers that planning connected to, so a cluster in the middle of an upgrade
causes no error. A broker that offers lower versions afterwards is refused.

Source: KIP-32, KIP-82, KIP-98.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..api import BrokerVersions
from . import name_and_key

#: First versions of Fetch and Produce whose records have times, and headers.
FETCH_TIMES_SINCE: Final = 2
FETCH_HEADERS_SINCE: Final = 4
PRODUCE_TIMES_SINCE: Final = 2
PRODUCE_HEADERS_SINCE: Final = 3
#: The APIs in the order of the fields, each with the version that counts for all later ones.
_COUNTED: Final = (
    (*name_and_key("Fetch"), FETCH_HEADERS_SINCE),
    (*name_and_key("Produce"), PRODUCE_HEADERS_SINCE),
    (*name_and_key("InitProducerId"), 0),
)


class MinimumVersions(NamedTuple):
    """The three versions that the module describes. Tasks receive them with their plan."""

    fetch: int = -1
    produce: int = -1
    init_producer_id: int = -1

    @classmethod
    def of(cls, versions: BrokerVersions) -> MinimumVersions:
        """The versions that one broker offers."""
        return cls(*(_count_offered(versions, key, enough) for _, key, enough in _COUNTED))

    def common_with(self, other: MinimumVersions) -> MinimumVersions:
        """The versions that both offer."""
        return MinimumVersions(*map(min, self, other))

    def unmet_by(self, found: MinimumVersions) -> str | None:
        """The API and version that ``found`` lacks; None if it lacks nothing."""
        for (name, *_), needed, offered in zip(_COUNTED, self, found, strict=True):
            if offered < needed:
                return f"{f'{name} {offered}' if offered >= 0 else f'no {name}'} instead of {needed}"
        return None


#: No version is known yet.
NO_MINIMUM: Final = MinimumVersions()


def _count_offered(versions: BrokerVersions, key: int, enough: int) -> int:
    offered = versions.ranges.get(key)
    return -1 if offered is None else min(offered.max, enough)
