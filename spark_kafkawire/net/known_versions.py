"""Versions of the brokers that this process has connected to. They never fall.

After a broker has sent its versions, neither it nor another broker of its cluster is treated as 0.8 or 0.9: a
connection that suggests so fails with a retriable error. A broker must not offer less than before either, nor
less than planning found (``ConnectionSettings.minimum_versions``).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ..errors import LOG, ConnectFailed
from ..model import Broker
from ..protocol.api import BrokerVersions, VersionRange
from ..protocol.modern.minimum_versions import NO_MINIMUM, MinimumVersions
from ..protocol.modern.negotiation import API_VERSIONS, IDENTITY_SINCE, OLD_RELEASES
from .settings import ConnectionSettings

_Address = tuple[str, int]

#: The advice about a broker that is older than expected.
_ADVICE: Final = (
    "is its cluster being downgraded, or does a broker of another cluster listen there? Rows would lose the "
    "columns that it does not support, so it is not used; restart the query when all brokers run one version"
)


@dataclass(frozen=True, slots=True)
class KnownBroker:
    """Broker with the versions that it offers, and its release if it is proven to be an old one."""

    broker: Broker
    offered: MinimumVersions
    release: str | None = None
    checks_identity: bool = False

    @property
    def kafka(self) -> str:
        """Its release for messages, as far as it is known."""
        if self.release is not None:
            return f"of Kafka {self.release}"
        return f"before Kafka 0.11 (Fetch {self.offered.fetch}, Produce {self.offered.produce})"


class KnownVersions:
    """Versions of brokers by address, and the addresses of each cluster. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._known: dict[_Address, KnownBroker] = {}
        self._clusters: dict[tuple[Broker, ...], set[_Address]] = {}
        self._warned: set[tuple[Broker, ...]] = set()
        self._cluster_ids: dict[tuple[Broker, ...], str] = {}

    def learn(self, broker: Broker, settings: ConnectionSettings, versions: BrokerVersions) -> None:
        """Record the versions of a broker on a new connection, received or proven.

        Raises ``ConnectFailed`` (retriable) if they are lower than known ones.
        """
        minimum = MinimumVersions.of(versions)
        checks_identity = IDENTITY_SINCE in versions.ranges.get(API_VERSIONS.key, VersionRange(0, 0))
        result = KnownBroker(broker, minimum, versions.release, checks_identity)
        with self._lock:
            if result.release is not None and self.speaks_api_versions(broker, settings):
                raise ConnectFailed(_too_old(result.release))
            before = self._known.get(_address(broker))
            was = before.offered if before else NO_MINIMUM
            for minimum, when in (
                (settings.minimum_versions, "its cluster when the query was planned"),
                (was, "it was before"),
            ):
                if unmet := minimum.unmet_by(result.offered):
                    raise ConnectFailed(f"the broker is older than {when}: it offers {unmet}; {_ADVICE}")
            self._known[_address(broker)] = result
            if settings.bootstrap_servers:
                self._clusters.setdefault(settings.bootstrap_servers, set()).add(_address(broker))

    def speaks_api_versions(self, broker: Broker, settings: ConnectionSettings) -> bool:
        """True if the broker, or another one of its cluster, has sent its versions."""
        if settings.minimum_versions.fetch > 0 or settings.minimum_versions.produce > 0:
            return True
        with self._lock:
            addresses = {_address(broker)} | self._clusters.get(settings.bootstrap_servers, set())
            known = filter(None, map(self._known.get, addresses))
            return any(item.release is None for item in known)

    def old_release(self, broker: Broker) -> str | None:
        """The old release that the last connection proved. Only a hint: each connection needs a proof."""
        with self._lock:
            known = self._known.get(_address(broker))
        return known.release if known else None

    def of_cluster(
        self, settings: ConnectionSettings, among: Collection[Broker] | None = None
    ) -> list[KnownBroker]:
        """The brokers of a cluster that this process has connected to, all or those ``among``."""
        with self._lock:
            addresses = self._clusters.get(settings.bootstrap_servers, set())
            known = [self._known[address] for address in sorted(addresses)]
        if among is not None:
            wanted = {_address(broker) for broker in among}
            known = [item for item in known if _address(item.broker) in wanted]
        return known

    def minimum(
        self, settings: ConnectionSettings, among: Collection[Broker] | None = None
    ) -> MinimumVersions:
        """The versions that all known brokers of a cluster offer, or those ``among``. ``NO_MINIMUM`` if none
        is known, or if an option names the release.

        Raises ``ConnectFailed`` if some sent versions and others were proven to be too old for that.
        """
        known = self.of_cluster(settings, among)
        if settings.assumed_release is not None or not known:
            return NO_MINIMUM
        old = [item for item in known if item.release is not None]
        if 0 < len(old) < len(known):
            raise ConnectFailed(f"{old[0].broker}: {_too_old(old[0].release)}")
        return functools.reduce(MinimumVersions.common_with, (item.offered for item in known))

    def assume(self, broker: Broker, settings: ConnectionSettings) -> BrokerVersions:
        """The versions of the release that the user names. Warns if a broker has sent other ones."""
        assert settings.assumed_release is not None
        with self._lock:
            warns = (
                self.speaks_api_versions(broker, settings) and settings.bootstrap_servers not in self._warned
            )
            if warns:
                self._warned.add(settings.bootstrap_servers)
        if warns:
            LOG.warning(
                "%s: a broker of its cluster has sent its versions, so it runs Kafka 0.10 or later; the "
                "client uses those of %s because kafka.api.version.request=false: rows lose the columns that "
                "this release does not support",
                *(broker, settings.assumed_release),
            )
        return OLD_RELEASES[settings.assumed_release]

    def cluster_id(self, settings: ConnectionSettings) -> str | None:
        """The id of a cluster: that of the settings, or the last one that its brokers have sent."""
        with self._lock:
            return settings.cluster_id or self._cluster_ids.get(settings.bootstrap_servers)

    def learn_cluster_id(self, settings: ConnectionSettings, cluster_id: str) -> None:
        """Record the id of a cluster."""
        with self._lock:
            if settings.bootstrap_servers:
                self._cluster_ids[settings.bootstrap_servers] = cluster_id

    def meant(self, broker: Broker, settings: ConnectionSettings) -> tuple[str | None, int]:
        """Cluster id and node id for a broker to check; (None, -1) if they are not known, as those of a
        bootstrap server, or if the broker is known to check nothing."""
        cluster_id = self.cluster_id(settings)
        with self._lock:
            known = self._known.get(_address(broker))
        checks = broker.id >= 0 and (known is None or known.checks_identity)
        return (cluster_id, broker.id) if checks and cluster_id is not None else (None, -1)

    def forget(self) -> None:
        """Forget all brokers and clusters."""
        with self._lock:
            self._known.clear()
            self._clusters.clear()
            self._warned.clear()
            self._cluster_ids.clear()


def _too_old(release: str | None) -> str:
    return (
        f"the broker answers as one of Kafka {release}, but a broker of its cluster has sent its versions, "
        f"so it runs 0.10 or later; {_ADVICE}"
    )


def _address(broker: Broker) -> _Address:
    return broker.host, broker.port


#: The versions that this process knows.
BROKER_VERSIONS: Final = KnownVersions()
