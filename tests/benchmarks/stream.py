"""Streams beside batch reads and beside Spark's own connector, on Apache Kafka.

Catching up reads a backlog into nothing, in one micro-batch; a micro-batch that reads almost nothing has two
partitions with a record each.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import partial
from itertools import count, pairwise
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafkawire import metrics
from tests.support import librdkafka
from tests.support.polling import poll

from .measure import (
    Figure,
    Kind,
    Run,
    interleaved,
    print_table,
    print_took,
    say,
    side_by_side,
)
from .processes import cpu_seconds, spent_seconds
from .session import (
    PARTITIONS,
    PREFIX,
    VALUE,
    VALUE_SIZE,
    Bench,
    Options,
    Side,
    check,
    new_topic,
    read_into_nothing,
    ready_made,
    rows_to_write,
    spark_session,
    standalone,
    write_topic,
)

_STREAM, _STREAM_VALUES = "stream, kafkawire", "stream, kafkawire, `value` alone"
_BATCH, _BATCH_VALUES = "batch, kafkawire", "batch, kafkawire, `value` alone"
_THEIR_STREAM, _THEIR_STREAM_VALUES = "stream, Spark's connector", "stream, Spark's connector, `value` alone"
_READY, _READY_VALUES = "stream, ready-made batches", "stream, ready-made batches, `value` alone"
#: Which read is compared with which other one, and how many times as fast it is to be.
_SPEEDS: Final = (
    (_STREAM, _BATCH, 0.9),
    (_STREAM_VALUES, _BATCH_VALUES, None),
    (_STREAM, _THEIR_STREAM, 2.3),
    (_STREAM_VALUES, _THEIR_STREAM, 4.5),
    (_STREAM_VALUES, _THEIR_STREAM_VALUES, None),
    (_READY, _THEIR_STREAM, None),
    (_READY_VALUES, _THEIR_STREAM, None),
)
#: Rows of a read that wakes the workers.
_FEW: Final = 1_000
_OURS, _THEIRS, _FLOOR = "kafkawire", "Spark's connector", "a source that does nothing"
_SINK: Final = " to its sink"
#: The same, with options of the sink with which Spark writes the checkpoint while the next batches run.
_ASYNCHRONOUS: Final = " to its sink, asynchronous progress"
_PROGRESS: Final = {
    "asyncProgressTrackingEnabled": "true",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
#: Which is compared with which other one, and how many times its cost is allowed.
_COSTS: Final = (
    (_OURS, _THEIRS, 1.3),
    (_FLOOR, _THEIRS, None),
    (_OURS + _SINK, _THEIRS, 2.0),
    (_OURS + _SINK, _THEIRS + _SINK, 2.0),
    (_FLOOR + _SINK, _THEIRS + _SINK, None),
    (_OURS + _ASYNCHRONOUS, _OURS + _SINK, None),
    (_OURS + _ASYNCHRONOUS, _THEIRS + _ASYNCHRONOUS, None),
)
_WHOLE: Final = "a micro-batch"
_ROWS_OF_COSTS: Final = (
    _WHOLE,
    *(f"`{item}`" for item in ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")),
    *(f"CPU: {item}" for item in ("jvm", "worker", "source", "planner", "broker")),
)
#: Micro-batches of a query that do not count: its process starts, and connections are opened.
WARM_COUNT: Final = 10
#: What Spark itself writes into the checkpoint, however little a micro-batch reads: two files, each synced.
CHECKPOINT_PHASES: Final = ("`walCommit`", "`commitOffsets`")


def catch_up(bench: Bench) -> Iterator[Figure]:
    """Figures of a topic that is read in one micro-batch. The time of a query is that of its trigger, without
    the start of its Python process, which a query does once. Before each run, whoever reads, the Python
    workers read a few rows."""
    rows, spark = bench.size, bench.spark
    say(f"catch-up: {rows:,} records of {VALUE_SIZE} bytes")
    topic = write_topic(spark, bench.servers, rows)
    few = Side("kafkawire", write_topic(spark, bench.servers, _FEW))
    ours, our_values = Side("kafkawire", topic), Side("kafkawire", topic, VALUE)
    theirs = Side("kafka", topic).stream(spark)
    streams = {
        _STREAM: ours.stream(spark),
        _STREAM_VALUES: our_values.stream(spark),
        _THEIR_STREAM: theirs,
        # It has no schema to choose: all columns are made, and the others dropped.
        _THEIR_STREAM_VALUES: theirs.select("value"),
        _READY: ready_made(rows // PARTITIONS).stream(spark),
        _READY_VALUES: ready_made(rows // PARTITIONS, columns=VALUE).stream(spark),
    }
    runs: dict[str, Run] = {name: partial(_one_micro_batch, item, rows) for name, item in streams.items()}
    runs[_BATCH] = lambda: read_into_nothing(ours.batch(spark))
    runs[_BATCH_VALUES] = lambda: read_into_nothing(our_values.batch(spark))

    def wake() -> None:
        read_into_nothing(few.batch(spark))

    kinds = {name: Kind(run, rows, before=wake) for name, run in runs.items()}
    took = side_by_side(kinds, bench.rounds, twice=True)
    print_took("read", took)
    for name, other, target in _SPEEDS:
        speed = took[other].seconds / took[name].seconds
        yield Figure(f"catch-up: {name}, to {other}", "times_as_fast", speed, target)


def _one_micro_batch(frame: DataFrame, rows: int) -> float:
    """Read all there is in one micro-batch, into nothing; the seconds of its trigger."""
    with _started(frame.writeStream.format("noop").trigger(availableNow=True)) as query:
        query.awaitTermination()
        [progress] = [item for item in query.recentProgress if item.numInputRows]
    check("a micro-batch", progress.numInputRows, rows)
    return float(progress.durationMs["triggerExecution"] / 1000)


def micro_batch(bench: Bench) -> Iterator[Figure]:
    """Micro-batches one after the other, of each source into nothing, and into the sink that goes with it."""
    spark, servers, count = bench.spark, bench.servers, bench.size
    # All micro-batches of a query, not the last hundred.
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", count + 1)
    say(f"micro-batch: {count} micro-batches of a query")
    topic = {
        **write_topic(spark, servers, PARTITIONS * count),
        "maxOffsetsPerTrigger": str(PARTITIONS),
    }
    copy = {"kafka.bootstrap.servers": servers, "topic": new_topic(servers)}
    sides = {
        _OURS: (Side("kafkawire", topic), "kafkawire", copy),
        _THEIRS: (Side("kafka", topic), "kafka", copy),
        _FLOOR: (ready_made(1, micro_batches=count), "counting", {}),
    }
    costs_of: defaultdict[str, list[Costs]] = defaultdict(list)
    runs = {}
    for name, (side, sink, options) in sides.items():
        frame = side.stream(spark)
        runs[name] = _trickle(frame, "noop", {}, count, costs_of[name])
        values = frame.select("key", "value")
        runs[name + _SINK] = _trickle(values, sink, options, count, costs_of[name + _SINK])
        if name != _FLOOR:
            given, seen_there = {**options, **_PROGRESS}, costs_of[name + _ASYNCHRONOUS]
            runs[name + _ASYNCHRONOUS] = _trickle(values, sink, given, count, seen_there)
    interleaved(runs, bench.rounds)
    # The first run is for warming up.
    seen = {name: _medians(item[1:]) for name, item in costs_of.items()}
    rows = [[name, *(f"{item.get(name, 0):.0f}" for item in seen.values())] for name in _ROWS_OF_COSTS]
    print_table(["ms", *seen], rows)
    for name, other, target in _COSTS:
        cost = seen[name][_WHOLE] / seen[other][_WHOLE]
        yield Figure(f"micro-batch: {name}, to {other}", "times_the_cost", cost, target, at_most=True)
    ours, theirs = (
        seen[name][_WHOLE] - sum(seen[name][phase] for phase in CHECKPOINT_PHASES)
        for name in (_OURS, _THEIRS)
    )
    name = f"micro-batch without its checkpoint: {_OURS}, to {_THEIRS}"
    yield Figure(name, "times_the_cost", ours / theirs)


#: Milliseconds of a micro-batch: until the next one began, in each of Spark's phases, and of CPU by role.
Costs = Mapping[str, float]


def _costs(progress: Sequence[Any], spent_s: Mapping[str, float]) -> Costs:
    """Medians of Spark's progress of successive micro-batches, and means of the CPU time of them all."""
    starts = [datetime.fromisoformat(item.timestamp.replace("Z", "+00:00")) for item in progress]
    phases = [{f"`{name}`": ms for name, ms in item.durationMs.items()} for item in progress]
    return {
        _WHOLE: 1000 * median((after - before).total_seconds() for before, after in pairwise(starts)),
        **_medians(phases),
        **{f"CPU: {role}": 1000 * seconds / len(progress) for role, seconds in spent_s.items()},
    }


