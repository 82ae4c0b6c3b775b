"""How to connect to the brokers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..model import Broker, Generation, WireFormat
from ..protocol.dialect import Dialect
from ..protocol.dialects import dialect_of
from ..protocol.modern.floor import NO_FLOOR, VersionFloor

if TYPE_CHECKING:
    from .sasl import Sasl
    from .tls import Tls


@dataclass(frozen=True, slots=True)
class Security:
    """How a connection is protected: ``tls`` is None where it is not encrypted, ``sasl`` is None where
    nobody logs in."""

    tls: Tls | None = None
    sasl: Sasl | None = None


#: Neither encrypted nor logged in.
PLAINTEXT: Final = Security()


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """All that a connection is made with besides the broker's address. Plain data, hashable:
    connections with equal settings can stand in for each other.

    ``wire_format`` is None where the generation's own is spoken.
    ``timeout_s`` bounds connecting and every later wait. ``client_id`` is what brokers log and keep
    quotas by, where requests hold it. Secrets travel to the executors, and are in no repr.

    Of modern brokers: ``bootstrap_servers`` name the cluster, whose brokers know each other's time;
    ``floor`` is what they offered when the work was planned; ``assumed_release`` is what the user says
    that they are, ``0.8`` or ``0.9``: nobody asks them then.
    """

    generation: Generation
    timeout_s: float
    client_id: str | None = None
    security: Security = PLAINTEXT
    bootstrap_servers: tuple[Broker, ...] = ()
    floor: VersionFloor = NO_FLOOR
    assumed_release: str | None = None
    wire_format: WireFormat | None = None

    @property
    def spoken(self) -> WireFormat:
        """The wire format of the connection."""
        return self.wire_format or self.generation.wire_format

    @property
    def dialect(self) -> Dialect:
        """What is spoken on the connection."""
        return dialect_of(self.spoken)
