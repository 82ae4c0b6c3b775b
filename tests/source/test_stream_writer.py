"""The sink without Spark's JVM: one writer is pickled for a batch's tasks, another hears how it ended."""

from __future__ import annotations

import json
import logging

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from spark_kafkawire.errors import ConnectFailed, OptionError
from spark_kafkawire.net.first_contact import Bootstrap
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.registry.client import forget_registries
from spark_kafkawire.values.registry_frame import id_prefix
from tests.net.peers import closed_port
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry, status
from tests.support.noida import NoidaBroker
from tests.support.sparks import STREAM_SINKS
from tests.support.stream_writing import VALUE, task, writer

pytestmark = STREAM_SINKS


def test_a_batch_is_written_by_its_tasks_and_told_by_another_writer(
    noida: NoidaBroker, caplog: pytest.LogCaptureFixture
) -> None:
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
    found = librdkafka.consume(noida.bootstrap_servers, options["topic"])
    assert sorted(record.value or b"" for record in found) == [b"a", b"b", b"c"]


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
            [encoding] = made._made()._encodings
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
    forget_registries()


def test_who_hears_of_a_batch_that_is_done_needs_no_broker_and_a_task_does() -> None:
    options = {"kafka__bootstrap__servers": f"127.0.0.1:{closed_port().port}", "topic": "t", "retries": "0"}
    made = writer(**options)
    made.commit([], 3)
    made.abort([], 3)
    with pytest.raises(ConnectFailed, match=r"^the batch: .*kafka\.bootstrap\.servers"):
        task(made, "a")


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


@pytest.mark.parametrize(
    ("schema", "options", "reported"),
    [
        (
            StructType([StructField("key", BinaryType())]),
            {"topic": "t"},
            "Required attribute 'value' not found",
        ),
        (VALUE, {}, "topic option required when no 'topic' attribute is present"),
        (
            StructType([StructField("value", IntegerType())]),
            {"topic": "t"},
            "value attribute unsupported type",
        ),
        (VALUE, {"topic": "t", "kafka.key.serializer": "x"}, "kafka.key.serializer is not supported"),
        (VALUE, {"topic": "t", "kafka.value.serializer": "x"}, "kafka.value.serializer is not supported"),
        (
            VALUE,
            {"topic": "t", "startingOffsets": "latest"},
            "startingOffsets is for reading, not for a write",
        ),
        (VALUE, {"topic": "t", "acks": "3"}, "option acks: '3' is not"),
    ],
)
def test_wrong_columns_and_options_are_told_before_a_batch_begins(
    noida: NoidaBroker, schema: StructType, options: dict[str, str], reported: str
) -> None:
    with pytest.raises(OptionError, match=reported):
        writer(schema, **{"kafka.bootstrap.servers": noida.bootstrap_servers, **options})


def test_the_mode_complete_is_refused() -> None:
    with pytest.raises(OptionError, match=r'^output mode "complete": a Kafka log can only be appended to'):
        writer(VALUE, True, kafka__bootstrap__servers="127.0.0.1:1", topic="t")
