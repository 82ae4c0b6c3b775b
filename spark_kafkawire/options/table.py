"""Every option: README's tables are checked against this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..protocol import modern, v07
from ..protocol.dialect import Dialect


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name as documented, its default as documented, and who takes it.

    ``dialect`` is the only one in which the option means something; None where it does in all.
    """

    name: str
    default: str | None
    meaning: str
    read: bool = True
    write: bool = True
    dialect: Dialect | None = None


def _read(name: str, default: str | None, meaning: str, dialect: Dialect | None = None) -> Option:
    return Option(name, default, meaning, write=False, dialect=dialect)


def _write(name: str, default: str | None, meaning: str, dialect: Dialect | None = None) -> Option:
    return Option(name, default, meaning, read=False, dialect=dialect)


def _modern(name: str, default: str | None, meaning: str) -> Option:
    return Option(name, default, meaning, dialect=modern.DIALECT)


def _07(name: str, default: str | None, meaning: str) -> Option:
    return Option(name, default, meaning, dialect=v07.DIALECT)


OPTIONS: Final = (
    _modern("kafka.bootstrap.servers", None, "`h:p,h:p`: some brokers of a cluster of Kafka 0.8 to 4.x"),
    _07("zookeeper.connect", None, "`h:p,h:p/chroot`: brokers and topics from ZooKeeper"),
    _07("zookeeper.auth", None, "`digest:user:password`: how to log in to ZooKeeper"),
    _07("broker.list", None, "`id:h:p,id:h:p`: the brokers, without ZooKeeper"),
    Option("requestTimeout", "30s", "deadline of each wait for a broker or for ZooKeeper"),
    Option("retries", "3", "how often a failed request is tried again (a write only connects again)"),
    Option("retryBackoff", "100ms", "wait before the first retry; it doubles, up to 10 s"),
    _modern("kafka.client.id", "spark-kafkawire", "the name that brokers log, and keep quotas by"),
    _modern("kafka.request.timeout.ms", None, "Kafka's name of `requestTimeout`"),
    _modern("kafka.retries", None, "Kafka's name of `retries`"),
    _modern("kafka.retry.backoff.ms", None, "Kafka's name of `retryBackoff`"),
    _read("subscribe", None, "topics, `a,b`"),
    _read("subscribePattern", None, "a regular expression found somewhere in the topic name"),
    _read("assign", None, '`{"t":["0-0","1-2"]}`: broker-partitions'),
    _read("startingOffsets", "earliest", '`earliest`, `latest` or `{"t":{"0-1":123}}`; -2 is earliest'),
    _read("endingOffsets", "latest", '`latest` or `{"t":{"0-1":456}}`; -1 is latest'),
    _read(
        "startingTimestamp",
        None,
        "milliseconds since 1970; beats startingOffsetsByTimestamp and startingOffsets",
    ),
    _read(
        "endingTimestamp", None, "milliseconds since 1970; beats endingOffsetsByTimestamp and endingOffsets"
    ),
    _read("startingOffsetsByTimestamp", None, '`{"t":{"0-1":1700000000000}}`; beats startingOffsets'),
    _read("endingOffsetsByTimestamp", None, '`{"t":{"0-1":1700000000000}}`; beats endingOffsets'),
    _read("startingOffsetsByTimestampStrategy", "error", "nothing is that young: `error` or `latest`"),
    _read("failOnDataLoss", "true", "`false`: a warning and what is left, where offsets are gone"),
    _read("minPartitions", None, "split large ranges into at least so many Spark partitions"),
    _read("maxBytesPerPartition", None, "split ranges larger than this"),
    _read("fetchBytes", "4MiB", "size of one fetch window"),
    _read("fetchesInFlight", "4", "fetch windows outstanding on one connection"),
    _read("maxMessageBytes", "64MiB", "a larger message is an error"),
    _read("maxDecompressedBytes", "256MiB", "what one compressed message may become"),
    _write("topic", None, "the topic to write to; beats a `topic` column"),
    _write("compression", "none", "`none`, `gzip` or `snappy`"),
    _write("compressionLevel", None, "gzip's level, 1 to 9"),
    _write("acks", "1", "`0`, `1` or `verify`: what is proven before a task succeeds"),
    _write("batchBytes", "1MiB", "bytes of messages gathered for one request"),
    _write(
        "max.message.size", str(v07.MESSAGE_SIZE_MAX), "the brokers' own setting of that name", v07.DIALECT
    ),
)
