"""Who leads which partition, from the brokers of a cluster themselves (Kafka 0.8 and later).

    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    for log in metadata.partitions_of("t"):
        broker = metadata.leader_of(log)
    ...
    metadata.forget("t")        # an error says that the leader is another one, or it does not answer

What was learned is kept until it is forgotten; then the next question is put to a broker. Brokers
that answered before are asked first, then the bootstrap servers in turn: so a cluster whose known
brokers are all gone is found again.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ...errors import (
    Action,
    BrokerError,
    KafkaWireError,
    ProtocolError,
    TransportError,
    UnknownTopicError,
    UnsupportedVersionError,
    quoted,
    shown,
)
from ...model import Broker, Leader, TopicPartition
from ...net.client import Client
from ...net.pool import POOL, Pool
from ...net.retry import Attempts
from ...net.transport import Deadline
from ...options import NetOptions
from ...protocol.modern import METADATA
from ...protocol.modern.error_codes import ErrorCode, broker_error
from ...protocol.modern.limits import NO_TOPIC_ID
from ...protocol.modern.metadata import MetadataReply, MetadataRequest, MetadataRequestTopic, MetadataTopic

T = TypeVar("T")

#: Known brokers that are tried before the bootstrap servers are. More would only cost deadlines.
KNOWN_TRIED_MAX: Final = 3
#: Errors of a partition that has no leader for a while.
_ELECTION_CODES: Final = frozenset((ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND))
#: The internal topic of brokers 0.8.2 and 0.9, whose Metadata does not tell that it is one.
_OFFSETS_TOPIC: Final = "__consumer_offsets"
#: First version of Metadata that can ask for a topic without creating it.
_ASKS_WITHOUT_CREATING: Final = 4


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster described it; ``id`` is None where topics have none (before 2.8).

    ``leaders`` maps partitions to the leading broker's id, -1 while none leads, and the epoch.
    """

    name: str
    id: uuid.UUID | None = None
    is_internal: bool = False
    leaders: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def logs(self) -> tuple[TopicPartition, ...]:
        """The topic's logs, sorted."""
        return tuple(TopicPartition(self.name, partition) for partition in sorted(self.leaders))


