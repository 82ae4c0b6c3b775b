"""Columns of users; the writer: what the driver refuses, what one task does, and writes of a Spark to brokers
of 0.7; the sink without Spark's JVM: one writer is pickled for a batch's tasks, another hears how it ended.
"""

from __future__ import annotations

import json
import logging
import pickle
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from spark_kafkawire.broker import BrokerConfig, BrokerServer
from spark_kafkawire.clients.writing.modern.producer import check_records
from spark_kafkawire.clients.writing.rows import to_rows
from spark_kafkawire.clients.writing.sender import PartitionReceipt, WriteTotals
from spark_kafkawire.errors import ConnectFailed, OptionError, RowError
from spark_kafkawire.model import Broker, ClusterView, Generation, TopicPartition
from spark_kafkawire.net.retry import Bootstrap
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.source.schema import (
    HEADERS_FIELD,
    LAYOUT_FIELD,
    MISPLACED_FIELD,
    V07_SCHEMA,
    check_read_schema,
)
from spark_kafkawire.source.writer import WRITE_SCHEMAS, KafkaWireCommitMessage, create_writer
from spark_kafkawire.values.registry_frame import id_prefix
from tests.net.peers import closed_port
from tests.records.judges import judged
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry, status
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.sparks import STREAM_SINKS
from tests.support.streaming import VALUE, task, writer
from tests.support.writing import stored, write_options

# Schemas of reads

COLUMNS = StructType([*V07_SCHEMA.fields, HEADERS_FIELD, LAYOUT_FIELD, MISPLACED_FIELD])
NEVER_NULL = ["topic", "partition", "offset", "timestampType", "broker", "index", "nextOffset", "layout"]
MAY_BE_NULL = ["key", "value", "timestamp", "headers", "misplaced"]
HEADERS_WITHOUT_NULLS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())]), containsNull=False
)


def check(name: str, of_type: DataType, nullable: bool) -> None:
    check_read_schema(StructType([StructField(name, of_type, nullable)]), COLUMNS)


def test_columns_with_nulls_may_not_be_declared_without() -> None:
    """Spark makes a NullPointerException of a tombstone, and 1970 of a record without a timestamp."""
    assert sorted(COLUMNS.fieldNames()) == sorted(NEVER_NULL + MAY_BE_NULL)
    for name in COLUMNS.fieldNames():
        check(name, COLUMNS[name].dataType, nullable=name in MAY_BE_NULL)
    for name in MAY_BE_NULL:
        reported = rf"^schema: column '{name}' may hold nulls; leave NOT NULL out$"
        with pytest.raises(OptionError, match=reported):
            check(name, COLUMNS[name].dataType, nullable=False)


def test_the_headers_of_a_record_may_not_be_declared_without_nulls() -> None:
    with pytest.raises(OptionError, match="column 'headers' may hold nulls"):
        check("headers", HEADERS_WITHOUT_NULLS, nullable=True)


# Writes

VALUE_ALONE = "value binary"
TYPES: dict[str, DataType] = {
    kind.simpleString(): kind
    for kind in (
        BinaryType(),
        StringType(),
        IntegerType(),
        ShortType(),
        LongType(),
        ArrayType(BinaryType()),
        ArrayType(StringType()),
        StructType([StructField("n", IntegerType())]),
    )
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerServer]:
    config = BrokerConfig(broker_id=0, log_dir=tmp_path, port=0, num_partitions=1, log_flush_interval=1)
    with BrokerServer(config) as running:
        yield running


def schema(text: str) -> StructType:
    """``name type, name type``; parsed here, for Spark's own parser needs a session."""
    fields = [field.split() for field in text.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in fields])


def write(
    server: BrokerServer, text: str, *batches: dict[str, list[Any]], **raw: object
) -> KafkaWireCommitMessage:
    """Write batches of rows as one task does."""
    writer = create_writer(write_options(server, **raw), schema(text), overwrite=False)
    types = {"binary": pa.binary(), "string": pa.string(), "int": pa.int32()}
    arrow = pa.schema([(name, types[kind]) for name, kind in (item.split() for item in text.split(", "))])
    columns = [pa.RecordBatch.from_pydict(batch, schema=arrow) for batch in batches]
    message = pickle.loads(pickle.dumps(writer)).write(iter(columns))
    assert isinstance(message, KafkaWireCommitMessage)
    return message


