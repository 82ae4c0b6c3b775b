"""The broker's properties: names, defaults and limits of Kafka 0.7.2.

    config = BrokerConfig.from_properties({"brokerid": "0", "log.dir": "kafka-logs"})

Each field is declared with its property name and how its text is read. Sizes are bytes.

Source: 0.7.2 server/KafkaConfig.scala, utils/ZKConfig.scala. Intended differences: ``hostname`` is loopback
by default, ZooKeeper is used only if ``zk.connect`` names it, socket buffers are the kernel's own, and
``topic.log.retention.size`` is unknown (no 0.7.2 broker starts with it: ClassCastException). ``wire.format``
does not exist in 0.7.2: it lists the wire formats of the broker.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import OptionError, quote
from ..model import WireFormat

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
#: A message of magic 0 without payload: a segment must have room for one.
SEGMENT_SIZE_MIN: Final = 5

Counts = Mapping[str, int]


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,19}", text):
            raise ValueError("must be a whole number")
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return read


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _connect_string(text: str) -> str:
    host = r"[^\s,:/]+(:[0-9]{1,5})?"
    if not re.fullmatch(rf"{host}(,{host})*(/\S*)?", text):
        raise ValueError("must be host:port,host:port/chroot")
    return text


def _wire_formats(text: str) -> frozenset[WireFormat]:
    """``0.7,proposal``: 0.7 is always one of them, because only 0.7 has OFFSETS."""
    names = [name.strip() for name in text.split(",")]
    known = {item.value: item for item in (WireFormat.V07, WireFormat.PROPOSAL)}
    if names[0] != WireFormat.V07.value or len(set(names)) != len(names) or not set(names) <= known.keys():
        raise ValueError("must be 0.7 or 0.7,proposal")
    return frozenset(known[name] for name in names)


def _per_topic(low: int) -> Callable[[str], Counts]:
    """``topic:number,topic:number``."""

    def read(text: str) -> Counts:
        pairs = [pair.rpartition(":") for pair in text.split(",") if pair]
        if any(not topic for topic, _, _ in pairs):
            raise ValueError("must be topic:number,topic:number")
        return {topic.strip(): _integer(low, INT_MAX)(number.strip()) for topic, _, number in pairs}

    return read


def _property(name: str, read: Callable[[str], object], default: object = dataclasses.MISSING) -> Any:
    metadata = {"name": name, "read": read}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """A broker's settings. ``port`` 0 is any free port; ``log_retention_size`` -1 is no limit."""

    broker_id: int = _property("brokerid", _integer(0, INT_MAX))
    log_dir: Path = _property("log.dir", lambda text: Path(_text(text)))
    hostname: str = _property("hostname", _text, "127.0.0.1")
    port: int = _property("port", _integer(0, 65535), 6667)
    socket_send_buffer: int | None = _property("socket.send.buffer", _integer(1, INT_MAX), None)
    socket_receive_buffer: int | None = _property("socket.receive.buffer", _integer(1, INT_MAX), None)
    #: Wire formats of clients, all on one port.
    wire_formats: frozenset[WireFormat] = _property(
        "wire.format", _wire_formats, frozenset((WireFormat.V07,))
    )
    max_socket_request_bytes: int = _property("max.socket.request.bytes", _integer(1, INT_MAX), 100 << 20)

    num_partitions: int = _property("num.partitions", _integer(1, INT_MAX), 1)
    topic_partition_counts: Counts = _property("topic.partition.count.map", _per_topic(1), {})
    max_topic_name_length: int = _property("max.topic.name.length", _integer(1, INT_MAX), 255)
    max_message_size: int = _property("max.message.size", _integer(0, INT_MAX), 1_000_000)

    log_file_size: int = _property("log.file.size", _integer(SEGMENT_SIZE_MIN, INT_MAX), 1 << 30)
    topic_log_file_sizes: Counts = _property("topic.log.file.size", _per_topic(1), {})
    log_roll_hours: int = _property("log.roll.hours", _integer(1, INT_MAX), 24 * 7)
    topic_log_roll_hours: Counts = _property("topic.log.roll.hours", _per_topic(1), {})

    log_flush_interval: int = _property("log.flush.interval", _integer(1, INT_MAX), 500)
    flush_check_interval_ms: int = _property(
        "log.default.flush.scheduler.interval.ms", _integer(1, INT_MAX), 3000
    )
    #: None means the value of ``flush_check_interval_ms``.
    log_flush_interval_ms: int | None = _property("log.default.flush.interval.ms", _integer(0, INT_MAX), None)
    topic_flush_intervals_ms: Counts = _property("topic.flush.intervals.ms", _per_topic(1), {})

    log_retention_hours: int = _property("log.retention.hours", _integer(1, INT_MAX), 24 * 7)
    topic_log_retention_hours: Counts = _property("topic.log.retention.hours", _per_topic(1), {})
    log_retention_size: int = _property("log.retention.size", _integer(-1, LONG_MAX), -1)
    log_cleanup_interval_mins: int = _property("log.cleanup.interval.mins", _integer(1, INT_MAX), 10)

    #: None means true if ``zk_connect`` is given.
    enable_zookeeper: bool | None = _property("enable.zookeeper", _boolean, None)
    #: ``host:port,host:port/chroot``
    zk_connect: str | None = _property("zk.connect", _connect_string, None)
    zk_session_timeout_ms: int = _property("zk.sessiontimeout.ms", _integer(1, INT_MAX), 6000)
    #: None means the value of ``zk_session_timeout_ms``.
    zk_connection_timeout_ms: int | None = _property("zk.connectiontimeout.ms", _integer(1, INT_MAX), None)

    # Known, and without effect here: there is a thread per connection, no statistics are kept,
    # and the broker only writes to ZooKeeper.
    num_threads: int | None = _property("num.threads", _integer(1, INT_MAX), None)
    monitoring_period_secs: int = _property("monitoring.period.secs", _integer(1, INT_MAX), 600)
    zk_sync_time_ms: int = _property("zk.synctime.ms", _integer(0, INT_MAX), 2000)

    def __post_init__(self) -> None:
        if self.enable_zookeeper and self.zk_connect is None:
            raise OptionError("property enable.zookeeper is true and zk.connect is missing: give zk.connect")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Read the settings from 0.7 properties.

        Raises ``OptionError`` (fatal) for an unknown, malformed or missing property.
        """
        fields = {field.metadata["name"]: field for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for name, text in properties.items():
            if name not in fields:
                raise OptionError(
                    f"property {quote(name)} is unknown to a 0.7.2 broker: correct or remove it"
                )
            try:
                values[fields[name].name] = fields[name].metadata["read"](text)
            except ValueError as error:
                raise OptionError(f"property {name}={quote(text)} is malformed: {error}") from error
        for field in fields.values():
            is_required = field.default is field.default_factory is dataclasses.MISSING
            if is_required and field.name not in values:
                raise OptionError(f"property {quote(field.metadata['name'])} is missing: set it")
        return cls(**values)

    @property
    def zookeeper(self) -> str | None:
        """The ZooKeeper to register in; None without registration."""
        return None if self.enable_zookeeper is False else self.zk_connect

    def partition_count(self, topic: str) -> int:
        """Number of partitions of the topic on this broker."""
        return self.topic_partition_counts.get(topic, self.num_partitions)

    def flush_interval_ms(self, topic: str) -> int:
        """Longest time that an append to the topic may stay invisible, up to the next check."""
        default = self.log_flush_interval_ms
        default = self.flush_check_interval_ms if default is None else default
        return self.topic_flush_intervals_ms.get(topic, default)

    def segment_size_max(self, topic: str) -> int:
        """Size from which on the topic's segments are closed."""
        return self.topic_log_file_sizes.get(topic, self.log_file_size)

    def segment_age_max_ms(self, topic: str) -> int:
        """Age of its first append at which a segment of the topic is closed."""
        return self.topic_log_roll_hours.get(topic, self.log_roll_hours) * 3_600_000

    def retention_ms(self, topic: str) -> int:
        """Age of its last append at which a segment of the topic is deleted."""
        return self.topic_log_retention_hours.get(topic, self.log_retention_hours) * 3_600_000
