"""The cost of a micro-batch that reads almost nothing: two partitions with a record each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import SparkSession

from tests.support import librdkafka

from ..backlog import Side, ready_made, write_topic
from ..measure import Figure, interleaved, say
from ..tables import print_table
from ..writing import PARTITIONS
from .queries import MicroBatches, trickle

_OURS, _THEIRS, _FLOOR = "kafkawire", "Spark's connector", "a source that does nothing"
_SINK: Final = " to its sink"
#: Which is compared with which other one, and how many times its cost is allowed.
_COMPARED: Final = (
    (_OURS, _THEIRS, 1.3),
    (_FLOOR, _THEIRS, None),
    (_OURS + _SINK, _THEIRS, 2.0),
    (_OURS + _SINK, _THEIRS + _SINK, 2.0),
    (_FLOOR + _SINK, _THEIRS + _SINK, None),
)
_PHASES: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
_ROLES: Final = ("jvm", "worker", "source", "planner", "broker")


def micro_batch(spark: SparkSession, servers: str, rounds: int, count: int) -> Iterator[Figure]:
    """Micro-batches one after the other, of each source into nothing, and into the sink that goes with it."""
    say(f"micro-batch: {count} micro-batches of a query")
    topic = {
        **write_topic(spark, servers, "trickle", PARTITIONS * count),
        "maxOffsetsPerTrigger": str(PARTITIONS),
    }
    librdkafka.create_topic(servers, PARTITIONS, "copy")
    copy = {"kafka.bootstrap.servers": servers, "topic": "copy"}
    sides = {
        _OURS: (Side("kafkawire", topic), "kafkawire", copy),
        _THEIRS: (Side("kafka", topic), "kafka", copy),
        _FLOOR: (ready_made(1, count), "counting", {}),
    }
    runs_of: dict[str, list[MicroBatches]] = {name + sink: [] for name in sides for sink in ("", _SINK)}
    runs = {}
    for name, (side, sink, options) in sides.items():
        frame = side.stream(spark)
        runs[name] = trickle(frame, "noop", {}, count, runs_of[name])
        values = frame.select("key", "value")
        runs[name + _SINK] = trickle(values, sink, options, count, runs_of[name + _SINK])
    interleaved(runs, rounds)
    # The first run is for warming up.
    seen = {name: MicroBatches.of_runs(each[1:]) for name, each in runs_of.items()}
    _print(seen)
    for name, other, target in _COMPARED:
        cost = seen[name].ms / seen[other].ms
        yield Figure(f"micro-batch: {name}, to {other}", "times_the_cost", cost, target, at_most=True)
    cost = seen[_OURS].beside_checkpoint_ms / seen[_THEIRS].beside_checkpoint_ms
    yield Figure(f"micro-batch without its checkpoint: {_OURS}, to {_THEIRS}", "times_the_cost", cost)


def _print(seen: Mapping[str, MicroBatches]) -> None:
    rows = [["a micro-batch", *(f"{each.ms:.0f}" for each in seen.values())]]
    for phase in _PHASES:
        rows.append([f"`{phase}`", *(f"{each.phases_ms[phase]:.0f}" for each in seen.values())])
    for role in _ROLES:
        rows.append([f"CPU: {role}", *(f"{each.cpu_ms.get(role, 0):.0f}" for each in seen.values())])
    print_table(["ms", *seen], rows)
