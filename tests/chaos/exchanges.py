"""Whole reads, writes, reports and creations of topics, without Spark, each with its result from an honest
broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.cluster.modern.admin import create_topics
from spark_kafkawire.cluster.modern.delegation_tokens import (
    USED_BY_BATCHES,
    expire_tokens,
    login_of_tasks,
)
from spark_kafkawire.cluster.modern.groups import CoordinatedGroup, describe_groups
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.jobs.offsets.run import Surveyed
from spark_kafkawire.kept import forget_all
from spark_kafkawire.model import Generation, TopicPartition, WireFormat
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol import modern, proposal, v07
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern import fetch, group_members, negotiation
from tests.records.batches import TRANSACTIONAL, marker, record
from tests.records.batches import batch as plain_batch
from tests.support.log_broker import OFFERED
from tests.support.table_reading import rows_of as rows_of_table

from .lying_broker import (
    GROUP,
    LED_GROUP,
    CompactedLog,
    Liar,
    LyingProxy,
    LyingServer,
    SequencedLog,
    TransactedLog,
    lying_proxy,
)
from .operation import SECRET
from .reading import read
from .truth import Row, place

TOPIC: Final = "t"
OTHER_TOPIC: Final = "other"
NEW_TOPIC: Final = "new"
GAPPY_TOPIC: Final = "gappy"
TRANSACTED_TOPIC: Final = "transacted"
#: Time of the first record of the topic's second batch, ms, and of that before it.
SECOND_MS: Final = 1_750_000_060_000
FIRST_MS: Final = 1_750_000_000_000

_NET: Final = {"retries": "1", "retryBackoff": "1ms"}
_READ: Final = {
    "includeHeaders": "true",
    "subscribe": TOPIC,
    "kafka.group.id": GROUP,
    "kafkaConsumer.pollTimeoutMs": "1",
    "fetchOffset.retryIntervalMs": "1",
    "fetchOffset.numRetries": "1",
}
_WRITE: Final = {"topic": TOPIC, "kafka.max.block.ms": "1"}
#: How much longer than a request a delivery may take: while the broker is honest it must not end.
_DELIVERY_FACTOR: Final = 5
_LOGIN: Final = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="u" password="{SECRET}";',
}
#: Rows of a write: keys and values.
_WRITTEN: Final = [(b"k1", b"one"), (None, b"two"), (b"k3", b"three")]


def batch(first: int, count: int, time_ms: int, topic: str = TOPIC) -> bytes:
    """One batch of numbered records with keys, headers and times."""
    numbers = range(first, first + count)
    records = [
        record(i, f"{topic} {n}".encode(), b"k%d" % (n % 3), ((b"h", b"%d" % n),), i)
        for i, n in enumerate(numbers)
    ]
    return plain_batch(records, timestamps=(time_ms + first, time_ms + numbers[-1]))


def logs() -> dict[str, Sequence[SequencedLog]]:
    """Two partitions of the topic that is read, of which the first has two batches, and other topics."""
    return {
        TOPIC: [
            SequencedLog(batch(0, 5, FIRST_MS), batch(5, 7, SECOND_MS)),
            SequencedLog(batch(100, 3, FIRST_MS)),
        ],
        OTHER_TOPIC: [SequencedLog(batch(200, 4, FIRST_MS, OTHER_TOPIC))],
        GAPPY_TOPIC: [CompactedLog(2, batch(300, 3, FIRST_MS, GAPPY_TOPIC))],
        TRANSACTED_TOPIC: [transacted()],
    }


def transacted() -> TransactedLog:
    """An aborted transaction of producer 1 and a committed one of producer 2, side by side."""
    written = [(b"a", 1, 0), (b"b", 2, 0), (b"c", 1, 1)]
    batches = [
        plain_batch([record(0, value)], attributes=TRANSACTIONAL, producer=(producer_id, 0, sequence))
        for value, producer_id, sequence in written
    ]
    aborted = fetch.AbortedTransaction(producer_id=1, first_offset=0)
    return TransactedLog(
        [aborted], *batches, marker(3, 1, 0), marker(4, 2, 1), batch(400, 2, FIRST_MS, TRANSACTED_TOPIC)
    )


#: Records of another log, as a broker that mixes up its files would send them.
OTHER_RECORDS: Final = batch(200, 4, FIRST_MS, OTHER_TOPIC)


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """Something that asks a broker questions: which, and how; ``options`` beside those of the network.

    ``least`` are the first versions in which the broker of these tests answers it whole.
    """

    name: str
    apis: tuple[Api, ...]
    steps: Callable[[dict[str, str], Any], Any]
    options: Mapping[str, str]
    least: Mapping[int, int]
    generation: Generation = Generation.MODERN
    #: Last versions that it asks, where it does not ask all.
    most: Mapping[int, int] = field(default_factory=dict)
    #: None for the generation's own.
    proposed: WireFormat | None = None

    @property
    def wire_format(self) -> WireFormat:
        """Wire format of the APIs that the liar changes."""
        return self.proposed or self.generation.wire_format

    def serving(self, liar: Liar, api: Api, version: int) -> AbstractContextManager[Any]:
        """A broker of the generation, that speaks one version of an API only, and its liar."""
        serving: dict[Generation, Callable[[], AbstractContextManager[Any]]] = {
            Generation.V07: lambda: lying_proxy(liar),
            Generation.MODERN: lambda: LyingServer(logs(), liar, self.offered(api, version)),
        }
        return serving[self.generation]()

    def versions(self, api: Api) -> range:
        """The versions of an API in which it can be told lies."""
        most = min(api.versions.max, self.most.get(api.key, api.versions.max))
        return range(max(api.versions.min, self.least.get(api.key, 0)), most + 1)

    def offered(self, api: Api, version: int) -> dict[int, VersionRange]:
        """Versions that a broker offers that speaks one version of an API only."""
        least = {key: VersionRange(least, OFFERED[key].max) for key, least in self.least.items()}
        return {**OFFERED, **least, api.key: VersionRange(version, version)}

    def run(self, server: LyingServer | LyingProxy, timeout_s: float) -> Any:
        """Result of the whole exchange, from the first connection on."""
        POOL.close_idle()
        options = {
            **server.discovery,
            "requestTimeout": f"{timeout_s * 1000:.0f}ms",
            **_NET,
            **self.options,
        }
        return self.steps(options, server)


def rows_of(options: Mapping[str, str]) -> list[Row]:
    """All rows of a read, by topic, partition and offset."""
    return sorted(read(dict(options)), key=place)


def _read(options: dict[str, str], _server: LyingServer) -> Any:
    given = {**_READ, **options}
    if "subscribePattern" in given:
        del given["subscribe"]
    return rows_of(given)


def _write(options: dict[str, str], server: LyingServer) -> Any:
    """Counts that a write reports, and the content of the logs after it."""
    delivery_ms = _DELIVERY_FACTOR * int(options["requestTimeout"].removesuffix("ms"))
    source = KafkaWireDataSource({**_WRITE, "kafka.delivery.timeout.ms": f"{delivery_ms}", **options})
    names, kinds = ("key", "value", "partition"), (BinaryType(), BinaryType(), IntegerType())
    schema = StructType([StructField(*field) for field in zip(names, kinds, strict=True)])
    writer: Any = source.writer(schema, False)
    keys, values = zip(*_WRITTEN, strict=True)
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array([0, 0, 1], pa.int32())]
    rows = pa.record_batch(columns, names=list(names))
    message = writer.write(iter([rows]))
    writer.commit([message])
    reported = message.totals.message_count, tuple(receipt.topic_partition for receipt in message.receipts)
    # A reader that nobody lies to is the judge.
    with LyingServer(server.kept, lambda _: None) as judge:
        rows = rows_of({**judge.discovery, "requestTimeout": "60s", "subscribePattern": ".*"})
    identified = {log.is_identified[-1] for item in server.kept.values() for log in item if log.is_new}
    return (
        *reported,
        identified,
        [(row.topic, row.partition, row.key, row.value) for row in rows],
    )


def _write_without_identity(options: dict[str, str], server: LyingServer) -> Any:
    """The same, but that what is sent again may be there again."""
    *reported, rows = _write({**options, "kafka.enable.idempotence": "false"}, server)
    return *reported, set(rows)


def _report(options: dict[str, str], _server: LyingServer) -> Any:
    """All that the offsets job tells of logs and of a group."""
    surveyed = Surveyed.of({**options, "fetchOffset.retryIntervalMs": "1", "fetchOffset.numRetries": "1"})
    reported = surveyed.report(
        surveyed.groups_with_offsets(lambda _: None), lambda _: None, clock=lambda: 0.0
    )
    return (
        reported.groups,
        reported.logs,
        reported.unknown,
        [surveyed.cluster.groups.members(group) for group in (GROUP, LED_GROUP)],
    )


def _tables(options: dict[str, str], _server: LyingServer) -> Any:
    """Tables with what no other exchange asks for."""
    read = {**options, "fetchOffset.retryIntervalMs": "1", "fetchOffset.numRetries": "1"}
    return [
        rows_of_table({**read, "table": table}, columns)
        for table, columns in (
            ("brokers", ("broker", "bytes", "totalBytes", "usableBytes")),
            ("partitions", ("topic", "partition", "bytes")),
            ("producers", ()),
        )
    ]


def _members_of(kind: str, options: dict[str, str], _server: LyingServer) -> Any:
    """Members of a group of that kind, as the table of members asks for them."""
    read = ReadOptions.parse({**options, "subscribe": TOPIC})
    [broker] = Metadata(read.discovery.bootstrap_servers, read.net).known_brokers()
    group = group_members.ListedGroup(group_id=GROUP, protocol_type=kind, group_type=kind.title())
    result = describe_groups([CoordinatedGroup(broker, group)], read.net)
    return {name: [member.id for member in item.members] for name, item in result.items()}


def _commit(options: dict[str, str], server: LyingServer) -> Any:
    surveyed = Surveyed.of({**options, "subscribe": TOPIC})
    offsets = {TopicPartition(TOPIC, 0): 3, TopicPartition(TOPIC, 1): 2}
    surveyed.cluster.groups.commit(GROUP, offsets)
    return dict(server.honest.commits)


def _create(options: dict[str, str], server: LyingServer) -> Any:
    read = ReadOptions.parse({**options, "subscribe": TOPIC})
    metadata = Metadata(read.discovery.bootstrap_servers, read.net)
    create_topics(metadata, {NEW_TOPIC: 3}, read.net)
    return dict(server.honest.created)


def _delegate(options: dict[str, str], _server: LyingServer) -> Any:
    """A token that is created, renewed and expired. Whose it is shows a login with it, which is not here."""
    forget_all()
    net = ReadOptions.parse({**options, "delegationTokens": "true", "subscribe": TOPIC}).net
    mechanisms = [login_of_tasks(net, used).mechanism for used in (USED_BY_BATCHES, 0.0)]
    expire_tokens(net)
    return mechanisms


def _transact(options: dict[str, str], server: LyingServer) -> Any:
    """A transaction that holds two partitions and a group's offset, and what the broker noted of it."""
    read = ReadOptions.parse({**options, "subscribe": TOPIC})
    metadata = Metadata(read.discovery.bootstrap_servers, read.net)
    metadata.refresh([TOPIC])  # whose id the newest request needs
    transactions = Transactions(metadata, read.net)
    in_two_phases = server.honest.offered[modern.INIT_PRODUCER_ID.key].min > _ONE_PHASE_UNTIL
    begun = transactions.begin("x", 60_000, two_phase_commit=in_two_phases)
    transactions.add_partitions(begun, [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
    transactions.commit_offsets(begun, GROUP, {TopicPartition(TOPIC, 0): (7, "text")})
    described, listed = transactions.describe("x"), transactions.listed()
    reported = described.transaction_state, described.producer_id, described.producer_epoch, begun.version
    after = transactions.end(begun, committed=True)
    # What is sent again is noted again.
    noted = list(dict.fromkeys(server.honest.transactions["x"]))
    return reported, [item.transactional_id for item in listed], after.epoch, noted


def _read_v07(options: dict[str, str], _server: LyingProxy) -> Any:
    return rows_of({"subscribe": TOPIC, **options})


def _write_v07(options: dict[str, str], server: LyingProxy) -> Any:
    """Counts that a write reports, and the content of the logs after it."""
    source = KafkaWireDataSource({"topic": TOPIC, **options})
    writer: Any = source.writer(StructType([StructField("value", BinaryType())]), False)
    values = pa.array([value for _, value in _WRITTEN], pa.binary())
    message = writer.write(iter([pa.record_batch([values], names=["value"])]))
    writer.commit([message])
    rows = rows_of({**server.honest_discovery, "requestTimeout": "60s", "subscribe": TOPIC})
    # A task draws the partitions that it writes to.
    return message.totals.message_count, sorted(row.value or b"" for row in rows)


_BEFORE: Final = (modern.API_VERSIONS, modern.METADATA)
#: The broker of these tests keeps batches as they are since Kafka 0.11, and finds them by time.
_LEAST: Final = {modern.PRODUCE.key: 3, modern.LIST_OFFSETS.key: 1, modern.FETCH.key: 4}
#: Last version of InitProducerId without commits in two phases.
_ONE_PHASE_UNTIL: Final = 5
_V07: Final = (v07.OFFSETS, v07.MULTIFETCH)
_IN_GROUP: Final = (*_BEFORE, modern.FIND_COORDINATOR, modern.OFFSET_FETCH)


def _modern(
    name: str,
    apis: tuple[Api, ...],
    steps: Callable[[dict[str, str], Any], Any],
    options: Mapping[str, str] = MappingProxyType({}),
    least: Mapping[int, int] = MappingProxyType({}),
) -> Exchange:
    most = {} if steps is _transact else {modern.INIT_PRODUCER_ID.key: _ONE_PHASE_UNTIL}
    # The answer to a later ApiVersions, which tells the ids of a known broker, has the same fields.
    most |= {modern.API_VERSIONS.key: negotiation.IDENTITY_SINCE - 1}
    return Exchange(name, apis, steps, options, {**_LEAST, **least}, most=most)


def _v07(name: str, apis: tuple[Api, ...], steps: Callable[..., Any], **options: str) -> Exchange:
    proposed = WireFormat.PROPOSAL if "wireFormat" in options else None
    return Exchange(name, apis, steps, options, {}, Generation.V07, proposed=proposed)


_SHAKEN: Final = {modern.SASL_HANDSHAKE.key: 1}
EXCHANGES: Final = (
    _modern("read", (*_BEFORE, modern.LIST_OFFSETS, modern.FETCH), _read),
    _modern("read what is committed", (modern.LIST_OFFSETS, modern.FETCH), _read,
            {"subscribe": TRANSACTED_TOPIC, "kafka.isolation.level": "read_committed"}),
    _modern("read from a group's offsets", (*_IN_GROUP, modern.LIST_OFFSETS, modern.FETCH), _read,
            {"startingOffsets": "committed"}),
    _modern("read from a time", (modern.LIST_OFFSETS,), _read,
            {"startingTimestamp": str(SECOND_MS), "startingOffsetsByTimestampStrategy": "latest"}),
    _modern("read what compaction left",
            (modern.METADATA, modern.LIST_OFFSETS, modern.FETCH, modern.DESCRIBE_CONFIGS), _read,
            {"subscribe": GAPPY_TOPIC, "retries": "5"}),
    _modern("read a pattern", (*_BEFORE, modern.LIST_OFFSETS), _read, {"subscribePattern": "t|oth.*"}),
    _modern("log in and read", (modern.API_VERSIONS, modern.SASL_HANDSHAKE, modern.SASL_AUTHENTICATE), _read,
            _LOGIN, _SHAKEN),
    _modern("write", (*_BEFORE, modern.INIT_PRODUCER_ID, modern.PRODUCE), _write),
    _modern("write without identity", (modern.PRODUCE,), _write_without_identity),
    _modern("report", (*_IN_GROUP, modern.LIST_OFFSETS, modern.LIST_GROUPS, modern.DESCRIBE_GROUPS,
                       modern.CONSUMER_GROUP_DESCRIBE), _report,
            least={modern.OFFSET_FETCH.key: 2, modern.LIST_OFFSETS.key: 7}),
    _modern("tables", (modern.DESCRIBE_LOG_DIRS, modern.DESCRIBE_PRODUCERS), _tables),
    _modern("share group", (*_BEFORE, modern.SHARE_GROUP_DESCRIBE), partial(_members_of, "share")),
    _modern("streams group", (*_BEFORE, modern.STREAMS_GROUP_DESCRIBE), partial(_members_of, "streams")),
    _modern("commit", (*_BEFORE, modern.FIND_COORDINATOR, modern.OFFSET_COMMIT), _commit),
    _modern("transact", (*_BEFORE, modern.FIND_COORDINATOR, modern.INIT_PRODUCER_ID,
                         modern.ADD_PARTITIONS_TO_TXN, modern.ADD_OFFSETS_TO_TXN, modern.TXN_OFFSET_COMMIT,
                         modern.END_TXN, modern.DESCRIBE_TRANSACTIONS, modern.LIST_TRANSACTIONS), _transact,
            least={modern.FIND_COORDINATOR.key: 1}),
    _modern("delegate", (modern.CREATE_DELEGATION_TOKEN, modern.RENEW_DELEGATION_TOKEN,
                         modern.EXPIRE_DELEGATION_TOKEN), _delegate, _LOGIN, _SHAKEN),
    _modern("create a topic", (*_BEFORE, modern.CREATE_TOPICS), _create,
            least={modern.CREATE_TOPICS.key: 4, modern.METADATA.key: 1}),
    _v07("read 0.7", (*_V07, v07.FETCH), _read_v07),
    _v07("write 0.7", _V07, _write_v07),
    _v07("write 0.7 and verify", (v07.OFFSETS, v07.FETCH), _write_v07, acks="verify"),
    _v07("read the proposal", (proposal.FETCH,), _read_v07, wireFormat="proposal"),
    _v07("write the proposal", tuple(proposal.DIALECT.apis), _write_v07, wireFormat="proposal"),
)  # fmt: skip