def _medians(rows: Sequence[Costs]) -> Costs:
    """The median of each name; 0 counts where it is missing."""
    return {name: median(row.get(name, 0) for row in rows) for row in rows for name in row}


def _trickle(
    frame: DataFrame, sink: str, options: Options, count: int, seen: list[Costs]
) -> Callable[[], None]:
    """Reads ``count`` micro-batches, each of which begins when the one before is done; what they took is
    added."""

    def run() -> None:
        with _started(frame.writeStream.format(sink).options(**options)) as query:
            first = poll(lambda: (done := _done(query)) >= WARM_COUNT and done, f"{WARM_COUNT} micro-batches")
            before = cpu_seconds()
            query.processAllAvailable()
            spent_s = spent_seconds(before, cpu_seconds())
            progress = [item for item in query.recentProgress if item.numInputRows]
        assert len(progress) == count, f"{len(progress)} micro-batches, not {count}"
        seen.append(_costs(progress[first:], spent_s))

    return run


def _done(query: StreamingQuery) -> int:
    """Micro-batches that are done. Raises what ended the query."""
    if error := query.exception():
        raise error
    return 0 if query.lastProgress is None else query.lastProgress.batchId + 1


@contextmanager
def _started(writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    """A query with a checkpoint of its own, until the block ends."""
    with TemporaryDirectory(prefix=PREFIX) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


#: Records a second that a producer sends one after the other.
_RATE: Final = 100
#: How long a record may take, seconds.
_LATEST_S: Final = 120.0


def latency(bench: Bench) -> Iterator[Figure]:
    """Time of a record from a producer through a query, Kafka to Kafka, to a consumer, with and without
    asynchronous progress. A trigger begins when the one before ends."""
    say(f"latency: {bench.size:,} records, {_RATE} a second")
    took: defaultdict[str, list[float]] = defaultdict(list)
    runs = {
        name + suffix: partial(_send_through, bench, format, options, took[name + suffix])
        for name, format in ((_OURS, "kafkawire"), (_THEIRS, "kafka"))
        for suffix, options in ((_SINK, {}), (_ASYNCHRONOUS, _PROGRESS))
    }
    interleaved(runs, bench.rounds)
    # The first run is for warming up.
    seen = {name: quantiles(item[bench.size :], n=100) for name, item in took.items()}
    rows = [[name, f"{item[49]:.0f}", f"{item[98]:.0f}"] for name, item in seen.items()]
    print_table(["query", "p50, ms", "p99, ms"], rows)
    for suffix in (_SINK, _ASYNCHRONOUS):
        for percentile in (50, 99):
            ratio = seen[_OURS + suffix][percentile - 1] / seen[_THEIRS + suffix][percentile - 1]
            name = f"latency, p{percentile}: {_OURS + suffix}, to {_THEIRS + suffix}"
            yield Figure(name, "times", ratio)


def _send_through(bench: Bench, format: str, options: Options, took: list[float]) -> None:
    """Send records at an even rate once the query runs well; adds the milliseconds of each."""
    servers = {"kafka.bootstrap.servers": bench.servers}
    topic, copy = new_topic(bench.servers), new_topic(bench.servers)
    frame = bench.spark.readStream.format(format).options(**servers, subscribe=topic).load()
    writer = frame.select("value").writeStream.format(format).options(**servers, **options, topic=copy)
    settings = {"bootstrap.servers": bench.servers}
    consumer = Consumer({**settings, "group.id": "latency", "enable.auto.commit": False})
    consumer.assign([TopicPartition(copy, number, 0) for number in range(PARTITIONS)])
    producer = Producer({**settings, "linger.ms": 0})
    is_over = threading.Event()

    def send() -> None:
        due_s = time.monotonic()
        while not is_over.wait(max(0.0, due_s - time.monotonic())):
            producer.produce(topic, str(time.monotonic_ns()).encode())
            producer.poll(0)
            due_s += 1 / _RATE

    with _started(writer) as query, closing(consumer), ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        try:
            poll(lambda: _done(query) >= WARM_COUNT, f"{WARM_COUNT} micro-batches")
            from_ns, came = time.monotonic_ns(), 0
            until_s = time.monotonic() + bench.size / _RATE + _LATEST_S
            while came < bench.size:
                check("records in time", int(time.monotonic() < until_s), 1)
                for message in consumer.consume(1_000, 0.02):
                    arrived_ns, sent_ns = time.monotonic_ns(), int(message.value() or b"")
                    if sent_ns >= from_ns and came < bench.size:
                        took.append((arrived_ns - sent_ns) / 1e6)
                        came += 1
        finally:
            is_over.set()
        sending.result()
        producer.flush(_LATEST_S)


#: Partitions of the stream with metrics, the most that have series of their own by default.
_METRICS_PARTITIONS: Final = 200
#: Roles of processes that belong to the driver.
_DRIVER: Final = ("jvm", "other", "source", "planner")


def metrics_cost(bench: Bench) -> Iterator[Figure]:
    """CPU time of a driver whose stream has metrics attached, to that of the same driver without them. Tasks
    run in an executor."""
    say(f"metrics: {bench.size} micro-batches of {_METRICS_PARTITIONS} partitions")
    driver_s: defaultdict[str, list[float]] = defaultdict(list)
    with standalone(1) as settings, spark_session(settings) as spark:
        topic = librdkafka.create_topic(bench.servers, _METRICS_PARTITIONS)
        servers = {"kafka.bootstrap.servers": bench.servers}
        rows = spark.range(_METRICS_PARTITIONS * bench.size).selectExpr(
            "encode(CAST(id AS string), 'UTF-8') AS value",
            f"CAST(id % {_METRICS_PARTITIONS} AS int) AS partition",
        )
        rows.write.format("kafkawire").mode("append").options(**servers, topic=topic).save()
        limit = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(_METRICS_PARTITIONS)}
        frame = spark.readStream.format("kafkawire").options(**servers, **limit, subscribe=topic).load()

        def run(name: str) -> None:
            served = metrics.serve(spark, 0) if name == "with metrics" else None
            try:
                with _started(frame.writeStream.format("noop")) as query:
                    poll(lambda: _done(query) >= 2, "2 micro-batches")
                    before, first = cpu_seconds(), _done(query)
                    query.processAllAvailable()
                    spent_s, count = spent_seconds(before, cpu_seconds()), _done(query) - first
                driver_s[name].append(sum(spent_s.get(role, 0.0) for role in _DRIVER) / count)
            finally:
                if served is not None:
                    served.close()

        interleaved({name: partial(run, name) for name in ("without", "with metrics")}, bench.rounds)
    pairs = zip(driver_s["with metrics"][1:], driver_s["without"][1:], strict=True)
    say(f"driver: {1000 * median(driver_s['without'][1:]):.0f} ms of CPU a micro-batch")
    ratio = median(one / other for one, other in pairs)
    yield Figure("CPU of a driver with metrics, to one without", "times", ratio, 1.02, at_most=True)