#: Columns, and what is wrong with them.
WRONG_07 = {
    "key binary": "Required attribute 'value' not found",
    "value int": "value attribute unsupported type int. value must be a(n) string or binary",
    "value array<binary>": "value attribute unsupported type array<binary>. value must",
    "value binary, key bigint": "key attribute unsupported type bigint. key must be a(n) string or binary",
    "value binary, topic int": "topic attribute unsupported type int. topic must be a(n) string",
    "value binary, partition string": "partition attribute unsupported type string. partition must be a(n) i",
    "value binary, broker smallint": "broker attribute unsupported type smallint. broker must be a(n) int",
    "value binary, headers int": "there is no column 'headers' (int) in Kafka 0.7; drop it",
    "value binary, Key binary": "there is no column 'Key' (binary) in Kafka 0.7; did you mean 'key'?",
}
WRONG = {
    "value binary, headers array<string>": "headers attribute unsupported type array<string>. headers must "
    "be a(n) array<struct<key:string,value:binary>>",
    "value binary, timestamp bigint": "timestamp attribute unsupported type bigint. timestamp must be a(n) t",
    "value struct<n:int>": "value attribute unsupported type struct<n:int>. value must be a(n) string or "
    "binary: cast it, or set valueFormat to the format of its messages",
}


def test_a_column_that_cannot_be_written_is_an_option_error() -> None:
    for generation, problems in ((Generation.V07, WRONG_07), (Generation.MODERN, WRONG)):
        for text, problem in problems.items():
            with pytest.raises(OptionError, match=rf"^schema: {re.escape(problem)}[^\n]*$"):
                WRITE_SCHEMAS[generation].check(schema(text), topic_given=True)


def test_a_column_that_is_there_twice_is_an_option_error() -> None:
    twice = StructType([StructField("value", StringType()), StructField("value", StringType())])
    for generation in Generation:
        with pytest.raises(OptionError, match=r"^schema: column 'value' appears twice"):
            WRITE_SCHEMAS[generation].check(twice, topic_given=True)


def test_overwrite_and_a_topic_that_brokers_die_of_are_refused() -> None:
    for topic, mode, reported in (
        ("t", True, r'appended to; use \.mode\("append"\)$'),
        ("🚀", False, "^option topic: "),
    ):
        options = write_options(broker__list="0:127.0.0.1:1", topic=topic)
        with pytest.raises(OptionError, match=reported):
            create_writer(options, schema(VALUE_ALONE), overwrite=mode)


def test_the_writer_travels_without_the_zookeeper_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    view = ClusterView((Broker(0, "localhost", 1),), ())
    monkeypatch.setattr("spark_kafkawire.clients.writing.v07.view", lambda _discovery, _net: view)
    options = WriteOptions.parse(
        {"zookeeper.connect": "localhost", "zookeeper.auth": "digest:user:s3cret", "topic": "t"}
    )
    arrived = pickle.loads(pickle.dumps(create_writer(options, schema(VALUE_ALONE), overwrite=False)))
    # What travels is compressed: what it becomes is looked at.
    assert b"localhost" in pickle.dumps((arrived._options, arrived._targets))
    assert b"s3cret" not in pickle.dumps((arrived._options, arrived._targets))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_text_and_bytes_of_any_width_are_written(server: BrokerServer, kind: pa.DataType) -> None:
    spark_type = "string" if "string" in str(kind) else "binary"
    writer = create_writer(write_options(server, topic="t"), schema(f"value {spark_type}"), overwrite=False)
    writer.write(
        iter([pa.RecordBatch.from_pydict({"value": pa.array(["", "größe"], pa.string()).cast(kind)})])
    )
    assert stored(server.port, "t", 0) == [b"", "größe".encode()]


