"""Settings of connections to the brokers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import OptionError
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

    @property
    def spoken(self) -> WireFormat:
        """The wire format of the connection."""
        return self.wire_format or self.generation.wire_format

    @property
    def dialect(self) -> Dialect:
        """The dialect of the connection."""
        return dialect_of(self.spoken)
