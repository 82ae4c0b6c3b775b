"""The partitions that rows of a topic may go to, in a cluster of modern brokers."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ....cluster.modern.metadata import Metadata
from ....errors import BrokerError, KafkaWireError, UnknownTopicError, quoted
from ....model import TopicPartition
from ....net.known_versions import KNOWN
from ....options import WriteOptions
from ....protocol.modern.error_codes import ErrorCode

if TYPE_CHECKING:
    from ..rows import Rows
    from .producer import Producer

#: Longest topic name, characters. Source: org.apache.kafka.common.internals.Topic.
TOPIC_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]*")
#: How often a topic that is being made is looked for, seconds.
_POLL_INTERVAL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Logs:
    """The partitions of a topic, sorted by number, and those of them that had a leader."""

    all: tuple[TopicPartition, ...]
    led: tuple[TopicPartition, ...]


class Targets:
    """Partitions that are known, and a cluster to ask for others. It travels to the tasks without
    what was learned on the way, but for the partitions that all tasks must agree on.

    Planning and committing have no rows: how these are checked and sent is imported by tasks alone.
    """

    def __init__(self, options: WriteOptions, known: Mapping[str, Logs] | None = None) -> None:
        self._options = options
        self._known = dict(known or {})
        self._metadata = self._new_metadata()

    @classmethod
    def discover(cls, options: WriteOptions) -> Targets:
        """Targets that are asked for when they are needed."""
        return cls(options)

    @staticmethod
    def planned(options: WriteOptions) -> WriteOptions:
        """The options with what a broker of the cluster offers now, for no task may find less. Raises
        ``TransportError`` when none answers."""
        Metadata(options.discovery.bootstrap_servers, options.net).connect()
        floor = KNOWN.floor(options.net.connection)
        return replace(options, net=options.net.of_brokers(floor))

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_known": self._known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._metadata = self._new_metadata()

    @staticmethod
    def topic_fault(topic: str) -> str | None:
        """What is wrong with a topic name, or None. Source: Topic.detectInvalidTopic."""
        if topic in ("", ".", ".."):
            return "the brokers refuse the names '', '.' and '..'"
        if len(topic) > TOPIC_LENGTH_MAX:
            return f"it has {len(topic)} characters, the brokers refuse more than {TOPIC_LENGTH_MAX}"
        if not _LEGAL.fullmatch(topic):
            return "the brokers refuse characters other than ASCII letters and digits, '.', '_' and '-'"
        return None

    def of_topic(self, topic: str) -> Targets:
        """The targets with the topic's partitions known. Raises as ``choices``."""
        return Targets(self._options, {**self._known, topic: self._logs(topic)})

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions of the topic, sorted by number; keys count those without a leader, too.

        Asking makes the topic where the brokers are set up to (``auto.create.topics.enable``); it
        is waited for as long as ``kafka.max.block.ms`` says. Raises ``UnknownTopicError`` and other
        ``DiscoveryError`` (fatal), ``TransportError`` when no broker answers.
        """
        return self._logs(topic).all

    def led(self, topic: str) -> tuple[TopicPartition, ...]:
        """The partitions that had a leader when the topic was asked for; all where none had. Raises as
        ``choices``."""
        logs = self._logs(topic)
        return logs.led or logs.all

    def nameable(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions of the topic. Raises as ``choices``."""
        return self.choices(topic)

    def check(self, rows: Rows, options: WriteOptions) -> None:
        """Refuse null topics, and records that brokers cannot store.

        Raises ``RowError`` (fatal). A null value is a record like others: a tombstone.
        """
        from .record_checks import check_records

        rows.refuse_null_topics()
        check_records(rows.records, options.message_size_max)

    def sender(self, options: WriteOptions) -> Producer:
        """A producer of its own for each task."""
        from .producer import Producer

        return Producer(self._metadata, options)

    def _new_metadata(self) -> Metadata:
        net, longest_s = self._options.net, self._options.delivery.metadata_timeout_s
        retry = replace(net.retry, patience_s=min(net.retry.patience_s, longest_s))
        servers = self._options.discovery.bootstrap_servers
        return Metadata(servers, replace(net, retry=retry), creates_topics=True)

    def _logs(self, topic: str) -> Logs:
        if topic not in self._known:
            logs = self._awaited_partitions(topic)
            leaders = self._metadata.known_leaders(logs)
            self._known[topic] = Logs(logs, tuple(log for log in logs if log in leaders))
        return self._known[topic]

    def _awaited_partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        timeout_s = self._options.delivery.metadata_timeout_s
        stop_s = time.monotonic() + timeout_s
        while True:
            try:
                return self._metadata.partitions_of(topic)
            except KafkaWireError as error:
                if not _may_appear(error):
                    raise
                if time.monotonic() > stop_s:
                    raise UnknownTopicError(
                        f"topic {quoted(topic)} is not there after {timeout_s:g} s "
                        "(kafka.max.block.ms), and the "
                        f"brokers do not make it (auto.create.topics.enable); create it: {error}"
                    ) from error
            time.sleep(_POLL_INTERVAL_S)


def _may_appear(error: KafkaWireError) -> bool:
    """Whether a topic that is just being made is answered so."""
    return isinstance(error, UnknownTopicError) or (
        isinstance(error, BrokerError) and error.code == ErrorCode.LEADER_NOT_AVAILABLE
    )