def test_a_null_in_the_topic_column_counts_only_without_the_option(server: BrokerServer) -> None:
    rows: dict[str, list[Any]] = {"value": [b"a", b"b"], "topic": ["t", None]}
    assert write(server, "value binary, topic string", rows, topic="t").totals.message_count == 2
    with pytest.raises(RowError, match=r"^batch 0 of the task: row 1: topic is null; "):
        write(server, "value binary, topic string", rows)


def test_refuse_bad_row(server: BrokerServer) -> None:
    batches: list[dict[str, list[Any]]] = [{"value": [b"good"]}, {"value": [b"x" * 1001, b"a"]}]
    with pytest.raises(RowError) as raised:
        write(server, VALUE_ALONE, *batches, max__message__size=1000, batchBytes=1, acks=0, topic="t")
    problem = "batch 1 of the task: row 0: its value of 1001 bytes is larger than"
    assert str(raised.value).startswith(problem)
    assert "\n" not in str(raised.value)
    poll(lambda: stored(server.port, "t", 0) == [b"good"], "the good message is stored")


def test_task_without_rows_has_no_connection(server: BrokerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = create_writer(write_options(server, topic="t"), schema(VALUE_ALONE), overwrite=False)
    monkeypatch.setattr("spark_kafkawire.clients.writing.v07.sender.Client.connect", None)
    empty = pa.RecordBatch.from_pydict({"value": pa.array([], pa.binary())})
    for batches in ([], [empty], [empty, empty]):
        assert writer.write(iter(batches)) == KafkaWireCommitMessage()


def test_a_commit_message_travels_with_totals_and_without_receipts(server: BrokerServer) -> None:
    message = write(server, VALUE_ALONE, {"value": [b"ab", b"c"]}, topic="t")
    (receipt,) = message.receipts
    assert (receipt.start_offset, receipt.stop_offset) == (0, 23)
    arrived = pickle.loads(pickle.dumps(message))
    assert arrived == message
    assert (arrived.totals.message_count, arrived.totals.size, arrived.receipts) == (2, 23, ())
    assert arrived.totals.topics == ["t"]


def test_a_commit_message_of_many_partitions_is_small() -> None:
    receipts = [PartitionReceipt(TopicPartition("t", number), 3, 90, 7, 10) for number in range(100_000)]
    message = KafkaWireCommitMessage(WriteTotals.of(receipts), receipts=tuple(receipts))
    assert len(pickle.dumps(message)) < 14_000


@pytest.mark.parametrize(
    ("finish", "level", "line"),
    [
        (
            "commit",
            logging.INFO,
            "wrote 3 message(s) (33 bytes) to 1 partition(s) of t in 0.0 s of the slowest task, up "
            "to 0.0 s waiting for {broker}, with 0 retries; acks=1",
        ),
        (
            "abort",
            logging.WARNING,
            "the write failed, and what its tasks have sent stays in the partitions; finished tasks wrote 3 "
            "message(s) (33 bytes) to 1 partition(s) of t in 0.0 s of the slowest task, up to 0.0 s "
            "waiting for {broker}, with 0 retries; writing again duplicates what is there",
        ),
    ],
)
def test_the_end_of_a_write_is_one_line_in_the_log(
    server: BrokerServer, caplog: pytest.LogCaptureFixture, finish: str, level: int, line: str
) -> None:
    message = write(server, VALUE_ALONE, {"value": [b"a", b"b", b"c"]}, topic="t")
    writer = create_writer(write_options(server, topic="t"), schema(VALUE_ALONE), overwrite=False)
    with caplog.at_level(logging.INFO, "spark_kafkawire"):
        end: Callable[[list[Any]], None] = getattr(writer, finish)
        end([message, None])
    [record] = caplog.records
    assert message.totals.seconds > 0
    result = re.sub(r"(in|to) \d+\.\d s", r"\1 0.0 s", record.getMessage())
    assert (record.levelno, result) == (level, line.format(broker=f"127.0.0.1:{server.port}"))


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_timestamps_become_milliseconds_whatever_the_sessions_zone(zone: str) -> None:
    # 2024-11-03 01:13 is there twice in Los Angeles.
    times_us = [1_730_621_600_123_999, 1_730_625_200_123_999, 0, 1_999, None]
    batch = pa.RecordBatch.from_pydict(
        {"value": pa.array([b""] * 5, pa.binary()), "timestamp": pa.array(times_us, pa.timestamp("us", zone))}
    )
    stored = WRITE_SCHEMAS[Generation.MODERN].stored
    rows = to_rows(batch, "t", stored)
    assert rows.records.timestamps_ms is not None
    assert rows.records.timestamps_ms.to_pylist() == [1_730_621_600_123, 1_730_625_200_123, 0, 1, None]
    assert to_rows(batch, "t", WRITE_SCHEMAS[Generation.V07].stored).records.timestamps_ms is None


def test_a_topic_is_created_with_its_options_and_by_no_broker_itself(noida: NoidaBroker) -> None:
    names = {given: f"created-{uuid.uuid4().hex}" for given in ("option", "column")}
    raw = {"kafka.bootstrap.servers": noida.bootstrap_servers, "createTopic": "true", "topicPartitions": "3"}
    for given, name in names.items():
        of_option = {"topic": name} if given == "option" else {}
        made = create_writer(
            WriteOptions.parse({**raw, **of_option}), schema("value binary, topic string"), overwrite=False
        )
        batch = pa.RecordBatch.from_pydict({"topic": [name], "value": pa.array([b"v"], pa.binary())})
        pickle.loads(pickle.dumps(made)).write(iter([batch]))
        result = [librdkafka.consume(noida.bootstrap_servers, name, number) for number in range(3)]
        assert sum(map(len, result)) == 1
    with pytest.raises(
        OptionError, match="topicPartitions is for a topic that is created: set createTopic=t"
    ):
        WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "topicPartitions": "3"})
    with pytest.raises(
        OptionError, match=r"option createTopic does not apply to Kafka 0\.7, which broker\.list"
    ):
        WriteOptions.parse({"broker.list": "0:h:1", "topic": "t", "createTopic": "true"})


