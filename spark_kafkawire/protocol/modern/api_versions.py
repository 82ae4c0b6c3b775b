"""ApiVersions (Kafka 0.10 and later): asks a broker for its APIs and versions, first on each connection.

Versions of ApiVersions::

    0       versions by API (KIP-35)
    1       throttle time
    2       throttled responses come at once, and the client waits (KIP-219)
    3       flexible (KIP-482), except the response's header; the client's name (KIP-511), features (KIP-584)
    4       features' versions may begin at 0 (KAFKA-17011)
    5       not spoken: the broker checks that it is the one that was meant (KIP-1242)

Source: Apache Kafka's ApiVersionsRequest.json and ApiVersionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_kafkawire.errors import ProtocolError

from ..api import Api, VersionRange
from ..primitives import BOOL, INT16, INT32, INT64, Array, String
from ..responses import Faults, below, repeated
from ..schema import Struct, codec, wire
from ..versions import BrokerVersions
from . import names
from .error_codes import ErrorCode
from .limits import small_response_bytes_max

#: The feature whose version is the protocol of transactions.
_TRANSACTIONS: Final = "transaction.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """Ask which versions the broker offers.

    Name and version of the client show in the broker's metrics. It refuses them unless they are
    letters, digits, dots and hyphens, with no dot or hyphen at either end.
    """

    client_software_name: str = wire(String(), since=3, default="spark-kafkawire", ignorable=True)
    """Name of the client library (KIP-511)."""
    client_software_version: str = wire(String(), since=3, default="unknown", ignorable=True)
    """Version of the client library (KIP-511)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """The versions of one API, both ends included."""

    api_key: int = wire(INT16)
    """Key of the API."""
    min_version: int = wire(INT16)
    """Lowest supported version."""
    max_version: int = wire(INT16)
    """Highest supported version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeature:
    """The versions of a cluster feature that one broker supports."""

    name: str = wire(String())
    """Name of the feature."""
    min_version: int = wire(INT16)
    """Lowest supported version of the feature."""
    max_version: int = wire(INT16)
    """Highest supported version of the feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedFeature:
    """The versions of a cluster feature that the whole cluster agreed on."""

    name: str = wire(String())
    """Name of the feature."""
    max_version_level: int = wire(INT16)
    """Highest finalized version of the feature."""
    min_version_level: int = wire(INT16)
    """Lowest finalized version of the feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    """The API versions and features that the broker offers.

    A broker that does not know the request's version answers in version 0, with error
    UNSUPPORTED_VERSION and, from Kafka 2.4 on, the versions in which it may be asked again.
    """

    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    api_keys: tuple[ApiVersion, ...] = wire(Array(Struct(ApiVersion)))
    """Versions of each API that the broker supports."""
    throttle_time_ms: int = wire(INT32, since=1, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    supported_features: tuple[SupportedFeature, ...] = wire(
        Array(Struct(SupportedFeature)), since=3, tag=0, default=()
    )
    """Features that the broker supports (KIP-584)."""
    finalized_features_epoch: int = wire(INT64, since=3, tag=1, default=-1)
    """Epoch of the finalized features, which rises; -1 if unknown (KIP-584)."""
    finalized_features: tuple[FinalizedFeature, ...] = wire(
        Array(Struct(FinalizedFeature)), since=3, tag=2, default=()
    )
    """Features that the cluster has finalized (KIP-584)."""
    zk_migration_ready: bool = wire(BOOL, since=3, tag=3, default=False)
    """True if a KRaft controller is ready for a migration from ZooKeeper (KIP-866)."""


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
    yield from repeated(offer.api_key for offer in response.api_keys)
    for offer in response.api_keys:
        yield from below(0, f"lowest version of API {offer.api_key}", offer.min_version)
        yield from below(offer.min_version, f"highest version of API {offer.api_key}", offer.max_version)


API_VERSIONS: Final = Api(
    *names.API_VERSIONS,
    ApiVersionsRequest,
    ApiVersionsResponse,
    small_response_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 4),
    flexible_since=3,
    throttles_since=2,
    # The client cannot know yet whether the broker writes flexible headers (KIP-511).
    has_flexible_response_header=False,
    read_refusal=_read_refusal,
)


def offered(response: ApiVersionsResponse) -> BrokerVersions:
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
    levels = (each.max_version_level for each in response.finalized_features if each.name == _TRANSACTIONS)
    return 2 if max(levels, default=0) >= 2 else 1
