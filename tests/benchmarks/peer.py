"""Reads and writes of the same rows by ceilings, other clients, Spark's own connector and kafkawire."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from tests.support import librdkafka

from . import bars
from .log_server import log_server
from .logs import write_modern_log
from .measure import (
    Figure,
    Kind,
    interleaved,
    print_table,
    print_took,
    say,
    side_by_side,
    throughput,
)
from .processes import confined
from .session import (
    PARTITIONS,
    PREFIX,
    VALUE,
    VALUE_SIZE,
    Bench,
    Side,
    Spark,
    check,
    new_topic,
    read_into_nothing,
    ready_made,
    rows_to_write,
    standalone,
    write_topic,
)

with warnings.catch_warnings():
    # It reads its schemas with a function that Python deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
#: kafka-python is read with a part of the rows: it takes minutes for all.
_ROWS: Final = {"kafkawire": 5_000_000, "confluent-kafka": 1_000_000, "kafka-python": 200_000}
#: Rows of one Arrow batch, as the other clients' records are gathered.
_BATCH_ROWS: Final = 50_000
#: By default librdkafka pauses for a second whenever 100,000 records wait: 0.14, not 0.35 million rows/s.
_LIBRDKAFKA: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "fetch.message.max.bytes": 8 << 20,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1 << 20,
    "fetch.queue.backoff.ms": 1,
    "log_level": 0,
}
_NAMES: Final = ("key", "value", "offset", "timestamp")


def clients(bench: Bench) -> Iterator[Figure]:
    """Keys, values, offsets and timestamps of an uncompressed topic, rows per second."""
    say(f"clients: values of {VALUE_SIZE} bytes into Arrow")
    with TemporaryDirectory(prefix=PREFIX) as folder:
        log = write_modern_log(Path(folder), "t-0", value_size=VALUE_SIZE, rows=max(_ROWS.values()))
        with log_server(Path(folder)) as servers:
            readers: dict[str, Callable[[str, int], int]] = {
                "kafkawire": _kafkawire,
                "confluent-kafka": confluent_kafka,
                "kafka-python": _kafka_python,
            }
            runs = {name: _checked(read, servers, _ROWS[name]) for name, read in readers.items()}
            seconds = interleaved(runs, bench.rounds)
    ours = _ROWS["kafkawire"] / median(seconds["kafkawire"])
    for name, rows in _ROWS.items():
        moved = throughput(seconds[name], rows=rows, size=rows * log.value_bytes // log.rows)
        yield Figure(
            f"into Arrow by {name}",
            "times_slower",
            ours / (rows / median(seconds[name])),
            details={"value_size": VALUE_SIZE, **moved},
        )


def _checked(read: Callable[[str, int], int], servers: str, rows: int) -> Callable[[], None]:
    def run() -> None:
        result = read(servers, rows)
        assert result >= rows, f"{result} rows, not {rows}"

    return run


def _kafkawire(servers: str, rows: int) -> int:
    result = 0
    side = Side("kafkawire", {"kafka.bootstrap.servers": servers, "subscribe": "t"})
    for batch in side.first_partition(_NAMES):
        result += batch.num_rows
        if result >= rows:
            break
    return result


def confluent_kafka(servers: str, rows: int, topic: str = "t", partitions: int = 1) -> int:
    """Reads at least so many rows, where there are as many, in one process; how many it found."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", **_LIBRDKAFKA})
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        result = 0
        # It waits for as many as it is asked for.
        while result < rows and (some := consumer.consume(min(_BATCH_ROWS, rows - result), timeout=10)):
            result += _batched(
                (item.key(), item.value(), item.offset(), item.timestamp()[1]) for item in some
            )
        return result
    finally:
        consumer.close()


def _kafka_python(servers: str, rows: int) -> int:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, enable_auto_commit=False, max_partition_fetch_bytes=8 << 20
    )
    try:
        log = kafka.TopicPartition("t", 0)
        consumer.assign([log])
        consumer.seek_to_beginning(log)
        result = 0
        while result < rows and (some := consumer.poll(timeout_ms=10_000, max_records=_BATCH_ROWS)):
            result += _batched((item.key, item.value, item.offset, item.timestamp) for item in some[log])
        return result
    finally:
        consumer.close(autocommit=False)


def _batched(rows: Iterable[tuple[Any, ...]]) -> int:
    """Make an Arrow batch of them; how many they are."""
    types = (pa.binary(), pa.binary(), pa.int64(), pa.int64())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    return len(pa.RecordBatch.from_arrays(columns, names=list(_NAMES)))


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
        result = side_by_side(kinds, bench.rounds, twice=True)
        say(f"writes: {written:,} rows with values of {value_size} bytes")
        result |= side_by_side(_writes(spark, servers, value_size, written), bench.rounds, twice=True)
        took[value_size] = bars.with_differences(result)
    print_table(*bars.table(took))
    for value_size, item in took.items():
        yield from bars.bars(value_size, item)


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


_ONE_CORE: Final = "`local[1]` and the broker on one core"
_ONE, _TWO, _CLUSTER = "`local[1]`", "`local[2]`", "standalone, 2 workers of 1 core"
_OURS, _READY = "kafkawire", "ready-made batches"
#: Which Spark is compared with which other one, and how many times as fast kafkawire is to be.
_SPARKS_COMPARED: Final = ((_TWO, _ONE_CORE, 1.8), (_TWO, _ONE, 1.8), (_CLUSTER, _TWO, 0.9))


def scaling(bench: Bench) -> Iterator[Figure]:
    """Reads by all of these Sparks, beside ready-made batches."""
    say(f"scaling: {bench.size:,} rows")
    topic = write_topic(bench.spark, bench.servers, bench.size)
    sides = {_OURS: Side("kafkawire", topic), _READY: ready_made(bench.size // PARTITIONS)}
    with ExitStack() as stack:
        kinds = {
            f"{what}, {where}": Kind(partial(read, side), bench.size)
            for where, read in _sparks(stack).items()
            for what, side in sides.items()
        }
        took = side_by_side(kinds, bench.rounds, twice=True)
    print_took("read", took)
    for where, other, target in _SPARKS_COMPARED:
        for what in sides:
            times = took[f"{what}, {other}"].seconds / took[f"{what}, {where}"].seconds
            asked = target if what == _OURS else None
            yield Figure(f"{what}: {where}, to {other}", "times_as_fast", times, asked)


def _sparks(stack: ExitStack) -> Mapping[str, Callable[[Side], None]]:
    """Read functions, by the Spark that runs them."""
    settings = stack.enter_context(standalone(workers=2))
    core = {min(os.sched_getaffinity(0))}
    one_core = stack.enter_context(Spark({"spark.master": "local[1]"}, core))

    def on_one_core(side: Side) -> None:
        with confined("broker", core):
            one_core.read(side)

    return {
        _ONE_CORE: on_one_core,
        _ONE: stack.enter_context(Spark({"spark.master": "local[1]"})).read,
        _TWO: stack.enter_context(Spark({"spark.master": "local[2]"})).read,
        _CLUSTER: stack.enter_context(Spark(settings)).read,
    }
