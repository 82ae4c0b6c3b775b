"""Secrets reach the tasks, and nothing that Spark shows or raises."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support import java_stores
from tests.support.noida import NoidaBroker

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


def load(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("kafkawire").options(**options).load()


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
    frame = load(spark, secured(noida, subscribe=topic))
    assert sorted(row.value for row in frame.select("value").collect()) == [b"a", b"b"]
    frame.explain(extended=True)
    printed = capfd.readouterr()
    assert "kafkawire" in printed.out
    for text in (shown_by(frame), printed.out, printed.err, caplog.text):
        assert SECRET not in text


@pytest.mark.parametrize(
    "changes",
    [
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
            for kind in ("keystore", "truststore")
            for store in ("client.jks", "client.p12")
        ),
    ],
    ids=lambda changes: ",".join(
        str(Path(value).name if "location" in name else name) for name, value in changes.items()
    ),
)
def test_a_query_that_fails_shows_no_secret(
    spark: SparkSession,
    noida: NoidaBroker,
    changes: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, "spark_kafkawire")
    with pytest.raises(PySparkException) as error:
        load(spark, secured(noida, **{"subscribe": "t", **changes})).collect()
    printed = capfd.readouterr()
    for text in (str(error.value), repr(error.value), printed.out, printed.err, caplog.text):
        assert SECRET not in text
