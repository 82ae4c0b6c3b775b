"""Runs of ingest while another process changes output, group or topic: nothing is lost or doubled."""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.cluster.modern.cluster import ModernCluster
from spark_kafkawire.errors import DataLossError, OptionError
from spark_kafkawire.jobs.ingest.output import Output, OutputOptions
from spark_kafkawire.jobs.ingest.plan import Plan
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.spark.hadoop_files import Files, HadoopFiles
from spark_kafkawire.jobs.state.file_system import FileError
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .ingesting import QUIET, Crash, LocalIngest, LocalOutput, crash, offsets_of, options_of, produce

# Some runs each, a few seconds on an idle machine.
pytestmark = pytest.mark.timeout(290)


@pytest.mark.parametrize("moved_to", [2, 8])
def test_a_group_that_somebody_else_moved_doubles_and_loses_nothing(
    noida: NoidaBroker, topic: str, output: OutputOptions, moved_to: int
) -> None:
    noida.create_topic(1, topic)
    produce(noida.bootstrap_servers, topic, range(5), partitions=1)
    group = f"g-{topic}"
    options = options_of(noida, topic, output, group=group)
    assert "group_moved" not in LocalIngest(options).run()
    produce(noida.bootstrap_servers, topic, range(5, 10), partitions=1)
    librdkafka.commit_offsets(noida.bootstrap_servers, group, topic, {0: moved_to})
    summary = LocalIngest(options).run()
    assert summary["group_moved"] == [f"{topic} 0 was at {moved_to} and is reset to 5, where the output ends"]
    assert offsets_of(output) == [*range(10)]
    assert librdkafka.committed_offset(noida.bootstrap_servers, group, topic) == 10


