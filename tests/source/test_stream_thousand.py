"""A stream over 1,000 partitions in 10 topics: what planning costs, and that it costs the same for ever.

``KAFKAWIRE_STREAM_BATCHES=2000`` plans so many batches, and prints their figures (``pytest -s``; with
``-o faulthandler_timeout=0``, or pytest ends after 20 minutes).
"""

from __future__ import annotations

import json
import os
import statistics
import time
from dataclasses import dataclass
from typing import Final

import psutil
import pytest

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.source_process import SourceProcess

BATCHES: Final = int(os.environ.get("KAFKAWIRE_STREAM_BATCHES", "30"))
TOPICS, PARTITIONS = 10, 100
#: What planning a batch may cost, seconds: of the processor, for how long it takes is the machine's affair.
CPU_MAX_S: Final = 0.3
#: What the process may grow from the first third of the batches to the last one. Python's allocator takes
#: and keeps whole arenas, of 1 MiB each.
GROWTH_MAX_BYTES: Final = 4 << 20


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
