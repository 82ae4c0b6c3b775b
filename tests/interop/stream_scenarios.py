"""Streaming queries that both connectors run side by side: what they read, and what happens meanwhile.

Each scenario has a topic of its own, whose name stands for ``TOPIC`` in its options. Each step happens before
a run of the queries, or while they run where the trigger is ``RUNNING``.
"""

from __future__ import annotations

import enum
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support import librdkafka
from tests.support.foreign import Record

from .compaction import compacted_topic

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
        """Write so many records, which are there all at once."""
        records = [
            Record(b"%d" % number, timestamp_ms=T0 + 1000 * number, partition=partition, **given)
            for number in itertools.islice(self._numbers, count)
        ]
        librdkafka.produce(self.servers, self.name + more, records, linger_ms=50)

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
        "running-most", {**EARLIEST, "maxOffsetsPerTrigger": "20"}, (_filled, _few, _more), Trigger.RUNNING
    ),
    Scenario(
        "running-least",
        {**EARLIEST, "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"},
        (_filled, _few, _more, _few),
        Trigger.RUNNING,
    ),
    Scenario(
        "running-least-most",
        {
            **EARLIEST,
            "minOffsetsPerTrigger": "10",
            "maxOffsetsPerTrigger": "16",
            "maxTriggerDelay": "1h",
        },
        (_filled, _few, _more, _few),
        Trigger.RUNNING,
    ),
    Scenario(
        "running-least-no-delay",
        {**EARLIEST, "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1ms"},
        (_filled, _few, _more),
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
    Scenario("latest-once", {}, (_filled, _more), Trigger.ONCE, quirk=Quirk.MARK),
    Scenario("latest-running", {}, (_filled, _more, _few), Trigger.RUNNING, quirk=Quirk.MARK),
    Scenario("specific", {"startingOffsets": _json(p0=20, p1=-2, p2=0)}, (_filled, _more)),
    Scenario(
        "specific-latest",
        {"startingOffsets": _json(p0=20, p1=-1, p2=-2)},
        (_filled, _more),
        quirk=Quirk.MARK,
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
    Scenario(
        "assign-most",
        {**EARLIEST, "assign": '{"TOPIC":[0,1]}', "maxOffsetsPerTrigger": "9"},
        (_filled, _more),
    ),
    # What happens to partitions
    Scenario("grown", EARLIEST, (_filled, _grow, _more)),
    Scenario(
        "grown-and-aged",
        EARLIEST,
        (_filled, _grow_and_age),
        fails=True,
    ),
    Scenario(
        "deleted", {**EARLIEST, **BOTH}, (_two_topics, _delete_one), fails=True, quirk=Quirk.FAILS_SOONER
    ),
    Scenario(
        "deleted-borne",
        {**EARLIEST, **BOTH, **BEARS},
        (_two_topics, _delete_one, _more),
    ),
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
    Scenario(
        "transactions",
        {**EARLIEST, **COMMITTED},
        (_transactions, Topic.end_transactions),
    ),
    Scenario(
        "transactions-most",
        {**EARLIEST, **COMMITTED, "maxOffsetsPerTrigger": "15"},
        (_transactions,),
    ),
    Scenario(
        "transactions-uncommitted",
        EARLIEST,
        (_transactions,),
    ),
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
