"""Hadoop's own HDFS: log directories in it by WebHDFS, and the files of jobs by Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.directories.files import FileAccessError
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.spark.hadoop_files import HadoopFiles
from spark_kafkawire.jobs.state.file_system import FileError
from tests.jobs.ingest.ingesting import QUIET, Crashing, options_of, produce, values_of
from tests.support.directory_reading import DirectoryRead
from tests.support.golden import CORPUS
from tests.support.log_folders import KILLED, START_OFFSET
from tests.support.noida import NoidaBroker

from .hdfs import OWNER, Hdfs
from .needs import needs_hdfs

COMMITTED = {"kafka__isolation__level": "read_committed"}


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Two directories that anybody may read."""
    needs_hdfs()
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as server:
        server.upload(KILLED, "/backup/broker-1")
        server.upload(CORPUS / "broker0", "/backup/old/broker-0")
        yield server


@pytest.mark.timeout(400)
def test_directories_in_hdfs_have_the_rows_of_local_ones(hdfs: Hdfs) -> None:
    for path, local in (("/backup/broker-1", KILLED), ("/backup/old/broker-0", CORPUS / "broker0")):
        expected = DirectoryRead(local).table()
        assert len(expected)
        assert DirectoryRead(hdfs.uri(path)).table() == expected
    found = DirectoryRead(hdfs.uri("/backup/broker-1"), **COMMITTED).table()
    assert found == DirectoryRead(KILLED, **COMMITTED).table()


def test_spark_reads_a_directory_in_hdfs(hdfs: Hdfs, spark: SparkSession) -> None:
    df = spark.read.format("kafkawire").option("subscribe", "events").load(hdfs.uri("/backup/broker-1"))
    local = spark.read.format("kafkawire").option("subscribe", "events").load(str(KILLED))
    assert df.count() == local.count() > START_OFFSET


def test_each_failure_is_one_line_with_the_path(hdfs: Hdfs) -> None:
    with pytest.raises(FileAccessError) as missing:
        DirectoryRead(hdfs.uri("/missing"))
    assert str(missing.value) == f"path '{hdfs.uri('/missing')}' does not exist"
    with pytest.raises(FileAccessError) as down:
        DirectoryRead("webhdfs://127.0.0.1:1/x")
    assert str(down.value) == "webhdfs://127.0.0.1:1/x cannot be read: Connection refused"


def test_a_folder_that_the_user_may_not_list_is_an_error_and_not_an_empty_log(hdfs: Hdfs) -> None:
    folder = "/backup/broker-1/events-0"
    hdfs.allow(folder, "700")
    try:
        with pytest.raises(
            FileAccessError, match=r"events-0 cannot be read: .*Permission denied: user=dr\.who"
        ):
            DirectoryRead(hdfs.uri("/backup/broker-1")).table()
        expected = DirectoryRead(KILLED).table()
        assert DirectoryRead(hdfs.uri("/backup/broker-1", user=OWNER)).table() == expected
    finally:
        hdfs.allow(folder, "755")


def test_a_file_that_the_user_may_not_read_is_an_error(hdfs: Hdfs) -> None:
    file = "/backup/broker-1/events-0/00000000000000000000.log"
    hdfs.allow(file, "600")
    try:
        with pytest.raises(FileAccessError, match="Permission denied"):
            DirectoryRead(hdfs.uri("/backup/broker-1")).table()
    finally:
        hdfs.allow(file, "644")


@pytest.mark.timeout(400)
def test_an_ingest_into_hdfs_that_crashes_at_any_step_loses_and_doubles_nothing(
    hdfs: Hdfs, spark: SparkSession, noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs.allow("/", "777")
    topic, starts = noida.create_topic(2), itertools.count(0, 4)
    output = OutputOptions(hdfs.path("/ingested"))
    options = options_of(noida, topic, output, group=topic)

    def run() -> None:
        start = next(starts)
        produce(noida.bootstrap_servers, topic, range(start, start + 4))
        Ingest(spark, options, QUIET).run()

    assert Crashing(monkeypatch).around_each(range(1, 8), run) >= 11
    run()
    assert values_of(spark, output) == [*range(next(starts))]


def test_hdfs_moves_a_folder_into_one_that_another_run_has_made_and_that_is_an_error(
    hdfs: Hdfs, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs.allow("/", "777")
    files, exists = HadoopFiles(spark), HadoopFiles.exists
    for name in ("attempt/part", "batch=0/other"):
        files.make_folder(hdfs.path(f"/racing/{name}"))
    with pytest.raises(FileError, match="already exists"):
        files.rename(hdfs.path("/racing/attempt"), hdfs.path("/racing/batch=0"))
    with monkeypatch.context() as patched:
        # The other run makes it just after this look.
        patched.setattr(HadoopFiles, "exists", lambda self, path: path[-2:] != "=0" and exists(self, path))
        with pytest.raises(FileError, match=r"batch=0 was created meanwhile: does another run write here\?"):
            files.rename(hdfs.path("/racing/attempt"), hdfs.path("/racing/batch=0"))
    assert files.names(hdfs.path("/racing/batch=0")) == ["other"]
