"""The logs that rows of a topic may go to, in a cluster of 0.7 brokers."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ....cluster.asking import side_by_side
from ....cluster.v07.expected import check_brokers
from ....cluster.v07.view import logs_to_write, unregistered_logs, view
from ....errors import ConnectFailed, DiscoveryError, quoted
from ....model import Broker, ClusterView, TopicPartition
from ....net.client import Client
from ....net.retry import Attempts
from ....options import Discovery, NetOptions, WriteOptions

if TYPE_CHECKING:
    from ..rows import Rows
    from .sender import Sender

_log = logging.getLogger("spark_kafkawire")

#: Longest topic name that a broker takes by default (its ``max.topic.name.length``), characters.
TOPIC_LENGTH_MAX: Final = 255
#: What a 0.7.2 broker refuses inside a topic name, by closing the connection.
_REFUSED: Final = re.compile("[/\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]")


@dataclass(frozen=True, slots=True)
class Targets:
    """Plain data that travels to the tasks: live brokers and known logs, and no credential.

    ``cluster`` is asked for nothing again; only what ``broker.list`` cannot tell, and how many
    partitions a topic has that no broker registered yet, is asked of the brokers themselves. How rows are
    checked and sent is imported by tasks alone.
    """

    cluster: ClusterView
    discovery: Discovery
    net: NetOptions

    @staticmethod
    def topic_fault(topic: str) -> str | None:
        """What is wrong with a topic name, or None.

        A broker answers a refused name by closing the connection. A name with a character outside the
        Basic Multilingual Plane it accepts, but it cannot register it in ZooKeeper and does not start
        again with it. Source: recordings of a 0.7.2 broker, ``produce/topic_*``.
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
    def discover(cls, options: WriteOptions) -> Targets:
        """See the cluster as it is now; with ``broker.list`` also which of the brokers are there.

        Raises ``DiscoveryError`` (fatal), also where brokers that the options expect do not come: keys
        would go to other logs.
        """
        discovery, net = options.discovery, options.net
        cluster = view(discovery, net)
        if discovery.zookeeper_connect is None:
            found = side_by_side(cluster.brokers, lambda broker: _answers(broker, net))
            alive = tuple(broker for broker, answers in found.items() if answers)
            check_brokers(discovery.expected_brokers, alive, "answering")
            cluster = replace(cluster, brokers=alive)
        if not cluster.brokers:
            raise DiscoveryError("no broker is alive; start one")
        return cls(cluster, replace(discovery, zookeeper_auth=None), net)

    @staticmethod
    def planned(options: WriteOptions) -> WriteOptions:
        """The options as they are: brokers of 0.7 have no versions."""
        return options

    def of_topic(self, topic: str) -> Targets:
        """The targets of one topic alone, with all that can be known of it.

        Raises ``DiscoveryError`` (fatal) as ``choices`` does.
        """
        logs = self.choices(topic)
        # An unregistered topic stays unknown: its choices are not all that a row may name.
        known = self.discovery.zookeeper_connect is None or bool(self.cluster.logs_of(topic))
        cluster = replace(self.cluster, logs=tuple(sorted(logs)) if known else ())
        return replace(self, cluster=cluster, discovery=replace(self.discovery, expected_brokers=None))

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        """Logs for rows that name none, sorted by broker and then partition; never empty.

        For a topic that is not registered yet these are partition 0 of every live broker: the
        first message registers the topic, and later writes use all of its partitions. Within one
        write the choice stays, and so does the log of a key.

        Raises ``DiscoveryError`` (fatal) where no live broker has the topic.
        """
        logs = self.cluster.logs_of(topic)
        if logs:
            return self._alive(topic, (*logs, *self._unregistered(topic)))
        if topic in self.cluster.orphaned_topics:
            _log.warning(
                "topic %s: no broker announces it, although ZooKeeper has it: it begins anew", quoted(topic)
            )
        return self._to_write(topic, self.discovery)

    def led(self, topic: str) -> tuple[TopicPartition, ...]:
        """All choices: they are of live brokers. Raises as ``choices``."""
        return self.choices(topic)

    def nameable(self, topic: str) -> tuple[TopicPartition, ...]:
        """Logs that a row may name by its columns ``broker`` and ``partition``, sorted alike.

        For a topic that is not registered yet, these are all that the brokers are configured for.
        """
        if self.cluster.logs_of(topic):
            return self.choices(topic)
        return self._to_write(topic, Discovery(broker_list=self.cluster.brokers))

    def check(self, rows: Rows, options: WriteOptions) -> None:
        """Refuse what the brokers would drop in silence. Raises ``RowError`` (fatal)."""
        from .rows import check_rows

        check_rows(rows, options)

    def sender(self, options: WriteOptions) -> Sender:
        """One connection for each live broker that gets any rows."""
        from .sender import Sender

        return Sender(self.cluster.brokers, options)

    def _to_write(self, topic: str, discovery: Discovery) -> tuple[TopicPartition, ...]:
        return logs_to_write(self.cluster, discovery, (topic,), self.net)[topic]

    def _unregistered(self, topic: str) -> tuple[TopicPartition, ...]:
        """Where all brokers are expected, those that start at the moment count, too."""
        if self.discovery.expected_brokers is None:
            return ()
        return unregistered_logs(self.cluster, (topic,), self.net)

    def _alive(self, topic: str, logs: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        alive = {broker.id for broker in self.cluster.brokers}
        by_broker = sorted((log.broker, log.partition, log) for log in logs if log.broker is not None)
        dead = ", ".join(str(id) for id in sorted({id for id, _, _ in by_broker} - alive))
        live_logs = tuple(log for id, _, log in by_broker if id in alive)
        if not live_logs:
            raise DiscoveryError(f"topic {quoted(topic)}: none of its brokers ({dead}) is alive; start one")
        if dead:
            _log.warning("topic %s: broker %s is not alive; writing to the others", quoted(topic), dead)
        return live_logs


def _answers(broker: Broker, net: NetOptions) -> bool:
    """Whether the broker takes connections; a warning where it does not."""
    try:
        Attempts(net.retry).run(lambda: Client.connect(broker, net.connection)).close()
    except ConnectFailed as error:
        _log.warning("%s; writing to the others", error)
        return False
    return True
