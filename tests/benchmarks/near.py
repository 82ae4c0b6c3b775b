"""The CPU time of a row from a follower, to that of a row from the leader."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from tests.interop.apache_kafka import ApacheCluster
from tests.support import librdkafka
from tests.support.polling import poll
from tests.support.reading import PlannedRead

from .ceilings import values
from .measure import Figure, interleaved, say
from .session import KAFKA, PREFIX, VALUE_SIZE, Bench, check

_RACKS: Final = ("zone-a", "zone-b")
#: The least part of the bytes that the replica of a read sends: brokers send each other a few.
_SHARE_MIN: Final = 0.99
_WRITE_ROWS: Final = 50_000
_RATIO_MAX: Final = 1.02


def near_replica(bench: Bench) -> Iterator[Figure]:
    """CPU time of this process, which is that of the tasks alone: the brokers are other processes.

    Each broker leads a partition and follows in the other one, so that both kinds of reads use both brokers.
    """
    say(f"near-replica: {bench.size:,} rows with values of {VALUE_SIZE} bytes")
    with (
        TemporaryDirectory(prefix=PREFIX) as folder,
        ApacheCluster(KAFKA, Path(folder), len(_RACKS), _RACKS) as cluster,
    ):
        reads = _reads(cluster.bootstrap_servers(), bench.size)

        def run(kind: str) -> None:
            shares = [_share(cluster, *item) for item in reads[kind]]
            assert min(shares) > _SHARE_MIN, f"parts of the {kind} in the bytes: {shares}"

        def has_all_rows(read: PlannedRead, broker: int) -> bool:
            return _share(cluster, read, broker) > _SHARE_MIN

        # A follower learns later than the leader which rows are acknowledged.
        for item in reads["follower"]:
            poll(partial(has_all_rows, *item), "a follower that serves all rows")
        seconds = interleaved({kind: partial(run, kind) for kind in reads}, bench.rounds, time.process_time)
    ratios = [near_s / far_s for near_s, far_s in zip(seconds["follower"], seconds["leader"], strict=True)]
    cpu_ns = {f"{name}_ns": round(1e9 * median(item) / bench.size, 1) for name, item in seconds.items()}
    say(f"  CPU ns/row: {cpu_ns}; to the leader {min(ratios):.3f} to {max(ratios):.3f}")
    yield Figure(
        "CPU of a row read from a follower, to the leader",
        "times_the_time",
        median(ratios),
        _RATIO_MAX,
        at_most=True,
        details={"kafka": KAFKA, "value_size": VALUE_SIZE, "rows": bench.size, **cpu_ns},
    )


def _reads(servers: str, rows: int) -> Mapping[str, Sequence[tuple[PlannedRead, int]]]:
    """Reads of each partition of a new topic, by kind, with the brokers that serve them."""
    topic = librdkafka.create_topic(servers, len(_RACKS))
    to = {"kafka.bootstrap.servers": servers, "topic": topic}
    fields = [StructField("value", BinaryType()), StructField("partition", IntegerType())]
    writer: Any = KafkaWireDataSource(to).writer(StructType(fields), False)
    partitions = pa.array(np.arange(rows, dtype=np.int32) % len(_RACKS))
    table = pa.table({"value": values(VALUE_SIZE, rows), "partition": partitions})
    writer.commit([writer.write(iter(table.to_batches(_WRITE_ROWS)))])
    result: dict[str, list[tuple[PlannedRead, int]]] = {"leader": [], "follower": []}
    tasks = PlannedRead({"kafka.bootstrap.servers": servers, "subscribe": topic}).tasks
    check("near-replica", sum(task.range.stop_offset - task.range.start_offset for task in tasks), rows)
    for task in tasks:
        assigned = json.dumps({topic: [task.range.topic_partition.partition]})
        options = {"kafka.bootstrap.servers": servers, "assign": assigned}
        leader = task.leader.broker.id
        follower = 1 - leader
        result["leader"].append((PlannedRead(options), leader))
        result["follower"].append((PlannedRead({**options, "clientRack": _RACKS[follower]}), follower))
    return result


def _share(cluster: ApacheCluster, read: PlannedRead, broker: int) -> float:
    """Read all rows; the part of one broker in the bytes that all brokers sent meanwhile."""
    [task] = read.tasks
    rows, before = task.range.stop_offset - task.range.start_offset, _sent(cluster)
    check("near-replica", sum(batch.num_rows for batch in read.batches()), rows)
    sizes = [after - old for after, old in zip(_sent(cluster), before, strict=True)]
    return sizes[broker] / max(sum(sizes), rows * VALUE_SIZE)


def _sent(cluster: ApacheCluster) -> list[int]:
    """The bytes that each broker has written, to sockets for the most part, as the kernel counts them."""
    return [psutil.Process(cluster.pid(node)).io_counters().write_chars for node in range(len(_RACKS))]