def test_a_part_of_a_batch_has_the_headers_of_its_own_maps() -> None:
    for text, value in ((pa.string(), pa.binary()), (pa.large_string(), pa.large_string())):
        maps = pa.array([[("x", b"0")], None, [("k", b"v"), ("l", None)], []], pa.map_(text, value))
        batch = pa.RecordBatch.from_pydict({"value": pa.array([b""] * 4), "headers": maps}).slice(1)
        headers = to_rows(batch, "t", WRITE_SCHEMAS[Generation.MODERN].stored).records.headers
        assert headers is not None
        pairs = [{"key": "k", "value": b"v"}, {"key": "l", "value": None}]
        assert headers.to_pylist() == [None, pairs, []]


def test_large_types_of_arrow_are_taken() -> None:
    headers = pa.array(
        [[("k", b"v")], None], pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    )
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"v", b"w"], pa.large_binary()),
            "key": pa.array(["k", None], pa.large_string()),
            "headers": headers,
        }
    )
    rows = to_rows(batch, "t", WRITE_SCHEMAS[Generation.MODERN].stored)
    check_records(rows.records, 1000)
    batches = list(encode_batches(rows.records, batch_bytes_max=1000, request_bytes_max=1000, now_ms=5))
    result = [record for item in batches for record in judged(item.with_producer())]
    assert [(record.value, record.key, record.headers) for record in result] == [
        (b"v", b"k", (("k", b"v"),)),
        (b"w", None, ()),
    ]


# The sink of streams


@STREAM_SINKS
def test_tasks_write_and_another_tells(noida: NoidaBroker, caplog: pytest.LogCaptureFixture) -> None:
    options = {"kafka__bootstrap__servers": noida.bootstrap_servers, "topic": noida.create_topic()}
    planned = writer(**options, checkpointLocation="/data/c")
    messages = [task(planned, "a", "b"), task(planned, "c")]
    with caplog.at_level(logging.INFO, "spark_kafkawire"):
        writer(**options).commit(messages, 7)
        writer(**options).abort([None, messages[1]], 8)
    reported = [record.getMessage() for record in caplog.records if "batch" in record.getMessage()]
    assert reported[0].startswith("batch 7: wrote 3 message(s)")
    assert reported[1].startswith(
        "batch 8 failed, and what its tasks have sent stays in the partitions; finished tasks "
    )
    assert "wrote 1 message(s)" in reported[1]
    assert reported[1].endswith("it writes the batch again, and duplicates what is there")
    result = librdkafka.consume(noida.bootstrap_servers, options["topic"])
    assert sorted(record.value or b"" for record in result) == [b"a", b"b", b"c"]


