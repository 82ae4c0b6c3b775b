"""Reads and writes of the same rows: by ceilings, Spark's own connector, confluent-kafka, kafkawire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from tests.support import librdkafka

from . import bars
from .clients import confluent_kafka
from .measure import Figure, Kind, print_table, say, side_by_side
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

#: Into how many parts the asked rows are divided for a read, a write, and a read without Spark, by size of
#: the values: so all runs take seconds.
_DIVIDED: Final = {100: (1, 2, 10), 1024: (5, 8, 20)}


def speed(bench: Bench) -> Iterator[Figure]:
    """All kinds with values of 100 B and 1 KiB."""
    spark, servers, took = bench.spark, bench.servers, {}
    for value_size in bars.VALUE_SIZES:
        read, written, confluent = (bench.size // parts for parts in _DIVIDED[value_size])
        say(f"reads: {read:,} rows with values of {value_size} bytes")
        kinds = _reads(spark, servers, value_size, read)
        kinds[bars.CONFLUENT] = _confluent(spark, servers, value_size, confluent)
        found = side_by_side(kinds, bench.rounds, twice=True)
        say(f"writes: {written:,} rows with values of {value_size} bytes")
        found |= side_by_side(_writes(spark, servers, value_size, written), bench.rounds, twice=True)
        took[value_size] = bars.with_differences(found)
    print_table(*bars.table(took))
    for value_size, each in took.items():
        yield from bars.bars(value_size, each)


def _reads(spark: SparkSession, servers: str, value_size: int, rows: int) -> dict[str, Kind]:
    topic = write_topic(spark, servers, rows, value_size)
    of_partition = rows // PARTITIONS
    sides = {
        bars.READY: ready_made(of_partition, value_size),
        bars.READY_VALUES: ready_made(of_partition, value_size, VALUE),
        bars.THEIRS: Side("kafka", topic),
        bars.OURS: Side("kafkawire", topic),
        bars.OUR_VALUES: Side("kafkawire", topic, VALUE),
    }
    # Each read plans a frame of its own.
    frames: dict[str, Callable[[], DataFrame]] = {
        name: partial(side.batch, spark) for name, side in sides.items()
    }
    # It has no schema to choose: all columns are made, and the others dropped.
    frames[bars.THEIR_VALUES] = lambda: sides[bars.THEIRS].batch(spark).select("value")
    for name, frame in frames.items():
        check(name, frame().count(), rows)
    return {name: Kind(_reader(frame), rows) for name, frame in frames.items()}


def _reader(frame: Callable[[], DataFrame]) -> Callable[[], None]:
    return lambda: read_into_nothing(frame())


def _confluent(spark: SparkSession, servers: str, value_size: int, rows: int) -> Kind:
    topic = write_topic(spark, servers, rows, value_size)["subscribe"]
    return Kind(lambda: check(bars.CONFLUENT, confluent_kafka(servers, rows, topic, PARTITIONS), rows), rows)


def _writes(spark: SparkSession, servers: str, value_size: int, rows: int) -> dict[str, Kind]:
    frame = rows_to_write(spark, value_size, rows)
    return {
        bars.ROWS_ALONE: Kind(lambda: read_into_nothing(frame), rows),
        bars.COUNTED: Kind(lambda: frame.write.format("counting").mode("append").save(), rows),
        bars.THEIR_WRITE: _into_topics(frame, rows, servers, "kafka"),
        bars.OUR_WRITE: _into_topics(frame, rows, servers, "kafkawire"),
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
