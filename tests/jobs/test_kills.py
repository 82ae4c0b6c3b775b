"""Runs of jobs that are killed, stopped, doubled or misled: in the end each row is there once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.corpus import GZIP_TOPIC, partitions_of, recorded
from tests.support.golden import values_sha256
from tests.support.noida import NoidaBroker
from tests.support.polling import freeze, poll

from .drivers import DEADLINE_S, Drivers
from .migration.migrating import copied, driver_arguments
from .submitting import ROOT, RunHere, environment, submit_command
from .work import JOBS, NewWork, PublishingModern

COUNT: Final = 2000
REFUSED: Final = re.compile(r"[^\n]*: another run is active here[^\n]*")
#: Kills of each kind of work at random moments.
KILLS: Final = MappingProxyType(
    {"ingest": 12, "publish": 6, "publish exactly once": 6, "publish to 0.7": 6, "migrate": 20}
)
_DAY_S: Final = 24 * 3600
_YEAR_S: Final = 365 * _DAY_S

pytestmark = pytest.mark.timeout(1100)


@pytest.mark.parametrize("name", JOBS)
def test_a_run_has_its_folders_to_itself_until_it_is_killed_and_the_next_one_goes_on(
    name: str, new_work: NewWork, drivers: Drivers
) -> None:
    """One kill when nothing is done, and one in the middle of the work."""
    work = new_work(name)
    work.add()
    first = drivers.start(work.job, work.arguments, stops=True)
    drivers.await_stop(first)
    assert REFUSED.fullmatch(drivers.complaint(drivers.start(work.job, work.arguments)))
    assert drivers.kill(first) < 0
    before = work.progress()
    second = drivers.start(work.job, work.arguments)
    drivers.await_progress(work, before, second)
    drivers.kill(second)
    drivers.end_jobs()
    drivers.summary(drivers.start(work.job, work.arguments))
    work.check()


@pytest.mark.nightly
@pytest.mark.parametrize("name", KILLS)
def test_kills_at_random_moments_lose_and_double_nothing(
    name: str, new_work: NewWork, drivers: Drivers
) -> None:
    """Every other run is killed when it has begun to change something."""
    draw = random.Random(name)
    count = kills = kills_in_the_middle = 0
    whole_run_s = 0.0
    while kills < KILLS[name]:
        work, count, code = new_work(name), count + 1, -signal.SIGKILL
        while code != 0:
            work.add()
            before, began_s = work.progress(), time.monotonic()
            child = drivers.start(work.job, work.arguments)
            # The first two are not killed: the second one tells how long the moments are.
            if count > 2 and kills < KILLS[name]:
                if kills % 2:
                    drivers.await_progress(work, before, child)
                time.sleep(draw.uniform(0, whole_run_s / (1 + kills % 2)))
                child.signal(signal.SIGKILL)
            code = drivers.ended(child)
            assert code in (0, -signal.SIGKILL), child.output.read_text()
            # The executors of a driver that was killed end when they notice that it is gone.
            drivers.end_jobs()
            kills += code != 0
            kills_in_the_middle += code != 0 and work.progress() > before
            if count <= 2:
                whole_run_s = time.monotonic() - began_s
        assert not drivers.summary(child).get("data_loss")
        work.check()
    assert kills_in_the_middle > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["ingest", "publish at the time of the clock", "migrate"])
def test_a_clock_that_is_set_back_loses_and_doubles_nothing(
    name: str, new_work: NewWork, drivers: Drivers
) -> None:
    """A year, and then a day, each time while a run is killed; Spark's own JVM has the right clock."""
    work = new_work(name)
    for clock_s in (_YEAR_S, 0):
        work.add()
        before = work.progress()
        child = drivers.start(work.job, work.arguments, clock_s=clock_s)
        drivers.await_progress(work, before, child)
        drivers.kill(child)
        drivers.end_jobs()
        # All files are as new as they were by a wrong clock.
        modified_s = time.time() + clock_s
        for path in [work.folder, *work.folder.rglob("*")]:
            os.utime(path, (modified_s, modified_s))
    work.add()
    for _ in range(2):
        began_s = time.monotonic()
        summary = drivers.summary(drivers.start(work.job, work.arguments, clock_s=-_DAY_S))
        # A summary's seconds are rounded to tenths.
        assert 0 <= summary.get("seconds", 0.0) <= time.monotonic() - began_s + 0.1
        assert not summary.get("data_loss")
    work.check()
    if isinstance(work, PublishingModern):
        # Spark's tasks had the clock of their driver: what a message was sent at is theirs.
        sent_ms = [record.timestamp_ms or 0 for record in work.records()]
        assert max(sent_ms) > (time.time() + _YEAR_S - _DAY_S) * 1000


