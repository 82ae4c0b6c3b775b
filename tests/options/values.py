"""The table of option values of Kafka 0.7: for each option good values with what they become, and bad ones.

A new option is a new row here. Those of later brokers alone are in the tests of their group.
"""

from __future__ import annotations

import json
from typing import Any, Final

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Broker, TopicPartition, WireFormat
from spark_kafkawire.net.http import Url
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.options import (
    EARLIEST,
    LATEST,
    BadRecords,
    ColumnFormat,
    LimitKind,
    OffsetLimit,
    OffsetLimits,
    ReadOptions,
    SchemaVersion,
    TableOptions,
    TopicLayouts,
    WriteOptions,
)
from spark_kafkawire.registry import BasicLogin, BearerToken
from tests.support.golden import CORPUS

ZOOKEEPER: Final = {"zookeeper.connect": "h:2181"}
READ: Final = {**ZOOKEEPER, "subscribe": "t"}
PARTITION: Final = TopicPartition("t", 1, 0)
SECRET: Final = "s3cret"
#: Options that take the place of another one of ``READ``.
_INSTEAD_OF: Final = {
    "assign": "subscribe",
    "subscribePattern": "subscribe",
    "broker.list": "zookeeper.connect",
    "path": "zookeeper.connect",
    "paths": "zookeeper.connect",
}
#: A directory of logs, in place of brokers.
_LOGS: Final = str(CORPUS / "broker0")
_OF_LOGS: Final[dict[str, str | None]] = {"zookeeper.connect": None, "path": _LOGS}


def read(**changes: str | None) -> ReadOptions:
    """The options of a read; of a table of the cluster where the changes choose one."""
    kind: Any = TableOptions if "table" in changes else ReadOptions
    options: ReadOptions = kind.parse(merged(READ, changes))
    return options


def write(**changes: str | None) -> WriteOptions:
    return WriteOptions.parse(merged(ZOOKEEPER, changes))


def changed(name: str, value: str) -> dict[str, str | None]:
    """The changes that give an option of a read a value."""
    return {name: value, **({_INSTEAD_OF[name]: None} if name in _INSTEAD_OF else {})}


def merged(base: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**base, **changes}.items() if value is not None}


def offset(value: int) -> OffsetLimit:
    return OffsetLimit(LimitKind.OFFSET, value)


def timestamp(value: int) -> OffsetLimit:
    return OffsetLimit(LimitKind.TIMESTAMP, value)


def attribute(options: Any, path: str) -> Any:
    for name in path.split("."):
        options = getattr(options, name)
    return options


def assert_refusal(error: OptionError, name: str, value: str) -> None:
    """One short line that names the option, and the value's beginning or the log it is for."""
    message = str(error)
    assert "\n" not in message
    assert len(message) < 500
    assert message.startswith(f"option {name}: ")
    assert repr(value.strip())[1:21].lower() in message.lower() or " t 0-1 " in message


