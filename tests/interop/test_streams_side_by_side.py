"""Streams of ``format("kafka")`` and of ``format("kafkawire")`` side by side, and queries that go from one
to the other: the same batches and offsets, each record once.

    python -m tests.interop.test_streams_side_by_side ANSWERS < QUESTIONS

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
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafkawire.planner.stream_offsets import ID_MARK, PART_MARK, PIN_MARK
from tests.support.local_spark import local_spark
from tests.support.spark_streams import WAIT_MAX_S, started

from .apache_kafka import ApacheKafka
from .stream_scenarios import BY_NAME, STORIES, TAKEN_OVER, Quirk, Scenario, Topic, Trigger
from .versions import needed_connector, newest

ROOT: Final = Path(__file__).parents[2]
_TIMEOUT_S: Final = 1100.0
Answer = dict[str, Any]

pytestmark = [newest, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def answers(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of all scenarios and stories, in one Spark that has both connectors."""
    jars = needed_connector()
    questions = {"servers": kafka.bootstrap_servers(), "jars": jars}
    questions |= {"scenarios": list(BY_NAME), "stories": list(STORIES)}
    found = tmp_path_factory.mktemp("streams") / "answers.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.test_streams_side_by_side", str(found)],
        cwd=ROOT,
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answered: dict[str, Any] = json.loads(found.read_text())
    return answered


def _of_kind(answers: dict[str, Any], kind: str, name: str) -> Any:
    found = answers[kind][name]
    assert not isinstance(found, dict) or "broken" not in found, found["broken"]
    return found


