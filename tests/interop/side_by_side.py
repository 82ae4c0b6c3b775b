"""The same reads and writes by Spark's own Kafka connector and by this one.

    python -m tests.interop.side_by_side ANSWERS < QUESTIONS

A jar is only taken when a JVM starts, so this Spark is not the one that all tests share. The questions are
an object of JSON, and the file of the answers gets one::

    {"servers": "h:9092", "jars": ["a.jar"],
     "reads": [OPTIONS], "writes": [{"columns": [SQL], "options": OPTIONS}]}
    {"reads": [{"kafka": ANSWER, "kafkawire": ANSWER}], "writes": [...]}

An answer is ``{"schema": ..., "rows": [...]}``, or ``{"error": ...}`` where the connector raised one. Each
write fills a topic of its own, named in its option ``topic``, to which ``-kafka`` or ``-kafkawire`` is added,
and is read back by Spark's connector; its rows are those of ``_COUNT`` numbers ``id``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from tests.support.local_spark import local_spark

FORMATS: Final = ("kafka", "kafkawire")
_COUNT: Final = 300
#: What both connectors raise, by way of Spark or of the JVM; any other error is a mistake of this program.
_ERRORS: Final = (PySparkException, Py4JError)


def _read(spark: SparkSession, name: str, servers: str, options: dict[str, str]) -> dict[str, Any]:
    try:
        frame = _loaded(spark, name, servers, options)
        return {"schema": frame.schema.jsonValue(), "rows": _sorted(frame.collect())}
    except _ERRORS as error:
        return {"error": str(error)}


def _write(spark: SparkSession, name: str, servers: str, write: dict[str, Any]) -> dict[str, Any]:
    frame = spark.range(0, _COUNT, 1, 3).selectExpr(*write["columns"])
    options = {**write["options"], "topic": f"{write['options']['topic']}-{name}"}
    try:
        where = frame.write.format(name).mode("append").option("kafka.bootstrap.servers", servers)
        where.options(**options).save()
    except _ERRORS as error:
        return {"error": str(error)}
    written = _loaded(spark, "kafka", servers, {"subscribe": options["topic"], "includeHeaders": "true"})
    # Which partition rows without a key go to is the producer's choice.
    kept = written.selectExpr("key", "value", "headers", "if(key is null, null, partition) partition")
    return {"schema": None, "rows": _sorted(kept.collect())}


def _loaded(spark: SparkSession, name: str, servers: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(name).option("kafka.bootstrap.servers", servers).options(**options).load()


def _sorted(rows: Iterable[Row]) -> list[str]:
    return sorted(json.dumps([_shown(value) for value in row]) for row in rows)


def _shown(value: Any) -> str:
    return bytes(value).hex() if isinstance(value, bytearray) else str(value)


def main() -> None:
    """Answer the questions."""
    asked = json.load(sys.stdin)
    spark = local_spark("side by side", {"spark.jars": ",".join(asked["jars"]), "spark.log.level": "OFF"})
    answers = {
        kind: [{name: do(spark, name, asked["servers"], each) for name in FORMATS} for each in asked[kind]]
        for kind, do in (("reads", _read), ("writes", _write))
    }
    spark.stop()
    Path(sys.argv[1]).write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
