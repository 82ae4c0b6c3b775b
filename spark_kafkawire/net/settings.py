"""Settings of connections to the brokers of a cluster."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import LOG, OptionError, printable
from ..model import Broker, Generation, WireFormat
from ..protocol.dialect import Dialect, dialect_of
from ..protocol.modern.minimum_versions import NO_MINIMUM, MinimumVersions

if TYPE_CHECKING:
    from .sasl import Sasl
    from .tls import Tls


@dataclass(frozen=True, slots=True)
class Security:
    """Protection of a connection: ``tls`` is None without encryption, ``sasl`` is None without a login.

    With ``delegates`` the login is the driver's alone, and tasks log in with a delegation token instead: such
    a value cannot be pickled, so that the driver's credentials reach no executor.
    """

    tls: Tls | None = None
    sasl: Sasl | None = None
    delegates: bool = False

    def with_token(self, token: Sasl | None) -> Security:
        """The same for tasks, which log in with a delegation token; None leaves the login to a later step."""
        return Security(self.tls, token)

    def __reduce__(self) -> tuple[type[Security], tuple[Tls | None, Sasl | None]]:
        if self.delegates:
            raise OptionError(
                "option delegationTokens: this job or table has no delegation token for its executors; leave "
                "the option out, and they log in with kafka.sasl.jaas.config"
            )
        return Security, (self.tls, self.sasl)


#: Neither encrypted nor logged in.
PLAINTEXT: Final = Security()


#: A host in small letters, and a port.
Address = tuple[str, int]


@functools.cache
def _warn_unmatched(address: Address, known: tuple[Address, ...]) -> None:
    host, port = address
    LOG.warning(
        "option brokerAddressMap: %s:%d is the address of no broker; the brokers are %s",
        *(printable(host), port, ", ".join(f"{printable(host)}:{port}" for host, port in known[:10])),
    )


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Everything that a connection needs besides the address of the broker. Plain data, hashable: connections
    with equal settings are interchangeable.

    ``wire_format`` is None for the generation's own format.
    ``timeout_s`` bounds connecting and every later wait. ``client_id`` is the name that brokers log and apply
    quotas to, if requests contain one. Secrets travel to the executors, and are in no repr.

    For modern brokers: ``bootstrap_servers`` name the cluster, and ``cluster_id`` is its id, if it is known.
    ``minimum_versions`` is what they offered when the work was planned. ``assumed_release`` is the release
    that the user names, ``0.8`` or ``0.9``: brokers are not asked for their versions then.

    ``address_map`` has the addresses that connections go to in place of those that brokers advertise, which
    logins and certificates still name.
    """

    generation: Generation
    timeout_s: float
    client_id: str | None = None
    security: Security = PLAINTEXT
    bootstrap_servers: tuple[Broker, ...] = ()
    minimum_versions: MinimumVersions = NO_MINIMUM
    assumed_release: str | None = None
    wire_format: WireFormat | None = None
    cluster_id: str | None = None
    address_map: tuple[tuple[Address, Address], ...] = ()

    def target(self, broker: Broker) -> Broker:
        """The broker at the address that a connection goes to."""
        mapped = self.address_map and dict(self.address_map).get((broker.host.lower(), broker.port))
        return Broker(broker.id, *mapped) if mapped else broker

    def place(self, broker: Broker) -> str:
        """The broker, for messages, with the address that a connection goes to if that is another one."""
        target = self.target(broker)
        at = f" at {printable(target.host)}:{target.port} (brokerAddressMap)"
        return str(broker) if target is broker else f"{broker}{at}"

    def report_unmatched(self, brokers: Iterable[Broker]) -> None:
        """Log entries of the map, once each, that are the address of no broker of the cluster."""
        if self.address_map:
            known = {(item.host.lower(), item.port) for item in (*brokers, *self.bootstrap_servers)}
            for address, _ in self.address_map:
                if address not in known:
                    _warn_unmatched(address, tuple(sorted(known)))

    @property
    def spoken(self) -> WireFormat:
        """The wire format of the connection."""
        return self.wire_format or self.generation.wire_format

    @property
    def dialect(self) -> Dialect:
        """The dialect of the connection."""
        return dialect_of(self.spoken)
