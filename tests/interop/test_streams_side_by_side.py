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

import enum
import itertools
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafkawire.jobs.checkpoints import CheckpointOptions, run_checkpoints
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.planner.stream_offsets import ID_MARK, PART_MARK, PIN_MARK
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.local_spark import local_spark
from tests.support.spark_streams import WAIT_MAX_S, started

from .apache_kafka import ApacheKafka
from .compaction import compacted_topic
from .versions import answers_of, needed_connector, newest

#: The time of the first record, milliseconds; each one is a second younger than the one before.
T0: Final = 1_750_000_000_000
_FOREVER: Final = {"retention.ms": "-1"}


class Trigger(enum.Enum):
    """Ways to run the queries of a scenario."""

    AVAILABLE_NOW = enum.auto()
    ONCE = enum.auto()
    #: With ProcessingTime of 0 s, from the first step to the last.
    RUNNING = enum.auto()


class Quirk(enum.Enum):
    """Intended differences of the two connectors."""

    #: Ours marks the end of a first batch that has pinned moving starts.
    MARK = "the first batch's end has a mark"
    #: What is gone ends ours before its batch is written down, and Spark's own, for good, after that.
    FAILS_SOONER = "Spark's own writes the batch down that fails"
    #: With AvailableNow and minOffsetsPerTrigger, Spark's own ends before fewer records than that.
    LEAVES_FEW = "Spark's own leaves what is less than minOffsetsPerTrigger"


