"""The same streaming queries by Spark's own Kafka connector and by this one, and by both in turn.

    python -m tests.interop.side_by_side_streams ANSWERS < QUESTIONS

The questions are ``{"servers": "h:9092", "jars": ["a.jar"], "scenarios": [NAME], "stories": [NAME]}``, and
the file of the answers gets::

    {"scenarios": {NAME: {CONTENDER: {"batches": [ROWS], "offsets": [TEXT], "error": TEXT or null}}},
     "stories": {NAME: ANSWER}}

The contenders are ``kafka``, ``kafkawire`` and ``in turn``, which goes from one to the other on one
checkpoint. All read the same topic. Rows are those of each batch, in the order of their text. The
checkpoints are beside the file of the answers.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.support.local_spark import local_spark
from tests.support.spark_streams import WAIT_MAX_S, started

from .stream_scenarios import BY_NAME, TAKEN_OVER, Scenario, Topic, Trigger
from .takeovers import STORIES

#: Scenarios that run at once: they wait more than they work.
_AT_ONCE: Final = 3
CONTENDERS: Final[dict[str, tuple[str, ...]]] = {
    "kafka": ("kafka",),
    "kafkawire": ("kafkawire",),
    "in turn": ("kafka", "kafkawire"),
}
_TRIGGERS: Final[dict[Trigger, dict[str, Any]]] = {
    Trigger.AVAILABLE_NOW: {"availableNow": True},
    Trigger.ONCE: {"once": True},
    Trigger.RUNNING: {"processingTime": "0 seconds"},
}


class Contender:
    """One checkpoint of a scenario, and what its batches had."""

    def __init__(
        self, spark: SparkSession, folder: Path, scenario: Scenario, topic: Topic, formats: tuple[str, ...]
    ) -> None:
        self._spark, self._scenario, self._topic = spark, scenario, topic
        self._formats: Iterator[str] = itertools.cycle(formats)
        self._checkpoint = folder
        self._batches: dict[int, list[str]] = {}
        self._error: str | None = None

    def run(self) -> None:
        """Run the query until it ends, by the next of the formats."""
        if self._error is None:
            source = next(self._formats)
            try:
                started(lambda: self._ended(source))
            except (PySparkException, Py4JError) as error:
                self._error = str(error)

    def begin(self) -> StreamingQuery:
        """Begin the query, which goes on."""
        return started(lambda: self._begun(next(self._formats)))

    def _ended(self, source: str) -> StreamingQuery:
        query = self._writer(source).start()
        assert query.awaitTermination(WAIT_MAX_S), f"{self._scenario.name} of {source} does not end"
        return query

    def _begun(self, source: str) -> StreamingQuery:
        query = self._writer(source).start()
        query.processAllAvailable()
        return query

    def _writer(self, source: str) -> DataStreamWriter:
        reader = self._spark.readStream.format(source)
        reader = reader.option("kafka.bootstrap.servers", self._topic.servers)
        frame = reader.options(**self._scenario.options_for(self._topic.name)).load()
        writer = frame.writeStream.foreachBatch(self._keep).option(
            "checkpointLocation", str(self._checkpoint)
        )
        return writer.trigger(**_TRIGGERS[self._scenario.trigger])

    def _keep(self, frame: DataFrame, number: int) -> None:
        stop = self._scenario.stop_offset
        rows = frame if stop is None else frame.where(f"offset < {stop}")
        self._batches[number] = sorted(json.dumps([_shown(value) for value in row]) for row in rows.collect())

    def answer(self) -> dict[str, Any]:
        """All that is known of it."""
        return {
            "batches": [self._batches[number] for number in sorted(self._batches)],
            "offsets": offsets_of(self._checkpoint),
            "error": self._error,
        }


def offsets_of(checkpoint: Path) -> list[str]:
    """The texts of a checkpoint's offset log, of its only source."""
    numbered = {int(file.name): file for file in (checkpoint / "offsets").glob("[0-9]*")}
    return [numbered[number].read_text().splitlines()[2] for number in sorted(numbered)]


def _shown(value: Any) -> str:
    return bytes(value).hex() if isinstance(value, bytearray) else str(value)


def _play(spark: SparkSession, servers: str, folder: Path, scenario: Scenario) -> dict[str, Any]:
    topic = scenario.make(servers, f"scenario-{scenario.name}")
    contenders = {
        name: Contender(spark, folder / f"{scenario.name} {name}", scenario, topic, formats)
        for name, formats in CONTENDERS.items()
    }
    if scenario.name not in TAKEN_OVER:
        del contenders["in turn"]
    if scenario.trigger is Trigger.RUNNING:
        _play_on(scenario, topic, list(contenders.values()))
    else:
        for step in scenario.steps:
            step(topic)
            for contender in contenders.values():
                contender.run()
    return {name: contender.answer() for name, contender in contenders.items()}


def _play_on(scenario: Scenario, topic: Topic, contenders: list[Contender]) -> None:
    first, *steps = scenario.steps
    first(topic)
    with ExitStack() as running:
        queries = []
        for contender in contenders:
            queries.append(contender.begin())
            running.callback(queries[-1].stop)
        for step in steps:
            step(topic)
            for query in queries:
                query.processAllAvailable()


def _reported(name: str, play: Callable[[], Any]) -> Any:
    """Result of a scenario; one that breaks must not take the others with it."""
    begun_s = time.monotonic()
    try:
        return play()
    except Exception:
        return {"broken": traceback.format_exc()}
    finally:
        print(f"{name}: {time.monotonic() - begun_s:.1f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Play the scenarios and the stories."""
    asked = json.load(sys.stdin)
    servers, folder = asked["servers"], Path(sys.argv[1]).parent
    settings = {"spark.jars": ",".join(asked["jars"]), "spark.sql.shuffle.partitions": "1"}
    spark = local_spark("streams side by side", {**settings, "spark.log.level": "OFF"})

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        scenarios = {
            name: pool.submit(_reported, name, partial(_play, spark, servers, folder, BY_NAME[name]))
            for name in asked["scenarios"]
        }
        stories = {
            name: pool.submit(_reported, name, partial(STORIES[name], spark, servers, folder))
            for name in asked["stories"]
        }
        answers = {
            kind: {name: future.result() for name, future in futures.items()}
            for kind, futures in (("scenarios", scenarios), ("stories", stories))
        }
    spark.stop()
    Path(sys.argv[1]).write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
