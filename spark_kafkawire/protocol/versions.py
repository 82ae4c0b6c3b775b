"""The version in which each request is sent: the highest that broker and client have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import UnsupportedVersionError
from .api import Api, VersionRange


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """The versions that a broker offers, by API key. They hold for one connection.

    ``release`` names brokers that cannot be asked: what is known of them stands for what they offer.
    ``transaction_version`` is the protocol of transactions that the cluster agreed on (see
    ``modern.end_txn``).
    """

    ranges: Mapping[int, VersionRange]
    release: str | None = None
    transaction_version: int = 1

    def highest_common(self, api: Api, ours: VersionRange | None = None) -> int:
        """The highest version of an API that both know, of ``ours`` where not every one will do.

        Raises ``UnsupportedVersionError`` (fatal).
        """
        ours = ours or api.versions
        offered = self.ranges.get(api.key)
        if offered is None:
            raise UnsupportedVersionError(
                f"the broker does not offer {api.name}, of which versions {ours} are known here: "
                "it is too old, or keeps this request to itself"
            )
        version = min(ours.max, offered.max)
        if version not in ours or version not in offered:
            told = f"no common version of {api.name}: the broker offers {offered}"
            if ours.min > api.versions.min:
                raise UnsupportedVersionError(
                    f"{told}, and only {ours} says what is asked; another broker of the cluster offers more: "
                    "upgrade this one, or the proxy before it"
                )
            raise UnsupportedVersionError(f"{told}, known here are {ours}")
        return version
