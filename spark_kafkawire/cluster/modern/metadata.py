"""Who leads which partition, from the brokers of a cluster themselves (Kafka 0.8 and later).

    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    for log in metadata.partitions_of("t"):
        leader = metadata.leader_of(log)
    ...
    metadata.forget("t")        # after an error of the leader: it moved, or does not answer

What brokers answered is kept until it is forgotten. The broker that answered last is asked first, then
other known ones, then the bootstrap servers in turn: so a cluster whose known brokers are all gone is
found again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from ...errors import (
    Action,
    BrokerError,
    KafkaWireError,
    ProtocolError,
    TransportError,
    UnsupportedVersionError,
)
from ...model import Broker, Leader, TopicPartition
from ...net.client import Client
from ...net.pool import POOL, Pool
from ...net.transport import Deadline
from ...options import NetOptions
from ...protocol.modern.error_codes import ErrorCode, broker_error
from ...protocol.modern.metadata import METADATA, MetadataReply, MetadataRequest, MetadataRequestTopic
from .retrying import retried
from .topic import Topic

T = TypeVar("T")

#: Known brokers that are tried before the bootstrap servers. Each that is gone costs a timeout.
KNOWN_TRIED_MAX: Final = 3
#: First version of Metadata that can ask for a topic without creating it.
_WITHOUT_CREATING_SINCE: Final = 4


class Metadata:
    """What is known of one cluster. Safe for many threads. ``creates_topics`` allows brokers to create
    the topics that they are asked for (``auto.create.topics.enable``). An election is waited for at least
    as long as one request may take; a topic that no broker knows for the retries alone.

    All methods that ask raise ``TransportError`` when no server answers within the retries, and
    ``BrokerError`` (fatal then) where one refuses.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[Broker],
        net: NetOptions,
        *,
        creates_topics: bool = False,
        connections: Pool = POOL,
    ) -> None:
        self._bootstrap_servers = tuple(bootstrap_servers)
        self._net = net
        self._creates_topics = creates_topics
        self._connections = connections
        self._lock = threading.Lock()
        self._brokers: dict[int, Broker] = {}
        self._topics: dict[str, Topic] = {}
        self._last_server: Broker | None = None
        self._controller_id = -1

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The live brokers, sorted, as the last answer had them."""
        return tuple(sorted(self._brokers.values()))

    def controller(self) -> Broker:
        """The broker that creates topics; asked anew. Raises ``BrokerError`` where there is none now."""
        self._retried(lambda: self._ask_topics(()))
        broker = self._brokers.get(self._controller_id)
        if broker is None:
            raise broker_error(ErrorCode.NOT_CONTROLLER, f"Metadata of {self._last_server}")
        return broker

    def topics(self) -> tuple[Topic, ...]:
        """All topics that the cluster shows to this user, sorted by name; asked anew.

        A topic that is in no state to be read has no leaders: asked for by its name, it says why.
        """
        topics = self._retried(lambda: self._ask_topics(None))
        return tuple(topic for _, topic in sorted(topics.items()))

    def knows(self, topic: str) -> bool:
        """Whether the topic was described by the last answers; nothing is asked."""
        return topic in self._topics

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """The logs of a topic, sorted. Raises ``UnknownTopicError`` (fatal)."""
        return self._retried(lambda: self._topic(topic, None)).logs

    def leader_of(self, log: TopicPartition, within: Deadline | None = None) -> Leader:
        """Who leads a partition, asked for ``within`` that time at most, else as long as the retries allow.

        Raises ``UnknownTopicError`` (fatal) where there is no such partition, ``BrokerError`` where
        it has no leader.
        """
        return self._retried(lambda: self._leader(log, within), within)

    def leaders_of(self, logs: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Who leads each partition; what is not known is asked for in one request."""
        logs = list(logs)
        unknown = sorted({log.topic for log in logs} - set(self._topics))
        if unknown:
            self.refresh(unknown)
        known = self.known_leaders(logs)
        return {log: known.get(log) or self.leader_of(log) for log in logs}

    def known_leaders(self, logs: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Who leads each partition by the last answers; nothing is asked or waited for, and what
        nobody leads is left out."""
        found = {}
        for log in logs:
            topic = self._topics.get(log.topic)
            if topic is not None and log.partition in topic.leaders:
                leader_id, epoch = topic.leaders[log.partition]
                if (broker := self._brokers.get(leader_id)) is not None:
                    found[log] = Leader(broker, epoch, topic.id)
        return found

    def refresh(self, topics: Iterable[str], *, are_created: bool = False) -> None:
        """Ask for topics now; those that ``are_created`` just now, until the broker has heard of them.

        Raises ``UnknownTopicError`` (fatal).
        """
        names = sorted(set(topics))
        retried(lambda: self._ask_topics(names), self._net, is_created=are_created)

    def forget(self, topic: str) -> None:
        """Ask for the topic when it is next needed: what is known of it is stale."""
        self._topics.pop(topic, None)

    def ask(self, request: object) -> Any:
        """The reply's body to a request that any broker can answer."""
        return self._retried(lambda: self._ask(lambda client: client.request(request)))

    def ask_in_turn(self, requests_of: Callable[[Client], Iterable[object]]) -> list[Any]:
        """The replies to such requests, sent one behind the other; the broker's versions may choose them."""
        return self._retried(lambda: self._ask(lambda client: list(client.pipeline(requests_of(client)))))

    def connect(self) -> None:
        """Connect to a broker, which tells its versions, and ask it nothing else."""
        self._retried(lambda: self._ask(lambda client: client.broker))

    def _retried(self, attempt: Callable[[], T], within: Deadline | None = None) -> T:
        return retried(attempt, self._net, within)

    def _topic(self, name: str, within: Deadline | None) -> Topic:
        return self._topics.get(name) or self._ask_topics([name], within)[name]

    def _leader(self, log: TopicPartition, within: Deadline | None) -> Leader:
        topic = self._topic(log.topic, within)
        if log.partition not in topic.leaders:
            self.forget(log.topic)
            place = f"{log}: the topic has {len(topic.leaders)} partitions"
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, place)
        leader_id, epoch = topic.leaders[log.partition]
        broker = self._brokers.get(leader_id)
        if broker is None:
            self.forget(log.topic)
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{log}")
        return Leader(broker, epoch, topic.id)

    def _ask_topics(self, names: Sequence[str] | None, within: Deadline | None = None) -> dict[str, Topic]:
        """Some topics, or all, by one request; the answer is kept."""
        with self._lock:
            reply: MetadataReply = self._ask(
                lambda client: client.request(self._request(names, client.version_of(METADATA)), within),
                within,
            )
            if not reply.brokers:
                raise BrokerError(f"{self._last_server}: Metadata names no broker", action=Action.BACK_OFF)
            self._brokers = {
                broker.node_id: Broker(broker.node_id, broker.host, broker.port) for broker in reply.brokers
            }
            self._controller_id = reply.controller_id
            return self._learn(names, reply)

    def _learn(self, names: Sequence[str] | None, reply: MetadataReply) -> dict[str, Topic]:
        server = self._last_server
        replies = {topic.name: topic for topic in reply.topics if topic.name is not None}
        if names is None:
            listed = {name: Topic.listed(name, topic, server) for name, topic in replies.items()}
            self._topics = {name: topic for name, topic in listed.items() if topic.leaders}
            return listed
        described = {name: Topic.described(name, replies.get(name), server) for name in names}
        self._topics.update(described)
        return described

    def _request(self, names: Sequence[str] | None, version: int) -> MetadataRequest:
        if names is None or (version < _WITHOUT_CREATING_SINCE and not self._creates_topics):
            topics = None
        else:
            topics = tuple(MetadataRequestTopic(name=name) for name in names)
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._creates_topics)

    def _ask(self, question: Callable[[Client], Any], within: Deadline | None = None) -> Any:
        """The first answer that one of the servers gives; the last error where none does."""
        failure: KafkaWireError | None = None
        for server in self._servers():
            if failure is not None and within is not None and not within.left_s:
                break
            try:
                with self._connections.lend(server, self._net.connection, within) as client:
                    answer = question(client)
            except (TransportError, ProtocolError, UnsupportedVersionError) as error:
                failure = error
                continue
            self._last_server = server
            return answer
        assert failure is not None
        self._last_server = None
        raise failure.located("kafka.bootstrap.servers: no server answers; the last one that was tried")

    def _servers(self) -> list[Broker]:
        known = [broker for broker in self.brokers if broker != self._last_server]
        if self._last_server is not None:
            known.insert(0, self._last_server)
        return list(dict.fromkeys([*known[:KNOWN_TRIED_MAX], *self._bootstrap_servers]))
