"""Brokers of 0.8 and 0.9, which know no ApiVersions: what they speak, and what proves that they are that old.

A connection that closes or stays silent proves nothing: those of today's brokers do, too. Two answers do, for
no later broker can give them, however the network treats it::

    Fetch 1 of no partitions   0.8    correlation id | count              it reads no version: the answer
                                                                          is in the layout of version 0
                               0.9 … 3.x   correlation id | throttle time | count
                               4.x         closes
    ApiVersions, and behind it
    DescribeGroups 0 of none   0.8         closes
                               0.9         answers DescribeGroups alone: it passes over what it does not
                                           know, and keeps the connection
                               0.10 … 4.x  answer both, in order

Brokers answer in the order of the requests, and TCP loses nothing between two bytes that come: the
answer to the second request where that to the first is due tells that the first was passed over. Both
questions ask for nothing, need no right and leave no trace.

Measured with Apache Kafka 0.8.2.2, 0.9.0.1, 0.10.2.2, 3.9.1 and 4.1.1; that 0.9.0 keeps the connection is
also in librdkafka's Broker-version-compatibility.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from ...model import OffsetUnit
from ..dialect import Dialect, VersionRange
from ..primitives import INT32
from ..replies import Faults
from ..versions import BrokerVersions
from .api_versions import API_VERSIONS
from .describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from .fetch import FETCH, FetchReply, FetchRequest
from .find_coordinator import FIND_COORDINATOR
from .group_offsets import OFFSET_COMMIT, OFFSET_FETCH
from .limits import small_reply_bytes_max
from .list_offsets import LIST_OFFSETS
from .metadata import METADATA
from .produce import PRODUCE

#: What brokers 0.8.2 and 0.9 speak, and 0.8.0 as far as it knows groups: they cannot be asked.
BEFORE_API_VERSIONS: Final = BrokerVersions(
    {
        PRODUCE.key: VersionRange(0, 0),
        FETCH.key: VersionRange(0, 0),
        LIST_OFFSETS.key: VersionRange(0, 0),
        METADATA.key: VersionRange(0, 0),
        OFFSET_COMMIT.key: VersionRange(0, 1),
        OFFSET_FETCH.key: VersionRange(0, 1),
        FIND_COORDINATOR.key: VersionRange(0, 0),
    }
)
#: The same by release: what a proof gives, or the word of a user.
OLD_RELEASES: Final[Mapping[str, BrokerVersions]] = MappingProxyType(
    {name: replace(BEFORE_API_VERSIONS, release=name) for name in ("0.8", "0.9")}
)


@dataclass(frozen=True, slots=True)
class VersionsUnread:
    """The answer of a broker that does not read the version of a request: it is of 0.8."""


def _read_version_0(body: memoryview) -> VersionsUnread | None:
    """The count of no topics and nothing else, where the version has a throttle time before it."""
    return VersionsUnread() if len(body) == INT32.size and not any(body) else None


def _fetch_faults(request: FetchRequest, reply: FetchReply | VersionsUnread, version: int) -> Faults:
    assert FETCH.faults is not None
    return iter(()) if isinstance(reply, VersionsUnread) else FETCH.faults(request, reply, version)


#: Asked of the first connection to a broker, each in one version, before its own are known.
FETCH_OF_NOTHING: Final = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
GROUPS_OF_NOTHING: Final = DescribeGroupsRequest(groups=())
#: The dialect in which client and broker find out what to speak.
ASKING: Final = Dialect(
    name="0.8+",
    offset_unit=OffsetUnit.RECORDS,
    correlates=True,
    apis=(
        replace(API_VERSIONS, may_be_passed_over=True),
        replace(DESCRIBE_GROUPS, versions=VersionRange(0, 0), reply_bytes_max=small_reply_bytes_max),
        replace(
            FETCH,
            versions=VersionRange(1, 1),
            reply_bytes_max=small_reply_bytes_max,
            read_refusal=_read_version_0,
            faults=_fetch_faults,
        ),
    ),
)
