"""Secrets reach the tasks, and nothing that Spark shows or raises."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.errors import KafkaWireError
from tests.support import java_stores, librdkafka
from tests.support.cases import for_each
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.pages import ROOT
from tests.support.reading import PlannedRead
from tests.support.sparks import STREAM_SINKS

from .referring import secured as referring

SECRET: Final = "s3cret"
JAAS: Final = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
)


def secured(noida: NoidaBroker, **changes: str) -> dict[str, str]:
    """Options with a login, which noida-db takes with any password, and secrets that nothing uses."""
    return {
        "kafka.bootstrap.servers": noida.bootstrap_servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.key.password": SECRET,
        "requestTimeout": "5s",
        "retries": "0",
        **changes,
    }


def shown_by(frame: Any) -> str:
    """All that Spark tells of how a query runs."""
    execution = frame._jdf.queryExecution()
    plans = [execution.toString(), execution.logical().toString(), execution.executedPlan().toString()]
    return "\n".join([*plans, repr(frame), str(frame.schema)])


def test_a_query_with_a_login_shows_no_secret(
    spark: SparkSession,
    noida: NoidaBroker,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, "spark_kafkawire")
    topic = noida.create_topic(partitions=2)
    rows = spark.createDataFrame([(b"a",), (b"b",)], "value binary")
    rows.write.format("kafkawire").mode("append").options(**secured(noida), topic=topic).save()
    frame = spark.read.format("kafkawire").options(**secured(noida, subscribe=topic)).load()
    assert sorted(row.value for row in frame.select("value").collect()) == [b"a", b"b"]
    frame.explain(extended=True)
    printed = capfd.readouterr()
    assert "kafkawire" in printed.out
    for text in (shown_by(frame), printed.out, printed.err, caplog.text):
        assert SECRET not in text


#: Options that fail.
WRONG: Final = [
    {"kafka.bootstrap.servers": "127.0.0.1:1"},
    {"kafka.sasl.mechanism": "SCRAM-SHA-256"},
    {"kafka.sasl.jaas.config": JAAS[:-2]},
    {"kafka.security.protocol": "SASL_SSL"},
    {"subscribe": "no-such-topic"},
    {"kafka.ssl.keystore.key": SECRET, "kafka.security.protocol": "SSL"},
    *(
        {
            "kafka.security.protocol": "SSL",
            f"kafka.ssl.{kind}.location": str(java_stores.FOLDER / store),
            f"kafka.ssl.{kind}.password": SECRET,
        }
        for kind, store in (("keystore", "client.jks"), ("truststore", "client.p12"))
    ),
]


@for_each("changes", WRONG)
def test_a_read_that_fails_shows_no_secret(
    noida: NoidaBroker,
    changes: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, "spark_kafkawire")
    with pytest.raises(KafkaWireError) as error:
        PlannedRead(secured(noida, **{"subscribe": "t", **changes})).table()
    printed = capfd.readouterr()
    for text in (str(error.value), repr(error.value), printed.out, printed.err, caplog.text):
        assert SECRET not in text


#: The values of references, as logs and pickles may spell them.
PASSWORD: Final = "env1ronment-s3cret"
KEY: Final = "f1le-s3cret"
VALUE: Final = StructType([StructField("value", BinaryType())])


def spelled() -> list[bytes]:
    plain = [PASSWORD.encode(), KEY.encode(), f"\0u\0{PASSWORD}".encode()]
    return [*plain, *(base64.b64encode(item).rstrip(b"=") for item in plain)]


def pickled(value: object) -> bytes:
    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


@STREAM_SINKS
@pytest.mark.nightly
def test_nothing_that_spark_shows_has_the_value_of_a_reference(noida: NoidaBroker, tmp_path: Path) -> None:
    """Plans, the event log, pages and the REST interface, the checkpoint, progress, errors, and all that the
    driver and the workers log at DEBUG."""
    topic = noida.create_topic(partitions=2)
    (tmp_path / "secrets.properties").write_text(f"key={KEY}\n")
    folder = tmp_path / "run"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.source.referring", noida.bootstrap_servers, topic, str(folder)],
        cwd=ROOT,
        env={
            **os.environ,
            "KAFKA_PASSWORD": PASSWORD,
            "PYTHONPATH": f"{Path(__file__).with_name('debugging')}:{ROOT}",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5000:].decode()
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for secret in spelled():
        assert [path for path, content in files.items() if secret in content] == []
        assert secret not in ran.stdout + ran.stderr
    # What is searched is what there is to be seen.
    assert b"== Physical Plan ==" in ran.stdout
    assert b"python DEBUG py4j" in ran.stderr
    assert b"python INFO spark_kafkawire wrote 2 message(s)" in ran.stderr
    [log] = [content for path, content in files.items() if path.name.startswith("events_")]
    failure = b"option kafka.retries: '${env:KAFKA_PASSWORD}' is not a whole number"
    for shown in (log, files[folder / "shown"], ran.stderr):
        assert failure in shown
    assert b"SparkListenerSQLExecutionStart" in log
    assert b"QueryProgressEvent" in log
    assert any("checkpoint" in path.parts for path in files)


def test_only_readers_have_secrets(
    noida: NoidaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = tmp_path / "secrets.properties"
    properties.write_text(f"key={KEY}\n")
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    topic = noida.create_topic(partitions=3)
    records = [Record(b"a", partition=partition) for partition in range(3)]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    options = referring(noida.bootstrap_servers, properties)
    source = KafkaWireDataSource({**options, "subscribe": topic})
    assert source.schema()
    pickles = [pickled(source)]
    reader = source.reader(VALUE)
    pickles += [pickled(item) for item in (source, *reader.partitions())]
    of_stream = {**options, "subscribe": topic, "startingOffsets": "earliest"}
    stream = KafkaWireDataSource(of_stream).streamReader(VALUE)
    start, end = stream.initialOffset(), {topic: {str(partition): 1 for partition in range(3)}}
    pickles += [pickled(item) for item in stream.partitions(start, end)]
    writer = KafkaWireDataSource({**options, "topic": topic}).writer(VALUE, False)
    assert len(pickles) == 8
    for secret in spelled():
        assert not [item for item in pickles if secret in item]
    monkeypatch.delenv("KAFKA_PASSWORD")  # executors have neither the variable nor the file
    properties.unlink()
    for travelled in (reader, stream, writer):
        task = pickle.loads(pickled(travelled))
        given = task._options if travelled is writer else task._of_tasks.value
        assert given.net.connection.security.sasl.credentials.secrets == (PASSWORD,)
