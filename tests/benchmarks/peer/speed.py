"""Reads and writes of the same rows: by ceilings, Spark's own connector, confluent-kafka, kafkawire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from tests.support import librdkafka

from ..backlog import VALUE, Side, read_into_nothing, ready_made, write_topic
from ..clients import confluent_kafka
from ..kafka import new_topic
from ..measure import Figure, interleaved, one_after_the_other, say
from ..processes import CpuMeter
from ..tables import print_table
from ..writing import PARTITIONS, rows_to_write
from . import bars
from .bars import Took

#: Into how many parts the asked rows are divided for a read, a write, and a read without Spark, by size of
#: the values: so all runs take seconds.
_DIVIDED: Final = {100: (1, 2, 10), 1024: (5, 8, 20)}

Step = Callable[[], None]


def _nothing() -> None:
    """No step at all."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A run, and how many rows it moves; what comes before each run and after a turn of two is not
    measured."""

    run: Step
    rows: int
    before: Step = _nothing
    after: Step = _nothing

    def turn(self, metered: Step) -> Step:
        """A run, and another one that is measured."""
        return one_after_the_other(self.before, self.run, self.before, metered, self.after)


Kinds = dict[str, Kind]


def speed(spark: SparkSession, servers: str, rounds: int, rows: int) -> Iterator[Figure]:
    """All kinds with values of 100 B and 1 KiB.

    Each run is made twice, and the second one counts: Spark ends Python workers that nobody asked for a
    minute, and after another kind of run the JVM compiles its part anew.
    """
    took = {}
    for value_size in bars.VALUE_SIZES:
        read, written, confluent = (rows // parts for parts in _DIVIDED[value_size])
        say(f"reads: {read:,} rows with values of {value_size} bytes")
        kinds = _reads(spark, servers, value_size, read)
        kinds[bars.CONFLUENT] = _confluent(spark, servers, value_size, confluent)
        found = _measured(kinds, rounds)
        say(f"writes: {written:,} rows with values of {value_size} bytes")
        found |= _measured(_writes(spark, servers, value_size, written), rounds)
        took[value_size] = bars.with_differences(found)
    print_table(*bars.table(took))
    for value_size, each in took.items():
        yield from bars.bars(value_size, each)


def _measured(kinds: Kinds, rounds: int) -> dict[str, Took]:
    meter = CpuMeter()
    interleaved({name: kind.turn(meter.metered(name, kind.run)) for name, kind in kinds.items()}, rounds)
    return {
        name: Took(kind.rows, meter.seconds(name), meter.ns_per_row(name, kind.rows))
        for name, kind in kinds.items()
    }


def _reads(spark: SparkSession, servers: str, value_size: int, rows: int) -> Kinds:
    topic = write_topic(spark, servers, f"read-{value_size}", rows, value_size)
    of_partition = rows // PARTITIONS
    sides = {
        bars.READY: ready_made(of_partition, value_size=value_size),
        bars.READY_VALUES: ready_made(of_partition, columns=VALUE, value_size=value_size),
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


def _reader(frame: Callable[[], DataFrame]) -> Step:
    return lambda: read_into_nothing(frame())


def _confluent(spark: SparkSession, servers: str, value_size: int, rows: int) -> Kind:
    topic = f"some-{value_size}"
    write_topic(spark, servers, topic, rows, value_size)
    return Kind(lambda: check(bars.CONFLUENT, confluent_kafka(servers, rows, topic, PARTITIONS), rows), rows)


def _writes(spark: SparkSession, servers: str, value_size: int, rows: int) -> Kinds:
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

    return Kind(write, rows, lambda: topics.append(new_topic(servers)), delete)


def check(what: str, found: int, rows: int) -> None:
    """Nothing is compared that moves other rows."""
    if found != rows:
        raise AssertionError(f"{what}: {found:,} rows, not {rows:,}")
