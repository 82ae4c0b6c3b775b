"""Columns of Avro as Spark's own functions and ours read and write them, in a Spark with the jar of Spark's.

    python -m tests.interop.avro_columns JARS CASES ANSWERS

A jar is only taken when a JVM starts, so this Spark is not the one that all tests share. The cases are a list
of objects with a ``schema``, ``messages`` in hexadecimal, and the ``options`` of Spark's function.
The file of the answers gets an object for each case: Spark's ``values`` and ours, and the ``messages``
that both make of Spark's values. Each is a column: its ``type``, its ``rows`` as texts, and the ``error``
if there is one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro import functions as theirs

from spark_kafkawire import functions as ours
from spark_kafkawire.errors import OptionError
from tests.support.local_spark import local_spark

#: Characters of an error that name its cause: Spark's errors have stacks of Java.
_ERROR_LENGTH: Final = 20_000


def main(jars: str, cases: Path, answers: Path) -> None:
    """Answer all cases."""
    spark = local_spark("columns of Avro", {"spark.jars": jars, "spark.sql.session.timeZone": "UTC"})
    answers.write_text(json.dumps([_answers(spark, **case) for case in json.loads(cases.read_text())]))
    spark.stop()


def _answers(
    spark: SparkSession, schema: str, messages: list[str], options: dict[str, str]
) -> dict[str, Any]:
    table = pa.table({"value": pa.array([bytes.fromhex(each) for each in messages], pa.binary())})
    given = spark.createDataFrame(table).coalesce(1)
    our_options = {"valueSchema": schema, "schemaIdFrom": "none"}

    def their_values() -> DataFrame:
        return given.select(theirs.from_avro("value", schema, options).alias("value"))

    return {
        "values": [
            _column(their_values),
            _column(lambda: given.select(ours.from_avro("value", our_options).alias("value"))),
        ],
        "messages": [
            _column(lambda: their_values().select(theirs.to_avro("value", schema).alias("value"))),
            _column(lambda: their_values().select(ours.to_avro("value", our_options).alias("value"))),
        ],
    }


def _column(made: Callable[[], DataFrame]) -> dict[str, Any]:
    try:
        frame = made()
        # Not toArrow(): PySpark 4.3 takes no field without null in a struct that is null.
        rows = [row.asDict(recursive=True)["value"] for row in frame.collect()]
    except (PySparkException, Py4JError, OptionError) as error:
        return {"type": None, "rows": [], "error": str(error)[:_ERROR_LENGTH]}
    return {
        "type": frame.schema["value"].dataType.jsonValue(),
        "rows": list(map(_text, rows)),
        "error": None,
    }


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else repr(_comparable(value))


def _comparable(value: Any) -> Any:
    """The value with the entries of maps in order, and times of a day as microseconds."""
    if isinstance(value, time):
        return (datetime.combine(date.min, value) - datetime.min) // timedelta(microseconds=1)
    if isinstance(value, dict):
        return {name: _comparable(value[name]) for name in sorted(value)}
    return list(map(_comparable, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
