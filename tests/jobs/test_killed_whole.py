"""Submitted jobs of which every process is killed at once, or all but workers that go on later, unheard."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, partitions_of, recorded
from tests.support.golden import values_sha256
from tests.support.noida import NoidaBroker
from tests.support.polling import poll

from .arguments import RunHere
from .drivers import DEADLINE_S
from .migration.migrating import copied
from .submitting import ROOT, environment, submit, submit_command

COUNT: Final = 2000

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1100)]


class Running:
    """A submitted job, with all its processes: Python's workers are a group of their own."""

    def __init__(self, process: psutil.Popen) -> None:
        self._process = process

    def workers(self) -> list[psutil.Process]:
        """Python's workers, and the process that forks them."""
        return [each for each in self._all() if self._is_worker(each)]

    def kill(self, *, but: Sequence[psutil.Process] = ()) -> None:
        """End all of it at once, ``but`` for some: nobody does anything about the end of another."""
        killed = [each for each in self._all() if each not in but]
        for step in ("suspend", "kill"):
            for each in killed:
                with contextlib.suppress(psutil.NoSuchProcess):
                    getattr(each, step)()

    def await_(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for something that it does."""
        poll(lambda: condition() or self._process.poll() is not None, what, DEADLINE_S)
        assert self._process.poll() is None, "the job has ended"

    def _all(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self._process, *self._process.children(recursive=True)]
        return []

    @staticmethod
    def _is_worker(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            return any("pyspark.daemon" in word for word in process.cmdline())
        return False


@contextlib.contextmanager
def running(package: Path, folder: Path, job: str, arguments: Sequence[str]) -> Iterator[Running]:
    """Begin a run; all of it has ended when the block has."""
    with psutil.Popen(
        submit_command(package, ROOT / "jobs" / f"{job}.py", *arguments),
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        started = Running(process)
        try:
            yield started
        finally:
            started.kill()


def options(**given: str) -> list[str]:
    """As a command line has them."""
    return [
        word for name, value in given.items() for word in ("--option", f"{name.replace('_', '.')}={value}")
    ]


def test_ingest_whose_workers_go_on_unheard_reads_each_message_once(
    spark: SparkSession, corpus: EmbeddedCluster, package: Path, tmp_path: Path, run_here: RunHere
) -> None:
    output = tmp_path / "out"
    # So small pieces that a worker is not done before it is stopped.
    arguments = options(zookeeper_connect=corpus.zookeeper_connect, fetchBytes="4KiB", fetchesInFlight="1")
    arguments += ["--topic", GZIP_TOPIC, "--output", str(output), "--group", "unheard"]
    with running(package, tmp_path, "ingest", arguments) as job:
        job.await_(lambda: any(output.glob("_kafkawire/unfinished/*/_temporary")), "the batch to be written")
        job.await_(lambda: len(job.workers()) > 1, "workers")
        frozen = job.workers()
        for each in frozen:
            each.suspend()
        job.kill(but=frozen)
    try:
        assert (output / "_kafkawire" / "0.planned.json").exists()
        assert not (output / "batch=0").exists()
        code, reported, err = run_here("ingest", *arguments, "--json")
        assert code == 0, err
    finally:
        for each in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()
    _, alive = psutil.wait_procs(frozen, DEADLINE_S)
    assert not alive
    batches = [(batch["batch"], batch["messages"]) for batch in json.loads(reported)["batches"]]
    assert batches == [(0, sum(partition["messages"] for partition in partitions_of()))]
    rows = spark.read.parquet(str(output)).orderBy("broker", "partition", "offset", "index").collect()
    found = [
        [
            bytes(row.value)
            for row in rows
            if (row.broker, row.partition) == (partition["broker"], partition["partition"])
        ]
        for partition in partitions_of()
    ]
    assert [(len(values), values_sha256(values)) for values in found] == recorded()


def test_publish_of_which_all_is_killed_at_once_sends_each_row_once(
    noida: NoidaBroker, package: Path, tmp_path: Path, run_here: RunHere
) -> None:
    state = tmp_path / "state"
    (tmp_path / "rows").mkdir()
    for part in range(2):
        lines = "".join(f'{{"id": {number}}}\n' for number in range(part, COUNT, 2))
        (tmp_path / "rows" / f"{part}.json").write_text(lines)
    topic = noida.create_topic(partitions=2)
    arguments = options(kafka_bootstrap_servers=noida.bootstrap_servers, batchBytes="256")
    arguments += ["--input", str(tmp_path / "rows"), "--format", "json", "--topic", topic]
    arguments += ["--state", str(state), "--settle-seconds", "1"]

    def sent() -> int:
        return sum(librdkafka.offsets(noida.bootstrap_servers, topic, number)[1] for number in (0, 1))

    with running(package, tmp_path, "publish", arguments) as job:
        job.await_(lambda: sent() > COUNT // 10, "rows to be sent")
        job.kill()
    assert not (state / "done.json").exists()
    code, reported, err = run_here("publish", *arguments, "--json")
    assert code == 0, err
    summary = json.loads(reported)
    assert summary["messages_found"] > COUNT // 10
    assert (summary["messages"] + summary["messages_found"], summary["messages_doubled"]) == (COUNT, 0)
    found = [
        record.value
        for number in (0, 1)
        for record in librdkafka.consume(noida.bootstrap_servers, topic, number)
    ]
    assert Counter(found) == Counter(b'{"id":%d}' % number for number in range(COUNT))


def test_migrate_of_which_all_is_killed_at_once_copies_each_message_once(
    corpus: EmbeddedCluster, noida: NoidaBroker, package: Path, tmp_path: Path
) -> None:
    """The second run is submitted, too: with nothing but the zip."""
    target = noida.create_topic(partitions=6)
    arguments = [
        f"--source-option=zookeeper.connect={corpus.zookeeper_connect}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
        *("--topic", GZIP_TOPIC, "--map", f"{GZIP_TOPIC}={target}", "--state", "state", "--json"),
        # Several pieces of each partition, each of several batches.
        *("--piece-bytes", "60000", "--target-option", "batchBytes=8KiB"),
    ]
    with running(package, tmp_path, "migrate", arguments) as job:
        job.await_(lambda: librdkafka.offsets(noida.bootstrap_servers, target)[1], "messages to be copied")
        job.kill()
    done = submit(package, tmp_path, ROOT / "jobs" / "migrate.py", *arguments)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["failed"] == []
    assert summary["messages"] > 0
    assert all(each["equal"] for each in summary["partitions"])
    assert copied(noida, target) == recorded()
