"""A program whose queries have their secrets by references, and all that Spark shows of them.

    python -m tests.source.referring BOOTSTRAP_SERVERS TOPIC FOLDER

It writes, reads, streams, uses SQL and fails; ``FOLDER`` gets Spark's event log, the checkpoint and the file
``shown``. The variable ``KAFKA_PASSWORD`` and the file ``FOLDER/../secrets.properties`` have the secrets.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.local_spark import plain_spark

MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: Pages of Spark's REST interface, below that of the application.
PAGES: Final = ("sql?details=true&planDescription=true&length=1000", "jobs", "stages", "environment")


def secured(servers: str, properties: Path) -> dict[str, str]:
    """Options with a login; the password is in the environment, and the key's in the file."""
    return {
        "kafka.bootstrap.servers": servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{MODULE} username="u" password="${{env:KAFKA_PASSWORD}}";',
        "kafka.ssl.key.password": f"${{file:{properties}:key}}",
        "requestTimeout": "20s",
    }


def main(servers: str, topic: str, folder: Path) -> None:
    options = secured(servers, folder.parent / "secrets.properties")
    settings: dict[str, Any] = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.log.level": "INFO",
    }
    (folder / "events").mkdir(parents=True)
    spark = plain_spark("references", settings)
    rows = spark.createDataFrame([(b"a",), (b"b",)], "value binary")
    rows.write.format("kafkawire").mode("append").options(**options, topic=topic).save()
    frame = spark.read.format("kafkawire").options(**options, subscribe=topic).load()
    assert sorted(row.value for row in frame.select("value").collect()) == [b"a", b"b"]
    frame.explain(extended=True)
    shown = [plans(frame), *streamed(spark, options, topic, folder), by_sql(spark, options, topic)]
    for wrong in ({"kafka.sasl.mechanism": "SCRAM-SHA-256"}, {"kafka.retries": "${env:KAFKA_PASSWORD}"}):
        try:
            spark.read.format("kafkawire").options(**{**options, **wrong}, subscribe=topic).load().collect()
            raise AssertionError("the query did not fail")
        except PySparkException as error:
            shown.append(str(error))
    shown += [page(f"{spark.sparkContext.uiWebUrl}/{name}") for name in ("SQL/", "StreamingQuery/", "jobs/")]
    application = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    shown += [page(f"{application}/{name}") for name in PAGES]
    spark.stop()
    (folder / "shown").write_text("\n".join(shown))


def plans(frame: DataFrame) -> str:
    execution = frame._jdf.queryExecution()
    return "\n".join(map(str, (execution.toString(), execution.logical(), execution.executedPlan())))


def streamed(spark: SparkSession, options: dict[str, str], topic: str, folder: Path) -> list[str]:
    """The plan and the progress of a stream into the same topic."""
    stream = spark.readStream.format("kafkawire").options(
        **options, subscribe=topic, startingOffsets="earliest"
    )
    query = (
        stream.load()
        .select("value")
        .writeStream.format("kafkawire")
        .options(**options, topic=topic, checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(extended=True)
    assert sum(item["numInputRows"] for item in query.recentProgress) == 2
    return [json.dumps([json.loads(item.json) for item in query.recentProgress])]


def by_sql(spark: SparkSession, options: dict[str, str], topic: str) -> str:
    """The plan of a view. Spark itself replaces a reference to the environment in the text of SQL, unless its
    substitution of variables is off."""
    spark.conf.set("spark.sql.variable.substitute", "false")
    listed = ", ".join(f"`{name}` '{value}'" for name, value in {**options, "subscribe": topic}.items())
    spark.sql(f"CREATE TEMPORARY VIEW events USING kafkawire OPTIONS ({listed})")
    frame = spark.sql("SELECT value FROM events")
    assert frame.count() == 4
    return plans(frame)


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
