"""What this process knows of its brokers' versions. It only grows: no broker falls behind what it was.

A broker that has told its versions never counts as an old one again, and none of its cluster does:
the connection that makes it look so is refused, which may be tried again. Nor may it offer less than
before, or than planning found (``ConnectionSettings.floor``).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ..errors import ConnectFailed
from ..model import Broker
from ..protocol.modern.floor import NO_FLOOR, VersionFloor
from ..protocol.modern.old_brokers import OLD_RELEASES
from ..protocol.versions import BrokerVersions
from .settings import ConnectionSettings

_log = logging.getLogger("spark_kafkawire")

_Address = tuple[str, int]

#: What to do about a broker that is older than it may be.
_ADVICE: Final = (
    "is its cluster being downgraded, or does another one listen there? Rows would lose what it does not "
    "know, so it is not used; start anew once all its brokers are of one version"
)


@dataclass(frozen=True, slots=True)
class Known:
    """One broker: what it offers of what counts, and which old release it was proven to be, if any."""

    broker: Broker
    floor: VersionFloor
    release: str | None = None

    @property
    def kafka(self) -> str:
        """Its version in the words of its users, as far as it is told."""
        if self.release is not None:
            return f"of Kafka {self.release}"
        return f"before Kafka 0.11 (Fetch {self.floor.fetch}, Produce {self.floor.produce})"


class KnownVersions:
    """What brokers told, by address, and the clusters of which one did. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[_Address, Known] = {}
        self._clusters: dict[tuple[Broker, ...], set[_Address]] = {}
        self._warned: set[tuple[Broker, ...]] = set()

    def learn(self, broker: Broker, settings: ConnectionSettings, versions: BrokerVersions) -> None:
        """Note what a broker told, or was proven to be, on a new connection.

        Raises ``ConnectFailed`` (retriable) where it is less than was known.
        """
        found = Known(broker, VersionFloor.of(versions), versions.release)
        with self._lock:
            if found.release is not None and self._speaks_api_versions(broker, settings):
                raise ConnectFailed(_too_old(found.release))
            before = self._known.get(_address(broker))
            was = before.floor if before else NO_FLOOR
            for floor, when in (
                (settings.floor, "its cluster when this was planned"),
                (was, "it was before"),
            ):
                if unmet := floor.unmet_by(found.floor):
                    raise ConnectFailed(f"it is older than {when}, it offers {unmet}: {_ADVICE}")
            self._known[_address(broker)] = found
            if settings.bootstrap_servers:
                self._clusters.setdefault(settings.bootstrap_servers, set()).add(_address(broker))

    def speaks_api_versions(self, broker: Broker, settings: ConnectionSettings) -> bool:
        """Whether the broker, or another one of its cluster, has told its versions."""
        with self._lock:
            return self._speaks_api_versions(broker, settings)

    def old_release(self, broker: Broker) -> str | None:
        """Which old release the broker was proven to be last time: a hint, for each connection is asked."""
        with self._lock:
            known = self._known.get(_address(broker))
        return known.release if known else None

    def of_cluster(
        self, settings: ConnectionSettings, among: Collection[Broker] | None = None
    ) -> list[Known]:
        """The brokers of a cluster that were talked to, all or those ``among``."""
        with self._lock:
            addresses = self._clusters.get(settings.bootstrap_servers, set())
            known = [self._known[address] for address in sorted(addresses)]
        if among is not None:
            wanted = {_address(broker) for broker in among}
            known = [each for each in known if _address(each.broker) in wanted]
        return known

    def floor(self, settings: ConnectionSettings, among: Collection[Broker] | None = None) -> VersionFloor:
        """What all brokers of a cluster offer that were talked to, or those ``among``; ``NO_FLOOR`` where
        that is nobody, and of brokers that are not asked.

        Raises ``ConnectFailed`` where some told their versions and others were proven to be too old for that.
        """
        known = self.of_cluster(settings, among)
        if settings.assumed_release is not None or not known:
            return NO_FLOOR
        old = [each for each in known if each.release is not None]
        if 0 < len(old) < len(known):
            raise ConnectFailed(f"{old[0].broker}: {_too_old(old[0].release)}")
        return functools.reduce(VersionFloor.common_with, (each.floor for each in known))

    def assume(self, broker: Broker, settings: ConnectionSettings) -> BrokerVersions:
        """The versions of the release that the user names; a warning where the cluster told otherwise."""
        assert settings.assumed_release is not None
        with self._lock:
            warns = (
                self._speaks_api_versions(broker, settings) and settings.bootstrap_servers not in self._warned
            )
            if warns:
                self._warned.add(settings.bootstrap_servers)
        if warns:
            _log.warning(
                "%s: a broker of its cluster has told its versions, as they do from Kafka 0.10 on; it is "
                "spoken to in those of %s because kafka.api.version.request=false: rows lose what that does "
                "not know",
                *(broker, settings.assumed_release),
            )
        return OLD_RELEASES[settings.assumed_release]

    def forget(self) -> None:
        """Know nothing any more."""
        with self._lock:
            self._known.clear()
            self._clusters.clear()
            self._warned.clear()

    def _speaks_api_versions(self, broker: Broker, settings: ConnectionSettings) -> bool:
        if settings.floor.fetch > 0 or settings.floor.produce > 0:
            return True
        addresses = {_address(broker)} | self._clusters.get(settings.bootstrap_servers, set())
        return any(
            (known := self._known.get(address)) is not None and known.release is None for address in addresses
        )


def _too_old(release: str | None) -> str:
    return (
        f"it answers as a broker of Kafka {release}, but a broker of its cluster has told its versions, as "
        f"they do from 0.10 on: {_ADVICE}"
    )


def _address(broker: Broker) -> _Address:
    return broker.host, broker.port


#: What this process knows.
KNOWN: Final = KnownVersions()
