"""Connection of a read task to the leader of one partition, which may move, for both generations.

The leader of a partition of 0.7 is the broker that has it.
"""

from __future__ import annotations

from spark_kafkawire.cluster.cluster import Cluster
from spark_kafkawire.errors import Action, BrokerError, UnknownTopicError, quoted
from spark_kafkawire.model import Leader, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.net.settings import ConnectionSettings


class TopicRecreated(UnknownTopicError):
    """The planned topic was deleted, and another one has its name. Fatal."""


class LeaderConnection:
    """The leader of one partition and a connection to it, both found on demand.

    ``planned`` is the leader from planning, and is tried first. A leader of another topic with the same name,
    or of an older epoch, is refused.
    """

    def __init__(
        self,
        partition: TopicPartition,
        planned: Leader,
        cluster: Cluster,
        settings: ConnectionSettings,
        connections: Pool,
    ) -> None:
        self._partition = partition
        self._planned = planned
        self._cluster = cluster
        self._settings = settings
        self._connections = connections
        self._leader: Leader | None = planned
        self._client: Client | None = None

    @property
    def leader(self) -> Leader | None:
        """The leader by the last look-up; None if the next request needs another look-up."""
        return self._leader

    def place(self, offset: int) -> str:
        """An offset of the log and its leader, for messages."""
        return f"{self._partition} at offset {offset} on {(self._leader or self._planned).broker}"

    def open(self) -> tuple[Client, Leader]:
        """The connection and the leader at its other end. Raises ``TransportError``, the errors of
        ``Cluster`` and ``TopicRecreated``."""
        leader = self.look_up()
        if self._client is None:
            self._client = self._connections.take(leader.broker, self._settings)
        return self._client, leader

    def look_up(self) -> Leader:
        """The leader, from the cluster if it is not known. Raises the errors of ``Cluster`` and
        ``TopicRecreated``."""
        if self._leader is None:
            self._leader = self._current_leader()
        return self._leader

    def forget_leader(self) -> None:
        """Close the connection, and look up the leader before the next one."""
        self.close()
        self._leader = None
        self._cluster.forget(self._partition)

    def give_back(self) -> None:
        """Return the connection to the pool. No response may be outstanding."""
        if self._client is not None:
            self._connections.give_back(self._client)
            self._client = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _current_leader(self) -> Leader:
        leader = self._cluster.leaders_of((self._partition,))[self._partition]
        planned_id, planned_epoch = self._planned.topic_id, self._planned.epoch
        if None is not leader.topic_id != planned_id is not None:
            raise TopicRecreated(
                f"{quoted(self._partition.topic)} was deleted, and another topic has its name"
            )
        if leader.topic_id is None and 0 <= leader.epoch < planned_epoch:
            raise BrokerError(
                f"{leader.broker} leads in epoch {leader.epoch}, below {planned_epoch} when the read was "
                "planned: the topic was deleted and created again, or brokers are behind; run again",
                action=Action.REFRESH,
            )
        return leader
