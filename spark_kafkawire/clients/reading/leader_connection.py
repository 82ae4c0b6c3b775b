"""The connection to the broker that leads one log, while its leader may move."""

from __future__ import annotations

from ...cluster.cluster import Cluster
from ...errors import Action, BrokerError, UnknownTopicError, quoted
from ...model import Leader, TopicPartition
from ...net.client import Client
from ...net.pool import Pool
from ...net.settings import ConnectionSettings


class TopicRecreated(UnknownTopicError):
    """The topic that was planned is gone: another one has its name. Fatal."""


class LeaderConnection:
    """One log's leader and a connection to it, both looked for when they are needed.

    ``planned`` is the leader by the plan of the read: it is tried first, and one that leads another
    topic of the same name, or leads in an older epoch, is refused.
    """

    def __init__(
        self,
        log: TopicPartition,
        planned: Leader,
        cluster: Cluster,
        settings: ConnectionSettings,
        connections: Pool,
    ) -> None:
        self._log = log
        self._planned = planned
        self._cluster = cluster
        self._settings = settings
        self._connections = connections
        self._leader: Leader | None = planned
        self._client: Client | None = None

    @property
    def leader(self) -> Leader | None:
        """Who led the log when that was last asked; None where it has to be asked again."""
        return self._leader

    def place(self, offset: int) -> str:
        """An offset of the log and the broker that leads it, for messages."""
        return f"{self._log} at offset {offset} on {(self._leader or self._planned).broker}"

    def open(self) -> tuple[Client, Leader]:
        """The connection, and who is at its other end. Raises ``TransportError``, what ``Cluster``
        raises, and ``TopicRecreated``."""
        if self._leader is None:
            self._leader = self._current_leader()
        if self._client is None:
            self._client = self._connections.take(self._leader.broker, self._settings)
        return self._client, self._leader

    def forget_leader(self) -> None:
        """Close the connection, and ask who leads the log before the next one."""
        self.close()
        self._leader = None
        self._cluster.forget(self._log)

    def give_back(self) -> None:
        """Return the connection to the pool: no reply is missing on it."""
        if self._client is not None:
            self._connections.give_back(self._client)
            self._client = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _current_leader(self) -> Leader:
        leader = self._cluster.leaders_of((self._log,))[self._log]
        planned_id, planned_epoch = self._planned.topic_id, self._planned.epoch
        if None is not leader.topic_id != planned_id is not None:
            raise TopicRecreated(f"{quoted(self._log.topic)} was deleted, and another topic has its name now")
        if leader.topic_id is None and 0 <= leader.epoch < planned_epoch:
            raise BrokerError(
                f"{leader.broker} leads in epoch {leader.epoch}, after {planned_epoch} when the read was "
                "planned: the topic was made anew, or brokers are behind",
                action=Action.REFRESH,
            )
        return leader
