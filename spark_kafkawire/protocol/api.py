"""One request type and its reply, as data: the versions that are known, and what is true of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ProtocolError
from .replies import Faults
from .schema import Struct, codec

#: Highest version that a request header can name.
VERSION_MAX: Final = 32_767


def always(_: object) -> bool:
    """``Api.is_answered`` where every request gets its reply."""
    return True


def any_version(_: object) -> int:
    """``Api.version_max`` where every version carries every request."""
    return VERSION_MAX


def from_the_first(_: object) -> int:
    """``Api.version_min`` where every version says of every request what it means."""
    return 0


def no_refusal(_: memoryview) -> None:
    """``Api.read_refusal`` where a broker that does not know the version just closes."""


def no_reply_bytes(_: object) -> int:
    """``Api.reply_bytes_max`` where there are no replies."""
    return 0


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
    """One request type and its reply.

    ``response`` is None where the broker never answers; ``is_answered`` tells which requests get
    their reply. ``reply_bytes_max`` tells from a request how long its reply may be: a longer one
    is a lie, refused before memory is taken for it. ``faults`` tells from a request, its reply and
    their version what is wrong with the reply: whatever is answered declares it (see ``replies``).

    ``versions`` are those that this package knows; from ``flexible_since`` on they are flexible.
    ``version_max`` tells the highest version that can carry a request, ``version_min`` the lowest that does
    not say something else. ``read_refusal`` reads the reply of a broker that does not know the
    request's version; None where it is not one. From
    ``throttles_since`` on a broker answers at once and leaves it to the client to wait for
    ``throttle_time_ms``; before, it has waited itself. Source: KIP-219. A request that
    ``may_be_passed_over`` is one that some broker neither answers nor closes on: the reply to the
    request behind it may come in its place.
    """

    name: str
    key: int
    request: type[Any]
    response: type[Any] | None = None
    reply_bytes_max: Callable[[Any], int] = no_reply_bytes
    versions: VersionRange = VersionRange(0, 0)
    flexible_since: int | None = None
    has_flexible_reply_header: bool = True
    faults: Callable[[Any, Any, int], Faults] | None = None
    is_answered: Callable[[Any], bool] = always
    version_max: Callable[[Any], int] = any_version
    version_min: Callable[[Any], int] = from_the_first
    read_refusal: Callable[[memoryview], Any] = no_refusal
    throttles_since: int | None = None
    may_be_passed_over: bool = False

    def __post_init__(self) -> None:
        assert (self.response is None) == (self.faults is None), f"{self.name}: what is wrong with a reply?"

    def versions_of(self, request: object | None) -> VersionRange:
        """The versions that a request can go in; all of them where there is none."""
        if request is None:
            return self.versions
        bounds = self.version_min(request), self.version_max(request)
        return VersionRange(max(self.versions.min, bounds[0]), min(self.versions.max, bounds[1]))

    def awaits_reply(self, request: object) -> bool:
        """Whether the broker answers this request."""
        return self.response is not None and self.is_answered(request)

    def throttle_time_ms(self, reply: Any, version: int) -> int:
        """How long the client has to wait after a reply before it sends again."""
        if self.throttles_since is None or version < self.throttles_since:
            return 0
        throttle_time_ms: int = reply.throttle_time_ms
        return max(throttle_time_ms, 0)

    def check(self, request: Any, reply: Any, version: int) -> None:
        """Raises ``ProtocolError`` for a reply that is none to the request."""
        assert self.faults is not None
        for fault in self.faults(request, reply, version):
            raise ProtocolError(f"the {self.name} reply is none to its request: {fault}")

    def is_flexible(self, version: int) -> bool:
        """Whether the messages of a version have compact lengths and tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since

    def request_codec(self, version: int) -> Struct[Any]:
        """Reads and writes the request in one version."""
        return codec(self.request, version, self.is_flexible(version))

    def reply_codec(self, version: int) -> Struct[Any]:
        """Reads and writes the reply in one version."""
        assert self.response is not None
        return codec(self.response, version, self.is_flexible(version))
