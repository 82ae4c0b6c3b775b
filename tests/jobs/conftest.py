"""Brokers and folders of the tests of ingest, and drivers of jobs that tests may kill."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import spark_kafkawire.jobs.spark
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.jobs.ingest.output import OutputOptions
from tests.support.noida import NoidaBroker

from .disks import SmallDisk
from .drivers import Drivers, driving
from .submitting import RunHere, command, make_zip
from .work import NewWork, Work, new_work_of

_NUMBERS: Final = itertools.count()


@pytest.fixture
def topic() -> str:
    """A topic's name that no other test has; the test creates it."""
    return f"ingest-{next(_NUMBERS)}"


@pytest.fixture
def output(tmp_path: Path) -> OutputOptions:
    """Parquet in a folder that is not there yet."""
    return OutputOptions(str(tmp_path / "out"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk that can be made full or read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = SmallDisk(folder)
    try:
        is_mounted = disk.mount()
    except FileNotFoundError:
        is_mounted = False
    if not is_mounted:
        pytest.skip("this user may not mount a file system in memory")
    yield disk
    disk.unmount()


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip that spark-submit ships."""
    return make_zip(tmp_path_factory.mktemp("zip"))


@pytest.fixture
def run_here(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunHere:
    """Run a job's command in this process, and in the session of the tests."""

    def run(job: str, *argv: str) -> tuple[int, str, str]:
        module = command(job)
        for location in (module, spark_kafkawire.jobs.spark):
            monkeypatch.setattr(
                location, "job_session", lambda _: contextlib.nullcontext(spark), raising=False
            )
        monkeypatch.setattr("sys.argv", [f"{job}.py", *argv])
        try:
            code = module.JOB.main()
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def all_drivers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    """Starter of drivers, for all tests."""
    with driving(spark, tmp_path_factory.mktemp("drivers")) as drivers:
        yield drivers


@pytest.fixture
def drivers(all_drivers: Drivers) -> Iterator[Drivers]:
    """Starter of drivers; Spark's remaining work for them ends with the test."""
    yield all_drivers
    all_drivers.end_jobs()


@pytest.fixture
def new_work(spark: SparkSession, corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path) -> NewWork:
    """Maker of work by its name, each in a folder of its own."""

    def new(name: str) -> Work:
        folder = tmp_path / f"work-{next(_NUMBERS)}"
        folder.mkdir()
        return new_work_of(name, spark, corpus, noida, folder)

    return new