#: The two kinds, and the option in which they differ.
IDEMPOTENT: Final = "idempotent"
EXACTLY_ONCE: Final = "exactly once"
DELIVERY: Final = {IDEMPOTENT: "at-least-once", EXACTLY_ONCE: "exactly-once"}
_NUMBERS: Final = count()
_ROWS: Final = 10
_VALUE: Final = "repeat('x', 100)"
#: What was asked for: milliseconds of a task, and of the driver for each; seconds until 1,000 have ended.
_TASK_MS_MAX: Final = 10.0
_DRIVER_MS_MAX: Final = 1.5
_THOUSAND: Final = 1_000
_THOUSAND_S_MAX: Final = 3.0
#: How many times as fast as the idempotent write it was asked to be.
_SPEED_MIN: Final = 0.95
#: How long it waits for all rows once the write is over, seconds.
_LATE_S: Final = 60.0


def tasks(bench: Bench) -> Iterator[Figure]:
    """Both kinds in turns; then one write whose rows a reader waits for."""
    spark, servers, count = bench.spark, bench.servers, bench.size
    say(f"tasks: {count:,} tasks of {_ROWS} rows")
    frame = spark.range(0, count * _ROWS, 1, count).selectExpr(f"{_VALUE} AS value")
    written = _in_turns(bench, frame)
    pairs = list(zip(written[EXACTLY_ONCE], written[IDEMPOTENT], strict=True))
    seen_s = _seen_s(spark, servers, frame, count * _ROWS)
    rows = [
        [kind, *(f"{item:.2f}" for item in map(median, zip(*map(astuple, runs), strict=True)))]
        for kind, runs in written.items()
    ]
    print_table(["write", "ms of a task", "s of the whole write", "s after its last task"], rows)
    task_ms = median(once.task_ms - other.task_ms for once, other in pairs)
    driver_ms = median(1000 * (once.end_s - other.end_s) / count for once, other in pairs)
    end_s = median(once.end_s for once, _ in pairs)
    end_s_max = _THOUSAND_S_MAX if count == _THOUSAND else None
    yield Figure("ms of a task beyond the idempotent write's", "ms", task_ms, _TASK_MS_MAX, at_most=True)
    yield Figure("ms of the driver for each task, likewise", "ms", driver_ms, _DRIVER_MS_MAX, at_most=True)
    yield Figure(
        f"s from the last of {count:,} tasks to the write's end", "s", end_s, end_s_max, at_most=True
    )
    yield Figure("s between the first and the last row that a reader sees come", "s", seen_s)