class Topic:
    """A scenario's topic on one broker."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers, self.name = servers, name
        self._numbers = itertools.count()

    def create(self, partitions: int = 2, more: str = "") -> None:
        librdkafka.create_topic(self.servers, partitions, self.name + more, _FOREVER)

    def put(self, count: int, partition: int = 0, more: str = "", **given: Any) -> None:
        """Write ``count`` records in one batch, so that a running query sees all of them or none.

        The flush at the end sends them: a batch that lingers for a few milliseconds only is sent in parts
        when this process has to wait for a core.
        """
        records = [
            Record(b"%d" % number, timestamp_ms=T0 + 1000 * number, partition=partition, **given)
            for number in itertools.islice(self._numbers, count)
        ]
        librdkafka.produce(self.servers, self.name + more, records, linger_ms=60_000)

    def again(self) -> None:
        """Write the first five records of partition 0 once more."""
        records = [Record(b"%d" % number, timestamp_ms=T0 + 1000 * number) for number in range(5)]
        librdkafka.produce(self.servers, self.name, records)

    def end_transactions(self) -> None:
        """Two that are committed, two that are aborted."""
        for number in range(4):
            end = librdkafka.abort if number % 2 else librdkafka.commit
            end(self.servers, self.name, [Record(b"%d" % number, timestamp_ms=T0)] * 10)

    def grow(self, partitions: int) -> None:
        librdkafka.create_partitions(self.servers, self.name, partitions)

    def age_out(self, before_offset: int, partition: int = 0) -> None:
        librdkafka.delete_records(self.servers, self.name, partition, before_offset)

    def delete(self, more: str = "") -> None:
        librdkafka.delete_topic_and_wait(self.servers, self.name + more)


Step = Callable[[Topic], None]


@dataclass(frozen=True)
class Scenario:
    """One query, as both connectors run it. ``fails``: both end the last run with an error."""

    name: str
    options: dict[str, str]
    steps: tuple[Step, ...]
    trigger: Trigger = Trigger.AVAILABLE_NOW
    fails: bool = False
    quirk: Quirk | None = None
    #: Rows from here on are not compared: the log cleaner goes on with them.
    stop_offset: int | None = None
    make: Callable[[str, str], Topic] = field(default=Topic)

    def options_for(self, topic: str) -> dict[str, str]:
        """The options with the name of the topic in them."""
        selected = {"subscribe", "subscribePattern", "assign"} & self.options.keys()
        options = self.options if selected else {"subscribe": "TOPIC", **self.options}
        return {name: value.replace("TOPIC", topic) for name, value in options.items()}


def _filled(topic: Topic) -> None:
    """Partitions with 30, 12 and no records."""
    topic.create(3)
    topic.put(30)
    topic.put(12, 1)


def _both_filled(topic: Topic) -> None:
    topic.create()
    topic.put(30)
    topic.put(12, 1)


def _two_topics(topic: Topic) -> None:
    topic.create()
    topic.create(1, "-b")
    topic.put(5)
    topic.put(3, more="-b")


def _recreate(topic: Topic) -> None:
    topic.delete("-b")
    topic.create(1, "-b")
    topic.put(2, more="-b")
    topic.put(2)


def _headers(topic: Topic) -> None:
    topic.create()
    topic.put(3, headers=(("h", b"1"), ("h", None), ("g", b"\xff")))
    topic.put(3, 1, key=b"k")


def _grow(topic: Topic) -> None:
    topic.grow(5)
    topic.put(3, 4)


def _grow_and_age(topic: Topic) -> None:
    topic.grow(4)
    topic.put(3, 3)
    topic.age_out(2, 3)


def _age(topic: Topic) -> None:
    topic.put(9)
    topic.age_out(35)


def _transactions(topic: Topic) -> None:
    topic.create(1)
    topic.end_transactions()


def _delete_one(topic: Topic) -> None:
    topic.delete("-b")


def _compacted(servers: str, _: str) -> Topic:
    return Topic(servers, compacted_topic(servers))


def _more(topic: Topic) -> None:
    topic.put(7, 1)


def _few(topic: Topic) -> None:
    topic.put(4)


def _nothing(_: Topic) -> None:
    pass


def _json(**offsets: int) -> str:
    return json.dumps({"TOPIC": {name[1:]: offset for name, offset in offsets.items()}})


EARLIEST: Final = {"startingOffsets": "earliest"}
COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
BOTH: Final = {"subscribePattern": "^TOPIC(-b)?$"}
BEARS: Final = {"failOnDataLoss": "false"}
LATE: Final = {"startingTimestamp": str(T0 + 900_000)}
LATE_LATEST: Final = {**LATE, "startingOffsetsByTimestampStrategy": "latest"}

SCENARIOS: Final = (
    # Triggers and limits
    Scenario("all-at-once", EARLIEST, (_filled, _more, _nothing)),
    Scenario("most", {**EARLIEST, "maxOffsetsPerTrigger": "11"}, (_filled, _more)),
    Scenario("most-of-one", {**EARLIEST, "maxOffsetsPerTrigger": "1"}, (_two_topics,)),
    Scenario("once", {**EARLIEST, "maxOffsetsPerTrigger": "7"}, (_filled, _more), Trigger.ONCE),
    Scenario("running", EARLIEST, (_filled, _few, _more), Trigger.RUNNING),
    Scenario(
        "running-least",
        {**EARLIEST, "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"},
        (_filled, _few, _more, _few),
        Trigger.RUNNING,
    ),
    Scenario(
        "running-least-most",
        {**EARLIEST, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "16", "maxTriggerDelay": "1h"},
        (_filled, _few, _more, _few),
        Trigger.RUNNING,
    ),
    Scenario("least", {**EARLIEST, "minOffsetsPerTrigger": "40"}, (_filled, _few)),
    Scenario(
        "least-most",
        {**EARLIEST, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "20"},
        (_filled,),
        quirk=Quirk.LEAVES_FEW,
    ),
    # Starting options
    Scenario("latest", {}, (_filled, _more, _few), quirk=Quirk.MARK),
    Scenario("latest-running", {}, (_filled, _more, _few), Trigger.RUNNING, quirk=Quirk.MARK),
    Scenario("specific", {"startingOffsets": _json(p0=20, p1=-2, p2=0)}, (_filled, _more)),
    Scenario(
        "specific-latest", {"startingOffsets": _json(p0=20, p1=-1, p2=-2)}, (_filled, _more), quirk=Quirk.MARK
    ),
    Scenario("timestamp", {"startingTimestamp": str(T0 + 7_000)}, (_both_filled, _more)),
    Scenario(
        "timestamps",
        {"startingOffsetsByTimestamp": _json(p0=T0 + 9_000, p1=T0 + 35_000), "assign": '{"TOPIC":[0,1]}'},
        (_filled, _more),
    ),
    Scenario("no-timestamp", LATE, (_filled,), fails=True),
    Scenario("no-timestamp-latest", LATE_LATEST, (_filled, _more), quirk=Quirk.MARK),
    Scenario("empty", EARLIEST, (Topic.create, _more)),
    # Selections
    Scenario("pattern", {**EARLIEST, **BOTH}, (_filled, lambda topic: topic.create(1, "-b"), _more)),
    Scenario("assign", {**EARLIEST, "assign": '{"TOPIC":[1]}'}, (_filled, _more)),
    # What happens to partitions
    Scenario("grown", EARLIEST, (_filled, _grow, _more)),
    Scenario("grown-and-aged", EARLIEST, (_filled, _grow_and_age), fails=True),
    Scenario(
        "deleted", {**EARLIEST, **BOTH}, (_two_topics, _delete_one), fails=True, quirk=Quirk.FAILS_SOONER
    ),
    Scenario("deleted-borne", {**EARLIEST, **BOTH, **BEARS}, (_two_topics, _delete_one, _more)),
    Scenario(
        "made-anew", {**EARLIEST, **BOTH}, (_two_topics, _recreate), fails=True, quirk=Quirk.FAILS_SOONER
    ),
    Scenario("aged", EARLIEST, (_filled, _age), fails=True),
    Scenario("aged-borne", {**EARLIEST, **BEARS}, (_filled, _age)),
    Scenario(
        "compacted", {**EARLIEST, "maxOffsetsPerTrigger": "52"}, (_nothing,), make=_compacted, stop_offset=52
    ),
    # What records have, and how they are read
    Scenario("headers", {**EARLIEST, "includeHeaders": "true"}, (_headers,)),
    Scenario("transactions", {**EARLIEST, **COMMITTED}, (_transactions, Topic.end_transactions)),
    Scenario("transactions-most", {**EARLIEST, **COMMITTED, "maxOffsetsPerTrigger": "15"}, (_transactions,)),
    Scenario("transactions-uncommitted", EARLIEST, (_transactions,)),
    Scenario("min-partitions", {**EARLIEST, "minPartitions": "7"}, (_filled, _more)),
    Scenario(
        "max-records-per-partition",
        {**EARLIEST, "minPartitions": "4", "maxRecordsPerPartition": "8"},
        (_filled,),
    ),
)
#: Those that a query takes part in, too, which goes from one connector to the other and back.
TAKEN_OVER: Final = (
    "all-at-once",
    "most",
    "once",
    "specific",
    "pattern",
    "grown",
    "deleted-borne",
    "aged-borne",
    "headers",
    "transactions",
)
BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}


class Story:
    """A query on one checkpoint, with a topic of its own."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path, name: str) -> None:
        self._spark = spark
        self.topic = Topic(servers, f"story-{name}")
        self.folder = folder / f"story-{name}"
        self.checkpoint = self.folder / "checkpoint"

    def frame(self, source: str, more: str = "", **options: str) -> DataFrame:
        reader = self._spark.readStream.format(source).option("kafka.bootstrap.servers", self.topic.servers)
        return reader.option("subscribe", self.topic.name + more).options(**options).load()

    def sink(self, frame: DataFrame, sink: str) -> DataStreamWriter:
        """Writes the values to the topic's namesake ``-out``."""
        # Spark finds Python sinks in threads alone that it knows a session of.
        self._spark.createDataFrame([(0,)], "a INT")
        writer = frame.select("value").writeStream.format(sink)
        return writer.options(
            **{"kafka.bootstrap.servers": self.topic.servers, "topic": f"{self.topic.name}-out"}
        )

    def run(self, writer: DataStreamWriter) -> str | None:
        """The error that the query ends with, if it does."""
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)

        def ended() -> None:
            assert writer.start().awaitTermination(WAIT_MAX_S), "the query does not end"

        try:
            started(ended)
        except StreamingQueryException as error:
            return str(error)
        return None

    def read(self, source: str, **options: str) -> dict[str, Any]:
        """The offsets that each batch of one run had, by number, and its error."""
        batches: dict[int, list[int]] = {}

        def keep(frame: DataFrame, number: int) -> None:
            batches[number] = sorted(row["offset"] for row in frame.select("offset").collect())

        error = self.run(self.frame(source, **options).writeStream.foreachBatch(keep))
        return {"batches": batches, "error": error}

    def ends(self) -> list[Any]:
        """The offsets of all batches, as they are written down."""
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return [json.loads(file.read_text().splitlines()[2]) for file in files]

    def crash(self) -> None:
        """Undo the commit of the last batch."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.glob("[0-9]*"))
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def prepare(self, target: str) -> Any:
        """Result of ``kafkawire checkpoints``, which prepares the checkpoint for the other connector."""
        options = CheckpointOptions(path=str(self.checkpoint), target=target, write=True)
        return run_checkpoints(options, Progress(), as_json=True)


def parquet(spark: SparkSession, servers: str, folder: Path) -> Any:
    """A stream into Parquet, four times from one to the other."""
    story = Story(spark, servers, folder, "parquet")
    story.topic.create()
    out = str(story.folder / "out")
    for number, source in enumerate(("kafka", "kafkawire", "kafka", "kafkawire")):
        story.topic.put(10, number % 2)
        frame = story.frame(source, **EARLIEST, maxOffsetsPerTrigger="4")
        writer = frame.writeStream.format("parquet").option("path", out)
        assert (error := story.run(writer)) is None, error
    return sorted([row["partition"], row["offset"]] for row in spark.read.parquet(out).collect())


def state(spark: SparkSession, servers: str, folder: Path) -> Any:
    """Rows that one connector has seen are duplicates to the other."""
    story = Story(spark, servers, folder, "state")
    story.topic.create(1)
    seen: list[list[str]] = []

    def keep(frame: DataFrame, _: int) -> None:
        seen.append(sorted(bytes(row["value"]).decode() for row in frame.collect()))

    story.topic.put(5, key=b"k")
    for source in ("kafka", "kafkawire", "kafka"):
        frame = story.frame(source, **EARLIEST).withWatermark("timestamp", "1 hour")
        writer = frame.dropDuplicates(["value", "timestamp"]).writeStream.foreachBatch(keep)
        assert (error := story.run(writer)) is None, error
        story.topic.again()
        story.topic.put(1)
    return [values for values in seen if values]


def sinks(spark: SparkSession, servers: str, folder: Path) -> Any:
    """Source and sink are swapped one after the other; then the last batch is written again by the other
    sink."""
    story = Story(spark, servers, folder, "sinks")
    story.topic.create()
    story.topic.create(1, "-out")
    both, written = ("kafka", "kafkawire"), []
    swaps = [(source, sink) for source in both for sink in both]
    for source, sink in (*swaps, swaps[0]):
        story.topic.put(3)
        writer = story.sink(story.frame(source, **EARLIEST, maxOffsetsPerTrigger="2"), sink)
        assert (error := story.run(writer)) is None, error
        written.append(_values(story, "-out"))
    for sink in both:
        story.crash()
        assert (error := story.run(story.sink(story.frame("kafka", **EARLIEST), sink))) is None, error
        written.append(_values(story, "-out"))
    return written


def _values(story: Story, more: str) -> list[int]:
    result = librdkafka.consume(story.topic.servers, story.topic.name + more)
    return sorted(int(item.value or b"") for item in result)


def aggregate(spark: SparkSession, servers: str, folder: Path) -> Any:
    """Windows are counted in the mode update; each run but the first two has records, too, that are late
    by the watermark of the run before, which was the other connector's."""
    story = Story(spark, servers, folder, "aggregate")
    story.topic.create(1)
    counted: list[dict[int, int]] = []

    def keep(frame: DataFrame, _: int) -> None:
        rows = frame.selectExpr("unix_seconds(window.start) start", "count").collect()
        counted.append({row["start"] - T0 // 1000: row["count"] for row in rows})

    story.topic.put(6)
    for number, source in enumerate(("kafka", "kafkawire", "kafka", "kafkawire", "kafka")):
        frame = story.frame(source, **EARLIEST).withWatermark("timestamp", "2 seconds")
        counts = frame.groupBy(window("timestamp", "5 seconds")).count()
        assert (error := story.run(counts.writeStream.outputMode("update").foreachBatch(keep))) is None, error
        if number:
            story.topic.again()
        story.topic.put(3 if number else 6)
    return [counts for counts in counted if counts]


def union(spark: SparkSession, servers: str, folder: Path) -> Any:
    """One source by each connector, which change places; every other run ends with a crash."""
    story = Story(spark, servers, folder, "union")
    for more in ("", "-b"):
        story.topic.create(1, more)
    batches: dict[int, list[list[Any]]] = {}

    def keep(frame: DataFrame, number: int) -> None:
        rows = [[row["topic"].removeprefix(story.topic.name), row["offset"]] for row in frame.collect()]
        assert batches.setdefault(number, sorted(rows)) == sorted(rows)

    for number, places in enumerate((("kafka", "kafkawire"), ("kafkawire", "kafka")) * 2):
        story.topic.put(3)
        story.topic.put(2, more="-b")
        first, second = (
            story.frame(source, more, **EARLIEST, maxOffsetsPerTrigger="2").select("topic", "offset")
            for source, more in zip(places, ("", "-b"), strict=True)
        )
        assert (error := story.run(first.union(second).writeStream.foreachBatch(keep))) is None, error
        if number % 2 == 0:
            story.crash()
    return sorted(row for rows in batches.values() for row in rows)


def crashed(spark: SparkSession, servers: str, folder: Path) -> Any:
    """A batch that one has not finished is finished by the other, both ways."""
    story = Story(spark, servers, folder, "crashed")
    story.topic.create(1)
    runs = []
    for source in ("kafka", "kafkawire", "kafka"):
        story.topic.put(5)
        runs.append(story.read(source, **EARLIEST, maxOffsetsPerTrigger="3"))
        story.crash()
    return runs


def first_of_kafka(spark: SparkSession, servers: str, folder: Path) -> Any:
    """The first batch of Spark's own is not finished; its start was 3."""
    story = Story(spark, servers, folder, "first-of-kafka")
    story.topic.create(1)
    story.topic.put(5)
    runs = [story.read("kafka", startingOffsets=json.dumps({story.topic.name: {"0": 3}}))]
    story.crash()
    runs.append(story.read("kafkawire", startingOffsets="latest"))
    [source] = story.prepare("kafkawire")["sources"]
    runs.append(story.read("kafkawire", startingOffsets=json.dumps(source["start"])))
    return runs


def first_of_kafkawire(spark: SparkSession, servers: str, folder: Path) -> Any:
    """The first batch of ours, which pins the latest offsets, is not finished."""
    story = Story(spark, servers, folder, "first-of-kafkawire")
    story.topic.create(1)
    story.topic.put(5)
    runs = [story.read("kafkawire")]
    story.crash()
    story.topic.put(3)
    runs.append(story.read("kafka", startingOffsets="latest"))
    story.prepare("kafka")
    runs.append(story.read("kafka", startingOffsets="latest"))
    return runs


def recreated(spark: SparkSession, servers: str, folder: Path) -> Any:
    """A query goes to ours, which keeps the topic's id, back and again; then the topic is recreated with more
    records, and after an error at each of two starts ours reads it from its first record."""
    story = Story(spark, servers, folder, "recreated")
    story.topic.create(1)
    runs = []
    for source in ("kafka", "kafkawire", "kafka", "kafkawire"):
        story.topic.put(3)
        runs.append(story.read(source, **EARLIEST))
    story.topic.delete()
    story.topic.create(1)
    story.topic.put(20)
    runs += [story.read("kafkawire", **EARLIEST) for _ in range(2)]
    runs.append(story.read("kafkawire", **EARLIEST, failOnDataLoss="false"))
    story.topic.put(2)
    runs.append(story.read("kafka", **EARLIEST))
    return {"runs": runs, "ends": story.ends()}


STORIES: Final[dict[str, Callable[[SparkSession, str, Path], Any]]] = {
    "parquet": parquet,
    "state": state,
    "sinks": sinks,
    "aggregate": aggregate,
    "union": union,
    "crashed": crashed,
    "first-of-kafka": first_of_kafka,
    "first-of-kafkawire": first_of_kafkawire,
    "recreated": recreated,
}


_TIMEOUT_S: Final = 1100.0
Answer = dict[str, Any]

pytestmark = [newest, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def answers(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of all scenarios and stories, in one Spark that has both connectors."""
    jars = needed_connector()
    questions = {"servers": kafka.bootstrap_servers(), "jars": jars}
    questions |= {"scenarios": list(BY_NAME), "stories": list(STORIES)}
    folder = tmp_path_factory.mktemp("streams")
    answered: dict[str, Any] = answers_of("test_streams_side_by_side", questions, folder, _TIMEOUT_S)
    return answered


def _of_kind(answers: dict[str, Any], kind: str, name: str) -> Any:
    result = answers[kind][name]
    assert not isinstance(result, dict) or "broken" not in result, result["broken"]
    return result


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
    assert {key: item for key, item in in_turn_end.items() if not key.startswith(ID_MARK)} == alone_end


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
    assert [item["error"] for item in (first, second, third)] == [None] * 3
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
    assert [item["error"] for item in (*taken_over, lenient, last)] == [None] * 6
    assert [_rows(item) for item in taken_over] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    for item in (first, second):
        assert item["batches"] == {}
        assert "the topic story-recreated was deleted and recreated: its id was " in item["error"]
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
