"""Version negotiation of modern Kafka: a request goes in the highest version that both sides know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import UnsupportedVersionError
from .api import Api, VersionRange


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
