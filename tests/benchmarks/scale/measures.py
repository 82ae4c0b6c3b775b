"""Measures of the client's processor time on a fake cluster, without Spark's JVM."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.net.pool import POOL

from .cluster import BATCH_RECORDS, TOPIC, FakeCluster
from .curves import Point

#: Read tasks that are measured at most.
_TASKS_MAX: Final = 1_000
_ROWS_MAX: Final = 20_000
#: Time for which an idle stream runs, and the interval at which Spark asks it, seconds.
#: Source: ``spark.sql.streaming.pollingDelay``.
_IDLE_S: Final = 3.0
_SPARK_POLLS_S: Final = 0.01
#: Partitions with new records in a micro-batch, one in so many.
_IDLE_OF_A_BATCH: Final = 100


@dataclass(slots=True)
class CpuClock:
    """Processor time of a block, with all threads of the process."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the block."""
        began_s = time.process_time()
        yield
        self.seconds += time.process_time() - began_s


def _source(cluster: FakeCluster, **options: str) -> KafkaWireDataSource:
    return KafkaWireDataSource({"kafka.bootstrap.servers": cluster.bootstrap, **options})


def planning(cluster: FakeCluster) -> Point:
    """Plan a batch read of all partitions."""
    return _planned(cluster, plan=True, ship=False)


def pickling(cluster: FakeCluster) -> Point:
    """Pickle the tasks of a batch read as Spark does, one by one."""
    return _planned(cluster, plan=False, ship=True)


def _planned(cluster: FakeCluster, *, plan: bool, ship: bool) -> Point:
    planned, shipped = CpuClock(), CpuClock()
    source = _source(cluster, subscribe=TOPIC)
    with planned.running():
        partitions = source.reader(source.schema()).partitions()
    assert len(partitions) == cluster.partitions
    with shipped.running():
        for partition in partitions:
            pickle.dumps(partition)
    return Point(cluster.partitions, plan * planned.seconds + ship * shipped.seconds)


class _Query:
    """A stream as the process that plans it sees Spark: offsets come and go as texts."""

    def __init__(self, cluster: FakeCluster) -> None:
        source = _source(cluster, subscribe=TOPIC, startingOffsets="earliest")
        self._reader: Any = source.streamReader(source.schema())
        self._limit = self._reader.getDefaultReadLimit()
        self._at = json.dumps(self._reader.initialOffset())
        while self.batch():
            pass

    def batch(self) -> int:
        """Run one micro-batch; the number of its tasks, 0 if there is nothing to read."""
        start = json.loads(self._at)
        end = json.dumps(self._reader.latestOffset(start, self._limit))
        json.dumps(self._reader.reportLatestOffset())
        if end == self._at:
            return 0
        tasks = self._reader.partitions(json.loads(self._at), json.loads(end))
        for task in tasks:
            pickle.dumps(task)
        self._at = end
        return len(tasks)


def idle_polls(cluster: FakeCluster) -> Point:
    """Ask a stream without new records for its end."""
    query, clock = _Query(cluster), CpuClock()
    with clock.running():
        assert query.batch() == 0
    return Point(cluster.partitions, clock.seconds)


def idle_streams(cluster: FakeCluster) -> Point:
    """Run an idle stream with its own clock for some seconds. The result is the time in one second."""
    query, clock = _Query(cluster), CpuClock()
    assert query.batch() == 0
    began_s = time.monotonic()
    with clock.running():
        while time.monotonic() - began_s < _IDLE_S:
            assert query.batch() == 0
            time.sleep(_SPARK_POLLS_S)
    return Point(cluster.partitions, clock.seconds / (time.monotonic() - began_s))


def micro_batches(cluster: FakeCluster) -> Point:
    """Plan and pickle a micro-batch where one partition in a hundred has new records."""
    query, clock = _Query(cluster), CpuClock()
    grown = -(-cluster.partitions // _IDLE_OF_A_BATCH)
    cluster.grow(grown)
    with clock.running():
        assert query.batch() == grown
    return Point(cluster.partitions, clock.seconds)


def tasks(cluster: FakeCluster) -> Point:
    """Read partitions, a task each, in one process."""
    source = _source(cluster, subscribe=TOPIC)
    reader = source.reader(source.schema())
    planned = list(reader.partitions())[:_TASKS_MAX]
    reader, planned = pickle.loads(pickle.dumps((reader, planned)))
    clock, count = CpuClock(), 0
    with clock.running():
        for task in planned:
            for batch in reader.read(task):
                assert isinstance(batch, pa.RecordBatch)
                count += batch.num_rows
    assert count >= len(planned) * BATCH_RECORDS
    return Point(len(planned), clock.seconds)


def writes(cluster: FakeCluster) -> Point:
    """Write two rows for each partition, by key, in one task."""
    count = min(2 * cluster.partitions, _ROWS_MAX)
    columns = [pa.array([f"{number:08}".encode() for number in range(count)]), pa.array([bytes(100)] * count)]
    rows = pa.RecordBatch.from_arrays(columns, names=["key", "value"])
    schema = StructType().add("key", "binary").add("value", "binary")
    writer = pickle.loads(pickle.dumps(_source(cluster, topic=TOPIC).writer(schema, overwrite=False)))
    clock = CpuClock()
    with clock.running():
        message = pickle.loads(pickle.dumps(writer.write(iter([rows]))))
    assert message.message_count == count
    return Point(count, clock.seconds)


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: ``run`` measures it once, ``unit`` is its work."""

    unit: str
    run: Callable[[FakeCluster], Point]


#: By name. Writes come last: what they append is no copy of the batch that reads get.
MEASURES: Final[Mapping[str, Measure]] = {
    "planning": Measure("partitions", planning),
    "pickling": Measure("partitions", pickling),
    "idle poll": Measure("partitions", idle_polls),
    "idle stream, of a core": Measure("partitions", idle_streams),
    "micro-batch with 1 % new": Measure("partitions", micro_batches),
    "read tasks": Measure("tasks", tasks),
    "keyed write": Measure("rows", writes),
}


def least(measure: Measure, cluster: FakeCluster, rounds: int) -> Point:
    """Point with the least time of some rounds, each of which connects first."""
    points = []
    for _ in range(rounds):
        POOL.close_idle()
        points.append(measure.run(cluster))
    return points[int(np.argmin([point.seconds for point in points]))]
