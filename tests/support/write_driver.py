"""A driver that a test kills: it does the writes that it reads from stdin, one after the other.

    python -m tests.support.write_driver HOME SETTINGS_JSON

Spark is in ``HOME`` and has these settings, too. Each line on stdin is a question, an object of JSON, and
gets one on stdout that begins with ``ANSWER``:

The rows of a write are ``MARK 0``, ``MARK 1`` and so on. With ``"failing": {"seed": S, "share": 0.4,
"least": 3}`` attempts of tasks before their third fail, each before its first row, between two of them, or
after its last one, as the seed says. With ``"rivalled": FOLDER`` each attempt of the first task waits between
two of its rows until another one has come so far, and notes its number in that folder.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.local_spark import local_spark

ANSWER: Final = "ANSWER "
#: Rows of a batch that a task gets: it takes some of them.
BATCH_ROWS: Final = 5
#: How long an attempt waits for its rival, and between two looks, seconds.
_RIVAL_S, _POLL_S = 300.0, 0.02


def main(home: str, settings: dict[str, str]) -> None:
    """Answer the questions until there are no more."""
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS), **settings}
    spark = local_spark("writes that are killed", {"spark.log.level": "OFF", **settings}, home)
    _answer({})
    for line in sys.stdin:
        asked = json.loads(line)
        _answer(_read(spark, asked) if "read" in asked else _write(spark, asked))
    spark.stop()


def _answer(content: dict[str, Any]) -> None:
    print(ANSWER + json.dumps(content), flush=True)


def _read(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    rows = spark.read.format("kafka").options(**asked["read"]).load().selectExpr("cast(value AS string)")
    return {"values": [row[0] for row in rows.collect()]}


def _write(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    tasks = asked["tasks"]
    frame = spark.range(0, tasks * asked["rows"], 1, tasks)
    frame = frame.selectExpr(f"concat('{asked['mark']} ', id) value")
    if "failing" in asked:
        frame = _failing(frame, **asked["failing"])
    if "rivalled" in asked:
        frame = _rivalled(frame, asked["rivalled"])
    try:
        frame.write.format("kafkawire").mode("append").options(**asked["write"]).save()
    except (PySparkException, Py4JError) as error:
        return {"error": str(error)}
    return {"error": None}


def _failing(frame: DataFrame, seed: str, share: float, least: int) -> DataFrame:
    """The rows, of which attempts before number ``least`` fail with that probability."""

    def some_fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        chance = random.Random(f"{seed} {context.partitionId()} {context.attemptNumber()}")
        is_failing = context.attemptNumber() < least and chance.random() < share
        moment = chance.choice(("before", "between", "after")) if is_failing else ""
        if moment == "before":
            raise RuntimeError("this attempt fails before its first row")
        for number, batch in enumerate(batches):
            if moment == "between" and number:
                raise RuntimeError("this attempt fails between two rows")
            yield batch
        if moment:
            raise RuntimeError("this attempt fails after its last row")

    return frame.mapInArrow(some_fail, frame.schema)


def _rivalled(frame: DataFrame, folder: str) -> DataFrame:
    """The rows, between two of which attempts of the first task wait for each other: both have begun their
    transactions by then, and go on at the same time."""

    def waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        stop_s = time.monotonic() + _RIVAL_S
        for number, batch in enumerate(batches):
            if context.partitionId() == 0 and number:
                (Path(folder) / str(context.attemptNumber())).touch()
                while len(list(Path(folder).iterdir())) < 2:
                    assert time.monotonic() < stop_s, "no other attempt of this task begins"
                    time.sleep(_POLL_S)
            yield batch

    return frame.mapInArrow(waits, frame.schema)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
