"""What option strings become: frozen values, checked when they are made."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ..model import Broker, Generation, TopicPartition, WireFormat
from ..net.retry import RetryPolicy
from ..net.settings import ConnectionSettings
from ..protocol.modern.floor import VersionFloor
from ..protocol.modern.isolation import READ_UNCOMMITTED


class LimitKind(enum.Enum):
    """How one end of a range is given."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """One end of one log's range. ``value``: an offset, or milliseconds since 1970."""

    kind: LimitKind
    value: int = 0


EARLIEST: Final = OffsetLimit(LimitKind.EARLIEST)
LATEST: Final = OffsetLimit(LimitKind.LATEST)
COMMITTED: Final = OffsetLimit(LimitKind.COMMITTED)


@dataclass(frozen=True, slots=True)
class OffsetLimits:
    """One end of every log's range: the same for all, or one for each log by name.

    ``option`` is the option it came from, for messages.
    """

    option: str
    for_all: OffsetLimit | None = None
    by_log: Mapping[TopicPartition, OffsetLimit] = field(default_factory=dict)


#: What 0.7 keeps in ZooKeeper under a name, as groups and topics, has one that a node can have.
_NODE_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]+")


def is_node_name(name: str) -> bool:
    """Whether a node of ZooKeeper can have the name."""
    return _NODE_NAME.fullmatch(name) is not None and name not in (".", "..")


#: How many brokers of 0.7 there must be, or which.
ExpectedBrokers = int | frozenset[int]


@dataclass(frozen=True, slots=True)
class Discovery:
    """Where brokers are learned from: exactly one of ZooKeeper, a fixed list, and some brokers of a
    cluster. Those have the ids -1, -2, …, as in Kafka's own clients: their real ones are not known.

    ``expected_brokers`` are those of 0.7 that must be found.
    """

    zookeeper_connect: str | None = None
    zookeeper_auth: tuple[str, str] | None = field(default=None, repr=False)
    broker_list: tuple[Broker, ...] = ()
    bootstrap_servers: tuple[Broker, ...] = ()
    expected_brokers: ExpectedBrokers | None = None

    @property
    def place(self) -> str:
        """The option that says where the brokers are, ``name=value``, brokers sorted. It holds no secret."""
        if self.zookeeper_connect is not None:
            return f"zookeeper.connect={self.zookeeper_connect}"
        if self.broker_list:
            brokers = (f"{broker.id}:{broker.host}:{broker.port}" for broker in self.broker_list)
            return f"broker.list={','.join(brokers)}"
        servers = sorted(f"{broker.host}:{broker.port}" for broker in self.bootstrap_servers)
        return f"kafka.bootstrap.servers={','.join(servers)}"

    @property
    def generation(self) -> Generation:
        """What the brokers that are found so speak. Here it is chosen, and nowhere else."""
        return Generation.MODERN if self.bootstrap_servers else Generation.V07


@dataclass(frozen=True, slots=True)
class NetOptions:
    """How to connect to brokers, and how often to try again."""

    connection: ConnectionSettings
    retry: RetryPolicy = RetryPolicy(patience_s=60.0)

    @property
    def request_timeout_s(self) -> float:
        """The deadline of each wait for a broker, seconds."""
        return self.connection.timeout_s

    @property
    def discovery_timeout_s(self) -> float:
        """How long ZooKeeper may take for all that is asked of it, seconds, a restart of its own included."""
        return max(self.request_timeout_s, self.retry.patience_s)

    def of_brokers(self, floor: VersionFloor) -> NetOptions:
        """The same for brokers that offer so much at least."""
        return replace(self, connection=replace(self.connection, floor=floor))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which logs to read: exactly one is set."""

    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """The group that a read joins, and as how many of its consumers' threads it counts there."""

    group: str
    thread_count: int = 1


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How much one batch of a stream reads: bytes in 0.7, records later; None where nothing limits it.

    A batch that would be smaller than ``size_min`` waits, but for ``delay_max_s`` at most.
    """

    size_max: int | None = None
    size_min: int | None = None
    delay_max_s: float = 900.0


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How an executor reads one range; all sizes in bytes.

    ``wire_format`` is None where the generation's own is spoken.
    ``patience_s`` is how long failures in a row are tried again at least, whatever ``retries`` is.
    ``wait_ms`` is how long a broker may wait for a record before it answers without any.
    """

    fetch_bytes: int = 4 << 20
    fetches_in_flight: int = 4
    message_bytes_max: int = 64 << 20
    decompressed_bytes_max: int = 256 << 20
    fail_on_data_loss: bool = True
    isolation_level: int = READ_UNCOMMITTED
    patience_s: float = 0.0
    wait_ms: int = 500
    wire_format: WireFormat | None = None


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """A write that is there wholly or not at all.

    ``prefix`` begins its transactional ids; ``is_named`` tells that the user gave it. ``batch`` names the
    write among those of that name. ``timeout_ms`` is None where brokers are asked for theirs, or, with
    ``two_phase_commit``, no timeout ends a transaction.
    """

    prefix: str
    is_named: bool
    batch: str = ""
    timeout_ms: int | None = None
    two_phase_commit: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """How batches get to modern brokers; sizes in bytes.

    ``acks`` is Produce's own number. ``insists_on_idempotence`` tells that a write without it is
    an error. ``timeout_s`` bounds the time from a batch's encoding to its ack, ``metadata_timeout_s``
    the wait for a topic to be there.

    ``adapts`` tells that rows which choose no log go by how brokers keep up, and to none that has
    answered nothing for ``available_s``.
    """

    acks: int = -1
    idempotent: bool = True
    insists_on_idempotence: bool = False
    requests_in_flight: int = 5
    request_bytes_max: int = 1 << 20
    buffer_bytes: int = 32 << 20
    retry: RetryPolicy = RetryPolicy(2**31 - 1)
    timeout_s: float = 120.0
    metadata_timeout_s: float = 60.0
    adapts: bool = True
    available_s: float | None = None