class Metadata:
    """What is known of one cluster. Safe for many threads. ``creates_topics`` lets brokers that are
    set up so create the topics that they are asked for. A leader is waited for as long as for any
    answer, even where the retries are used up; a topic that no broker knows for the retries alone.

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
        self._answered: Broker | None = None
        self._controller_id = -1

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The live brokers, sorted, as the last answer had them."""
        return tuple(sorted(self._brokers.values()))

    def controller(self) -> Broker:
        """The broker that creates topics; asked anew. Raises ``BrokerError`` where there is none now."""
        self._attempted(lambda: self._learn(()))
        broker = self._brokers.get(self._controller_id)
        if broker is None:
            raise broker_error(ErrorCode.NOT_CONTROLLER, f"Metadata of {self._answered}")
        return broker

    def topics(self) -> tuple[Topic, ...]:
        """All topics that the cluster shows to this user, sorted by name; asked anew.

        A topic that is in no state to be read has no leaders: asked for by its name, it says why.
        """
        learned = self._attempted(lambda: self._learn(None))
        return tuple(topic for _, topic in sorted(learned.items()))

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """The logs of a topic, sorted. Raises ``UnknownTopicError`` (fatal)."""
        return self._attempted(lambda: self._topic(topic, None)).logs

    def leader_of(self, log: TopicPartition, within: Deadline | None = None) -> Broker:
        """The broker that leads a partition, asked for ``within`` that time at most. Raises as
        ``leadership_of`` does."""
        return self._attempted(lambda: self._leader(log, within), within).broker

    def leadership_of(self, log: TopicPartition) -> Leader:
        """Who leads a partition, waiting as long as the retries allow while nobody does.

        Raises ``UnknownTopicError`` (fatal) where there is no such partition, ``BrokerError`` where
        it has no leader.
        """
        return self._attempted(lambda: self._leader(log, None))

    def leaders_of(self, logs: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Who leads each partition; what is not known is asked for in one request."""
        logs = list(logs)
        unknown = sorted({log.topic for log in logs} - set(self._topics))
        if unknown:
            self.refresh(unknown)
        return {log: self.leadership_of(log) for log in logs}

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

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask for topics now. Raises ``UnknownTopicError`` (fatal)."""
        names = sorted(set(topics))
        self._attempted(lambda: self._learn(names))

    def forget(self, topic: str) -> None:
        """Ask for the topic when it is next needed: what is known of it turned out to be old."""
        self._topics.pop(topic, None)

    def ask(self, request: object) -> Any:
        """The reply's body to a request that any broker can answer."""
        return self._attempted(lambda: self._ask(lambda client: client.request(request)))

    def meet(self) -> None:
        """Connect to a server, and learn no more than what that tells."""
        self._attempted(lambda: self._ask(lambda client: client.broker))

    def _attempted(self, attempt: Callable[[], T], within: Deadline | None = None) -> T:
        attempts = Attempts(self._net.retry)
        # An election takes seconds; a topic that was just created is there in a moment.
        electing = Attempts(self._net.retry, patience_s=self._net.request_timeout_s)
        looking = Attempts(self._net.retry.impatient)
        while True:
            try:
                outcome = attempt()
            except KafkaWireError as error:
                code = error.code if isinstance(error, BrokerError) else None
                is_unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                try:
                    waits = looking if is_unknown else electing if code in _ELECTION_CODES else attempts
                    waits.failed(error, within)
                except BrokerError as last:
                    if last.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        raise
                    raise UnknownTopicError(str(last)) from last
            else:
                attempts.progressed()
                electing.progressed()
                return outcome

    def _topic(self, name: str, within: Deadline | None) -> Topic:
        return self._topics.get(name) or self._learn([name], within)[name]

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

    def _learn(self, names: Sequence[str] | None, within: Deadline | None = None) -> dict[str, Topic]:
        """Ask once for some topics, or for all; those topics."""
        with self._lock:
            reply: MetadataReply = self._ask(
                lambda client: client.request(self._request(names, client.version_of(METADATA)), within),
                within,
            )
            if not reply.brokers:
                raise BrokerError(f"{self._answered}: Metadata names no broker", action=Action.BACK_OFF)
            self._brokers = {
                broker.node_id: Broker(broker.node_id, broker.host, broker.port) for broker in reply.brokers
            }
            self._controller_id = reply.controller_id
            topics = {topic.name: topic for topic in reply.topics if topic.name is not None}
            if names is None:
                learned = {name: self._listed(name, topic) for name, topic in topics.items()}
                self._topics = {name: topic for name, topic in learned.items() if topic.leaders}
            else:
                learned = {name: self._checked(name, topics.get(name)) for name in names}
                self._topics.update(learned)
            return learned

    def _request(self, names: Sequence[str] | None, version: int) -> MetadataRequest:
        if names is None or (version < _ASKS_WITHOUT_CREATING and not self._creates_topics):
            topics = None
        else:
            topics = tuple(MetadataRequestTopic(name=name) for name in names)
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._creates_topics)

    def _listed(self, name: str, topic: MetadataTopic) -> Topic:
        """A topic among all: one that is being made or deleted, or has an error, must not fail the others."""
        try:
            return self._checked(name, topic)
        except BrokerError:
            return Topic(name, is_internal=topic.is_internal or name == _OFFSETS_TOPIC)

    def _checked(self, name: str, topic: MetadataTopic | None) -> Topic:
        code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None or code:
            raise broker_error(code, f"topic {quoted(name)} on {self._answered}")
        leaders = {part.partition_index: (part.leader_id, part.leader_epoch) for part in topic.partitions}
        if not leaders:  # it is being made, or deleted
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {quoted(name)} on {self._answered}")
        if max(leaders) >= len(leaders):  # partitions are counted from 0: the broker has not heard of all
            place = (
                f"topic {shown(name)} on {self._answered}, which tells of {len(leaders)} of its partitions"
            )
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, place)
        topic_id = topic.topic_id if topic.topic_id != NO_TOPIC_ID else None
        return Topic(name, topic_id, topic.is_internal or name == _OFFSETS_TOPIC, leaders)

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
            self._answered = server
            return answer
        assert failure is not None
        self._answered = None
        raise failure.located("kafka.bootstrap.servers: no server answers; the last one that was tried")

    def _servers(self) -> list[Broker]:
        known = [broker for broker in self.brokers if broker != self._answered]
        if self._answered is not None:
            known.insert(0, self._answered)
        return list(dict.fromkeys([*known[:KNOWN_TRIED_MAX], *self._bootstrap_servers]))
