"""Drivers and workers of a stream into Parquet are killed at random moments: each record is there once.

``KAFKAWIRE_STREAM_KILLS=50`` kills so often on each kind of broker; a few times is what there is time for
with all other tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pyarrow.parquet as pq
import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.message_set.public import encode_message_set
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.streaming import Checkpoint, Query

from .test_batch_reader import produce, wait_registered

KILLS: Final = int(os.environ.get("KAFKAWIRE_STREAM_KILLS", "2"))
ROOT: Final = Path(__file__).parents[2]
#: How long a driver may take to begin a query, and to end, on a machine with other work, seconds.
PATIENCE_S: Final = 400.0

Send = Callable[[list[bytes]], None]


class Driver:
    """The driver in a process group of its own, with all that it starts."""

    def __init__(self, options: dict[str, str], folder: Path) -> None:
        self._folder = folder
        argv = [sys.executable, "-m", "tests.support.stream_driver", json.dumps(options), str(folder)]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def await_run(self) -> None:
        """Wait until one more query begins, or the driver ends."""
        before = self._runs()
        poll(
            lambda: self._runs() > before or self._process.poll() is not None,
            "a query of the driver",
            PATIENCE_S,
        )

    def _runs(self) -> int:
        file = self._folder / "runs"
        return file.read_text().count("\n") if file.exists() else 0

    def kill(self) -> None:
        """End all of it as ``kill -9`` does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def kill_a_worker(self, draw: random.Random) -> None:
        """End one of the Python processes that Spark has started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children(recursive=True)
            workers = [each for each in children if "pyspark" in " ".join(each.cmdline())]
            if pythons := [each for each in workers if "java" not in each.name()]:
                draw.choice(pythons).kill()

    def await_end(self) -> None:
        assert self._process.wait(PATIENCE_S) == 0, (self._folder / "log").read_text()[-4000:]


@contextlib.contextmanager
def driver(options: dict[str, str], folder: Path) -> Iterator[Driver]:
    running = Driver(options, folder)
    try:
        yield running
    finally:
        running.kill()


def killed_stream(options: dict[str, str], folder: Path, send: Send) -> None:
    """Kill drivers and workers in turn while records come, and let the last driver end."""
    draw, number = random.Random(KILLS), 0

    def some() -> list[bytes]:
        nonlocal number
        number += 100
        return [b"%d" % value for value in range(number - 100, number)]

    send(some())
    for kill in range(0, KILLS, 2):
        with driver(options, folder) as running:
            running.await_run()
            time.sleep(draw.uniform(0, 6))  # the random moment
            send(some())
            if kill + 1 < KILLS:
                running.kill_a_worker(draw)
                time.sleep(draw.uniform(0, 6))
                send(some())
    (folder / "complete").touch()
    with driver(options, folder) as running:
        running.await_end()


def stored(folder: Path) -> list[dict[str, Any]]:
    """The rows of the files that Spark's sink has committed, in the order of their batches."""
    names: dict[int, list[str]] = {}
    for file in (folder / "out" / "_spark_metadata").glob("[0-9]*"):
        batch, _, compact = file.name.partition(".")
        paths = [json.loads(line)["path"] for line in file.read_text().splitlines()[1:]]
        if compact:
            names = {at: found for at, found in names.items() if at > int(batch)}
        names[int(batch)] = paths
    compacts = [
        int(file.name.partition(".")[0]) for file in (folder / "out/_spark_metadata").glob("*.compact")
    ]
    names = {at: paths for at, paths in names.items() if at >= max(compacts, default=-1)}
    files = [path.removeprefix("file://") for at in sorted(names) for path in names[at]]
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def check(options: dict[str, str], folder: Path) -> None:
    """Each record of the logs is stored once, and in its log's order."""
    places: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    rows = stored(folder)
    for row in rows:
        log = (row["topic"], row.get("broker"), row["partition"])
        places.setdefault(log, []).append((row["offset"], row.get("index", 0)))
    assert all(found == sorted(set(found)) for found in places.values())
    read = [row for each in Query(Checkpoint(), **options).batches() for row in each]
    assert sorted(row["value"] for row in rows) == sorted(row["value"] for row in read)
    assert len({row["value"] for row in rows}) == len(rows) == 100 * (1 + KILLS)


@pytest.mark.timeout(1200)
def test_kills_on_a_modern_broker_lose_and_double_nothing(noida: NoidaBroker, tmp_path: Path) -> None:
    topic = noida.create_topic(partitions=3)

    def send(values: list[bytes]) -> None:
        records = [Record(value, partition=number % 3) for number, value in enumerate(values)]
        librdkafka.produce(noida.bootstrap_servers, topic, records)

    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    killed_stream(options, tmp_path, send)
    check(options, tmp_path)


@pytest.mark.timeout(1200)
def test_kills_on_07_lose_and_double_nothing(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2, partitions=2) as cluster:

        def send(values: list[bytes]) -> None:
            for number in range(0, len(values), 25):
                part = encode_message_set(values[number : number + 25], "gzip" if number % 2 else "none")
                produce(cluster, "killed", part, partition=number // 25 % 2, broker=number // 50)
            wait_registered(cluster, "killed")

        options = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": "killed"}
        options |= {"startingOffsets": "earliest", "maxBytesPerTrigger": "1k"}
        killed_stream(options, tmp_path, send)
        check(options, tmp_path)
