"""Brokers of 0.8 and 0.9, which know no ApiVersions: what they speak, and what proves that they are that old.

A connection that closes or stays silent proves nothing: those of today's brokers do, too. Answers do that no
later broker can give, however the network treats it: of 0.8 both that to Fetch 1 and that to Fetch 32767, of
0.9 that to DescribeGroups::

    Fetch 1 of no topics       0.8         correlation id | count: it reads no version, and answers in
                                           the layout of version 0
                               0.9 … 3.x   correlation id | throttle time | count
                               4.x         closes
    Fetch 32767 of no topics   0.8         the same again
                               0.9, 0.10.0 as Fetch 1
                               … 4.x       closes: it knows no such version
    ApiVersions, and behind it
    DescribeGroups 0 of none   0.8         closes
                               0.9         answers DescribeGroups alone: it passes over what it does not
                                           know, and keeps the connection
                               0.10 … 4.x  answer both, in order

Brokers answer in the order of the requests, and TCP loses nothing between two bytes that come: the
answer to the second request where that to the first is due tells that the first was passed over. All
these questions ask for nothing, need no right and leave no trace.

Measured with Apache Kafka 0.8.2.2, 0.9.0.1, 0.10.0.1, 0.10.2.2, 3.9.1 and 4.1.1; that 0.9.0 keeps the
connection is also in librdkafka's Broker-version-compatibility. One answer in the layout of 0.8 is not
enough: a broker 0.9.0 that fails with a Fetch gives it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from ...model import Generation
from ..api import VERSION_MAX, Api, VersionRange
from ..dialect import Dialect, ListedApis, kafka_headers
from ..primitives import INT32
from ..replies import Faults
from ..schema import wire
from ..versions import BrokerVersions
from . import names
from .api_versions import API_VERSIONS
from .describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from .limits import small_reply_bytes_max

#: What brokers 0.8.2 and 0.9 speak, and 0.8.0 as far as it knows groups: they cannot be asked.
BEFORE_API_VERSIONS: Final = BrokerVersions(
    {
        names.PRODUCE.key: VersionRange(0, 0),
        names.FETCH.key: VersionRange(0, 0),
        names.LIST_OFFSETS.key: VersionRange(0, 0),
        names.METADATA.key: VersionRange(0, 0),
        names.OFFSET_COMMIT.key: VersionRange(0, 1),
        names.OFFSET_FETCH.key: VersionRange(0, 1),
        names.FIND_COORDINATOR.key: VersionRange(0, 0),
    }
)
#: The same by release: what a proof gives, or the word of a user.
OLD_RELEASES: Final[Mapping[str, BrokerVersions]] = MappingProxyType(
    {name: replace(BEFORE_API_VERSIONS, release=name) for name in ("0.8", "0.9")}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOfNothing:
    """A Fetch of no topics, laid out as in versions 0 to 2 whatever ``version`` its header has."""

    replica_id: int = wire(INT32, default=-1)
    max_wait_ms: int = wire(INT32, default=0)
    min_bytes: int = wire(INT32, default=0)
    topic_count: int = wire(INT32, default=0)
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFetched:
    """Its answer; without ``throttle_time_ms`` where the broker answers as if asked in version 0."""

    throttle_time_ms: int | None = wire(INT32)
    topic_count: int = wire(INT32)

    @property
    def ignores_version(self) -> bool:
        """Whether the broker did not read the request's version."""
        return self.throttle_time_ms is None


def _read_version_0(body: memoryview) -> NothingFetched | None:
    """The number of topics and nothing else."""
    if len(body) != INT32.size:
        return None
    return NothingFetched(throttle_time_ms=None, topic_count=INT32.read(body, 0)[0])


def _fetch_faults(_request: FetchOfNothing, reply: NothingFetched, _version: int) -> Faults:
    if reply.topic_count:
        yield f"it has {reply.topic_count} topics, and none was asked for"


def _fetch_version(request: FetchOfNothing) -> int:
    return request.version


#: Asked before it is known what a broker speaks; the second one in a version that no broker knows, so that
#: who reads versions closes.
FETCH_OF_NOTHING: Final = FetchOfNothing()
FETCH_IN_NO_VERSION: Final = FetchOfNothing(version=VERSION_MAX)
GROUPS_OF_NOTHING: Final = DescribeGroupsRequest(groups=())
#: The dialect in which client and broker find out what to speak.
ASKING: Final = Dialect(
    generation=Generation.MODERN,
    correlates=True,
    negotiates=True,
    apis=ListedApis(
        (
            replace(API_VERSIONS, may_be_passed_over=True),
            replace(DESCRIBE_GROUPS, versions=VersionRange(0, 0), reply_bytes_max=small_reply_bytes_max),
            Api(
                *names.FETCH,
                FetchOfNothing,
                NothingFetched,
                small_reply_bytes_max,
                versions=VersionRange(0, VERSION_MAX),
                version_max=_fetch_version,
                read_refusal=_read_version_0,
                faults=_fetch_faults,
            ),
        )
    ),
    headers=kafka_headers,
)
