"""Every option: the tables of ``docs/options.md`` are checked against this one."""

from __future__ import annotations

from typing import Final

from ..model import Generation
from .compression import LEVEL_OPTIONS, compressions_meaning, levels_meaning
from .key_order_table import KEY_ORDER_OPTIONS
from .option import Option, batch_read, modern, of_07, read, write

#: Largest payload that a broker of 0.7 stores unless it is told otherwise, bytes. It drops a message set
#: with a larger one in silence.
_MESSAGE_SIZE_MAX: Final = 1_000_000

OPTIONS: Final = (
    modern("kafka.bootstrap.servers", None, "`h:p,h:p`: some brokers of a cluster of Kafka 0.8 to 4.x"),
    of_07("zookeeper.connect", None, "`h:p,h:p/chroot`: brokers and topics from ZooKeeper"),
    of_07("zookeeper.auth", None, "`digest:user:password`: how to log in to ZooKeeper"),
    of_07("broker.list", None, "`id:h:p,id:h:p`: the brokers, without ZooKeeper"),
    of_07(
        "expectedBrokers",
        None,
        "how many brokers there must be, or their ids, `0,1,2`: fewer or others are an error",
    ),
    of_07(
        "wireFormat",
        "0.7",
        "`proposal`: messages travel in the format that was proposed for 0.8, to brokers that speak it; see "
        "[The New Wire Format Proposal](kafka-0.7.md#the-new-wire-format-proposal)",
    ),
    Option("requestTimeout", "30s", "deadline of each wait for a broker or for ZooKeeper"),
    Option(
        "patience",
        "60s",
        "how long a broker that restarts is waited for, whatever `retries` is; `120s` for streams, `0s` "
        "where `retries` is set and this is not",
    ),
    Option("retries", "3", "how often a failed request is tried again; a 0.7 write only connects again"),
    Option("retryBackoff", "100ms", "wait before the first retry; it doubles, up to 10 s"),
    modern("kafka.client.id", "spark-kafkawire", "the name that brokers log, and keep quotas by"),
    modern("kafka.request.timeout.ms", None, "Kafka's name of `requestTimeout`"),
    modern("kafka.retries", None, "Kafka's name of `retries`"),
    modern("kafka.retry.backoff.ms", None, "Kafka's name of `retryBackoff`"),
    modern(
        "kafka.api.version.request",
        "true",
        "`false`: ask no broker for its versions, all are of `kafka.broker.version.fallback`",
    ),
    modern("kafka.broker.version.fallback", None, "`0.8` or `0.9`, or exactly, `0.8.2.2`"),
    modern("kafka.security.protocol", "PLAINTEXT", "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"),
    modern("kafka.ssl.truststore.type", None, "`PEM`, the one kind that is read"),
    modern(
        "kafka.ssl.truststore.location",
        None,
        "PEM file of authorities to trust, on the driver; without it the system's",
    ),
    modern("kafka.ssl.truststore.certificates", None, "the same as text"),
    modern("kafka.ssl.keystore.type", None, "`PEM`, the one kind that is read"),
    modern(
        "kafka.ssl.keystore.location", None, "PEM file of the client's key and certificates, on the driver"
    ),
    modern("kafka.ssl.keystore.key", None, "the client's key as PEM text"),
    modern("kafka.ssl.keystore.certificate.chain", None, "the client's certificates as PEM text"),
    modern("kafka.ssl.key.password", None, "what the client's key is encrypted with"),
    modern(
        "kafka.ssl.endpoint.identification.algorithm",
        "https",
        "nothing instead gives up the check of host names",
    ),
    modern("kafka.sasl.mechanism", None, "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`"),
    modern("kafka.sasl.jaas.config", None, "the login module with its secrets, as Java has it"),
    modern(
        "kafka.sasl.oauthbearer.token.endpoint.url",
        None,
        "where tokens are got for `clientId` and `clientSecret`; https",
    ),
    read("subscribe", None, "topics, `a,b`"),
    read(
        "subscribePattern", None, "a regular expression, as Java reads it, found somewhere in the topic name"
    ),
    read("assign", None, '`{"t":[0,1]}`: partitions; in 0.7 `{"t":["0-0","1-2"]}`: broker-partitions'),
    read(
        "startingOffsets",
        "earliest",
        '`earliest`, `committed` by `kafka.group.id`, or `{"t":{"0":23}}`, in 0.7 `{"t":{"0-1":123}}`; -2 is '
        "earliest",
    ),
    batch_read(
        "endingOffsets", "latest", '`latest` or `{"t":{"0":42}}`, in 0.7 `{"t":{"0-1":456}}`; -1 is latest'
    ),
    read(
        "startingTimestamp",
        None,
        "milliseconds since 1970; beats startingOffsetsByTimestamp and startingOffsets",
    ),
    batch_read(
        "endingTimestamp", None, "milliseconds since 1970; beats endingOffsetsByTimestamp and endingOffsets"
    ),
    read("startingOffsetsByTimestamp", None, '`{"t":{"0":1700000000000}}`; beats startingOffsets'),
    batch_read("endingOffsetsByTimestamp", None, '`{"t":{"0":1700000000000}}`; beats endingOffsets'),
    read("startingOffsetsByTimestampStrategy", "error", "nothing is that young: `error` or `latest`"),
    read("failOnDataLoss", "true", "`false`: a warning and what is left, where offsets are gone"),
    read("minPartitions", None, "split large ranges into at least so many Spark partitions"),
    read("maxBytesPerPartition", None, "split ranges larger than this", Generation.V07),
    read("maxRecordsPerPartition", None, "split ranges of more offsets than this", Generation.MODERN),
    modern("includeHeaders", "false", "`true`: a column `headers`; a write takes that column anyhow"),
    read(
        "kafka.isolation.level",
        "read_uncommitted",
        "or `read_committed`: no record of a transaction that is open or was aborted",
        Generation.MODERN,
    ),
    read(
        "kafka.group.id",
        None,
        "the group of `startingOffsets=committed`; no group is joined",
        Generation.MODERN,
    ),
    read("groupIdPrefix", None, "means nothing: no group is joined", Generation.MODERN),
    read(
        "kafkaConsumer.pollTimeoutMs",
        "120000",
        "how long a task waits for records that are due, or for a leader, whatever `retries` is",
        Generation.MODERN,
    ),
    read("fetchOffset.numRetries", None, "`retries` of planning", Generation.MODERN),
    read("fetchOffset.retryIntervalMs", None, "`retryBackoff` of planning", Generation.MODERN),
    read(
        "fetchBytes",
        "4MiB",
        "size of one fetch, which must arrive within `requestTimeout`; `12MiB` by default from 0.8 on",
    ),
    read("kafka.max.partition.fetch.bytes", "12MiB", "Kafka's name of `fetchBytes`", Generation.MODERN),
    read("kafka.fetch.max.wait.ms", "500", "how long a broker waits for a record", Generation.MODERN),
    read("fetchesInFlight", "4", "fetches outstanding on one connection", Generation.V07),
    read("maxMessageBytes", "64MiB", "a larger message is an error"),
    read(
        "maxDecompressedBytes",
        "256MiB",
        "what one compressed message may become; each one in it counts as 128 bytes at least (256 in Kafka "
        "0.8 to 0.10)",
    ),
    *KEY_ORDER_OPTIONS,
    write("topic", None, "the topic to write to; beats a `topic` column"),
    write(
        "partitioner",
        "murmur2",
        "where keys go: Java's `murmur2`, librdkafka's `consistent` (null keys in one partition) and "
        "`consistent_random`; `roundrobin`, row by row, and `sticky`, run by run, heed no key",
    ),
    write(
        "partitionerSeed",
        None,
        "a whole number by which each task draws, alike in each run, where its rows without keys go first",
    ),
    write(
        "kafka.partitioner.class",
        None,
        "Java's name of `murmur2`, `roundrobin` or `sticky`",
        Generation.MODERN,
    ),
    write("kafka.partitioner.ignore.keys", "false", "`true`: `murmur2` becomes `sticky`", Generation.MODERN),
    write(
        "kafka.partitioner.adaptive.partitioning.enable",
        "true",
        "fewer of the rows without keys go to brokers that do not keep up; `false`: as many; not with "
        "`partitionerSeed`, nor `delivery=exactly-once`",
        Generation.MODERN,
    ),
    write(
        "kafka.partitioner.availability.timeout.ms",
        "0",
        "none go to a broker that has answered nothing for so long, while others do; `0`: however long",
        Generation.MODERN,
    ),
    write("compression", "none", compressions_meaning()),
    write("kafka.compression.type", None, "Kafka's name of `compression`", Generation.MODERN),
    write("compressionLevel", None, levels_meaning()),
    *(
        write(name, None, "Kafka's name of `compressionLevel`", Generation.MODERN)
        for name in LEVEL_OPTIONS.values()
    ),
    write(
        "acks",
        None,
        "what is proven before a task succeeds: `0`, `1` or `verify` in 0.7 (`1` unless set), `0`, `1` or "
        "`all` later (`all`)",
    ),
    write("kafka.acks", None, "Kafka's name of `acks`", Generation.MODERN),
    write("batchBytes", "1MiB", "bytes of messages gathered for one request, or for one batch from 0.8 on"),
    write("kafka.batch.size", None, "Kafka's name of `batchBytes`", Generation.MODERN),
    write(
        "max.message.size", str(_MESSAGE_SIZE_MAX), "the brokers' own setting of that name", Generation.V07
    ),
    write(
        "kafka.enable.idempotence",
        None,
        "a batch that is sent again is stored once: `true` unless options set otherwise forbid it",
        Generation.MODERN,
    ),
    write(
        "delivery",
        "at-least-once",
        "or `exactly-once`: all rows are there once, or none; see [Exactly once](exactly-once.md)",
        Generation.MODERN,
    ),
    write(
        "kafka.transactional.id",
        None,
        "names the write, or the stream, for `delivery=exactly-once`: a second run writes nothing; must be "
        "given for streams",
        Generation.MODERN,
    ),
    write(
        "batch",
        None,
        "which of the writes of one `kafka.transactional.id` it is; not for streams, which count theirs",
        Generation.MODERN,
    ),
    write(
        "kafka.transaction.timeout.ms",
        None,
        "how long a task's transaction may stay open: 15 min, or what brokers allow where that is less",
        Generation.MODERN,
    ),
    write(
        "twoPhaseCommit",
        "false",
        "`true`: no timeout ends transactions, where brokers allow that (KIP-939)",
        Generation.MODERN,
    ),
    write("kafka.max.request.size", "1048576", "largest record, and largest request", Generation.MODERN),
    write("kafka.buffer.memory", "33554432", "bytes that a task gathers before it sends", Generation.MODERN),
    write(
        "kafka.max.in.flight.requests.per.connection",
        "5",
        "requests that wait for a broker at the same time",
        Generation.MODERN,
    ),
    write(
        "kafka.delivery.timeout.ms", "120000", "how long a batch is tried to be delivered", Generation.MODERN
    ),
    write("kafka.max.block.ms", "60000", "how long a topic is waited for", Generation.MODERN),
    write("kafka.linger.ms", "0", "means nothing: a batch waits until it is full", Generation.MODERN),
)