AVRO: Final[dict[str, str | None]] = {"valueFormat": "avro", "schema.registry.url": "http://r:8081"}
LOGIN: Final = {**AVRO, "basic.auth.user.info": f"me:{SECRET}:x"}
OAUTH: Final = {
    **AVRO,
    "bearer.auth.issuer.endpoint.url": "https://idp/token",
    "bearer.auth.client.id": "me",
    "bearer.auth.client.secret": SECRET,
}
#: Values of reads: the options that have one, a field of the parsed options, and what the field becomes.
READ_VALUES: Final[list[tuple[dict[str, str | None], str, Any]]] = [
    ({"brokerAddressMap": '{"Kafka-0.svc:9092":"[::1]:19092"}'}, "net.connection.address_map",
     ((("kafka-0.svc", 9092), ("::1", 19092)),)),
    ({"zookeeper.connect": " a:1 , b:2/kafka "}, "discovery.zookeeper_connect", "a:1,b:2/kafka"),
    ({"zookeeper.connect": "[::1]:2181"}, "discovery.zookeeper_connect", "[::1]:2181"),
    ({"zookeeper.connect": "host"}, "discovery.zookeeper_connect", "host"),
    ({"zookeeper.auth": f"digest:me:{SECRET}:x"}, "discovery.zookeeper_auth", ("digest", f"me:{SECRET}:x")),
    ({"zookeeper.connect": None, "broker.list": "1:b:9092, 0:[::1]:9093"}, "discovery.broker_list",
     (Broker(0, "::1", 9093), Broker(1, "b", 9092))),
    ({"requestTimeout": "500"}, "net.request_timeout_s", 0.5),
    ({"requestTimeout": "1500ms"}, "net.request_timeout_s", 1.5),
    ({"requestTimeout": " 2 S "}, "net.request_timeout_s", 2.0),
    ({"requestTimeout": "3min"}, "net.request_timeout_s", 180.0),
    ({"requestTimeout": "24h"}, "net.request_timeout_s", 86_400.0),
    ({"requestTimeout": "1D"}, "net.request_timeout_s", 86_400.0),
    ({"requestTimeout": "500000us"}, "net.request_timeout_s", 0.5),
    ({"retries": "0"}, "net.retry.retries", 0),
    # Users who set a number of attempts and no time mean the number, for the first contact, too.
    ({"retries": "3"}, "net.retry.retry_timeout_s", 0.0),
    ({"retries": "3"}, "net.retry.bootstrap.timeout_s", None),
    ({"retries": "3", "brokerDownTimeout": "7s"}, "net.retry.retry_timeout_s", 7.0),
    ({"brokerDownTimeout": "0s"}, "fetch.retry_timeout_s", 0.0),
    ({"brokerDownTimeout": "5m"}, "planning_retry.retry_timeout_s", 300.0),
    ({"brokerDownTimeout": "5m"}, "net.discovery_timeout_s", 300.0),
    ({"brokerDownTimeout": "5s"}, "net.discovery_timeout_s", 30.0),
    # A time to try for is that of the first contact, too.
    ({"brokerDownTimeout": "5m"}, "net.retry.bootstrap.timeout_s", None),
    ({"bootstrapTimeout": "7s"}, "net.discovery_timeout_s", 7.0),
    ({"bootstrapTimeout": "7s"}, "net.known.discovery_timeout_s", 60.0),
    ({"bootstrapTimeout": "90s"}, "planning_retry.bootstrap.timeout_s", 90.0),
    ({"bootstrapTimeout": "9s", "brokerDownTimeout": "5m"}, "net.discovery_timeout_s", 9.0),
    ({"expectedBrokers": " 3 "}, "discovery.expected_brokers", 3),
    ({"expectedBrokers": "2, 0,1"}, "discovery.expected_brokers", frozenset((0, 1, 2))),
    ({"wireFormat": " Proposal"}, "fetch.wire_format", WireFormat.PROPOSAL),
    ({"wireFormat": "0.7"}, "fetch.wire_format", None),
    ({"retryBackoff": "2s"}, "net.retry.backoff_s", 2.0),
    ({"table": " Partitions "}, "table", "partitions"),
    ({"subscribe": " b, a ,,b"}, "selection.subscribe", ("a", "b")),
    ({"subscribe": None, "subscribePattern": "debian-.*"}, "selection.pattern", "debian-.*"),
    ({"subscribe": None, "assign": '{"t":["1-0","0-2","1-0"],"größe":["0-0"]}'}, "selection.assign",
     (TopicPartition("größe", 0, 0), TopicPartition("t", 0, 1), TopicPartition("t", 2, 0))),
    ({"startingOffsets": " Earliest"}, "starting", OffsetLimits("startingOffsets", for_all=EARLIEST)),
    ({"startingOffsets": '{"t":{"0-1":123,"0-2":-2}}'}, "starting",
     OffsetLimits("startingOffsets",
     by_partition={PARTITION: offset(123), TopicPartition("t", 2, 0): EARLIEST})),
    ({"endingOffsets": '{"t":{"0-1":9223372036854775807,"0-2":-1}}'}, "ending",
     OffsetLimits("endingOffsets",
     by_partition={PARTITION: offset(2**63 - 1), TopicPartition("t", 2, 0): LATEST})),
    ({"startingTimestamp": "0"}, "starting", OffsetLimits("startingTimestamp", for_all=timestamp(0))),
    ({"startingTimestamp": "9223372036854775807"}, "starting.for_all", timestamp(2**63 - 1)),
    # As in requests for offsets, and as Spark's own connector hands them on.
    ({"startingTimestamp": " -1"}, "starting.for_all", LATEST),
    ({"startingTimestamp": "-2"}, "starting.for_all", EARLIEST),
    ({"endingTimestamp": "-1"}, "ending.for_all", LATEST),
    ({"endingTimestamp": "-2"}, "ending.for_all", EARLIEST),
    ({"endingTimestamp": "1700000000000"}, "ending.for_all", timestamp(1_700_000_000_000)),
    *(
        (changed("startingTimestamp", text), "starting.for_all", timestamp(1_767_225_600_000))
        for text in ("2026-01-01T00:00:00Z", "2026-01-01 02:00:00.000+02:00", " 2026-01-01T00:00:00.000900z")
    ),
    ({"startingTimestamp": "1969-12-31T23:59:59.999Z"}, "starting.for_all", timestamp(0)),
    *(
        (changed("startingTimestamp", text), "starting.for_all", OffsetLimit(LimitKind.AGE, -3_600_000))
        for text in ("-1h", "-60 min", " -1 Hour", "-60 minutes", "-3600 second", "-3600000ms")
    ),
    ({"startingTimestamp": "-2 weeks"}, "latest_if_no_match", True),
    ({"startingTimestamp": "-2 d", "startingOffsetsByTimestampStrategy": "error"},
     "latest_if_no_match", False),
    ({"endingTimestamp": "-2 days"}, "ending.for_all", OffsetLimit(LimitKind.AGE, -172_800_000)),
    ({"startingOffsetsByTimestamp": '{"t":{"0-1":"-1s","0-2":"1970-01-01T00:00:07Z"}}'},
     "starting.by_partition",
     {PARTITION: OffsetLimit(LimitKind.AGE, -1000), TopicPartition("t", 2, 0): timestamp(7000)}),
    ({"startingOffsetsByTimestamp": '{"t":{"0-1":-1}}'}, "starting.by_partition", {PARTITION: LATEST}),
    ({"startingOffsetsByTimestamp": '{"t":{"0-1":7}}'}, "starting",
     OffsetLimits("startingOffsetsByTimestamp", by_partition={PARTITION: timestamp(7)})),
    ({"endingOffsetsByTimestamp": '{"t":{"0-1":-2}}'}, "ending.by_partition", {PARTITION: EARLIEST}),
    ({"endingOffsetsByTimestamp": '{"t":{"0-1":7}}'}, "ending.by_partition", {PARTITION: timestamp(7)}),
    ({"startingOffsetsByTimestampStrategy": "LATEST"}, "latest_if_no_match", True),
    ({"failOnDataLoss": "False"}, "fetch.fail_on_data_loss", False),
    ({"minPartitions": "40"}, "min_partitions", 40),
    ({"packSmallPartitions": "True"}, "packs_small", True),
    ({"keyOrder": "TRUE", "partitionLayouts": '{"t":[{"partitions":{"0":1}}]}'}, "key_order.topics",
     {"t": TopicLayouts(((TopicPartition("t", 0, 0),),))}),
    ({**_OF_LOGS}, "discovery.directories.paths", (_LOGS,)),
    ({"zookeeper.connect": None, "paths": json.dumps([_LOGS])}, "discovery.directories.paths", (_LOGS,)),
    ({**_OF_LOGS, "brokers": "7"}, "discovery.directories.broker_ids", (7,)),
    ({**_OF_LOGS, "fs.endpoint": "h:9"}, "discovery.directories.settings.endpoint", "h:9"),
    ({**_OF_LOGS, "fs.region": "r"}, "discovery.directories.settings.region", "r"),
    ({"maxBytesPerPartition": "8g"}, "partition_size_max", 8 << 30),
    ({"maxBytesPerPartition": "1"}, "partition_size_max", 1),
    ({"fetchBytes": "1024"}, "fetch.fetch_bytes", 1024),
    ({"fetchBytes": "1GiB"}, "fetch.fetch_bytes", 1 << 30),
    ({"fetchBytes": "4 KiB"}, "fetch.fetch_bytes", 4096),
    ({"fetchBytes": "4kb"}, "fetch.fetch_bytes", 4096),
    ({"fetchBytes": "2048B"}, "fetch.fetch_bytes", 2048),
    ({"fetchesInFlight": "1"}, "fetch.fetches_in_flight", 1),
    ({"fetchesInFlight": "64"}, "fetch.fetches_in_flight", 64),
    ({"maxMessageBytes": "1"}, "fetch.message_bytes_max", 1),
    ({"maxMessageBytes": "1GiB"}, "fetch.message_bytes_max", 1 << 30),
    ({"maxDecompressedBytes": "1"}, "fetch.decompressed_bytes_max", 1),
    ({"valueFormat": " String"}, "typed.value", ColumnFormat("value", "string")),
    ({"valueFormat": "string"}, "typed.registry", None),
    ({"valueFormat": "BINARY", "keyFormat": "binary"}, "typed", None),
    (AVRO, "typed.value", ColumnFormat("value", "avro")),
    ({"valueFormat": "json"}, "typed.schema_id_from", "none"),
    ({**AVRO, "valueFormat": "json"}, "typed.schema_id_from", "auto"),
    ({"keyFormat": "string"}, "typed.key", ColumnFormat("key", "string")),
    ({**AVRO, "valueSchema": '"long"'}, "typed.value.schema_text", '"long"'),
    ({**AVRO, "valueSchema": " string "}, "typed.value.schema_text", " string "),
    ({"valueFormat": "avro", "valueSchema": "int", "schemaIdFrom": "none"}, "typed.value.schema_text", "int"),
    ({**AVRO, "keyFormat": "avro", "keySchema": "[1]"}, "typed.key.schema_text", "[1]"),
    ({**AVRO, "valueSubject": " a-value"}, "typed.value.subject", "a-value"),
    ({**AVRO, "keyFormat": "avro", "keySubject": "k"}, "typed.key.subject", "k"),
    ({**AVRO, "valueSchemaVersion": "Latest"}, "typed.value.version", SchemaVersion()),
    ({**AVRO, "valueSchemaVersion": " 12 "}, "typed.value.version", SchemaVersion(12)),
    ({**AVRO, "valueSchemaVersion": "ID:0"}, "typed.value.version", SchemaVersion(schema_id=0)),
    ({**AVRO, "valueSchemaVersion": "id:2147483647"}, "typed.value.version.schema_id", 2**31 - 1),
    ({**AVRO, "keyFormat": "avro", "keySchemaVersion": "2", "valueSchema": "int"}, "typed.key.version.number",
     2),
    ({**AVRO, "valueFormat": "protobuf", "valueMessage": " a.B.C "}, "typed.value.message", "a.B.C"),
    ({**AVRO, "valueFormat": "protobuf", "valueMessage": ".B"}, "typed.value.message", "B"),
    ({**AVRO, "keyFormat": "protobuf", "keyMessage": "K"}, "typed.key.message", "K"),
    ({**AVRO, "subjectNameStrategy": "topicrecordname"}, "typed.strategy", "TopicRecordName"),
    ({**AVRO, "schemaIdFrom": "Prefix"}, "typed.schema_id_from", "prefix"),
    ({"badRecords": "NULL"}, "fetch.bad_records", BadRecords.NULL),
    ({"valueFormat": "string", "badRecords": "NULL"}, "typed.bad_records", BadRecords.NULL),
    ({**AVRO, "badRecords": "drop"}, "typed.bad_records", BadRecords.DROP),
    ({**AVRO, "recursiveFieldMaxDepth": " 5 "}, "typed.value.recursion_depth", 5),
    ({**AVRO, "recursiveFieldMaxDepth": "-1"}, "typed.value.recursion_depth", -1),
    ({**AVRO, "recursiveFieldMaxDepth": "5"}, "typed.key.recursion_depth", None),
    ({**AVRO, "recursive.fields.max.depth": "1"}, "typed.value.recursion_depth", 1),
    ({"maxCorruptBytes": "2KiB"}, "fetch.corrupt_bytes_max", 2048),
    ({**AVRO, "schema.registry.url": " http://a/x/ , https://[::1]:2"}, "typed.registry.urls",
     (Url("http", "a", 80, "/x/", "a"), Url("https", "::1", 2, "/", "[::1]:2"))),
    ({**AVRO, "requestTimeout": "7s"}, "typed.registry.timeout_s", 7.0),
    ({**AVRO, "retries": "1"}, "typed.registry.retry", RetryPolicy(1, 0.1, 0.0)),
    ({**AVRO, "brokerDownTimeout": "9s"}, "typed.registry.retry", RetryPolicy(3, 0.1, 9.0)),
    ({**LOGIN, "basic.auth.credentials.source": "USER_INFO"}, "typed.registry.login.user", "me"),
    (LOGIN, "typed.registry.login", BasicLogin("me", f"{SECRET}:x")),
    ({**OAUTH, "bearer.auth.credentials.source": "OAUTHBEARER"}, "typed.registry.login.scope", None),
    ({**AVRO, "bearer.auth.token": SECRET, "bearer.auth.credentials.source": "static_token",
     "bearer.auth.logical.cluster": "lsrc-1", "bearer.auth.identity.pool.id": "pool-1"},
     "typed.registry.headers", (("target-sr-cluster", "lsrc-1"), ("Confluent-Identity-Pool-Id", "pool-1"))),
    ({**AVRO, "bearer.auth.token": SECRET}, "typed.registry.login", BearerToken(SECRET)),
    (OAUTH, "typed.registry.login.endpoint_url", "https://idp/token"),
    (OAUTH, "typed.registry.login.client_id", "me"),
    (OAUTH, "typed.registry.login.client_secret", SECRET),
    ({**OAUTH, "bearer.auth.scope": "sr"}, "typed.registry.login.scope", "sr"),
    ({**OAUTH, "bearer.auth.logical.cluster": "lsrc-1"}, "typed.registry.headers",
     (("target-sr-cluster", "lsrc-1"),)),
    ({**OAUTH, "bearer.auth.identity.pool.id": "p"}, "typed.registry.headers",
     (("Confluent-Identity-Pool-Id", "p"),)),
    ({**AVRO, "schema.registry.url": "https://a",
     "schema.registry.ssl.endpoint.identification.algorithm": ""}, "typed.registry.tls.checks_host_name",
     False),
    # Files and keys are those of test_schema_registry.
    *(
        ({**AVRO, f"schema.registry.ssl.{name}": "PEM"}, "typed.registry.tls", None)
        for name in (
            "protocol", "enabled.protocols", "cipher.suites", "truststore.password", "keystore.password",
            "truststore.type", "truststore.location", "truststore.certificates", "keystore.type",
            "keystore.location", "keystore.key", "keystore.certificate.chain", "key.password",
        )
    ),
]  # fmt: skip
#: The values that an option of a read does not take: each is refused in one line that names the option.
BAD_READ_VALUES: Final[dict[str, list[str]]] = {
    "brokerAddressMap": ["", "{", "[]", '{"h":"h:1"}', '{"h:1":2}', '{"h:1":"i:65536"}', '{"h:1":"a b:1"}',
        '{"h:1":"i:1","h:1":"j:1"}'],
    "zookeeper.connect": ["", "/kafka", "h:port", "h:123456", "h:65536", "h:0", "h:1,,h:2", "h:1 h:2",
        "h:1//a", "h:1/a b", "h:1/a/../b", "h:1/./a", "[h:1", "[::1:1", "http://h:2181"],
    "broker.list": ["", "h:9092", "0:h", "0:h:p", "0:h:0", "0:h:65536", "a:h:1", "-1:h:1", "0:h:1,",
        "0:h:1;1:h:2", "0:[::1:1", "0:h h:1", "0:h:1,0:i:2"],
    "requestTimeout": ["", "0", "0s", "-1", "2d", "1w", "1.5s", "s", "30 seconds", "25h", "999999999999h"],
    "retries": ["", "-1", "1001", "1.0", "many"],
    "brokerDownTimeout": ["", "-1s", "25h", "for ever"],
    "bootstrapTimeout": ["", "0s", "-1s", "25h", "soon"],
    "expectedBrokers": ["", "00,1", "0", "-1", "0,", "0,0", "a", "0,1;2", "1.0", "\u0663"],
    "wireFormat": ["", "0.8", "kafka", "proposal,0.7", "07"],
    "retryBackoff": ["", "0ms", "soon"],
    "table": ["", "records", "topics,partitions"],
    "subscribe": ["", " , "],
    "subscribePattern": ["", "(", "*", "[a", "a{99999999999999999999}", "(?<x"],
    "assign": ["", "t", "[]", "{}", '{"t":[]}', '{"t":{"0-1":1}}', '{"t":["1"]}', '{"t":[1]}',
        '{"t":["0-1-2"]}', '{"":["0-1"]}', '{"t":"0-1"}'],
    "startingOffsets": ["", "latest", "first", "0", "[]", "{}", '{"t":{}}', '{"t":1}', '{"t":{"1":5}}',
        '{"t":{"0-1":1.5}}', '{"t":{"0-1":true}}', '{"t":{"0-1":"5"}}', '{"t":{"0-1":-1}}',
        '{"t":{"0-1":-3}}', '{"t":{"0-1":9223372036854775808}}', '{"":{"0-1":5}}', '{"t":{"0-1":5',
        '{"t":{"a-b":5}}', "[" * 100_000],
    "endingOffsets": ["", "earliest", '{"t":{"0-1":-2}}', '{"t":{"0-1":-3}}', '{"t":["0-1"]}'],
    "startingTimestamp": ["", "-3", "-01", "now", "9223372036854775808", "1.5", "10 minutes", "-1.5h",
        "-1 month", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"],
    "endingTimestamp": ["", "-3", "now"],
    "startingOffsetsByTimestamp": ["", "5", '{"t":{"0-1":-3}}', '{"t":{"0-1":-5}}', '{"t":{"0-1":"now"}}'],
    "endingOffsetsByTimestamp": ["", "5", '{"t":{"0-1":-5}}'],
    "startingOffsetsByTimestampStrategy": ["", "fail"],
    "failOnDataLoss": ["", "yes", "0"],
    "minPartitions": ["", "0", "-5", "1e3", "1000001"],
    "packSmallPartitions": ["", "yes", "1"],
    "paths": ["", "[]", "/a,/b", '{"a":1}', '["/a",1]'],
    "maxBytesPerPartition": ["", "0", "-1", "4X", "99999999999G"],
    "fetchBytes": ["", "0", "1023", "2GiB", "1 MiBB", "1.5m", "-4k"],
    "fetchesInFlight": ["", "0", "65", "four"],
    "maxMessageBytes": ["", "0", "2g"],
    "maxDecompressedBytes": ["", "0", "2g"],
    "valueFormat": ["", "xml", "avro-confluent"],
    "keyFormat": ["", "text", "avro,string"],
    "schemaIdFrom": ["", "glue", "headers"],
    "badRecords": ["", "permissive", "none"],
    "recursiveFieldMaxDepth": ["", "16", "-2", "1.5", "many"],
    "recursive.fields.max.depth": ["", "16"],
    "maxCorruptBytes": ["", "-1", "2 KB of bytes"],
}  # fmt: skip
WRITE_VALUES: Final[list[tuple[dict[str, str | None], str, Any]]] = [
    ({"topic": " copy "}, "topic", "copy"),
    ({**AVRO, "autoRegisterSchemas": "TRUE"}, "typed.auto_register", True),
    ({"valueFormat": "avro", "schemaIdFrom": "none"}, "typed.value.schema_text", None),
    ({**AVRO, "valueSubject": "s", "valueSchema": "int"}, "typed.value.subject", "s"),
    ({"compression": "Snappy"}, "compression", "snappy"),
    ({"compression": "gzip", "compressionLevel": "9"}, "compression_level", 9),
    ({"compression": "gzip", "compressionLevel": "1"}, "compression_level", 1),
    ({"acks": "verify"}, "acks", "verify"),
    ({"wireFormat": "PROPOSAL", "acks": "1"}, "wire_format", WireFormat.PROPOSAL),
    ({"partitioner": "Consistent"}, "partitioner", "consistent"),
    ({"partitionerSeed": "0"}, "partitioner_seed", 0),
    ({"batchBytes": "1"}, "batch_bytes", 1),
    ({"batchBytes": "64k"}, "batch_bytes", 1 << 16),
    ({"max.message.size": "1"}, "message_size_max", 1),
    ({"max.message.size": "2000000"}, "message_size_max", 2_000_000),
]  # fmt: skip
BAD_WRITE_VALUES: Final[dict[str, list[str]]] = {
    "autoRegisterSchemas": ["", "yes"],
    "valueFormat": ["", "text"],
    "compression": ["", "lz4", "deflate"],
    "compressionLevel": ["", "-1", "0", "10"],
    "acks": ["", "2", "all", "-1"],
    "wireFormat": ["", "1.0", "proposals"],
    "partitioner": ["", "murmur3"],
    "partitionerSeed": ["", "-1", "today"],
    "batchBytes": ["", "0", "2g"],
    "max.message.size": ["", "0", "2g"],
}  # fmt: skip
