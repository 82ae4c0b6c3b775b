"""Writing to brokers of Kafka 0.6 and 0.7, and here the partitions that rows may go to.

ZooKeeper or the list of brokers names them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from spark_kafkawire.cluster.asking import side_by_side
from spark_kafkawire.cluster.v07.view import check_brokers, partitions_to_write, unregistered_partitions, view
from spark_kafkawire.errors import LOG, ConnectFailed, DiscoveryError, quote
from spark_kafkawire.model import Broker, ClusterView, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.retry import call_with_retries
from spark_kafkawire.options import Discovery, NetOptions, WriteOptions

if TYPE_CHECKING:
    from ..rows import Rows
    from .sender import V07Sender


#: Longest topic name that a broker accepts by default (its ``max.topic.name.length``), characters.
TOPIC_LENGTH_MAX: Final = 255
#: Characters in a topic name that a 0.7.2 broker refuses, by closing the connection.
_REFUSED: Final = re.compile("[/\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]")


@dataclass(frozen=True, slots=True)
class V07WritePartitions:
    """Live brokers and known partitions: plain data that travels to the tasks, without a credential.

    ``cluster`` is not looked up again. Requests to brokers ask only for data that ``broker.list`` does not
    have, and for the number of partitions of a topic that no broker has registered yet. Only tasks import the
    modules that check and send rows.
    """

    cluster: ClusterView
    discovery: Discovery
    net: NetOptions

    @staticmethod
    def topic_fault(topic: str) -> str | None:
        """Reason why brokers refuse a topic name.

        A broker refuses a name by closing the connection. It accepts a character outside the Basic
        Multilingual Plane, but cannot register such a name in ZooKeeper, and does not start again with it.
        Source: recordings of a 0.7.2 broker, ``produce/topic_*``.
        """
        if topic in ("", ".", ".."):
            return "the brokers refuse the names '', '.' and '..'"
        if len(topic) > TOPIC_LENGTH_MAX:
            return f"it has {len(topic)} characters, the brokers refuse more than {TOPIC_LENGTH_MAX}"
        if match := _REFUSED.search(topic):
            return f"the brokers refuse the character U+{ord(match[0]):04X} in it"
        if poison := next((character for character in topic if ord(character) > 0xFFFF), None):
            return f"with the character U+{ord(poison):04X} in it, brokers could not start again"
        return None

    @classmethod
    def discover(cls, options: WriteOptions) -> V07WritePartitions:
        """Discover the cluster as it is now; with ``broker.list`` also which brokers are alive.

        Raises ``DiscoveryError`` also if brokers that the options expect do not register: keys would go to
        other partitions.
        """
        discovery, net = options.discovery, options.net
        cluster = view(discovery, net)
        if discovery.zookeeper_connect is None:
            result = side_by_side(cluster.brokers, lambda broker: _answers(broker, net))
            alive = tuple(broker for broker, answers in result.items() if answers)
            check_brokers(discovery.expected_brokers, alive, "answering")
            cluster = replace(cluster, brokers=alive)
        if not cluster.brokers:
            raise DiscoveryError("no broker is alive; start one")
        return cls(cluster, replace(discovery, zookeeper_auth=None), net.known)

    @staticmethod
    def plan_versions(options: WriteOptions) -> WriteOptions:
        return options  # brokers of 0.7 have no versions

    def restrict_to_topic(self, topic: str) -> V07WritePartitions:
        partitions = self.selectable(topic)
        # An unregistered topic stays unknown: rows may name more than its selectable partitions.
        known = self.discovery.zookeeper_connect is None or bool(self.cluster.partitions_of(topic))
        cluster = replace(self.cluster, partitions=tuple(sorted(partitions)) if known else ())
        return replace(self, cluster=cluster, discovery=replace(self.discovery, expected_brokers=None))

    def selectable(self, topic: str) -> tuple[TopicPartition, ...]:
        """Partitions for rows that name none, sorted by broker and then partition; never empty.

        For a topic that is not registered yet they are partition 0 of every live broker: the first message
        registers the topic, and later writes use all its partitions. Within one write the list stays, and so
        does the partition of a key.

        Raises ``DiscoveryError`` (fatal) if no live broker has the topic.
        """
        partitions = self.cluster.partitions_of(topic)
        if partitions:
            # Brokers that are starting have not registered. They count if the options expect all brokers.
            if self.discovery.expected_brokers is not None:
                partitions += unregistered_partitions(self.cluster, (topic,), self.net)
            return self._alive(topic, partitions)
        if topic in self.cluster.orphaned_topics:
            LOG.warning(
                "topic %s: no broker announces it, although ZooKeeper has it: it starts empty", quote(topic)
            )
        return self._to_write(topic, self.discovery)

    def available(self, topic: str) -> tuple[TopicPartition, ...]:
        return self.selectable(topic)  # they belong to live brokers

    def addressable(self, topic: str) -> tuple[TopicPartition, ...]:
        """Partitions that a row may name by its columns ``broker`` and ``partition``, in the same order.

        For a topic that is not registered yet, they are all that the brokers are configured for.
        """
        if self.cluster.partitions_of(topic):
            return self.selectable(topic)
        return self._to_write(topic, Discovery(broker_list=self.cluster.brokers))

    def check(self, rows: Rows, options: WriteOptions) -> None:
        from .sender import check_rows

        check_rows(rows, options)

    def sender(self, options: WriteOptions) -> V07Sender:
        from .sender import V07Sender

        return V07Sender(self.cluster.brokers, options)

    def _to_write(self, topic: str, discovery: Discovery) -> tuple[TopicPartition, ...]:
        return partitions_to_write(self.cluster, discovery, (topic,), self.net)[topic]

    def _alive(self, topic: str, partitions: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        alive = {broker.id for broker in self.cluster.brokers}
        by_broker = sorted((tp.broker, tp.partition, tp) for tp in partitions if tp.broker is not None)
        dead = ", ".join(str(id) for id in sorted({id for id, _, _ in by_broker} - alive))
        live_partitions = tuple(tp for id, _, tp in by_broker if id in alive)
        if not live_partitions:
            raise DiscoveryError(f"topic {quote(topic)}: none of its brokers ({dead}) is alive; start one")
        if dead:
            LOG.warning("topic %s: broker %s is not alive; writing to the others", quote(topic), dead)
        return live_partitions


def _answers(broker: Broker, net: NetOptions) -> bool:
    """Return whether the broker accepts connections; log a warning if it does not."""
    bootstrap = net.retry.bootstrap
    try:
        with bootstrap.reaching() as contact:
            call_with_retries(lambda: Client.connect(broker, net.connection, contact), net.retry).close()
        bootstrap.answered()
    except ConnectFailed as error:
        LOG.warning("%s; writing to the others", error)
        return False
    return True
