"""Runs of ingest that are killed at any moment: in the end every message is there, once, in order."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tests.support import librdkafka
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.short_and_long import short_and_long

from ..drivers import Drivers
from ..forking import Child
from .ingesting import produce

PARTITIONS: Final = 2
#: Messages that come before each run, and how many of them a run reads.
NEW_COUNT: Final = 200
SEED: Final = 7


def is_in_a_batch(output: Path) -> bool:
    """True if a batch is planned there and not done."""
    return any(output.glob("_kafkawire/*.planned.json"))


def is_in_a_batch_or_over(output: Path, child: Child) -> bool:
    return child.has_ended or is_in_a_batch(output)


@pytest.mark.timeout(900)
@short_and_long("kills_max", short=4, long=12)
def test_kills_at_random_moments_lose_and_double_nothing(
    kills_max: int, spark: SparkSession, noida: NoidaBroker, drivers: Drivers, tmp_path: Path
) -> None:
    topic = noida.create_topic(PARTITIONS)
    arguments: dict[str, Any] = {
        "connection": {"kafka.bootstrap.servers": noida.bootstrap_servers},
        "selection": {"subscribe": topic},
        "output": str(tmp_path / "out"),
        "group": f"g-{topic}",
        "records_max": NEW_COUNT,
    }
    count = 0

    def grow() -> None:
        nonlocal count
        produce(noida.bootstrap_servers, topic, range(count, count + NEW_COUNT), PARTITIONS)
        count += NEW_COUNT

    whole_s = 0.0
    for _ in range(2):  # the first one also does what takes long only once
        grow()
        began_s = time.monotonic()
        drivers.summary(drivers.start("ingest", arguments))
        whole_s = time.monotonic() - began_s

    draw = random.Random(SEED)
    kills = kills_in_a_batch = 0
    while kills < kills_max or (not kills_in_a_batch and kills < 3 * kills_max):
        grow()
        child = drivers.start("ingest", arguments)
        if kills < kills_max:
            time.sleep(whole_s * draw.uniform(0.1, 1.1))
        else:
            # They have all missed the moments in which a batch is written.
            poll(partial(is_in_a_batch_or_over, tmp_path / "out", child), "a batch")
        is_killed = drivers.kill(child) != 0
        kills += is_killed
        kills_in_a_batch += is_killed and is_in_a_batch(tmp_path / "out")
    assert kills_in_a_batch > 0
    summary = drivers.summary(drivers.start("ingest", {**arguments, "records_max": None}))
    assert summary["data_loss"] == []

    rows = spark.read.parquet(f"{tmp_path}/out").select("partition", "offset", "value").collect()
    assert sorted((row.partition, row.offset, bytes(row.value)) for row in rows) == [
        (partition, offset, b'{"n": %d}' % (offset * PARTITIONS + partition))
        for partition in range(PARTITIONS)
        for offset in range(count // PARTITIONS)
    ]
    for partition in range(PARTITIONS):
        committed = librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic, partition)
        assert committed == count // PARTITIONS
