"""Topics, partitions and leaders of a cluster of modern Kafka (0.8 to 4.x), from Metadata requests.

    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    for partition in metadata.partitions_of("t"):
        leader = metadata.leader_of(partition)
    ...
    metadata.forget("t")        # after an error of the leader: it has moved, or does not answer

Responses are cached until ``forget``. A request goes first to the broker that responded last, then to other
known brokers, then to the bootstrap servers in turn: so a cluster is found again even if all known brokers
are gone (KIP-899). A broker that answers REBOOTSTRAP_REQUIRED (KIP-1102) sends the client to the bootstrap
servers at once, and so do known brokers that have not answered for some minutes. An answer of another cluster
is refused.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import (
    LOG,
    Action,
    BrokerError,
    ConnectionLost,
    KafkaWireError,
    ProtocolError,
    TransportError,
    UnknownTopicError,
    UnsupportedVersionError,
    counted,
    printable,
    quote,
)
from spark_kafkawire.model import Broker, Leader, TopicPartition, id_text
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.pool import POOL, Pool
from spark_kafkawire.net.retry import Attempts, share_deadline
from spark_kafkawire.net.strangers import Kind, kind_at
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID
from spark_kafkawire.protocol.modern.metadata import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
)

T = TypeVar("T")

#: Known brokers that are tried before the bootstrap servers. Each dead one costs a timeout.
KNOWN_TRIED_MAX: Final = 3
#: Requests that ask a server which closes the connection for its kind.
_KIND_REQUESTS_MAX: Final = 3
#: Codes of a server that is not, or not any more, a broker of the cluster.
_WRONG_SERVER: Final = frozenset((ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.INCONSISTENT_CLUSTER_ID))
#: Errors of a partition that temporarily has no leader.
_ELECTION_CODES: Final = frozenset((ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND))
#: First version of Metadata that can ask for a topic without creating it.
_WITHOUT_CREATING_SINCE: Final = 4


class Metadata:
    """Metadata of one cluster, cached. Thread-safe.

    ``creates_topics`` allows brokers to create the requested topics (``auto.create.topics.enable``).
    ``topic_ids`` are ids that topics must keep: another one raises ``BrokerError`` (fatal). Other topics may
    be deleted and created again, unless ``keep_ids`` was called.
    Requests are repeated during an election for at least the time of one request, and for a topic that no
    broker knows as often as the retries allow.

    All methods that send requests raise ``TransportError`` if no server answers within the retries, and
    ``BrokerError`` (fatal then) if a server refuses.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[Broker],
        net: NetOptions,
        *,
        creates_topics: bool = False,
        topic_ids: Mapping[str, uuid.UUID] = MappingProxyType({}),
        connections: Pool = POOL,
    ) -> None:
        self._bootstrap_servers = tuple(bootstrap_servers)
        self._net = net
        self._creates_topics = creates_topics
        self._kept_ids = dict(topic_ids)
        self._keeps_ids = False
        self._connections = connections
        self._lock = threading.Lock()
        self._brokers: dict[int, Broker] = {}
        #: Racks of the brokers that have one, by id, by the last response.
        self.racks: Mapping[int, str] = {}
        self._topics: dict[str, Topic] = {}
        self._last_server: Broker | None = None
        self._controller_id = -1
        #: The last request, which is sent again as the same object, and what the response to it was.
        self._last_request: MetadataRequest | None = None
        self._last_response: MetadataResponse | None = None
        self._described: dict[str, Topic] = {}
        #: The names and the version that the topics of the last response were described for.
        self._described_as: tuple[tuple[str, ...] | None, int] | None = None
        self._version = 0
        self._kind_requests_left = _KIND_REQUESTS_MAX
        self._cluster_id = net.connection.cluster_id
        #: When the first request failed since the last answer, and True to ask bootstrap servers alone.
        self._failing_since_s: float | None = None
        self._must_bootstrap = False

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """Live brokers by the last response, sorted."""
        return tuple(sorted(self._brokers.values()))

    @property
    def version(self) -> int:
        """Number of changes of what is cached: leaders and topics are the same as long as it is."""
        return self._version

    def controller(self) -> Broker:
        """The controller, which creates topics, by a new request. Raises ``BrokerError`` if the cluster has
        no controller now."""
        self._retry(lambda within: self._ask_topics((), within))
        broker = self._brokers.get(self._controller_id)
        if broker is None:
            raise broker_error(ErrorCode.NOT_CONTROLLER, f"Metadata of {self._last_server}")
        return broker

    def topics(self) -> tuple[Topic, ...]:
        """Topics that the user may see, sorted by name, by a new request.

        A topic that cannot be read now has no leaders; a request for it by name returns the reason.
        """
        topics = self._retry(lambda within: self._ask_topics(None, within))
        return tuple(topic for _, topic in sorted(topics.items()))

    def knows(self, topic: str) -> bool:
        """True if the last responses described the topic; no request is sent."""
        return topic in self._topics

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """Partitions of a topic, sorted. Raises ``UnknownTopicError`` (fatal)."""
        return self._retry(lambda within: self._topic(topic, within)).partitions

    def id_of(self, topic: str) -> uuid.UUID | None:
        """Id of a topic; None if topics have no ids. Raises ``UnknownTopicError`` (fatal)."""
        return self._retry(lambda within: self._topic(topic, within)).id

    def known_ids(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        """Ids of topics by the last responses, without a new request, and without topics that have none."""
        described = {name: self._topics[name].id for name in topics if name in self._topics}
        return {name: id_ for name, id_ in described.items() if id_} | self._kept_ids

    def keep_ids(self) -> None:
        """Keep the id of each topic that is or will be described: what is written to it must not go into
        another topic of its name."""
        self._kept_ids = self.known_ids(self._topics)
        self._keeps_ids = True

    def leader_of(self, partition: TopicPartition, within: Deadline | None = None) -> Leader:
        """The leader of a partition. Requests take ``within`` that time at most, or as long as the retries
        allow.

        Raises ``UnknownTopicError`` (fatal) if there is no such partition, ``BrokerError`` if it has no
        leader.
        """
        return self._retry(lambda within: self._leader(partition, within), within)

    def leaders_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Leaders of the partitions; unknown topics are requested together."""
        partitions = list(partitions)
        unknown = sorted({tp.topic for tp in partitions} - set(self._topics))
        if unknown:
            self.refresh(unknown)
        known = self.known_leaders(partitions)
        return {tp: known.get(tp) or self.leader_of(tp) for tp in partitions}

    def known_leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Leaders by the last responses, without a new request, and without partitions that have no
        leader."""
        result = {}
        # Thousands of partitions have the same leader, mostly with the same epoch.
        leaders: dict[tuple[str, tuple[int, int]], Leader | None] = {}
        for tp in partitions:
            topic = self._topics.get(tp.topic)
            of_partition = topic.leaders.get(tp.partition) if topic is not None else None
            if topic is None or of_partition is None:
                continue
            key = (tp.topic, of_partition)
            if key not in leaders:
                broker = self._brokers.get(of_partition[0])
                leaders[key] = None if broker is None else Leader(broker, of_partition[1], topic.id)
            if (leader := leaders[key]) is not None:
                result[tp] = leader
        return result

    def known_brokers(self) -> tuple[Broker, ...]:
        """Live brokers by the last response, after a first request if there was none."""
        if not self.brokers:
            self.refresh(())
        return self.brokers

    def refresh(
        self, topics: Iterable[str], within: Deadline | None = None, *, are_created: bool = False
    ) -> None:
        """Request topics now. If they ``are_created`` just now, wait until the brokers know them.

        Raises ``UnknownTopicError`` (fatal).
        """
        names = sorted(set(topics))
        self._retry(lambda within: self._ask_topics(names, within), within, are_created=are_created)

    def forget(self, topic: str) -> None:
        """Discard the cached metadata of a topic, so that its next use requests it again."""
        if self._topics.pop(topic, None) is not None:
            self._version += 1

    def ask(self, request: object, within: Deadline | None = None) -> Any:
        """Send a request that any broker can answer, and return the body of the response."""
        return self._retry(
            lambda within: self._ask(lambda client: client.request(request, within), within), within
        )

    def ask_in_turn(
        self, requests_of: Callable[[Client], Iterable[object]], within: Deadline | None = None
    ) -> list[Any]:
        """Send several such requests, pipelined. ``requests_of`` may choose them by the versions of the
        broker."""
        return self._retry(
            lambda within: self._ask(
                lambda client: list(client.pipeline(requests_of(client), within=within)), within
            ),
            within,
        )

    def connect(self) -> None:
        """Connect to a broker and learn its API versions, without another request."""
        self._retry(lambda within: self._ask(lambda client: client.broker, within))

    def _retry(
        self,
        attempt: Callable[[Deadline | None], T],
        within: Deadline | None = None,
        *,
        are_created: bool = False,
    ) -> T:
        """Run an attempt until it succeeds or its retries are used up.

        An election may take at least the time of one request. An unknown topic is retried as often as the
        retries allow, or like an election if topics ``are_created`` just now: brokers learn of them a moment
        later. Other errors are retried for the whole retry time. Until a server of the cluster has answered,
        an attempt gets the deadline of the first contact, then ``within``.

        Raises the last error; ``UnknownTopicError`` (fatal) if no broker knows the topic.
        """
        others, elections = Attempts(self._net.retry), Attempts(self._net.request_retry)
        unknown_topics = elections if are_created else Attempts(self._net.retry.impatient)
        bootstrap = self._net.retry.bootstrap
        with bootstrap.reaching() as contact:
            while True:
                try:
                    result = attempt(within if contact is None or bootstrap.is_answered else contact)
                except KafkaWireError as error:
                    code = error.code if isinstance(error, BrokerError) else None
                    is_unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    attempts = elections if code in _ELECTION_CODES else others
                    try:
                        (unknown_topics if is_unknown else attempts).failed(error, within)
                    except BrokerError as last:
                        if last.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                            raise
                        raise UnknownTopicError(str(last)) from last
                else:
                    others.note_progress()
                    elections.note_progress()
                    return result

    def _topic(self, name: str, within: Deadline | None) -> Topic:
        return self._topics.get(name) or self._ask_topics([name], within)[name]

    def _leader(self, topic_partition: TopicPartition, within: Deadline | None) -> Leader:
        topic = self._topic(topic_partition.topic, within)
        if topic_partition.partition not in topic.leaders:
            self.forget(topic_partition.topic)
            location = (
                f"{topic_partition}: the topic has only {counted(len(topic.leaders), 'partition')}, from 0 on"
            )
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, location)
        leader_id, epoch = topic.leaders[topic_partition.partition]
        broker = self._brokers.get(leader_id)
        if broker is None:
            self.forget(topic_partition.topic)
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition}")
        return Leader(broker, epoch, topic.id)

    def _ask_topics(self, names: Sequence[str] | None, within: Deadline | None = None) -> dict[str, Topic]:
        """Request some topics, or all, and cache the response."""
        with self._lock:
            response: MetadataResponse = self._ask(
                lambda client: client.request(self._request(names, client.version_of(METADATA)), within),
                within,
            )
            if not response.brokers:
                raise BrokerError(
                    f"{self._last_server}: the Metadata response lists no broker; see its log",
                    action=Action.BACK_OFF,
                )
            # Brokers before 0.11 get one request for all topics, whatever the names are.
            asked = (None if names is None else tuple(names), self._version)
            if response is self._last_response and asked == self._described_as:
                return self._described
            brokers = {
                broker.node_id: Broker(broker.node_id, broker.host, broker.port)
                for broker in response.brokers
            }
            if brokers != self._brokers:
                self._brokers = brokers
                self._version += 1
                self._net.connection.report_unmatched(brokers.values())
            self.racks = {broker.node_id: broker.rack for broker in response.brokers if broker.rack}
            self._controller_id = response.controller_id
            self._described = self._learn(names, response)
            self._last_response, self._described_as = response, (asked[0], self._version)
            return self._described

    def _learn(self, names: Sequence[str] | None, response: MetadataResponse) -> dict[str, Topic]:
        server = self._last_server
        responses = {topic.name: topic for topic in response.topics if topic.name is not None}
        if names is None:
            listed = {name: Topic.listed(name, topic, server) for name, topic in responses.items()}
            self._cache({name: topic for name, topic in listed.items() if topic.leaders})
            return listed
        described = {name: Topic.described(name, responses.get(name), server) for name in names}
        for name, topic in described.items():
            if topic.id is not None:
                refuse_other_id(name, self._kept_ids.get(name, topic.id), topic.id)
                if self._keeps_ids:
                    self._kept_ids[name] = topic.id
        self._cache({**self._topics, **described})
        return described

    def _cache(self, topics: dict[str, Topic]) -> None:
        if topics != self._topics:
            self._topics = topics
            self._version += 1

    def _request(self, names: Sequence[str] | None, version: int) -> MetadataRequest:
        if names is None or (version < _WITHOUT_CREATING_SINCE and not self._creates_topics):
            topics = None
        else:
            topics = tuple(MetadataRequestTopic(name=name) for name in names)
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._creates_topics)
        if request != self._last_request:
            self._last_request = request
        assert self._last_request is not None
        return self._last_request

    def _ask(self, question: Callable[[Client], Any], within: Deadline | None = None) -> Any:
        """Ask servers in turn until one answers. Raises the last error if no server answers."""
        failure: KafkaWireError | None = None
        bootstrap, servers = self._net.retry.bootstrap, self._servers()
        for index, server in enumerate(servers):
            share = share_deadline(within, len(servers) - index)
            # On the first contact each server is tried: the next one may be the only live one.
            is_over = within is not None and not within.left_s and share is within
            if failure is not None and is_over:
                break
            if self._must_bootstrap and server not in self._bootstrap_servers:
                continue
            try:
                with self._connections.lend(server, self._net.connection, share) as client:
                    answer = question(client)
                    self._check(answer, server)
            except BrokerError as error:
                if error.code not in _WRONG_SERVER:
                    raise
                failure = self._rebootstrap(error)
                continue
            except (TransportError, ProtocolError, UnsupportedVersionError) as error:
                bootstrap.note(error)
                failure = error
                continue
            if client.has_answered:
                bootstrap.answered()
            self._last_server, self._failing_since_s, self._must_bootstrap = server, None, False
            return answer
        assert failure is not None
        self._last_server = None
        if self._failing_since_s is None:
            self._failing_since_s = time.monotonic()
        if isinstance(failure, BrokerError):
            raise failure
        raise self._explain(failure, server).locate(self._no_answer())

    def _check(self, answer: Any, server: Broker) -> None:
        """Raise ``BrokerError`` for the error of a whole Metadata response, or one of another cluster."""
        if not isinstance(answer, MetadataResponse):
            return
        if answer.error_code:
            raise broker_error(answer.error_code, f"Metadata of {server}")
        if answer.cluster_id is None:
            return
        if self._cluster_id not in (None, answer.cluster_id):
            ids = f"cluster {quote(answer.cluster_id)}, not {quote(str(self._cluster_id))} as before"
            raise broker_error(ErrorCode.INCONSISTENT_CLUSTER_ID, f"Metadata of {server}, {ids}")
        if self._cluster_id is None:
            self._cluster_id = answer.cluster_id
            BROKER_VERSIONS.learn_cluster_id(self._net.connection, answer.cluster_id)

    def _rebootstrap(self, error: BrokerError) -> BrokerError:
        """Forget all brokers, because of an answer that they are not the right ones any more."""
        if self._net.rebootstrap_after_s is None:
            advised = error.advise(
                "kafka.metadata.recovery.strategy=none forbids that; set it to rebootstrap"
            )
            advised.action = Action.FAIL
            raise advised from error
        if error.code == ErrorCode.REBOOTSTRAP_REQUIRED and not self._must_bootstrap:
            LOG.info("%s: looking up the brokers of the cluster again", error)
        self._must_bootstrap, self._last_server = True, None
        return error

    def _explain(self, failure: KafkaWireError, server: Broker) -> KafkaWireError:
        """The error of a server that does not answer, or of a ZooKeeper, which closes the connection.

        A server is asked for its kind a few times only, because a broker logs the request as one of the wrong
        size. Once would not be enough: a busy ZooKeeper may answer too late.
        """
        is_known = self._net.retry.bootstrap.is_answered or not self._kind_requests_left
        if is_known or not isinstance(failure, ConnectionLost):
            return failure
        self._kind_requests_left -= 1
        connection = self._net.connection
        if kind_at(connection.target(server), Kind.ZOOKEEPER) is None:
            return failure
        return ProtocolError(
            f"{connection.place(server)}: this is {Kind.ZOOKEEPER.value}, not a broker; set "
            "kafka.bootstrap.servers to the host and port of a broker; for Kafka 0.7 set zookeeper.connect"
        )

    def _no_answer(self) -> str:
        """The start of an error, with the addresses if none of them has ever answered."""
        bootstrap = self._net.retry.bootstrap
        servers = "kafka.bootstrap.servers" if bootstrap.is_answered else printable(bootstrap.place)
        return f"{servers}: no server answers; the last one that was tried"

    def _servers(self) -> list[Broker]:
        known = [broker for broker in self.brokers if broker != self._last_server]
        if self._last_server is not None:
            known.insert(0, self._last_server)
        after_s, since_s = self._net.rebootstrap_after_s, self._failing_since_s
        if after_s is None and known:
            return known
        is_due = after_s is not None and since_s is not None and time.monotonic() - since_s >= after_s
        if is_due or self._must_bootstrap:
            return list(self._bootstrap_servers)
        return list(dict.fromkeys([*known[:KNOWN_TRIED_MAX], *self._bootstrap_servers]))