def throughput(bench: Bench) -> Iterator[Figure]:
    """Both kinds in turns: all of a write counts, from ``save`` to its end."""
    say(f"throughput: {bench.size:,} records of {VALUE_SIZE} bytes")
    frame = rows_to_write(bench.spark, VALUE_SIZE, bench.size)
    written = _in_turns(bench, frame)
    seconds = {kind: [item.seconds for item in runs] for kind, runs in written.items()}
    medians = {kind: median(item) for kind, item in seconds.items()}
    rows = [[kind, f"{item:.2f}", f"{bench.size / item / 1e6:.2f}"] for kind, item in medians.items()]
    print_table(["write", "s", "million rows/s"], rows)
    ratios = [other / once for once, other in zip(seconds[EXACTLY_ONCE], seconds[IDEMPOTENT], strict=True)]
    yield Figure("throughput of 100 B, to idempotent", "times_as_fast", median(ratios), _SPEED_MIN)


@dataclass(frozen=True, slots=True)
class Written:
    """Times of one write: the mean of its tasks, the whole write, and the end after the last task."""

    task_ms: float
    seconds: float
    end_s: float


def _write(spark: SparkSession, servers: str, frame: DataFrame, kind: str, topic: str) -> Written:
    """Write to a topic."""
    group = f"write-{next(_NUMBERS)}"
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": DELIVERY[kind]}
    spark.sparkContext.setJobGroup(group, kind)
    began_s = time.perf_counter()
    frame.write.format("kafkawire").mode("append").options(**options).save()
    seconds, ended_s = time.perf_counter() - began_s, time.time()
    stage = _stage(spark, group)
    task_ms = stage.executorRunTime() / stage.numCompleteTasks()
    return Written(task_ms, seconds, ended_s - stage.completionTime().get().getTime() / 1000)


