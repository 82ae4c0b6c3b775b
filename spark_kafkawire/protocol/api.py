"""Descriptions of APIs, for Kafka 0.7 and for modern Kafka (0.8 and later).

An ``Api`` describes one request type and its response as data: key, known versions, limits, and checks.
A request to a modern broker goes in the highest version that both sides know (``BrokerVersions``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ProtocolError, UnsupportedVersionError
from .primitives import CHECK_PEER
from .responses import Faults
from .schema import Struct, codec

#: Highest version that a request header can name.
VERSION_MAX: Final = 32_767


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions of an API, both ends included, as brokers offer them."""

    min: int
    max: int

    def __contains__(self, version: int) -> bool:
        return self.min <= version <= self.max

    def __str__(self) -> str:
        return f"{self.min}" if self.min == self.max else f"{self.min}-{self.max}"


@dataclass(frozen=True, slots=True)
class Api:
    """A request type and its response.

    ``response`` is None if the broker never answers; ``is_answered`` says if a request gets a response.
    ``response_bytes_max`` is the longest response that a request allows: a longer one is refused before
    memory is taken for it. ``faults`` yields the faults of a response, given its request and their version;
    each API with a response declares it (see ``responses``).

    ``versions`` are the versions that this package knows; from ``flexible_since`` on they are flexible.
    ``version_max`` is the highest version that can carry a request, ``version_min`` the lowest in which the
    request has its meaning. ``read_refusal`` reads the response of a broker that does not know the
    request's version; it returns None for any other response. From ``throttles_since`` on a broker answers
    at once, and the client has to wait for ``throttle_time_ms``; in earlier versions the broker waits before
    it answers. Source: KIP-219. ``may_be_passed_over`` marks a request that some brokers neither answer nor
    refuse by closing: the response to the next request may come in its place. ``is_polled`` marks an API
    whose requests a stream repeats, with many partitions in each: a connection keeps the bytes of the last
    exchange.
    """

    name: str
    key: int
    request: type[Any]
    response: type[Any] | None = None
    response_bytes_max: Callable[[Any], int] = lambda _: 0
    versions: VersionRange = VersionRange(0, 0)
    flexible_since: int | None = None
    has_flexible_response_header: bool = True
    faults: Callable[[Any, Any, int], Faults] | None = None
    is_answered: Callable[[Any], bool] = lambda _: True
    version_max: Callable[[Any], int] = lambda _: VERSION_MAX
    version_min: Callable[[Any], int] = lambda _: 0
    read_refusal: Callable[[memoryview], Any] = lambda _: None
    throttles_since: int | None = None
    may_be_passed_over: bool = False
    is_polled: bool = False

    def __post_init__(self) -> None:
        assert (self.response is None) == (self.faults is None), (
            f"{self.name}: an API with a response must declare faults"
        )

    def versions_of(self, request: object | None) -> VersionRange:
        """The versions that can carry a request; all versions for None."""
        if request is None:
            return self.versions
        bounds = self.version_min(request), self.version_max(request)
        return VersionRange(max(self.versions.min, bounds[0]), min(self.versions.max, bounds[1]))

    def awaits_response(self, request: object) -> bool:
        """True if the broker answers this request."""
        return self.response is not None and self.is_answered(request)

    def throttle_time_ms(self, response: Any, version: int) -> int:
        """Time that the client has to wait after a response before it sends again."""
        if self.throttles_since is None or version < self.throttles_since:
            return 0
        throttle_time_ms: int = response.throttle_time_ms
        return max(throttle_time_ms, 0)

    def check(self, request: Any, response: Any, version: int) -> None:
        """Raise ``ProtocolError`` if the response does not match the request."""
        assert self.faults is not None
        for fault in self.faults(request, response, version):
            raise ProtocolError(f"the {self.name} response does not match its request: {fault}; {CHECK_PEER}")

    def is_flexible(self, version: int) -> bool:
        """True if the messages of a version have compact lengths and tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since

    def request_codec(self, version: int) -> Struct[Any]:
        """The codec of the request in one version."""
        return codec(self.request, version, self.is_flexible(version))

    def response_codec(self, version: int) -> Struct[Any]:
        """The codec of the response in one version."""
        assert self.response is not None
        return codec(self.response, version, self.is_flexible(version))


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """The versions that a broker offers, by API key. They hold for one connection.

    ``release`` names a release that does not answer ApiVersions; its ``ranges`` are known.
    ``transaction_version`` is the protocol of transactions that the cluster agreed on (see
    ``modern.transactions``).
    """

    ranges: Mapping[int, VersionRange]
    release: str | None = None
    transaction_version: int = 1

    def highest_common(self, api: Api, ours: VersionRange | None = None) -> int:
        """The highest version of an API that both sides know, within ``ours`` if that is given. Raises
        ``UnsupportedVersionError`` (fatal)."""
        ours = ours or api.versions
        offered = self.ranges.get(api.key)
        if offered is None:
            raise UnsupportedVersionError(
                f"the broker does not offer {api.name} (this client supports versions {ours}): "
                "upgrade it if it is too old; if it is a proxy or a controller, connect to the brokers"
            )
        version = min(ours.max, offered.max)
        if version not in ours or version not in offered:
            message = f"no common version of {api.name}: the broker offers {offered}"
            if ours.min > api.versions.min:
                raise UnsupportedVersionError(
                    f"{message}, but this request needs {ours}; another broker of the cluster offers more: "
                    "upgrade this one, or the proxy in front of it"
                )
            raise UnsupportedVersionError(
                f"{message}, this client supports {ours}; upgrade the older of both"
            )
        return version
