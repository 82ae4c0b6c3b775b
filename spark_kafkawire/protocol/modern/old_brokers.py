"""Detection of Kafka 0.8 and 0.9 brokers, which do not know ApiVersions, and the requests that they know.

A connection that closes or gets no response proves nothing, because that happens with current brokers, too.
Only a response that no later broker can give is a proof. For 0.8 the proof needs the responses to Fetch 1 and
to Fetch 32767, for 0.9 the response to DescribeGroups::

    Fetch 1 of no topics       0.8         correlation id | count: it reads no version, and answers in
                                           the layout of version 0
                               0.9 … 3.x   correlation id | throttle time | count
                               4.x         closes
    Fetch 32767 of no topics   0.8         the same again
                               0.9, 0.10.0 as Fetch 1
                               … 4.x       closes: it does not know this version
    ApiVersions, and behind it
    DescribeGroups 0 of none   0.8         closes
                               0.9         answers only DescribeGroups: it ignores a request that it does
                                           not know, and keeps the connection
                               0.10 … 4.x  answer both, in order

Brokers answer in the order of the requests, and TCP loses no bytes in between: a response to the second
request in place of the first one proves that the broker ignored the first. These requests ask for no data,
need no permission and change nothing.

Measured with Apache Kafka 0.8.2.2, 0.9.0.1, 0.10.0.1, 0.10.2.2, 3.9.1 and 4.1.1; that 0.9.0 keeps the
connection is also in librdkafka's Broker-version-compatibility. One answer in the layout of 0.8 is not
enough: a broker 0.9.0 that fails with a Fetch gives it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from spark_kafkawire.errors import counted
from spark_kafkawire.model import Generation

from ..api import VERSION_MAX, Api, VersionRange
from ..dialect import Dialect, ListedApis, kafka_headers
from ..primitives import INT32
from ..responses import Faults
from ..schema import wire
from ..versions import BrokerVersions
from . import names
from .api_versions import API_VERSIONS
from .describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from .limits import small_response_bytes_max

#: Versions of 0.8.2 and 0.9 brokers, and of 0.8.0 except requests about groups: they do not report them.
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
#: The same by release, which a proof or the user's option gives.
OLD_RELEASES: Final[Mapping[str, BrokerVersions]] = MappingProxyType(
    {name: replace(BEFORE_API_VERSIONS, release=name) for name in ("0.8", "0.9")}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOfNothing:
    """A Fetch of no topics in the layout of versions 0 to 2; the header has any ``version``."""

    replica_id: int = wire(INT32, default=-1)
    """Id of the replica; -1 for consumers."""
    max_wait_ms: int = wire(INT32, default=0)
    """Longest wait of the broker, ms."""
    min_bytes: int = wire(INT32, default=0)
    """Least bytes of the response."""
    topic_count: int = wire(INT32, default=0)
    """Number of topics that follow."""
    version: int = 1
    """Version in the header. Not sent in the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFetched:
    """Response to ``FetchOfNothing``; without ``throttle_time_ms`` if the broker answers as in version 0."""

    throttle_time_ms: int | None = wire(INT32)
    """Throttle time because of a quota, ms; None in the layout of version 0."""
    topic_count: int = wire(INT32)
    """Number of topics that follow."""

    @property
    def ignores_version(self) -> bool:
        """True if the broker did not read the request's version."""
        return self.throttle_time_ms is None


def _read_version_0(body: memoryview) -> NothingFetched | None:
    """The response in the layout of version 0: only the number of topics."""
    if len(body) != INT32.size:
        return None
    return NothingFetched(throttle_time_ms=None, topic_count=INT32.read(body, 0)[0])


def _fetch_faults(_request: FetchOfNothing, response: NothingFetched, _version: int) -> Faults:
    if response.topic_count:
        yield f"it has {counted(response.topic_count, 'topic')}, but none was requested"


def _fetch_version(request: FetchOfNothing) -> int:
    return request.version


#: Requests before the broker's versions are known. The second one has a version that no broker knows, so that
#: a broker which reads versions closes the connection.
FETCH_OF_NOTHING: Final = FetchOfNothing()
FETCH_IN_NO_VERSION: Final = FetchOfNothing(version=VERSION_MAX)
GROUPS_OF_NOTHING: Final = DescribeGroupsRequest(groups=())
#: The dialect of the detection, before the broker's release is known.
ASKING: Final = Dialect(
    generation=Generation.MODERN,
    correlates=True,
    negotiates=True,
    apis=ListedApis(
        (
            replace(API_VERSIONS, may_be_passed_over=True),
            replace(
                DESCRIBE_GROUPS, versions=VersionRange(0, 0), response_bytes_max=small_response_bytes_max
            ),
            Api(
                *names.FETCH,
                FetchOfNothing,
                NothingFetched,
                small_response_bytes_max,
                versions=VersionRange(0, VERSION_MAX),
                version_max=_fetch_version,
                read_refusal=_read_version_0,
                faults=_fetch_faults,
            ),
        )
    ),
    headers=kafka_headers,
)