#: The internal topic of brokers 0.8.2 and 0.9, whose Metadata has no field for internal topics.
_OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(frozen=True)
class Topic:
    """A topic of a cluster; ``id`` is None if topics have no ids (before 2.8).

    ``leaders`` maps partitions to the id of the leader, -1 without a leader, and the leader epoch.
    """

    name: str
    id: uuid.UUID | None = None
    is_internal: bool = False
    leaders: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of the topic, sorted."""
        return tuple(TopicPartition(self.name, partition) for partition in sorted(self.leaders))

    @classmethod
    def described(cls, name: str, topic: MetadataTopic | None, server: Broker | None) -> Topic:
        """A topic that was requested by name, from the response of ``server``.

        Raises ``BrokerError`` for a topic with an error, and (retriable) while some of its partitions are
        missing in the response.
        """
        location = f"topic {quote(name)} on {server}"
        code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None or code:
            raise broker_error(code, location)
        leaders = {part.partition_index: (part.leader_id, part.leader_epoch) for part in topic.partitions}
        if not leaders:  # it is being created or deleted
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, location)
        if max(leaders) >= len(leaders):  # numbers begin at 0: the broker does not know all partitions yet
            location = (
                f"topic {printable(name)} on {server}, which describes only {len(leaders)} of its partitions"
            )
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, location)
        topic_id = topic.topic_id if topic.topic_id != NO_TOPIC_ID else None
        return cls(name, topic_id, _is_internal(topic, name), leaders)

    @classmethod
    def listed(cls, name: str, topic: MetadataTopic, server: Broker | None) -> Topic:
        """A topic of a listing: with an error it has no leaders, so that the other topics can be read."""
        try:
            return cls.described(name, topic, server)
        except BrokerError:
            return cls(name, is_internal=_is_internal(topic, name))


def refuse_other_id(topic: str, known: uuid.UUID, found: uuid.UUID) -> None:
    """Raise ``BrokerError`` (fatal) if a topic has another id than before."""
    if found != known:
        raise BrokerError(
            f"topic {quote(topic)} was deleted and created again: its id was {id_text(known)}, and is "
            f"{id_text(found)} now; run again to use the new topic",
            ErrorCode.INCONSISTENT_TOPIC_ID,
            Action.FAIL,
        )


def _is_internal(topic: MetadataTopic, name: str) -> bool:
    return topic.is_internal or name == _OFFSETS_TOPIC