def test_a_batch_of_another_run_is_not_taken_for_the_planned_one(
    noida: NoidaBroker, topic: str, output: OutputOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noida.create_topic(1, topic)
    produce(noida.bootstrap_servers, topic, range(5), partitions=1)
    planned = options_of(noida, topic, output, checkpoint=str(tmp_path / "first"))
    with monkeypatch.context() as patched, suppress(Crash):
        patched.setattr(LocalOutput, "write", crash)
        LocalIngest(planned).run()
    LocalIngest(options_of(noida, topic, output, checkpoint=str(tmp_path / "second"))).run()
    with pytest.raises(FileError, match=r"out/batch=0 is of a run that is not recorded, or of one with"):
        LocalIngest(planned).run()


def test_a_second_run_is_refused_while_the_first_one_works(
    noida: NoidaBroker, topic: str, output: OutputOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noida.create_topic(1, topic)
    produce(noida.bootstrap_servers, topic, range(5), partitions=1)
    write = LocalIngest._write

    def write_beside_others(first: LocalIngest, *arguments: Any) -> int:
        monkeypatch.setattr(LocalIngest, "_write", write)
        for checkpoint in (None, str(tmp_path / "other")):
            with pytest.raises(FileError, match=r"_kafkawire: another run is active here"):
                LocalIngest(options_of(noida, topic, output, checkpoint=checkpoint)).run()
        return write(first, *arguments)

    monkeypatch.setattr(LocalIngest, "_write", write_beside_others)
    LocalIngest(options_of(noida, topic, output)).run()
    assert offsets_of(output) == [*range(5)]


def test_an_attempt_that_another_run_removed_is_not_shown(
    spark: SparkSession, output: OutputOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(*_: object) -> None:
        shutil.rmtree(f"{output.path}/_kafkawire/unfinished")

    monkeypatch.setattr(Output, "_check_partition_columns", removed)
    with pytest.raises(FileError, match=r"was removed by another run"):
        Output(Files(spark), output).write(Plan(0, (), {}), spark.range(10), None)
    assert not Path(output.path, "batch=0").exists()


def test_a_folder_that_was_renamed_into_another_one_is_taken_out_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("attempt", "batch=0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    monkeypatch.setattr(
        HadoopFiles, "exists", lambda _, path: Path(path).exists() and not path.endswith("=0")
    )
    with pytest.raises(FileError, match=r"batch=0 was created meanwhile: does another run write here\?"):
        HadoopFiles(spark).rename(f"{tmp_path}/attempt", f"{tmp_path}/batch=0")
    assert [path.name for path in (tmp_path / "batch=0").iterdir()] == ["batch=0"]


def test_files_of_hadoop_are_made_once_and_whole(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark)
    files.make_folder(f"{tmp_path}/state")
    files.create(f"{tmp_path}/state/7.planned.json", "plan\n")
    with pytest.raises(FileError, match=r"7\.planned\.json already exists: does another run write here\?"):
        files.create(f"{tmp_path}/state/7.planned.json", "other\n")
    files.rename(f"{tmp_path}/state/7.planned.json", f"{tmp_path}/state/7.done.json")
    files.sync(f"{tmp_path}/state")
    assert files.read(f"{tmp_path}/state/7.done.json") == "plan\n"
    assert [name for name in files.names(f"{tmp_path}/state") if name[0] != "."] == ["7.done.json"]
    assert files.names(f"{tmp_path}/none") == []
    files.remove(f"{tmp_path}/state")
    assert not files.exists(f"{tmp_path}/state")
    with pytest.raises(FileError, match=r"none: cannot open: FileNotFoundException"):
        files.read(f"{tmp_path}/none")


def test_a_folder_that_cannot_be_made_is_named(spark: SparkSession) -> None:
    with pytest.raises(FileError, match=r"^/proc/ingest: cannot make the folder"):
        Files(spark).make_folder("/proc/ingest")


class Topics:
    """Topics of one partition that have ids as those of Kafka 2.8 and later; noida-db's have none."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._noida = noida
        self.ids: dict[str, uuid.UUID] = {}

    def create(self, topic: str, numbers: range) -> None:
        self._noida.create_topic(1, topic)
        self.ids[topic] = uuid.uuid4()
        produce(self._noida.bootstrap_servers, topic, numbers, partitions=1)

    def delete(self, topic: str) -> None:
        librdkafka.delete_topic(self._noida.bootstrap_servers, topic)
        del self.ids[topic]


@pytest.fixture
def topics(noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics(noida)
    monkeypatch.setattr(
        ModernCluster,
        "topic_ids",
        lambda _, names: {name: made.ids[name] for name in names if name in made.ids},
    )
    return made


def test_a_topic_that_was_made_anew_is_read_from_its_beginning_however_long_it_is(
    noida: NoidaBroker, topic: str, output: OutputOptions, topics: Topics
) -> None:
    topics.create(topic, range(5))
    LocalIngest(options_of(noida, topic, output)).run()
    topics.delete(topic)
    topics.create(topic, range(5, 12))
    with pytest.raises(DataLossError, match=rf"^{topic} was created again .* set failOnDataLoss=false"):
        LocalIngest(options_of(noida, topic, output)).run()
    options = options_of(noida, topic, output, connection={"failOnDataLoss": "false"})
    losses = [LocalIngest(options).run()["data_loss"] for _ in range(2)]
    assert losses == [[f"{topic} was created again since it was read: its old messages are gone"], []]
    assert offsets_of(output) == sorted([*range(5), *range(7)])


@pytest.mark.parametrize("recreated", [True, False])
def test_a_planned_batch_of_a_deleted_topic_does_not_stop_the_runs_for_ever(
    noida: NoidaBroker,
    topic: str,
    output: OutputOptions,
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    recreated: bool,
) -> None:
    other = f"{topic}-other"
    topics.create(topic, range(5))
    topics.create(other, range(5, 10))
    both = replace(
        options_of(noida, topic, output, group=f"g-{topic}"), selection={"subscribe": f"{topic},{other}"}
    )
    with monkeypatch.context() as patched, suppress(Crash):
        patched.setattr(LocalOutput, "write", crash)
        LocalIngest(both).run()
    topics.delete(topic)
    if recreated:
        topics.create(topic, range(10, 18))
    options = both if recreated else replace(both, selection={"subscribe": other})
    with pytest.raises(DataLossError, match=rf"^{topic} 0 \[0, 5\) was deleted before it was"):
        LocalIngest(options).run()
    lenient = replace(options, connection={**options.connection, "failOnDataLoss": "false"})
    losses = LocalIngest(lenient).run()["data_loss"]
    assert losses[0] == f"{topic} 0 [0, 5) was deleted before it was read: the topic no longer exists"
    assert offsets_of(output) == sorted([*range(5), *range(8 if recreated else 0)])


def test_a_planned_batch_is_finished_with_the_decoding_that_is_asked_for_now(
    spark: SparkSession,
    noida: NoidaBroker,
    topic: str,
    output: OutputOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noida.create_topic(1, topic)
    produce(noida.bootstrap_servers, topic, range(5), partitions=1)
    with monkeypatch.context() as patched, suppress(Crash):
        patched.setattr(Ingest, "_write", crash)
        planned = replace(output, decode="json")
        Ingest(spark, options_of(noida, topic, planned), QUIET).run()
    wanted = replace(output, decode="json", schema="n string")
    Ingest(spark, options_of(noida, topic, wanted), QUIET).run()
    assert spark.read.parquet(output.path).selectExpr("value.n").dtypes == [("n", "string")]


def test_a_partition_column_of_bytes_is_refused_and_the_run_goes_on_without_it(
    spark: SparkSession, noida: NoidaBroker, topic: str, output: OutputOptions
) -> None:
    noida.create_topic(1, topic)
    records = [Record(b"1", key=key) for key in (None, b"", b"a/b", b"\xff")]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    by_key = replace(output, partition_by={"KEY": None})
    with pytest.raises(OptionError, match=r"--partition-by: key is bytes, .* key_hex='hex\(key\)'"):
        Ingest(spark, options_of(noida, topic, by_key), QUIET).run()
    by_hex = replace(output, partition_by={"key_hex": "hex(key)"})
    assert Ingest(spark, options_of(noida, topic, by_hex), QUIET).run()["messages"] == 4
    rows = spark.read.parquet(output.path).orderBy("offset").select("key").collect()
    assert [row.key and bytes(row.key) for row in rows] == [None, b"", b"a/b", b"\xff"]
