"""The least that the brokers of a cluster offered, below which none of them may fall.

What rows hold depends on the versions of few APIs, and of those only up to the version that stores and
serves all there is. So three small numbers, each no higher than that version, say what a task may count on::

    fetch             0 neither times nor headers, 2 times (0.10), 4 headers and transactions (0.11)
    produce           the same: 0, 2, 3
    init_producer_id  0 where idempotent producers are there (0.11)

-1 stands for an API that some broker did not offer, or of which nothing is known: it holds nobody to
anything. They are the minimum over the brokers that planning talked to, so a cluster between two versions is
no error; a broker that offers less than that later on is one, however it came to be.

Source: KIP-32, KIP-82, KIP-98.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Final

from ..versions import BrokerVersions
from .names import FETCH, INIT_PRODUCER_ID, PRODUCE, ApiName

#: First versions of Fetch and Produce whose records have times, and headers.
FETCH_TIMES_SINCE: Final = 2
FETCH_HEADERS_SINCE: Final = 4
PRODUCE_TIMES_SINCE: Final = 2
PRODUCE_HEADERS_SINCE: Final = 3
#: The APIs in the order of the fields, each with the version that counts for all later ones.
_COUNTED: Final = ((FETCH, FETCH_HEADERS_SINCE), (PRODUCE, PRODUCE_HEADERS_SINCE), (INIT_PRODUCER_ID, 0))


@dataclass(frozen=True, slots=True)
class VersionFloor:
    """Three numbers, as the module tells; they travel to the tasks."""

    fetch: int = -1
    produce: int = -1
    init_producer_id: int = -1

    @classmethod
    def of(cls, versions: BrokerVersions) -> VersionFloor:
        """What one broker offers."""
        return cls(*(_offered(versions, api, enough) for api, enough in _COUNTED))

    def common_with(self, other: VersionFloor) -> VersionFloor:
        """What both offer."""
        return VersionFloor(*map(min, astuple(self), astuple(other)))

    def unmet_by(self, found: VersionFloor) -> str | None:
        """Which version of which API is missing; None where nothing is."""
        for (api, _), needed, offered in zip(_COUNTED, astuple(self), astuple(found), strict=True):
            if offered < needed:
                return f"{f'{api.name} {offered}' if offered >= 0 else f'no {api.name}'} instead of {needed}"
        return None


#: Nothing is known yet.
NO_FLOOR: Final = VersionFloor()


def _offered(versions: BrokerVersions, api: ApiName, enough: int) -> int:
    offered = versions.ranges.get(api.key)
    return -1 if offered is None else min(offered.max, enough)
