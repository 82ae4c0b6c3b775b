"""A stream over 1,000 partitions in 10 topics: what planning costs, and that it costs the same for ever, in
the process that plans and in Spark's JVM.

``KAFKAWIRE_STREAM_BATCHES=2000`` plans so many batches, and prints their figures (``pytest -s``; with
``-o faulthandler_timeout=0``, or pytest ends after 20 minutes).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.pages import ROOT
from tests.support.source_process import SourceProcess
from tests.support.stream_heap import BATCH_MAX_S

BATCHES: Final = int(os.environ.get("KAFKAWIRE_STREAM_BATCHES", "30"))
#: The JVM takes more batches to show what it keeps.
JVM_BATCHES: Final = int(os.environ.get("KAFKAWIRE_STREAM_BATCHES", "600"))
TOPICS, PARTITIONS = 10, 100
#: What planning a batch may cost, seconds: of the processor, for how long it takes is the machine's affair.
CPU_MAX_S: Final = 0.3
#: What the process may grow from the first third of the batches to the last one. Python's allocator takes
#: and keeps whole arenas, of 1 MiB each.
GROWTH_MAX_BYTES: Final = 4 << 20


#: What the heap may grow after the first tenth of the batches; the text of a batch's offsets alone is 10 KB.
HEAP_GROWTH_MAX_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """The process after a batch: what the batch has cost, and what it holds."""

    cpu_s: float
    wall_s: float
    rss_bytes: int
    files: int
    threads: int


@pytest.mark.timeout(600 + 4 * BATCHES)
def test_planning_over_a_thousand_partitions_stays_cheap_and_its_memory_flat() -> None:
    with NoidaBroker() as broker:
        topics = [broker.create_topic(PARTITIONS, name=f"one-of-ten-{number}") for number in range(TOPICS)]
        for topic in topics:
            records = [Record(b"x", partition=partition) for partition in range(PARTITIONS)]
            librdkafka.produce(broker.bootstrap_servers, topic, records)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest"}
        options |= {"subscribePattern": "one-of-ten-.*", "maxOffsetsPerTrigger": "1000000"}
        with SourceProcess(options) as process:
            samples = watched(process, broker, topics)
    third = BATCHES // 3
    early, late = samples[third : 2 * third], samples[-third:]
    for name in Sample.__slots__:
        most = max(getattr(sample, name) for sample in samples)
        print(f"{name}\t{_median(early, name):.6g}\t{_median(late, name):.6g}\tat most {most:.6g}")
    grown = {name: _median(late, name) - _median(early, name) for name in Sample.__slots__}
    assert _median(late, "cpu_s") < CPU_MAX_S
    assert grown["rss_bytes"] < GROWTH_MAX_BYTES
    assert grown["files"] == grown["threads"] == 0  # a thread of one question may be ending


def _median(samples: list[Sample], name: str) -> float:
    return float(statistics.median(getattr(sample, name) for sample in samples))


def watched(process: SourceProcess, broker: NoidaBroker, topics: list[str]) -> list[Sample]:
    """The process after each batch. All batches read from all partitions, from the start on: as much as a
    batch can be."""
    initial = end = process.initial_offset()
    samples = []
    for number in range(BATCHES):
        partition = number % PARTITIONS
        librdkafka.produce(
            broker.bootstrap_servers, topics[number % TOPICS], [Record(b"y", partition=partition)]
        )
        began_s, cpu_before_s = time.monotonic(), _cpu_s(process.statistics)
        start, end = end, process.latest_offset(end)
        assert end != start
        assert len(process.partitions(initial, end)) == TOPICS * PARTITIONS
        wall_s = time.monotonic() - began_s
        process.commit(start)
        found = process.statistics
        samples.append(
            Sample(
                _cpu_s(found) - cpu_before_s,
                wall_s,
                found.memory_info().rss,
                found.num_fds(),
                found.num_threads(),
            )
        )
    assert sum(len(offsets) for offsets in json.loads(end).values()) == TOPICS * PARTITIONS
    return samples


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.timeout(900 + BATCH_MAX_S * JVM_BATCHES)
def test_the_heap_of_a_stream_over_a_thousand_partitions_stays_flat(tmp_path: Path) -> None:
    """All partitions are planned in each batch, and two of them have a record for it: what the JVM could keep
    of a batch are its offsets and two tasks."""
    with NoidaBroker() as broker:
        topics = [broker.create_topic(PARTITIONS) for _ in range(TOPICS)]
        for topic in topics[:2]:
            librdkafka.produce(
                broker.bootstrap_servers, topic, [Record(b"x", partition=0)] * (JVM_BATCHES + 50)
            )
        read = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": ",".join(topics)}
        read |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
        heaps = looks(read, tmp_path / "checkpoint")
    assert heaps[-1] - heaps[0] < HEAP_GROWTH_MAX_BYTES


def looks(read: dict[str, str], checkpoint: Path) -> list[int]:
    """Bytes in the heap after each tenth of the batches."""
    argv = [
        sys.executable,
        "-m",
        "tests.support.stream_heap",
        json.dumps(read),
        str(JVM_BATCHES),
        str(checkpoint),
    ]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = []
        for line in process.stdout:
            print(line.rstrip(), flush=True)
            found.append(json.loads(line)["heap_bytes"])
    assert process.returncode == 0
    return found