def _in_turns(bench: Bench, frame: DataFrame) -> dict[str, list[Written]]:
    """Both kinds, each time to a new topic; what the first of each took, which is for warming up, is left
    out."""
    written: dict[str, list[Written]] = {kind: [] for kind in DELIVERY}

    def run(kind: str) -> None:
        topic = new_topic(bench.servers)
        written[kind].append(_write(bench.spark, bench.servers, frame, kind, topic))
        librdkafka.delete_topic(bench.servers, topic)

    interleaved({kind: partial(run, kind) for kind in DELIVERY}, bench.rounds)
    return {kind: runs[1:] for kind, runs in written.items()}


def _stage(spark: SparkSession, group: str) -> Any:
    """Spark's stored attempt of the one stage of a job."""
    tracker = spark.sparkContext.statusTracker()
    [job] = tracker.getJobIdsForGroup(group)
    info = tracker.getJobInfo(job)
    assert info is not None
    [stage] = info.stageIds
    return spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(stage)


def _seen_s(spark: SparkSession, servers: str, frame: DataFrame, rows: int) -> float:
    """Seconds between the first and the last row of a write that a reader of what is committed sees come."""
    topic = new_topic(servers)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    is_over = threading.Event()

    def came_s() -> list[float]:
        came: list[float] = []
        until_s = float("inf")
        while len(came) < rows and time.monotonic() < until_s:
            messages = consumer.consume(10_000, 0.02)
            came += [time.monotonic()] * sum(message.error() is None for message in messages)
            if is_over.is_set():
                until_s = min(until_s, time.monotonic() + _LATE_S)
        return came

    with closing(consumer), ThreadPoolExecutor(1) as pool:
        reading = pool.submit(came_s)
        try:
            _write(spark, servers, frame, EXACTLY_ONCE, topic)
        finally:
            is_over.set()
        result = reading.result()
    check("a reader of a write", len(result), rows)
    return result[-1] - result[0]