@pytest.mark.nightly
@pytest.mark.parametrize("name", JOBS)
def test_of_runs_that_begin_in_the_same_moment_one_works(
    name: str, new_work: NewWork, drivers: Drivers
) -> None:
    work, complaints = new_work(name), []
    for is_killed in (True, True, False):
        work.add()
        before = work.progress()
        pair = drivers.start_at_once(work.job, work.arguments, work.arguments)
        poll(lambda pair=pair: any(child.has_ended for child in pair), "one to end", DEADLINE_S)  # type: ignore[misc]
        [other, *_] = sorted(pair, key=lambda child: child.has_ended)
        if is_killed:
            drivers.await_progress(work, before, other)
            drivers.kill(other)
            drivers.end_jobs()
        complaints += [child.output.read_text() for child in pair if drivers.ended(child) == 1]
    assert complaints
    assert [line for line in complaints if not REFUSED.fullmatch(line)] == []
    drivers.summary(drivers.start(work.job, work.arguments))
    work.check()


@pytest.mark.nightly
def test_a_migration_that_wakes_up_after_another_took_its_place_adds_nothing(
    drivers: Drivers, corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path
) -> None:
    """As a driver or a task may that its machine had stopped: the lock of the directory is not seen there."""
    here, there = tmp_path / "here", tmp_path / "there"
    names = {GZIP_TOPIC: "woken"}
    frozen = drivers.start("migrate", driver_arguments(corpus, noida, here, names))
    poll(lambda: any(here.glob("migration-*.json")), "the first run to begin")
    time.sleep(0.1)
    freeze(frozen.pid)
    shutil.copytree(here, there)

    drivers.summary(drivers.start("migrate", driver_arguments(corpus, noida, there, names)))
    assert copied(noida, "woken") == recorded()
    frozen.signal(signal.SIGCONT)
    assert drivers.ended(frozen) in (0, 1)
    assert copied(noida, "woken") == recorded()


class Running:
    """A submitted job, with all its processes: Python's workers are a group of their own."""

    def __init__(self, process: psutil.Popen) -> None:
        self._process = process

    def workers(self) -> list[psutil.Process]:
        """Python's workers, and the process that forks them."""
        return [item for item in self._all() if self._is_worker(item)]

    def kill(self, *, but: Sequence[psutil.Process] = ()) -> None:
        """End all of it at once, ``but`` for some: nobody does anything about the end of another."""
        killed = [item for item in self._all() if item not in but]
        for step in ("suspend", "kill"):
            for item in killed:
                with contextlib.suppress(psutil.NoSuchProcess):
                    getattr(item, step)()

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
def submitted(package: Path, folder: Path, job: str, arguments: Sequence[str]) -> Iterator[Running]:
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


@pytest.mark.nightly
def test_ingest_whose_workers_go_on_unheard_reads_each_message_once(
    spark: SparkSession, corpus: EmbeddedCluster, package: Path, tmp_path: Path, run_here: RunHere
) -> None:
    output = tmp_path / "out"
    # So small pieces that a worker is not done before it is stopped.
    arguments = options(zookeeper_connect=corpus.zookeeper_connect, fetchBytes="4KiB", fetchesInFlight="1")
    arguments += ["--topic", GZIP_TOPIC, "--output", str(output), "--group", "unheard"]
    with submitted(package, tmp_path, "ingest", arguments) as job:
        job.await_(lambda: any(output.glob("_kafkawire/unfinished/*/_temporary")), "the batch to be written")
        job.await_(lambda: len(job.workers()) > 1, "workers")
        frozen = job.workers()
        for item in frozen:
            item.suspend()
        job.kill(but=frozen)
    try:
        assert (output / "_kafkawire" / "0.planned.json").exists()
        assert not (output / "batch=0").exists()
        code, reported, err = run_here("ingest", *arguments, "--json")
        assert code == 0, err
    finally:
        for item in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                item.resume()
    _, alive = psutil.wait_procs(frozen, DEADLINE_S)
    assert not alive
    batches = [(batch["batch"], batch["messages"]) for batch in json.loads(reported)["batches"]]
    assert batches == [(0, sum(partition["messages"] for partition in partitions_of()))]
    rows = spark.read.parquet(str(output)).orderBy("broker", "partition", "offset", "index").collect()
    result = [
        [
            bytes(row.value)
            for row in rows
            if (row.broker, row.partition) == (partition["broker"], partition["partition"])
        ]
        for partition in partitions_of()
    ]
    assert [(len(values), values_sha256(values)) for values in result] == recorded()