def _without_blanks(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


def _without_mark(text: str) -> str:
    *others, mark = json.loads(text).items()
    assert mark in ((PIN_MARK, {}), (PART_MARK, {}))
    return json.dumps(dict(others))


def _without_ids(text: str) -> str:
    """The offsets without the id of each topic, which Spark's own connector does not keep."""
    written = json.loads(text)
    ids = [key for key in written if key.startswith(ID_MARK)]
    assert [key.removeprefix(ID_MARK).partition(" ")[0] for key in ids] == sorted(
        key for key, partitions in written.items() if partitions
    )
    return json.dumps({key: partitions for key, partitions in written.items() if key not in ids})


@pytest.mark.parametrize("name", BY_NAME)
def test_both_connectors_run_the_same_batches_and_write_down_the_same_offsets(
    answers: dict[str, Any], name: str
) -> None:
    scenario, played = BY_NAME[name], _of_kind(answers, "scenarios", name)
    theirs, ours = played["kafka"], played["kafkawire"]
    assert (theirs["error"] is not None) == scenario.fails, theirs["error"]
    assert (ours["error"] is not None) == scenario.fails, ours["error"]
    assert not scenario.fails or "spark_kafkawire.errors." in ours["error"], ours["error"]
    offsets = [*map(_without_ids, ours["offsets"])]
    if scenario.quirk is Quirk.MARK:
        offsets = [_without_mark(offsets[0]), *offsets[1:]]
    if scenario.quirk is Quirk.FAILS_SOONER:
        *reported, _ = theirs["offsets"]
        theirs = {**theirs, "offsets": reported}
    if scenario.quirk is Quirk.LEAVES_FEW:
        left = len(theirs["batches"])
        assert left < len(ours["batches"])
        ours, offsets = {**ours, "batches": ours["batches"][:left]}, offsets[:left]
    assert ours["batches"] == theirs["batches"]
    assert [*map(_without_blanks, offsets)] == theirs["offsets"]
    assert any(theirs["batches"]) or scenario.fails


@pytest.mark.parametrize("name", TAKEN_OVER)
def test_a_query_that_goes_from_one_to_the_other_reads_each_record_once(
    answers: dict[str, Any], name: str
) -> None:
    played = _of_kind(answers, "scenarios", name)
    alone, in_turn = (
        [row for batch in played[who]["batches"] for row in batch] for who in ("kafka", "in turn")
    )
    assert (played["in turn"]["error"] is not None) == BY_NAME[name].fails, played["in turn"]["error"]
    assert sorted(in_turn) == sorted(alone)
    in_turn_end, alone_end = (json.loads(played[who]["offsets"][-1]) for who in ("in turn", "kafka"))
    assert {key: each for key, each in in_turn_end.items() if not key.startswith(ID_MARK)} == alone_end


#: Rows of stories, which are those of one connector alone.
ROWS_OF_STORIES: Final[dict[str, Any]] = {
    "parquet": [[partition, offset] for partition in range(2) for offset in range(20)],
    "state": [["0", "1", "2", "3", "4"], ["5"], ["6"]],
    "aggregate": [{"0": 5, "5": 1}, {"5": 5, "10": 2}, {"10": 5}, {"15": 3}, {"15": 5, "20": 1}],
    "union": [["", offset] for offset in range(12)] + [["-b", offset] for offset in range(8)],
}


@pytest.mark.parametrize("name", ROWS_OF_STORIES)
def test_what_one_connector_begins_the_other_goes_on_with(answers: dict[str, Any], name: str) -> None:
    """Parquet, duplicates, windows with a watermark, and a union of both."""
    assert _of_kind(answers, "stories", name) == ROWS_OF_STORIES[name]


def test_sinks_are_swapped_with_sources_or_without_them(answers: dict[str, Any]) -> None:
    *runs, again, once_more = _of_kind(answers, "stories", "sinks")
    assert runs == [list(range(3 * number)) for number in range(1, 6)]
    last = runs[-1][-1]
    assert again == [*runs[-1], last]  # the batch that was not done is written again, and no other one
    assert once_more == [*again, last]


def test_a_batch_that_one_has_not_finished_is_finished_by_the_other(answers: dict[str, Any]) -> None:
    first, second, third = _of_kind(answers, "stories", "crashed")
    assert [each["error"] for each in (first, second, third)] == [None] * 3
    assert first["batches"] == {"0": [0, 1, 2], "1": [3, 4]}
    assert second["batches"] == {"1": [3, 4], "2": [5, 6, 7], "3": [8, 9]}
    assert third["batches"] == {"3": [8, 9], "4": [10, 11, 12], "5": [13, 14]}


def test_a_first_batch_of_sparks_own_is_an_error_until_its_start_is_given(answers: dict[str, Any]) -> None:
    theirs, refused, given = _of_kind(answers, "stories", "first-of-kafka")
    assert theirs == {"batches": {"0": [3, 4]}, "error": None}
    assert refused["batches"] == {}
    assert 'OptionError: checkpointLocation: format("kafka") planned the first batch' in refused["error"]
    assert given == {"batches": {"0": [3, 4], "1": []}, "error": None}


def test_a_first_batch_of_ours_is_an_error_of_sparks_own_until_its_start_is_written(
    answers: dict[str, Any],
) -> None:
    ours, refused, again = _of_kind(answers, "stories", "first-of-kafkawire")
    assert ours == {"batches": {"0": []}, "error": None}
    assert refused["batches"] == {}
    assert "offset was changed from 8 to 5" in refused["error"]
    assert again == {"batches": {"0": [], "1": [5, 6, 7]}, "error": None}


def test_a_recreated_topic_is_found_after_takeovers_and_read_from_its_first_record(
    answers: dict[str, Any],
) -> None:
    story = _of_kind(answers, "stories", "recreated")
    *taken_over, first, second, lenient, last = story["runs"]
    assert [each["error"] for each in (*taken_over, lenient, last)] == [None] * 6
    assert [_rows(each) for each in taken_over] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    for each in (first, second):
        assert each["batches"] == {}
        assert "the topic story-recreated was deleted and recreated: its id was " in each["error"]
    assert _rows(lenient) == list(range(20))
    assert _rows(last) == [20, 21]
    kept = [any(key.startswith(ID_MARK) for key in end) for end in story["ends"]]
    assert kept == [False, True, False, True, True, False]


def _rows(run: Answer) -> list[int]:
    return [offset for offsets in run["batches"].values() for offset in offsets]


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
