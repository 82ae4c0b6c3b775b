"""The dialect of modern Kafka (0.8 to 4.x), and how client and broker agree on versions.

ApiVersions (Kafka 0.10 and later): asks a broker for its APIs and versions, first on each connection.

Versions of ApiVersions::

    0       versions by API (KIP-35)
    1       throttle time
    2       throttled responses come at once, and the client waits (KIP-219)
    3       flexible (KIP-482), except the response's header; the client's name (KIP-511), features (KIP-584)
    4       features' versions may begin at 0 (KAFKA-17011)
    5       the broker checks that it is the one that was meant (KIP-1242)

Detection of Kafka 0.8 and 0.9 brokers, which do not know ApiVersions, and the requests that they know.

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

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from spark_kafkawire.errors import ProtocolError, counted
from spark_kafkawire.model import Generation

from ..api import VERSION_MAX, Api, BrokerVersions, VersionRange
from ..dialect import Dialect, ListedApis, kafka_headers
from ..primitives import INT16, INT32, Array, String
from ..responses import Faults, below, find_repeated
from ..schema import Struct, codec, wire
from . import API_HOMES, declare, name_and_key
from .describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from .error_codes import ErrorCode
from .limits import small_response_bytes_max

#: The feature whose version is the protocol of transactions.
_TRANSACTIONS: Final = "transaction.version"
#: First version of ApiVersions in which a broker checks its ids.
IDENTITY_SINCE: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """Ask which versions the broker offers.

    Name and version of the client show in the broker's metrics. It refuses them unless they are
    letters, digits, dots and hyphens, with no dot or hyphen at either end.
    """

    client_software_name: str = wire(String(), since=3, default="spark-kafkawire", ignorable=True)
    client_software_version: str = wire(String(), since=3, default="unknown", ignorable=True)
    cluster_id: str | None = wire(
        String(), since=IDENTITY_SINCE, nullable_since=IDENTITY_SINCE, default=None, ignorable=True
    )
    """Cluster that the client means; None if it is not known."""
    node_id: int = wire(INT32, since=IDENTITY_SINCE, default=-1, ignorable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """The versions of one API, both ends included."""

    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedFeature:
    """The versions of a cluster feature that the whole cluster agreed on."""

    name: str = wire(String())
    max_version_level: int = wire(INT16)
    min_version_level: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    """The API versions and features that the broker offers.

    A broker that does not know the request's version answers in version 0, with error
    UNSUPPORTED_VERSION and, from Kafka 2.4 on, the versions in which it may be asked again.
    """

    error_code: int = wire(INT16)
    api_keys: tuple[ApiVersion, ...] = wire(Array(Struct(ApiVersion)))
    throttle_time_ms: int = wire(INT32, since=1, default=0)
    finalized_features: tuple[FinalizedFeature, ...] = wire(
        Array(Struct(FinalizedFeature)), since=3, tag=2, default=()
    )


def _read_refusal(body: memoryview) -> ApiVersionsResponse | None:
    code = ErrorCode.UNSUPPORTED_VERSION
    if len(body) < INT16.size or INT16.read(body, 0)[0] != code:
        return None
    try:
        response, end = codec(ApiVersionsResponse, version=0, flexible=False).read(body, 0)
    except ProtocolError:
        response, end = None, 0
    # librdkafka's mock cluster (2.16) puts a list after the code that no version has.
    return response if end == len(body) else ApiVersionsResponse(error_code=code, api_keys=())


def _faults(_request: ApiVersionsRequest, response: ApiVersionsResponse, _version: int) -> Faults:
    yield from find_repeated(offer.api_key for offer in response.api_keys)
    for offer in response.api_keys:
        yield from below(0, f"lowest version of API {offer.api_key}", offer.min_version)
        yield from below(offer.min_version, f"highest version of API {offer.api_key}", offer.max_version)


def _version_max(request: ApiVersionsRequest) -> int:
    # Without ids there is nothing to check, and an older broker would have to be asked twice.
    return VERSION_MAX if request.cluster_id is not None else IDENTITY_SINCE - 1


# The client cannot know yet whether the broker writes flexible headers (KIP-511).
API_VERSIONS: Final = declare(
    ApiVersionsRequest,
    ApiVersionsResponse,
    small_response_bytes_max,
    _faults,
    version_max=_version_max,
    has_flexible_response_header=False,
    read_refusal=_read_refusal,
)


def list_offered(response: ApiVersionsResponse) -> BrokerVersions:
    """The versions that a response offers.

    A response with UNSUPPORTED_VERSION offers the version of ApiVersions in which to ask again, 0 if it names
    none.
    """
    ranges = {API_VERSIONS.key: VersionRange(0, 0)}
    ranges |= {api.api_key: VersionRange(api.min_version, api.max_version) for api in response.api_keys}
    return BrokerVersions(ranges, transaction_version=_transaction_version(response))


def _transaction_version(response: ApiVersionsResponse) -> int:
    """The cluster's protocol of transactions: the second one once the whole cluster has finalized it,
    whatever a single broker supports. Source: KIP-890, KIP-584."""
    levels = (item.max_version_level for item in response.finalized_features if item.name == _TRANSACTIONS)
    return 2 if max(levels, default=0) >= 2 else 1


#: Versions of 0.8.2 and 0.9 brokers, and of 0.8.0 except requests about groups: they do not report them.
BEFORE_API_VERSIONS: Final = BrokerVersions(
    {
        name_and_key(name)[1]: VersionRange(0, newest)
        for newest, names in (
            (0, ("Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator")),
            (1, ("OffsetCommit", "OffsetFetch")),
        )
        for name in names
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
    max_wait_ms: int = wire(INT32, default=0)
    min_bytes: int = wire(INT32, default=0)
    topic_count: int = wire(INT32, default=0)
    version: int = 1
    """Version in the header. Not sent in the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFetched:
    """Response to ``FetchOfNothing``; without ``throttle_time_ms`` if the broker answers as in version 0."""

    throttle_time_ms: int | None = wire(INT32)
    """Throttle time because of a quota, ms; None in the layout of version 0."""
    topic_count: int = wire(INT32)

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
                *name_and_key("Fetch"),
                FetchOfNothing,
                NothingFetched,
                small_response_bytes_max,
                versions=VersionRange(0, VERSION_MAX),
                version_max=lambda request: request.version,
                read_refusal=_read_version_0,
                faults=_fetch_faults,
            ),
        )
    ),
    headers=kafka_headers,
)


class _Declared:
    """The APIs of ``API_HOMES``. The API of a request is in the module that declares the request, which is
    imported already. Iteration imports all modules."""

    def __init__(self) -> None:
        self._found: dict[type[Any], Api] = {}

    def __iter__(self) -> Iterator[Api]:
        package = sys.modules[__package__]
        return (getattr(package, name) for name in API_HOMES)

    def of(self, request: type[Any]) -> Api:
        if request not in self._found:
            declared = vars(sys.modules[request.__module__]).values()
            self._found[request] = next(
                api for api in declared if isinstance(api, Api) and api.request is request
            )
        return self._found[request]


DIALECT: Final = Dialect(
    generation=Generation.MODERN, correlates=True, negotiates=True, apis=_Declared(), headers=kafka_headers
)