@STREAM_SINKS
def test_the_schema_of_a_query_is_requested_once_and_stays_until_the_query_fails(noida: NoidaBroker) -> None:
    columns = StructType([StructField("value", StructType([StructField("n", IntegerType())]))])
    texts = [
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", kind]}]})
        for kind in ("int", "long")
    ]
    options = {"kafka__bootstrap__servers": noida.bootstrap_servers, "topic": noida.create_topic()}
    with FakeRegistry() as registry:
        options |= {"valueFormat": "avro", "schema__registry__url": registry.url}
        subject = f"{options['topic']}-value"
        first = registry.add(subject, texts[0])

        def frame(checkpoint: str) -> bytes:
            made = writer(columns, checkpointLocation=checkpoint, **options)
            [encoding] = made._make_writer()._encodings
            return encoding.frame

        assert [frame("/data/a") for _ in range(6)] == [id_prefix(first)] * 6
        assert registry.requests == [f"GET /subjects/{subject}/versions/latest"]
        second = registry.add(subject, texts[1])
        assert [frame("/data/a"), frame("/data/b"), frame("/data/a")] == [
            id_prefix(number) for number in (first, second, first)
        ]
        assert len(registry.requests) == 2
        # Schemas do not change, so that a query goes on without the registry.
        registry.faults.append(status(500))
        assert frame("/data/b") == id_prefix(second)
        registry.faults.clear()
        writer(columns, checkpointLocation="/data/a", **options).abort([], 6)
        assert frame("/data/a") == id_prefix(second)
        # Rows with other columns may need another version.
        more = StructType([*columns, StructField("key", BinaryType())])
        writer(more, checkpointLocation="/data/a", **options)
        assert len(registry.requests) == 4


@STREAM_SINKS
def test_who_hears_of_a_batch_that_is_done_needs_no_broker_and_a_task_does() -> None:
    options = {"kafka__bootstrap__servers": f"127.0.0.1:{closed_port().port}", "topic": "t", "retries": "0"}
    made = writer(**options)
    made.commit([], 3)
    made.abort([], 3)
    with pytest.raises(ConnectFailed, match=r"^the batch: .*kafka\.bootstrap\.servers"):
        task(made, "a")


@STREAM_SINKS
@pytest.mark.parametrize(
    ("given", "bound_s"), [({}, None), ({"bootstrapTimeout": "9s"}, 9.0), ({"bootstraptimeout": "9s"}, 9.0)]
)
def test_a_batch_of_a_stream_may_follow_others_that_reached_the_cluster(
    given: dict[str, str], bound_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may plan it in a process that knows nothing of them, while the cluster restarts."""
    seen: list[WriteOptions] = []

    def never_reached(options: WriteOptions, *_: object) -> None:
        seen.append(options)
        raise ConnectFailed("no broker is there")

    monkeypatch.setattr("spark_kafkawire.source.stream_writer.create_writer", never_reached)
    writer(kafka__bootstrap__servers="127.0.0.1:1", topic="t", **given)
    [options] = seen
    assert options.net.retry.bootstrap == Bootstrap("kafka.bootstrap.servers=127.0.0.1:1", bound_s)
    assert options.net.retry.retry_timeout_s == 60.0


@STREAM_SINKS
def test_report_wrong_columns_and_options_before_a_batch_begins(noida: NoidaBroker) -> None:
    number = StructType([StructField("value", IntegerType())])
    for columns, options, reported in (
        (VALUE, {}, "topic option required when no 'topic' attribute is present"),
        (number, {"topic": "t"}, "value attribute unsupported type"),
        (VALUE, {"topic": "t", "kafka.key.serializer": "x"}, "kafka.key.serializer is not supported"),
    ):
        with pytest.raises(OptionError, match=reported):
            writer(columns, **{"kafka.bootstrap.servers": noida.bootstrap_servers, **options})
