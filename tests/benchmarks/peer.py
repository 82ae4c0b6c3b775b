"""Reads and writes of the same rows: by ceilings, Spark's own connector, confluent-kafka, kafkawire."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from tests.support import librdkafka

from .clients import confluent_kafka
from .measure import Figure, Kind, Took, print_table, say, side_by_side
from .session import Bench
from .sources import (
    PARTITIONS,
    VALUE,
    Side,
    check,
    new_topic,
    read_into_nothing,
    ready_made,
    rows_to_write,
    write_topic,
)

VALUE_SIZES: Final = (100, 1024)

READY, READY_VALUES = "read: ready-made batches", "read: ready-made batches, `value` alone"
THEIRS, THEIR_VALUES = "read: Spark's connector", "read: Spark's connector, `value` alone"
OURS, OUR_VALUES = "read: kafkawire", "read: kafkawire, `value` alone"
CONFLUENT: Final = "into Arrow without Spark: confluent-kafka, one process"
ROWS_ALONE: Final = "write: the rows alone, into nothing"
COUNTED: Final = "write: a writer that only counts"
THEIR_WRITE, OUR_WRITE = "write: Spark's connector", "write: kafkawire"
LESS_ROWS: Final = ", less the rows"

#: Which kind is compared with which other one, and how many times as fast it is to be, by size of the values.
_COMPARED: Final[tuple[tuple[str, str, Mapping[int, float]], ...]] = (
    (OURS, READY, {100: 0.90, 1024: 0.85}),
    (OUR_VALUES, READY_VALUES, {}),
    (OURS, THEIRS, {}),
    (OUR_VALUES, THEIR_VALUES, {}),
    (OURS, CONFLUENT, {}),
    (OUR_WRITE + LESS_ROWS, THEIR_WRITE + LESS_ROWS, {100: 2.0, 1024: 1.5}),
    (OUR_WRITE, THEIR_WRITE, {}),
    (OUR_WRITE, COUNTED, {}),
)
#: Into how many parts the asked rows are divided for a read, a write, and a read without Spark, by size of
#: the values: so all runs take seconds.
_DIVIDED: Final = {100: (1, 2, 10), 1024: (5, 8, 20)}


def speed(bench: Bench) -> Iterator[Figure]:
    """All kinds with values of 100 B and 1 KiB."""
    spark, servers, took = bench.spark, bench.servers, {}
    for value_size in VALUE_SIZES:
        read, written, confluent = (bench.size // parts for parts in _DIVIDED[value_size])
        say(f"reads: {read:,} rows with values of {value_size} bytes")
        kinds = _reads(spark, servers, value_size, read)
        kinds[CONFLUENT] = _confluent(spark, servers, value_size, confluent)
        found = side_by_side(kinds, bench.rounds, twice=True)
        say(f"writes: {written:,} rows with values of {value_size} bytes")
        found |= side_by_side(_writes(spark, servers, value_size, written), bench.rounds, twice=True)
        took[value_size] = with_differences(found)
    print_table(*table(took))
    for value_size, each in took.items():
        yield from bars(value_size, each)


def _reads(spark: SparkSession, servers: str, value_size: int, rows: int) -> dict[str, Kind]:
    topic = write_topic(spark, servers, rows, value_size)
    of_partition = rows // PARTITIONS
    sides = {
        READY: ready_made(of_partition, value_size),
        READY_VALUES: ready_made(of_partition, value_size, VALUE),
        THEIRS: Side("kafka", topic),
        OURS: Side("kafkawire", topic),
        OUR_VALUES: Side("kafkawire", topic, VALUE),
    }
    # Each read plans a frame of its own.
    frames: dict[str, Callable[[], DataFrame]] = {
        name: partial(side.batch, spark) for name, side in sides.items()
    }
    # It has no schema to choose: all columns are made, and the others dropped.
    frames[THEIR_VALUES] = lambda: sides[THEIRS].batch(spark).select("value")
    for name, frame in frames.items():
        check(name, frame().count(), rows)
    return {name: Kind(_reader(frame), rows) for name, frame in frames.items()}


def _reader(frame: Callable[[], DataFrame]) -> Callable[[], None]:
    return lambda: read_into_nothing(frame())


def _confluent(spark: SparkSession, servers: str, value_size: int, rows: int) -> Kind:
    topic = write_topic(spark, servers, rows, value_size)["subscribe"]
    return Kind(lambda: check(CONFLUENT, confluent_kafka(servers, rows, topic, PARTITIONS), rows), rows)


def _writes(spark: SparkSession, servers: str, value_size: int, rows: int) -> dict[str, Kind]:
    frame = rows_to_write(spark, value_size, rows)
    return {
        ROWS_ALONE: Kind(lambda: read_into_nothing(frame), rows),
        COUNTED: Kind(lambda: frame.write.format("counting").mode("append").save(), rows),
        THEIR_WRITE: _into_topics(frame, rows, servers, "kafka"),
        OUR_WRITE: _into_topics(frame, rows, servers, "kafkawire"),
    }


def _into_topics(frame: DataFrame, rows: int, servers: str, format: str) -> Kind:
    """Each write to a new topic. Both of a turn are deleted after it, when no run is measured."""
    topics: list[str] = []

    def write() -> None:
        options = {"kafka.bootstrap.servers": servers, "topic": topics[-1]}
        frame.write.format(format).mode("append").options(**options).save()

    def delete() -> None:
        for topic in topics:
            ends = [librdkafka.offsets(servers, topic, number)[1] for number in range(PARTITIONS)]
            check(f"write of {format}", sum(ends), rows)
            librdkafka.delete_topic(servers, topic)
        topics.clear()

    return Kind(write, rows, before=lambda: topics.append(new_topic(servers)), after=delete)


def less(took: Took, other: Took) -> Took:
    """The same rows without the seconds that the other one took for as many."""
    return Took(took.rows, took.seconds - other.seconds * took.rows / other.rows)


def with_differences(took: Mapping[str, Took]) -> dict[str, Took]:
    """All kinds of one value size, and the writes once more without what it takes to make their rows."""
    writes = {
        kind + LESS_ROWS: less(took[kind], took[ROWS_ALONE]) for kind in (COUNTED, THEIR_WRITE, OUR_WRITE)
    }
    return {**took, **writes}


def table(of_sizes: Mapping[int, Mapping[str, Took]]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the one table: a row for each kind, and columns for each value size."""
    header = [""]
    for value_size in of_sizes:
        header += [f"{value_size} B: million rows/s", "s", "CPU ns/row: JVM + Python + broker"]
    kinds = next(iter(of_sizes.values()))
    return header, [[kind, *_cells([took[kind] for took in of_sizes.values()])] for kind in kinds]


def _cells(of_sizes: list[Took]) -> Iterator[str]:
    for took in of_sizes:
        yield f"{took.rows_per_s / 1e6:.2f}"
        yield f"{took.seconds:.2f}"
        yield " + ".join(map(str, took.parts_ns.values())) if took.cpu_ns else ""


def bars(value_size: int, took: Mapping[str, Took]) -> Iterator[Figure]:
    """Speeds of each kind relative to the kind that it is compared with; ``took`` has the differences."""
    for kind, other, targets in _COMPARED:
        speed, other_speed = took[kind].rows_per_s, took[other].rows_per_s
        # Nothing can be said of two that take no time.
        times = speed / other_speed if math.isfinite(speed) else math.nan
        yield Figure(
            f"{value_size} B, {kind}, to {other.partition(': ')[2]}",
            "times_as_fast",
            times,
            targets.get(value_size),
            details={"rows_per_s": speed, "other_rows_per_s": other_speed},
        )
