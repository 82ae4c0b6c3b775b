"""Every option: the tables of ``docs/options.md`` are checked against this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model import Generation
from ..protocol import v07
from .compression import LEVEL_OPTIONS, compressions_meaning, levels_meaning

#: Which brokers an option is for, as the tables have it.
_BROKERS: Final = {None: "all", Generation.V07: "0.7", Generation.MODERN: "0.8 on"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name as documented, its default as documented, and who takes it.

    ``generation`` is the only one to which the option means something; None where it does to both.
    ``stream`` tells whether streams take it, too.
    """

    name: str
    default: str | None
    meaning: str
    read: bool = True
    write: bool = True
    generation: Generation | None = None
    stream: bool = True

    @property
    def brokers(self) -> str:
        """Which brokers it is for, as the tables have it; given for others it is an error."""
        return _BROKERS[self.generation]


def _read(name: str, default: str | None, meaning: str, generation: Generation | None = None) -> Option:
    return Option(name, default, meaning, write=False, generation=generation)


def _batch(name: str, default: str | None, meaning: str) -> Option:
    return Option(name, default, meaning, write=False, stream=False)


def _write(name: str, default: str | None, meaning: str, generation: Generation | None = None) -> Option:
    return Option(name, default, meaning, read=False, generation=generation)


def _modern(name: str, default: str | None, meaning: str) -> Option:
    return Option(name, default, meaning, generation=Generation.MODERN)


def _07(name: str, default: str | None, meaning: str) -> Option:
    return Option(name, default, meaning, generation=Generation.V07)


