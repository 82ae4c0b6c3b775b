"""Writing to brokers of modern Kafka (0.8 to 4.x), and here the partitions that rows may go to.

Metadata lists the partitions of topics and their leaders.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import LOG, BrokerError, KafkaWireError, UnknownTopicError, meant_topics, quote
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode

if TYPE_CHECKING:
    from ..rows import Rows
    from .producer import Producer


#: Longest topic name, characters. Source: org.apache.kafka.common.internals.Topic.
TOPIC_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]*")
#: Interval between looks for a topic that is being created, seconds.
_POLL_INTERVAL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class KnownPartitions:
    """Partitions of a topic, sorted by number, those of them that had a leader, and the racks of the leaders;
    "" for none.

    Brokers number partitions from 0 without a gap, so the pickled form is the name, a byte for each
    partition, and the racks.
    """

    all: tuple[TopicPartition, ...]
    available: tuple[TopicPartition, ...]
    racks: tuple[str, ...] = ()
    topic_id: uuid.UUID | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        available = set(self.available)
        assert self.all[-1].partition == len(self.all) - 1
        is_led = bytes(tp in available for tp in self.all)
        return KnownPartitions._of, (self.all[0].topic, is_led, self.racks, self.topic_id)

    @classmethod
    def _of(
        cls, topic: str, is_led: bytes, racks: tuple[str, ...], topic_id: uuid.UUID | None
    ) -> KnownPartitions:
        partitions = tuple(TopicPartition(topic, number) for number in range(len(is_led)))
        return cls(partitions, tuple(compress(partitions, is_led)), racks, topic_id)


class ModernWritePartitions:
    """Known partitions, and a cluster to ask for others. It travels to the tasks with the partitions that all
    tasks must agree on, and without other knowledge.

    Planning and committing have no rows: only tasks import the modules that check and send them.
    """

    def __init__(
        self,
        options: WriteOptions,
        known: Mapping[str, KnownPartitions] | None = None,
        missing: Mapping[str, UnknownTopicError] | None = None,
    ) -> None:
        self._options = options
        self._known = dict(known or {})
        self._missing = dict(missing or {})
        self._near: dict[str, tuple[TopicPartition, ...]] = {}
        self._metadata = self._new_metadata()

    @classmethod
    def discover(cls, options: WriteOptions) -> ModernWritePartitions:
        return cls(options)  # partitions are looked up when they are needed

    @staticmethod
    def plan_versions(options: WriteOptions) -> WriteOptions:
        Metadata(options.discovery.bootstrap_servers, options.net).connect()
        minimum = BROKER_VERSIONS.minimum(options.net.connection)
        return replace(options, net=options.net.adapt_to_brokers(minimum))

    def __reduce__(self) -> tuple[Any, ...]:
        return ModernWritePartitions, (self._options, self._known, self._missing)

    @staticmethod
    def topic_fault(topic: str) -> str | None:
        """Reason why brokers refuse a topic name. Source: Topic.detectInvalidTopic."""
        if topic in ("", ".", ".."):
            return "the brokers refuse the names '', '.' and '..'"
        if len(topic) > TOPIC_LENGTH_MAX:
            return f"it has {len(topic)} characters, the brokers refuse more than {TOPIC_LENGTH_MAX}"
        if not _LEGAL.fullmatch(topic):
            return "the brokers refuse characters other than ASCII letters and digits, '.', '_' and '-'"
        return None

    def restrict_to_topic(self, topic: str) -> ModernWritePartitions:
        """Add the partitions of a topic. If the topic does not exist, its first row fails, and a write
        without rows succeeds, as with Spark's own connector. Raises as ``selectable``."""
        known, missing = self._known, self._missing
        try:
            known = {**known, topic: self._partitions(topic)}
        except UnknownTopicError as error:
            LOG.warning("%s; only a write without rows succeeds", error)
            missing = {**missing, topic: error}
        return ModernWritePartitions(self._options, known, missing)

    def selectable(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions of the topic, sorted by number; keys count those without a leader, too.

        The request creates the topic with ``createTopic``, or if the brokers are configured for that
        (``auto.create.topics.enable``), and waits for it up to ``kafka.max.block.ms``. Raises
        ``UnknownTopicError`` and other ``DiscoveryError`` (fatal), ``TransportError`` if no broker responds,
        and ``BrokerError`` if brokers refuse to create it.
        """
        return self._partitions(topic).all

    def available(self, topic: str) -> tuple[TopicPartition, ...]:
        """As in ``WritePartitions``, and in the rack of this process if it has one and there are some."""
        partitions = self._partitions(topic)
        led = partitions.available or partitions.all
        if self._options.delivery.rack is None:
            return led
        if topic not in self._near:
            servers = self._options.discovery.bootstrap_servers
            rack = self._options.delivery.rack.found(servers, lambda: set(partitions.racks) - {""})
            near = compress(partitions.available, (rack and item == rack for item in partitions.racks))
            self._near[topic] = tuple(near) or led
        return self._near[topic]

    def addressable(self, topic: str) -> tuple[TopicPartition, ...]:
        return self.selectable(topic)

    def check(self, rows: Rows, options: WriteOptions) -> None:
        from .producer import check_records

        # A null value is a valid record: a tombstone.
        rows.refuse_null_topics()
        check_records(rows.records, options.message_size_max)

    def sender(self, options: WriteOptions) -> Producer:
        from .producer import Producer

        return Producer(self._metadata, options)

    @property
    def topic_ids(self) -> dict[str, uuid.UUID]:
        """Ids that topics must keep during the write."""
        return {topic: known.topic_id for topic, known in self._known.items() if known.topic_id}

    def _new_metadata(self) -> Metadata:
        net, delivery = self._options.net, self._options.delivery
        timeout_s = min(net.retry.retry_timeout_s, delivery.metadata_timeout_s)
        net = replace(net, retry=replace(net.retry, retry_timeout_s=timeout_s))
        servers, by_brokers = self._options.discovery.bootstrap_servers, not delivery.creates_topics
        return Metadata(servers, net, creates_topics=by_brokers, topic_ids=self.topic_ids)

    def _partitions(self, topic: str) -> KnownPartitions:
        if topic in self._missing:  # an earlier call waited for it
            raise self._missing[topic]
        if topic not in self._known:
            partitions = self._await_partitions(topic)
            leaders = self._metadata.known_leaders(partitions)
            available = tuple(tp for tp in partitions if tp in leaders)
            racks: tuple[str, ...] = ()
            if self._options.delivery.rack is not None:
                of_brokers = self._metadata.racks
                racks = tuple(of_brokers.get(leaders[tp].broker.id, "") for tp in available)
            self._known[topic] = KnownPartitions(partitions, available, racks, self._metadata.id_of(topic))
        return self._known[topic]

    def _meant(self, topic: str) -> str:
        """The topics that the name may be meant for, as a part of an error."""
        with contextlib.suppress(KafkaWireError):  # a user who may not list topics still gets the error
            others = [item for item in self._metadata.topics() if item.name != topic]
            return meant_topics([topic], (item.name for item in others if not item.is_internal))
        return ""

    def _await_partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        timeout_s = self._options.delivery.metadata_timeout_s
        stop_s = time.monotonic() + timeout_s
        must_create, is_created = self._options.delivery.creates_topics, False
        while True:
            try:
                partitions = self._metadata.partitions_of(topic)
                led_count = len(self._metadata.known_leaders(partitions))
                if not is_created or led_count == len(partitions) or time.monotonic() > stop_s:
                    return partitions
                self._metadata.forget(topic)
            except KafkaWireError as error:
                is_led_later = isinstance(error, BrokerError) and error.code == ErrorCode.LEADER_NOT_AVAILABLE
                if not is_led_later and not isinstance(error, UnknownTopicError):
                    raise
                if must_create and not is_created:
                    self._create(topic)
                    is_created = True
                    continue
                if time.monotonic() > stop_s:
                    raise UnknownTopicError(
                        f"topic {quote(topic)} is not there after {timeout_s:g} s "
                        "(kafka.max.block.ms), and the brokers do not make it (auto.create.topics.enable); "
                        f"create it{self._meant(topic)}: {error}"
                    ) from error
            time.sleep(_POLL_INTERVAL_S)

    def _create(self, topic: str) -> None:
        """Create a topic, unless another writer has. Raises as ``create_topics``."""
        from spark_kafkawire.cluster.modern.admin import create_topics
        from spark_kafkawire.protocol.modern.admin import BROKER_DEFAULT

        delivery = self._options.delivery
        count = delivery.topic_partitions or BROKER_DEFAULT
        replicas = delivery.topic_replicas or BROKER_DEFAULT
        create_topics(self._metadata, {topic: count}, self._options.net, replicas)
        LOG.info("created the topic %s (createTopic=true), unless another writer did", quote(topic))
