"""The sink without Spark's JVM: one writer is pickled for a batch's tasks, another hears how it ended."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from spark_kafkawire.errors import ConnectFailed, OptionError
from tests.net.peers import closed_port
from tests.support import librdkafka
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
    told = [record.getMessage() for record in caplog.records if "batch" in record.getMessage()]
    assert told[0].startswith("batch 7: wrote 3 message(s)")
    assert told[1].startswith(
        "batch 8 failed, and what its tasks have sent stays in the logs; finished tasks "
    )
    assert "wrote 1 message(s)" in told[1]
    assert told[1].endswith("it writes the batch again, and doubles what is there")
    found = librdkafka.consume(noida.bootstrap_servers, options["topic"])
    assert sorted(record.value or b"" for record in found) == [b"a", b"b", b"c"]


def test_who_hears_of_a_batch_that_is_done_needs_no_broker_and_a_task_does() -> None:
    options = {"kafka__bootstrap__servers": f"127.0.0.1:{closed_port().port}", "topic": "t", "retries": "0"}
    made = writer(**options)
    made.commit([], 3)
    made.abort([], 3)
    with pytest.raises(ConnectFailed, match=r"^the batch: .*kafka\.bootstrap\.servers"):
        task(made, "a")


@pytest.mark.parametrize(
    ("schema", "options", "told"),
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
        (
            VALUE,
            {"topic": "t", "startingOffsets": "latest"},
            "startingOffsets is for reading, not for a write",
        ),
        (VALUE, {"topic": "t", "acks": "3"}, "option acks: '3' is not"),
    ],
)
def test_wrong_columns_and_options_are_told_before_a_batch_begins(
    noida: NoidaBroker, schema: StructType, options: dict[str, str], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        writer(schema, **{"kafka.bootstrap.servers": noida.bootstrap_servers, **options})


def test_the_mode_complete_is_refused() -> None:
    with pytest.raises(OptionError, match=r'^output mode "complete": a Kafka log can only be appended to'):
        writer(VALUE, True, kafka__bootstrap__servers="127.0.0.1:1", topic="t")