OPTIONS: Final = (
    _modern("kafka.bootstrap.servers", None, "`h:p,h:p`: some brokers of a cluster of Kafka 0.8 to 4.x"),
    _07("zookeeper.connect", None, "`h:p,h:p/chroot`: brokers and topics from ZooKeeper"),
    _07("zookeeper.auth", None, "`digest:user:password`: how to log in to ZooKeeper"),
    _07("broker.list", None, "`id:h:p,id:h:p`: the brokers, without ZooKeeper"),
    _07(
        "expectedBrokers",
        None,
        "how many brokers there must be, or their ids, `0,1,2`: fewer or others are an error",
    ),
    Option("requestTimeout", "30s", "deadline of each wait for a broker or for ZooKeeper"),
    Option(
        "patience",
        "60s",
        "how long a broker that restarts is waited for, whatever `retries` is; `0s` where `retries` is set "
        "and this is not",
    ),
    Option("retries", "3", "how often a failed request is tried again; a 0.7 write only connects again"),
    Option("retryBackoff", "100ms", "wait before the first retry; it doubles, up to 10 s"),
    _modern("kafka.client.id", "spark-kafkawire", "the name that brokers log, and keep quotas by"),
    _modern("kafka.request.timeout.ms", None, "Kafka's name of `requestTimeout`"),
    _modern("kafka.retries", None, "Kafka's name of `retries`"),
    _modern("kafka.retry.backoff.ms", None, "Kafka's name of `retryBackoff`"),
    _modern(
        "kafka.api.version.request",
        "true",
        "`false`: ask no broker for its versions, all are of `kafka.broker.version.fallback`",
    ),
    _modern("kafka.broker.version.fallback", None, "`0.8` or `0.9`, or exactly, `0.8.2.2`"),
    _modern("kafka.security.protocol", "PLAINTEXT", "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"),
    _modern("kafka.ssl.truststore.type", None, "`PEM`, the one kind that is read"),
    _modern(
        "kafka.ssl.truststore.location",
        None,
        "PEM file of authorities to trust, on the driver; without it the system's",
    ),
    _modern("kafka.ssl.truststore.certificates", None, "the same as text"),
    _modern("kafka.ssl.keystore.type", None, "`PEM`, the one kind that is read"),
    _modern(
        "kafka.ssl.keystore.location", None, "PEM file of the client's key and certificates, on the driver"
    ),
    _modern("kafka.ssl.keystore.key", None, "the client's key as PEM text"),
    _modern("kafka.ssl.keystore.certificate.chain", None, "the client's certificates as PEM text"),
    _modern("kafka.ssl.key.password", None, "what the client's key is encrypted with"),
    _modern(
        "kafka.ssl.endpoint.identification.algorithm",
        "https",
        "nothing instead gives up the check of host names",
    ),
    _modern("kafka.sasl.mechanism", None, "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`"),
    _modern("kafka.sasl.jaas.config", None, "the login module with its secrets, as Java has it"),
    _modern(
        "kafka.sasl.oauthbearer.token.endpoint.url",
        None,
        "where tokens are got for `clientId` and `clientSecret`; https",
    ),
    _read("subscribe", None, "topics, `a,b`"),
    _read(
        "subscribePattern", None, "a regular expression, as Java reads it, found somewhere in the topic name"
    ),
    _read("assign", None, '`{"t":[0,1]}`: partitions; in 0.7 `{"t":["0-0","1-2"]}`: broker-partitions'),
    _read(
        "startingOffsets",
        "earliest",
        '`earliest`, `committed` by `kafka.group.id`, or `{"t":{"0":23}}`, in 0.7 `{"t":{"0-1":123}}`; -2 is '
        "earliest",
    ),
    _batch(
        "endingOffsets", "latest", '`latest` or `{"t":{"0":42}}`, in 0.7 `{"t":{"0-1":456}}`; -1 is latest'
    ),
    _read(
        "startingTimestamp",
        None,
        "milliseconds since 1970; beats startingOffsetsByTimestamp and startingOffsets",
    ),
    _batch(
        "endingTimestamp", None, "milliseconds since 1970; beats endingOffsetsByTimestamp and endingOffsets"
    ),
    _read("startingOffsetsByTimestamp", None, '`{"t":{"0":1700000000000}}`; beats startingOffsets'),
    _batch("endingOffsetsByTimestamp", None, '`{"t":{"0":1700000000000}}`; beats endingOffsets'),
    _read("startingOffsetsByTimestampStrategy", "error", "nothing is that young: `error` or `latest`"),
    _read("failOnDataLoss", "true", "`false`: a warning and what is left, where offsets are gone"),
    _read("minPartitions", None, "split large ranges into at least so many Spark partitions"),
    _read("maxBytesPerPartition", None, "split ranges larger than this", Generation.V07),
    _read("maxRecordsPerPartition", None, "split ranges of more offsets than this", Generation.MODERN),
    _modern("includeHeaders", "false", "`true`: a column `headers`; a write takes that column anyhow"),
    _read(
        "kafka.isolation.level",
        "read_uncommitted",
        "or `read_committed`: no record of a transaction that is open or was aborted",
        Generation.MODERN,
    ),
    _read(
        "kafka.group.id",
        None,
        "the group of `startingOffsets=committed`; no group is joined",
        Generation.MODERN,
    ),
    _read("groupIdPrefix", None, "means nothing: no group is joined", Generation.MODERN),
    _read(
        "kafkaConsumer.pollTimeoutMs",
        "120000",
        "how long a task waits for records that are due, or for a leader, whatever `retries` is",
        Generation.MODERN,
    ),
    _read("fetchOffset.numRetries", None, "`retries` of planning", Generation.MODERN),
    _read("fetchOffset.retryIntervalMs", None, "`retryBackoff` of planning", Generation.MODERN),
    _read(
        "fetchBytes",
        "4MiB",
        "size of one fetch, which must arrive within `requestTimeout`; `8MiB` by default from 0.8 on",
    ),
    _read("kafka.max.partition.fetch.bytes", "8MiB", "Kafka's name of `fetchBytes`", Generation.MODERN),
    _read("kafka.fetch.max.wait.ms", "500", "how long a broker waits for a record", Generation.MODERN),
    _read("fetchesInFlight", "4", "fetches outstanding on one connection", Generation.V07),
    _read("maxMessageBytes", "64MiB", "a larger message is an error"),
    _read(
        "maxDecompressedBytes",
        "256MiB",
        "what one compressed message may become; each one in it counts as 128 bytes at least (256 in Kafka "
        "0.8 to 0.10)",
    ),
    _write("topic", None, "the topic to write to; beats a `topic` column"),
    _write(
        "partitioner",
        "murmur2",
        "where keys go: Java's `murmur2`, librdkafka's `consistent` (null keys in one partition) and "
        "`consistent_random`; `roundrobin`, row by row, and `sticky`, batch by batch, heed no key",
    ),
    _write(
        "kafka.partitioner.class",
        None,
        "Java's name of `murmur2`, `roundrobin` or `sticky`",
        Generation.MODERN,
    ),
    _write("kafka.partitioner.ignore.keys", "false", "`true`: `murmur2` becomes `sticky`", Generation.MODERN),
    _write("compression", "none", compressions_meaning()),
    _write("kafka.compression.type", None, "Kafka's name of `compression`", Generation.MODERN),
    _write("compressionLevel", None, levels_meaning()),
    *(
        _write(name, None, "Kafka's name of `compressionLevel`", Generation.MODERN)
        for name in LEVEL_OPTIONS.values()
    ),
    _write(
        "acks",
        None,
        "what is proven before a task succeeds: `0`, `1` or `verify` in 0.7 (`1` unless set), `0`, `1` or "
        "`all` later (`all`)",
    ),
    _write("kafka.acks", None, "Kafka's name of `acks`", Generation.MODERN),
    _write("batchBytes", "1MiB", "bytes of messages gathered for one request, or for one batch from 0.8 on"),
    _write("kafka.batch.size", None, "Kafka's name of `batchBytes`", Generation.MODERN),
    _write(
        "max.message.size", str(v07.MESSAGE_SIZE_MAX), "the brokers' own setting of that name", Generation.V07
    ),
    _write(
        "kafka.enable.idempotence",
        None,
        "a batch that is sent again is stored once: `true` unless options set otherwise forbid it",
        Generation.MODERN,
    ),
    _write(
        "delivery",
        "at-least-once",
        "or `exactly-once`: all rows are there once, or none; see [Exactly once](exactly-once.md)",
        Generation.MODERN,
    ),
    _write(
        "kafka.transactional.id",
        None,
        "names the write, or the stream, for `delivery=exactly-once`: a second run writes nothing; must be "
        "given for streams",
        Generation.MODERN,
    ),
    _write(
        "batch",
        None,
        "which of the writes of one `kafka.transactional.id` it is; not for streams, which count theirs",
        Generation.MODERN,
    ),
    _write(
        "kafka.transaction.timeout.ms",
        None,
        "how long a task's transaction may stay open: 15 min, or what brokers allow where that is less",
        Generation.MODERN,
    ),
    _write(
        "twoPhaseCommit",
        "false",
        "`true`: no timeout ends transactions, where brokers allow that (KIP-939)",
        Generation.MODERN,
    ),
    _write("kafka.max.request.size", "1048576", "largest record, and largest request", Generation.MODERN),
    _write("kafka.buffer.memory", "33554432", "bytes that a task gathers before it sends", Generation.MODERN),
    _write(
        "kafka.max.in.flight.requests.per.connection",
        "5",
        "requests that wait for a broker at the same time",
        Generation.MODERN,
    ),
    _write(
        "kafka.delivery.timeout.ms", "120000", "how long a batch is tried to be delivered", Generation.MODERN
    ),
    _write("kafka.max.block.ms", "60000", "how long a topic is waited for", Generation.MODERN),
    _write("kafka.linger.ms", "0", "means nothing: a batch waits until it is full", Generation.MODERN),
)

#: What streams take besides: limits of one batch, and commits to a group. Batch reads pass over them with a
#: warning, as those of Spark's own connector do. An option that is above, too, is another one to streams.
STREAM_OPTIONS: Final = (
    _read(
        "maxOffsetsPerTrigger",
        None,
        "most records of one batch, shared by the partitions in proportion to what each is behind",
        Generation.MODERN,
    ),
    _read("minOffsetsPerTrigger", None, "a batch waits until it has so many records", Generation.MODERN),
    _read("maxTriggerDelay", "15m", "how long a batch waits for `minOffsetsPerTrigger`", Generation.MODERN),
    _read(
        "maxBytesPerTrigger",
        None,
        "most bytes of one batch, which ends where segments or logs do: at least one segment of each log",
        Generation.V07,
    ),
    _read(
        "commitOffsets",
        "false",
        "`true`: commit what finished batches have read to the group, a batch late",
    ),
    _read(
        "kafka.group.id",
        None,
        "the group of `commitOffsets`, in 0.7 in ZooKeeper, and of `startingOffsets=committed`; no group is "
        "joined",
    ),
)
